"""What a policy does in fresh episodes: reward and long-term benefits, with their uncertainty."""

from dataclasses import dataclass
from typing import Any

from elbert.errors import NotEstimableError
from elbert.fairness.benefit_report import BenefitReport, CriterionBenefit, benefit_report
from elbert.fairness.bias_inference import BiasTest
from elbert.fairness.rate_intervals import MeanEstimate, mean_interval
from elbert.learning.simulators import Episodes


@dataclass(frozen=True)
class Evaluation:
    """Reward and benefits of a policy over whole episodes. `print(evaluation)`, `to_dict()` for programs."""

    env: str
    method: str
    episodes: int
    horizon: int  # the longest episode
    reward: MeanEstimate  # per step
    steps: float  # mean per episode
    report: BenefitReport
    extra_demand: float
    deterministic: bool
    train_seconds: float | None
    limit: BiasTest | None = None  # of the limit that the policy was trained for
    price: float | None = None  # reward per step that a limit higher by 0.01 would be worth, as training saw it

    @property
    def criterion(self) -> CriterionBenefit:
        """The criterion under which the bias is largest."""
        return max(self.report.criteria, key=lambda part: -1.0 if part.bias.estimate is None else part.bias.estimate)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers; supply and demand per step; null where something is not estimable."""
        part = self.criterion
        return {
            "env": self.env,
            "method": self.method,
            "episodes": self.episodes,
            "horizon": self.horizon,
            "reward": {"mean": self.reward.mean, "ci": _pair(self.reward.low, self.reward.high)},
            "bias": _bias(part),
            "groups": self._groups(part),
            "criterion": part.criterion,
            "criteria": [
                {"criterion": one.criterion, "bias": _bias(one), "groups": self._groups(one)}
                for one in self.report.criteria
            ],
            "extra_demand": self.extra_demand,
            "deterministic": self.deterministic,
            "not_estimable": [str(entry) for entry in self.report.not_estimable],
            "train_seconds": self.train_seconds,
            "limit": None
            if self.limit is None
            else {
                "max_bias": self.limit.limit,
                "verdict": self.limit.verdict,
                "p_refute": self.limit.p_refute,
                "p_confirm": self.limit.p_confirm,
                "left_out": list(self.limit.left_out),
                "price": self.price,
            },
        }

    def __str__(self) -> str:
        """The reward, then the report's table."""
        interval = "" if self.reward.low is None else f"   ({self.reward.low:.4f} .. {self.reward.high:.4f})"
        limit = "" if self.limit is None else f"\n{self.limit}"
        if self.price is not None:
            limit += f"\n0.01 more would be worth {self.price:.2g} reward per step"
        return f"reward per step {self.reward.mean:.4f}{interval}\n\n{self.report}{limit}"

    def _groups(self, part: CriterionBenefit) -> list[dict[str, Any]]:
        return [
            {
                "group": row.group,
                "rate": row.rate,
                "ci": _pair(row.low, row.high),
                "supply": row.supply / self.steps,
                "demand": (row.demand - self.extra_demand) / self.steps,
            }
            for row in part.groups
        ]


def judged(
    sums: Episodes,
    *,
    env: str,
    method: str,
    criteria: tuple[str, ...],
    extra_demand: float = 0.0,
    deterministic: bool = False,
    train_seconds: float | None = None,
    confidence: float = 0.95,
    max_bias: float | None = None,
    price: float | None = None,
    length: float | None = None,
) -> Evaluation:
    """The statistics of the fairness room on these episodes.

    The reward per step is sum_e R_e / sum_e L_e; its interval comes from the residuals (R_e - r L_e) / mean(L).
    `max_bias` is the limit to be tested; `price`, the reward of an episode per unit of bias, comes from training, where
    episodes had the `length` given (if none, the same as here).
    `extra_demand` is added to every group's demand in every episode, as the published evaluation does.
    """
    mean = float(sums.reward.sum() / sums.length.sum())
    reward = MeanEstimate(mean, None, None)
    if len(sums.reward) > 1:
        around = mean_interval(mean + (sums.reward - mean * sums.length) / sums.length.mean(), confidence=confidence)
        reward = MeanEstimate(mean, around.low, around.high)
    report = benefit_report(sums.supply, sums.demand + extra_demand, criteria=criteria, confidence=confidence)
    return Evaluation(
        env,
        method,
        len(sums.reward),
        int(sums.length.max()),
        reward,
        float(sums.length.mean()),
        report,
        extra_demand,
        deterministic,
        train_seconds,
        None if max_bias is None else _tested(report, max_bias),
        None if price is None else price * 0.01 / (float(sums.length.mean()) if length is None else length),
    )


def _tested(report: BenefitReport, limit: float) -> BiasTest:
    """The test of "bias <= limit"; where too little is known for it, it says so."""
    try:
        return report.test(limit)
    except NotEstimableError:
        return BiasTest(limit, "not estimable", None, None, 0.0, ())


def _bias(part: CriterionBenefit) -> dict[str, Any]:
    bias = part.bias
    return {
        "estimate": bias.estimate,
        "debiased": bias.debiased,
        "ci": _pair(bias.low, bias.high),
        "noise_floor": bias.noise_floor,
    }


def _pair(low: float | None, high: float | None) -> list[float] | None:
    return None if low is None or high is None else [low, high]
