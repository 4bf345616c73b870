"""What episodes say about the bias: estimate, upward bias removed, interval, noise floor, and a test of a limit."""

from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from scipy.special import stdtr

from elbert.checks import as_number, as_seed
from elbert.errors import NotEstimableError
from elbert.fairness.episode_totals import EpisodeTotals, Floats, NotEstimable, count
from elbert.fairness.rate_intervals import Pooled, as_confidence, pool, power_of_two
from elbert.fairness.true_range import RangeTest, Spread, draw_noise, draws_for

Verdict: TypeAlias = Literal["confirmed", "not refuted", "refuted", "not estimable"]

_SMALLEST_ERROR, _LARGEST_LIMIT = 1e-15, 1e100
"""In units of the largest rate: no error is smaller than the rounding of that rate, and no limit needs to be larger."""


class HasInterval:
    """What has an interval: its two ends, and both of them as `ci`, as files and results name them."""

    low: float | None
    high: float | None

    @property
    def ci(self) -> tuple[float, float] | None:
        """The lower and the upper end; None where there is no interval."""
        return None if self.low is None or self.high is None else (self.low, self.high)


@dataclass(frozen=True)
class BiasEstimate(HasInterval):
    """The bias under one criterion; None where the data do not say."""

    criterion: str
    estimate: float | None = None  # max - min of the rates: too large on average
    debiased: float | None = None  # with the upward bias removed, leaning low; below 0 where noise alone shows more
    low: float | None = None
    high: float | None = None
    noise_floor: float | None = None  # what this many episodes show on average if the true bias is 0
    noise_floor_high: float | None = None  # what they show at most then, with the given confidence
    highest: str | None = None  # the group with the highest rate
    lowest: str | None = None  # the group with the lowest rate
    left_out: tuple[str, ...] = ()  # groups that are not compared: no demand, or demand in one episode only
    reliable: bool = False  # whether enough episodes carry every compared group's demand


@dataclass(frozen=True)
class ImpactRatioEstimate(HasInterval):
    """Lowest over highest rate under one criterion; None where the data do not say."""

    criterion: str
    estimate: float | None = None  # too small on average
    debiased: float | None = None  # with that bias removed, leaning high; at most 1
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class BiasTest:
    """Whether episodes confirm or refute that the bias is at most a limit."""

    max_bias: float
    verdict: Verdict
    p_refute: float | None = None  # small: the bias is above the limit
    p_confirm: float | None = None  # small: the bias is at most the limit; 1 if a group with demand is left out
    level: float = 0.0  # probability of a wrong verdict that was accepted
    left_out: tuple[str, ...] = ()  # "group, criterion" of groups with too little demand to be compared
    reliable: bool = False  # whether enough episodes carry every compared group's demand

    def __str__(self) -> str:
        """One line: the claim, the verdict and its p-values."""
        if self.p_refute is None or self.p_confirm is None:
            return f"bias <= {self.max_bias:g}: {self.verdict}"
        without = f"; without {', '.join(self.left_out)}" if self.left_out else ""
        caution = "" if self.reliable else "; unreliable: too few units carry the demand of a group"
        return (
            f"bias <= {self.max_bias:g}: {self.verdict} "
            f"(p to refute {self.p_refute:.3g}, p to confirm {self.p_confirm:.3g}{without}{caution})"
        )


