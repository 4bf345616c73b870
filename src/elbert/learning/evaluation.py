"""What a policy does in fresh episodes: reward and long-term benefits, with their uncertainty."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from elbert.checks import as_seed, as_whole
from elbert.errors import NotEstimableError
from elbert.fairness.benefit_report import BenefitReport, CriterionBenefit, benefit_report
from elbert.fairness.bias_inference import BiasTest
from elbert.fairness.rate_intervals import MeanEstimate, mean_interval
from elbert.learning.result import Bias, CriterionResult, Ends, GroupRate, LimitResult, Mean, Result
from elbert.learning.simulators import Environment, Episodes
from elbert.progress import Tell, tell_nobody
from elbert.tables import interval


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

    @property
    def result(self) -> Result:
        """The numbers that tables and files hold; supply and demand per step, without the extra demand."""
        return Result(
            env=self.env,
            method=self.method,
            episodes=self.episodes,
            horizon=self.horizon,
            reward=Mean(self.reward.mean, _ends(self.reward.low, self.reward.high)),
            criteria=tuple(self._criterion_result(part) for part in self.report.criteria),
            train_seconds=self.train_seconds,
            extra_demand=self.extra_demand,
            deterministic=self.deterministic,
            not_estimable=tuple(str(entry) for entry in self.report.not_estimable),
            limit=self._limit_result(),
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers; supply and demand per step; null where something is not estimable."""
        return self.result.to_dict()

    def __str__(self) -> str:
        """The reward, then the report's table, then the limit."""
        around = interval(self.reward.low, self.reward.high)
        lines = [f"reward per step {self.reward.mean:.4f}{f'   ({around})' if around else ''}", "", str(self.report)]
        if self.limit is not None:
            lines.append(str(self.limit))
        if self.price is not None:
            lines.append(f"Raising the limit by 0.01 would gain about {self.price:.2g} reward per step.")
        return "\n".join(lines)

    def _criterion_result(self, part: CriterionBenefit) -> CriterionResult:
        return CriterionResult(
            criterion=part.criterion,
            bias=Bias(
                estimate=part.bias.estimate,
                debiased=part.bias.debiased,
                ci=_ends(part.bias.low, part.bias.high),
                noise_floor=part.bias.noise_floor,
            ),
            groups=tuple(
                GroupRate(
                    group=row.group,
                    rate=row.rate,
                    ci=_ends(row.low, row.high),
                    supply=row.supply / self.steps,
                    demand=(row.demand - self.extra_demand) / self.steps,
                )
                for row in part.groups
            ),
        )

    def _limit_result(self) -> LimitResult | None:
        if self.limit is None:
            return None
        return LimitResult(
            max_bias=self.limit.max_bias,
            verdict=self.limit.verdict,
            p_refute=self.limit.p_refute,
            p_confirm=self.limit.p_confirm,
            left_out=self.limit.left_out,
            price=self.price,
        )


class Evaluable(ABC):
    """A policy that can be evaluated: a trained agent, or a rule."""

    @abstractmethod
    def _play(
        self, env: Environment | None, parameters: dict[str, Any], **options: Any
    ) -> tuple[Episodes, dict[str, Any]]:
        """Play episodes, with the options of `Simulator.play`: their sums, and what `judged` is told of the policy."""

    def evaluate(
        self,
        episodes: int = 256,
        *,
        env: Environment | None = None,
        seed: int = 1,
        deterministic: bool = False,
        extra_demand: float = 0.0,
        confidence: float = 0.95,
        progress: Tell = tell_nobody,
        **parameters: Any,
    ) -> Evaluation:
        """Reward per step and benefit rates over fresh episodes, with intervals.

        Args:
            episodes: number of episodes.
            env: environment to act in; by default that of an agent's training, or a rule's world.
            seed: seed of the episodes.
            deterministic: whether to act by the most probable action. Rules refuse it.
            extra_demand: demand added to every group's in every episode (the published evaluation adds 1).
            confidence: confidence of the intervals.
            progress: is told how many episodes are done.
            parameters: of the named world, for example `horizon=10_000`, over those of training or of the rule.
        """
        as_whole(episodes, "episodes", "a whole number of at least 1; intervals need 2 or more", low=1)
        as_seed(seed)
        sums, about = self._play(
            env, parameters, episodes=episodes, seed=seed, deterministic=deterministic, progress=progress
        )
        return judged(sums, **about, extra_demand=extra_demand, deterministic=deterministic, confidence=confidence)


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
    mean, steps = float(sums.reward.sum() / sums.length.sum()), float(sums.length.mean())
    reward = MeanEstimate(mean, None, None)
    if len(sums.reward) > 1:
        around = mean_interval(mean + (sums.reward - mean * sums.length) / steps, confidence=confidence)
        reward = MeanEstimate(mean, around.low, around.high)
    report = benefit_report(sums.supply, sums.demand + extra_demand, criteria=criteria, confidence=confidence)
    return Evaluation(
        env=env,
        method=method,
        episodes=len(sums.reward),
        horizon=int(sums.length.max()),
        reward=reward,
        steps=steps,
        report=report,
        extra_demand=extra_demand,
        deterministic=deterministic,
        train_seconds=train_seconds,
        limit=None if max_bias is None else _tested(report, max_bias),
        price=None if price is None else price * 0.01 / (steps if length is None else length),
    )


def _tested(report: BenefitReport, max_bias: float) -> BiasTest:
    """The test of "bias <= max_bias"; where too little is known for it, it says so."""
    try:
        return report.test(max_bias)
    except NotEstimableError:
        return BiasTest(max_bias=max_bias, verdict="not estimable")


def _ends(low: float | None, high: float | None) -> Ends | None:
    return None if low is None or high is None else (low, high)
