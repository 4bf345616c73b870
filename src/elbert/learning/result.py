"""What tables and files hold of evaluations: the numbers of one policy, or means over the seeds of a training.

An `Evaluation` keeps every episode's totals; a `Result` keeps what is shown, can be written as JSON and read back.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

from elbert.errors import InvalidInputError
from elbert.fairness.bias_inference import Verdict
from elbert.files import record_from

Ends: TypeAlias = tuple[float, float]
"""The lower and the upper end of an interval."""


@dataclass(frozen=True)
class Mean:
    """A mean with its interval; None where one value alone gives none."""

    mean: float
    ci: Ends | None


@dataclass(frozen=True)
class Bias:
    """The bias under one criterion; None where it is not estimable."""

    estimate: float | None  # as observed: too large on average
    debiased: float | None  # with the upward bias removed
    ci: Ends | None  # of one policy: of the debiased value; over seeds: of the mean estimate
    noise_floor: float | None  # what equal groups would show by chance


@dataclass(frozen=True)
class GroupRate:
    """One group under one criterion."""

    group: str
    rate: float | None
    ci: Ends | None
    supply: float  # per step
    demand: float  # per step


@dataclass(frozen=True)
class CriterionResult:
    """All groups under one criterion."""

    criterion: str
    bias: Bias
    groups: tuple[GroupRate, ...]


@dataclass(frozen=True)
class LimitResult:
    """Whether the policy keeps the limit on the bias that it was trained for."""

    max_bias: float
    verdict: Verdict
    p_refute: float | None
    p_confirm: float | None
    left_out: tuple[str, ...]  # groups with too little demand to be compared
    price: float | None  # reward per step that a limit higher by 0.01 would be worth


@dataclass(frozen=True)
class Result:
    """Reward and benefits of one policy, or means over the policies of several seeds with intervals over seeds."""

    env: str
    method: str
    episodes: int  # of each seed
    horizon: int
    reward: Mean  # per step
    criteria: tuple[CriterionResult, ...]
    train_seconds: float | None  # of all seeds together
    extra_demand: float = 0.0
    deterministic: bool = False
    not_estimable: tuple[str, ...] = ()
    limit: LimitResult | None = None
    seed: int | None = None  # of the training, for one of several
    seeds: tuple["Result", ...] = ()  # the single ones, for several seeds
    protocol: str | None = None  # of an evaluation that is kept in a run's folder
    agents: str | None = None  # digest of the agents that were evaluated, likewise

    def __post_init__(self) -> None:
        if not self.criteria:
            raise InvalidInputError("criteria is empty: a result has at least one.")

    @property
    def worst(self) -> CriterionResult:
        """The criterion under which the bias is largest."""
        return max(self.criteria, key=lambda part: -1.0 if part.bias.estimate is None else part.bias.estimate)

    @property
    def singles(self) -> tuple["Result", ...]:
        """A result for each seed, also for a single seed."""
        return self.seeds or (self,)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, text and lists, as commands print and files hold them."""
        worst = self.worst
        content = {
            "env": self.env,
            "method": self.method,
            "episodes": self.episodes,
            "horizon": self.horizon,
            "reward": asdict(self.reward),
            "bias": asdict(worst.bias),
            "groups": [asdict(group) for group in worst.groups],
            "criterion": worst.criterion,
            "criteria": [asdict(part) for part in self.criteria],
            "extra_demand": self.extra_demand,
            "deterministic": self.deterministic,
            "not_estimable": self.not_estimable,
            "train_seconds": self.train_seconds,
            "limit": None if self.limit is None else asdict(self.limit),
        }
        if self.seeds:
            content["seeds"] = [single.to_dict() for single in self.seeds]
        kept = {name: value for name in ("protocol", "agents") if (value := getattr(self, name)) is not None}
        return ({} if self.seed is None else {"seed": self.seed}) | _with_lists(content) | kept

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> "Result":
        """What `to_dict` gave; an entry that is missing or does not fit is refused by its name."""
        return record_from(cls, content)


def _with_lists(value: Any) -> Any:
    """Tuples as lists, at every depth: what reading JSON gives."""
    if isinstance(value, dict):
        return {name: _with_lists(entry) for name, entry in value.items()}
    return [_with_lists(entry) for entry in value] if isinstance(value, list | tuple) else value