class _Comparison(NamedTuple):
    """The comparable groups of one criterion."""

    criterion: str
    groups: tuple[str, ...]
    left_out: tuple[str, ...]
    complete: bool  # whether every group with demand is among them
    pooled: Pooled  # of these groups under this criterion: [compared], and [episodes, compared]

    def tested(self, z: Floats, error: Floats, *, tail: float, seed: int) -> tuple[RangeTest, float]:
        """The test of the range of z, and the unit that it computes in.

        The unit is a power of two of the size of the largest number, so it changes no digit but keeps squares finite.
        """
        unit = float(power_of_two(np.abs([*z, *error]).max()))
        error = np.maximum(error / unit, _SMALLEST_ERROR)
        draws, pooled = draws_for(len(self.groups), tail), self.pooled
        return RangeTest(z / unit, draw_noise(pooled.directions, error, pooled.freedom, draws=draws, seed=seed)), unit

    @property
    def too_few(self) -> str:
        """Why fewer than two groups cannot be compared."""
        names, number = "".join(f" ({group})" for group in self.groups), len(self.groups)
        return f"{number} of {number + len(self.left_out)} groups{names} had enough demand; at least 2 are needed"

    def spread(self, z: Floats, error: Floats, *, confidence: float, seed: int) -> Spread:
        """The range of the true values behind z."""
        test, unit = self.tested(z, error, tail=1 - confidence, seed=seed)
        return Spread(*(unit * value for value in test.spread(confidence)))

    def p_above(self, limit: float, *, tail: float, seed: int) -> float:
        """The p-value of "the bias is at most the limit"."""
        test, unit = self.tested(self.pooled.rate, self.pooled.error, tail=tail, seed=seed)
        return test.p_exceeds(min(limit / unit, _LARGEST_LIMIT))

    def p_within(self, limit: float) -> float:
        """The largest p-value of "|z_i - z_j| > limit" over all pairs, with the smaller group's degrees of freedom.

        A group that cannot be compared may differ by any amount, so its pairs have a p-value of 1.
        """
        if not self.complete:
            return 1.0
        rate, directions, errors, *_ = pooled = self.pooled
        unit = float(power_of_two(np.maximum(rate, errors).max()))
        rate, errors = rate / unit, np.maximum(errors / unit, _SMALLEST_ERROR)
        i, j = np.triu_indices(len(self.groups), k=1)
        correlation = (directions.T @ directions)[i, j]
        first, second = errors[i], errors[j]
        error = np.sqrt(np.maximum(first**2 + second**2 - 2 * correlation * first * second, 0.0))
        beyond = np.abs(rate[i] - rate[j]) - min(limit / unit, _LARGEST_LIMIT)
        with np.errstate(divide="ignore", invalid="ignore"):
            t = np.where(error > 0, beyond / error, np.where(beyond >= 0, 0.0, -np.inf))
        return float(stdtr(np.minimum(pooled.freedom[i], pooled.freedom[j]), t).max())


def estimate_bias(
    totals: EpisodeTotals, *, confidence: float = 0.95, seed: int = 0
) -> tuple[tuple[BiasEstimate, ...], tuple[NotEstimable, ...]]:
    """b = max_g z_g - min_g z_g per criterion, its upward bias removed, with an interval and the noise floor.

    Groups without enough data to be compared are left out and named. How the upward bias is removed and the interval
    found is explained in `elbert.fairness.true_range`. Arguments as in `benefit_report`.
    """
    confidence, seed = as_confidence(confidence), as_seed(seed)
    estimates, unknown = [], []
    for c, comparison in enumerate(_comparisons(totals, confidence)):
        name, rate = comparison.criterion, comparison.pooled.rate
        if len(comparison.groups) < 2:
            unknown.append(NotEstimable(name, None, "bias", comparison.too_few))
            estimates.append(BiasEstimate(name, left_out=comparison.left_out))
            continue
        numbers = {"estimate": float(np.ptp(rate))}
        if totals.episodes == 1:
            unknown.append(NotEstimable(name, None, "interval of the bias", f"1 {totals.unit}; at least 2 are needed"))
        else:
            spread = comparison.spread(rate, comparison.pooled.error, confidence=confidence, seed=seed)
            largest = 1.0 if totals.bounded[c] else np.inf
            numbers |= {"debiased": spread.debiased, "low": spread.low, "high": min(spread.high, largest)}
            numbers |= {"noise_floor": spread.floor, "noise_floor_high": spread.floor_high}
        estimates.append(
            BiasEstimate(
                name,
                **numbers,
                highest=comparison.groups[int(rate.argmax())],
                lowest=comparison.groups[int(rate.argmin())],
                left_out=comparison.left_out,
                reliable=bool(comparison.pooled.reliable.all()),
            )
        )
    return tuple(estimates), tuple(unknown)


