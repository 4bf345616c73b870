"""One result from the evaluations of several seeds, and what the best possible policy reaches."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, get_args

from elbert.envs import ENTRIES
from elbert.errors import ElbertError
from elbert.exact.frontier import best_reward_at
from elbert.fairness.bias_inference import BiasTest, Verdict
from elbert.fairness.rate_intervals import mean_interval
from elbert.learning.result import Bias, CriterionResult, Ends, GroupRate, Mean, Result

VERDICTS: tuple[Verdict, ...] = get_args(Verdict)  # on a limit, from the most favourable to the least


def over_seeds(singles: Sequence[Result], seeds: Sequence[int]) -> Result:
    """The result of a training, with the results of its policies in the order of the seeds.

    One seed: its result. Several: means over seeds, with intervals over seeds (Student's t), because more varies
    from training to training than from episode to episode.
    """
    if len(singles) == 1:
        return singles[0]
    reward, ci = _mean_of([single.reward.mean for single in singles])
    assert reward is not None, "every evaluation has a reward"
    return replace(
        singles[0],
        episodes=min(single.episodes for single in singles),
        reward=Mean(reward, ci),
        criteria=tuple(_mean_criterion(parts) for parts in zip(*(single.criteria for single in singles), strict=True)),
        limit=least_favourable([single.limit for single in singles if single.limit is not None]),
        seeds=tuple(replace(single, seed=seed) for single, seed in zip(singles, seeds, strict=True)),
        report=None,
    )


def _mean_criterion(parts: Sequence[CriterionResult]) -> CriterionResult:
    estimate, ends = _mean_of([part.bias.estimate for part in parts])
    return CriterionResult(
        criterion=parts[0].criterion,
        bias=Bias(
            estimate=estimate,
            debiased=_mean_of([part.bias.debiased for part in parts])[0],
            ci=None if ends is None else (max(0.0, ends[0]), ends[1]),  # Student's t does not know that it is >= 0
            noise_floor=_mean_of([part.bias.noise_floor for part in parts])[0],
            left_out=tuple(dict.fromkeys(group for part in parts for group in part.bias.left_out)),
            reliable=all(part.bias.reliable for part in parts),
        ),
        groups=tuple(_mean_group(rows) for rows in zip(*(part.groups for part in parts), strict=True)),
    )


def _mean_group(rows: Sequence[GroupRate]) -> GroupRate:
    rate, ci = _mean_of([row.rate for row in rows])
    supply, demand = (mean_interval([getattr(row, name) for row in rows]).mean for name in ("supply", "demand"))
    return GroupRate(group=rows[0].group, rate=rate, ci=ci, supply=supply, demand=demand)


def least_favourable(limits: Sequence[BiasTest]) -> BiasTest | None:
    """The limit over seeds: the least favourable verdict, with its p-values."""
    if not limits:
        return None
    return max(limits, key=lambda limit: (VERDICTS.index(limit.verdict), limit.p_confirm or 0.0))


def _mean_of(values: Sequence[float | None]) -> tuple[float | None, Ends | None]:
    """The mean over seeds and its interval; None if the value of one seed is not known."""
    numbers = [value for value in values if value is not None]
    if len(numbers) < len(values):
        return None, None
    mean, low, high = mean_interval(numbers)
    return mean, None if low is None or high is None else (low, high)


@dataclass(frozen=True)
class BestPossible:
    """What the best possible policy with the bias of a result reaches in the same world."""

    reward: float  # per step
    exact: bool  # if not, the reward is an upper bound, and the share a lower bound
    share: float | None  # reward / best reward, where the best reward is positive: only then it means something
    short: float  # best reward - reward
    parameters: Mapping[str, Any]  # of the world


def best_possible(result: Result, world: Mapping[str, Any] | None) -> BestPossible | None:
    """What is possible at the bias of a result, in a world with these parameters; None where that is not known."""
    bias = result.worst.bias.estimate
    if world is None or bias is None or result.env not in ENTRIES:
        return None
    try:
        best = best_reward_at(result.env, result.horizon, bias, **world)
    except ElbertError:  # the world has no frontier, or the bias is smaller by luck than that of any policy
        return None
    if best is None:
        return None
    reward = result.reward.mean
    return BestPossible(
        reward=best.reward,
        exact=best.exact,
        share=reward / best.reward if best.reward > 0 else None,
        short=best.reward - reward,
        parameters=dict(world),
    )