def estimate_impact_ratio(
    totals: EpisodeTotals, *, confidence: float = 0.95, seed: int = 0
) -> tuple[tuple[ImpactRatioEstimate, ...], tuple[NotEstimable, ...]]:
    """min_g z_g / max_g z_g per criterion, with an interval. Arguments as in `benefit_report`.

    The ratio is exp of minus the range of log rates, so its interval is that of a range on the logarithmic scale
    (`elbert.fairness.true_range`). A group that never received anything has no logarithm: the ratio is 0 and has no
    interval.
    """
    confidence, seed = as_confidence(confidence), as_seed(seed)
    estimates, unknown = [], []

    def add(name: str, estimate: float | None, reason: str) -> None:
        what = "impact ratio" if estimate is None else "interval of the impact ratio"
        unknown.append(NotEstimable(name, None, what, reason))
        estimates.append(ImpactRatioEstimate(name, estimate))

    for comparison in _comparisons(totals, confidence):
        name, groups, rate = comparison.criterion, comparison.groups, comparison.pooled.rate
        if len(groups) < 2:
            add(name, None, comparison.too_few)
        elif rate.max() == 0:
            add(name, None, f"no group received anything in {count(totals.episodes, totals.unit)}")
        elif rate.min() == 0:
            add(name, 0.0, f"group {groups[int(rate.argmin())]} never received anything")
        elif totals.episodes == 1:
            add(name, float(rate.min() / rate.max()), f"1 {totals.unit}; at least 2 are needed")
        else:
            spread = comparison.spread(np.log(rate), comparison.pooled.error / rate, confidence=confidence, seed=seed)
            ranges = (spread.estimate, max(spread.debiased, 0.0), spread.high, spread.low)
            estimates.append(ImpactRatioEstimate(name, *(float(np.exp(-value)) for value in ranges)))
    return tuple(estimates), tuple(unknown)


def bias_limit_test(totals: EpisodeTotals, max_bias: float, *, confidence: float = 0.95, seed: int = 0) -> BiasTest:
    """Test "bias <= max_bias" from both sides, each with error probability 1 - confidence.

    - refuted: estimates this far apart would be too rare if the bias were at most the limit. Several criteria: one
      above the limit refutes; their p-values are corrected for their number (Bonferroni).
    - confirmed: for every pair of groups under every criterion, a difference above the limit is rejected by a one-sided
      t-test. Since all pairs must pass, no correction is needed (intersection-union test). A group that had demand but
      too little to be compared could differ by any amount, so with one of them nothing is confirmed.
    - not refuted: neither; more episodes are needed to tell.
    """
    confidence, seed = as_confidence(confidence), as_seed(seed)
    need = "the largest acceptable bias, a number of at least 0"
    max_bias = float(as_number(max_bias, "max_bias", need, low=0.0, high=np.finfo(float).max))
    if totals.episodes < 2:
        raise NotEstimableError(f"There is 1 {totals.unit}. A test needs at least 2, and means more with 50.")
    comparisons = _comparisons(totals, confidence)
    for comparison in comparisons:
        if len(comparison.groups) < 2:
            raise NotEstimableError(f"The bias of {comparison.criterion} cannot be tested: {comparison.too_few}.")
    level, number = 1.0 - confidence, len(comparisons)
    refute = number * min(each.p_above(max_bias, tail=level / number, seed=seed) for each in comparisons)
    confirm = max(each.p_within(max_bias) for each in comparisons)
    return BiasTest(
        max_bias=max_bias,
        verdict="refuted" if refute <= level else "confirmed" if confirm <= level else "not refuted",
        p_refute=min(1.0, refute),
        p_confirm=confirm,
        level=level,
        left_out=tuple(f"{group}, {each.criterion}" for each in comparisons for group in each.left_out),
        reliable=all(each.pooled.reliable.all() for each in comparisons),
    )


def _comparisons(totals: EpisodeTotals, confidence: float) -> list[_Comparison]:
    """The comparable groups of each criterion."""
    pooled, groups = pool(totals, confidence=confidence), np.asarray(totals.groups)
    return [
        _Comparison(
            criterion=criterion,
            groups=tuple(groups[mask].tolist()),
            left_out=tuple(groups[~mask].tolist()),
            complete=not (~mask & (pooled.with_demand[c] > 0)).any(),
            pooled=Pooled._make(values[..., c, :][..., mask] for values in pooled),
        )
        for c, (criterion, mask) in enumerate(zip(totals.criteria, pooled.compared, strict=True))
    ]
