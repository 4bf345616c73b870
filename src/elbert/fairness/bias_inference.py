"""What episodes say about the bias: estimate, upward bias removed, interval, noise floor, and a test of a limit."""

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from scipy.special import stdtr

from elbert.checks import as_number
from elbert.errors import NotEstimableError
from elbert.fairness.episode_totals import EpisodeTotals, Floats, NotEstimable, count
from elbert.fairness.rate_intervals import Pooled, check_statistics, pool
from elbert.fairness.true_range import Noise, draws_for, estimate_spread, exceeds, noise_of

Verdict: TypeAlias = Literal["confirmed", "not refuted", "refuted", "not estimable"]


@dataclass(frozen=True)
class BiasEstimate:
    """The bias under one criterion; None where the data do not say."""

    criterion: str
    estimate: float | None  # max - min of the rates: too large on average
    debiased: float | None  # with the upward bias removed; below 0 where noise alone would show more
    low: float | None
    high: float | None
    noise_floor: float | None  # what this many episodes show on average if the true bias is 0
    noise_floor_high: float | None  # what they show at most then, with the given confidence
    highest: str | None  # the group with the highest rate
    lowest: str | None  # the group with the lowest rate


@dataclass(frozen=True)
class ImpactRatioEstimate:
    """Lowest over highest rate under one criterion; None where the data do not say."""

    criterion: str
    estimate: float | None  # too small on average
    debiased: float | None  # with that bias removed; at most 1
    low: float | None
    high: float | None


@dataclass(frozen=True)
class BiasTest:
    """Whether episodes confirm or refute that the bias is at most a limit."""

    limit: float
    verdict: Verdict
    p_refute: float | None  # small: the bias is above the limit
    p_confirm: float | None  # small: the bias is at most the limit
    level: float  # probability of a wrong verdict that was accepted
    left_out: tuple[str, ...]  # "group, criterion" of groups with too little demand to be compared

    def __str__(self) -> str:
        """One line: the claim, the verdict and its p-values."""
        if self.p_refute is None or self.p_confirm is None:
            return f"bias <= {self.limit:g}: {self.verdict}"
        apart = f"; without {', '.join(self.left_out)}" if self.left_out else ""
        return (
            f"bias <= {self.limit:g}: {self.verdict} "
            f"(p to refute {self.p_refute:.3g}, p to confirm {self.p_confirm:.3g}{apart})"
        )


class _Criterion(NamedTuple):
    """One criterion's comparable groups."""

    name: str
    groups: tuple[str, ...]
    rate: Floats  # [compared]
    residuals: Floats  # [episodes, compared]
    error: Floats  # [compared]
    counts: Any  # [compared] episodes with supply or demand

    def noise(self, tail: float, seed: int, scale: Floats | float = 1.0) -> Noise:
        """Noise of rate * scale, drawn so that quantiles with this probability beyond them mean something."""
        draws = draws_for(len(self.groups), tail)
        return noise_of(self.residuals * scale, self.error * scale, self.counts, draws=draws, seed=seed)


def estimate_bias(
    totals: EpisodeTotals, *, confidence: float = 0.95, seed: int = 0
) -> tuple[tuple[BiasEstimate, ...], tuple[NotEstimable, ...]]:
    """b = max_g z_g - min_g z_g per criterion, its upward bias removed, with an interval and the noise floor.

    Groups without enough data to be compared are left out and named among what is not estimable. How the upward bias is
    removed and the interval found is explained in `elbert.fairness.true_range`.
    """
    check_statistics(confidence, seed)
    pooled = pool(totals, confidence=confidence)
    found, unknown = [], []
    for c, name in enumerate(totals.criteria):
        part = _comparable(totals, pooled, c)
        if len(part.groups) < 2:
            unknown.append(NotEstimable(name, None, "bias", _too_few(totals, part)))
            found.append(BiasEstimate(name, None, None, None, None, None, None, None, None))
            continue
        ends = part.groups[int(part.rate.argmax())], part.groups[int(part.rate.argmin())]
        if totals.episodes == 1:
            unknown.append(NotEstimable(name, None, "interval of the bias", "1 episode; at least 2 are needed"))
            found.append(BiasEstimate(name, float(np.ptp(part.rate)), None, None, None, None, None, *ends))
            continue
        spread = estimate_spread(part.rate, part.noise(1 - confidence, seed), confidence=confidence)
        high = min(spread.high, 1.0) if totals.bounded[c] else spread.high
        found.append(
            BiasEstimate(
                name, spread.estimate, spread.debiased, spread.low, high, spread.floor, spread.floor_high, *ends
            )
        )
    return tuple(found), tuple(unknown)


def estimate_impact_ratio(
    totals: EpisodeTotals, *, confidence: float = 0.95, seed: int = 0
) -> tuple[tuple[ImpactRatioEstimate, ...], tuple[NotEstimable, ...]]:
    """min_g z_g / max_g z_g per criterion, with an interval.

    The ratio is exp of minus the range of log rates, so its interval is that of a range on the logarithmic scale
    (`elbert.fairness.true_range`). A group that never received anything has no logarithm: the ratio is 0 and has no
    interval.
    """
    check_statistics(confidence, seed)
    pooled = pool(totals, confidence=confidence)
    found, unknown = [], []

    def add(name: str, estimate: float | None, reason: str) -> None:
        what = "impact ratio" if estimate is None else "interval of the impact ratio"
        unknown.append(NotEstimable(name, None, what, reason))
        found.append(ImpactRatioEstimate(name, estimate, None, None, None))

    for c, name in enumerate(totals.criteria):
        part = _comparable(totals, pooled, c)
        if len(part.groups) < 2:
            add(name, None, _too_few(totals, part))
        elif part.rate.max() == 0:
            add(name, None, f"no group received anything in {count(totals.episodes, 'episode')}")
        elif part.rate.min() == 0:
            add(name, 0.0, f"group {part.groups[int(part.rate.argmin())]} never received anything")
        elif totals.episodes == 1:
            add(name, float(part.rate.min() / part.rate.max()), "1 episode; at least 2 are needed")
        else:
            noise = part.noise(1 - confidence, seed, 1 / part.rate)
            spread = estimate_spread(np.log(part.rate), noise, confidence=confidence)
            ranges = (spread.estimate, max(spread.debiased, 0.0), spread.high, spread.low)
            found.append(ImpactRatioEstimate(name, *(float(np.exp(-value)) for value in ranges)))
    return tuple(found), tuple(unknown)


def bias_limit_test(totals: EpisodeTotals, limit: float, *, confidence: float = 0.95, seed: int = 0) -> BiasTest:
    """Test "bias <= limit" from both sides, each with error probability 1 - confidence.

    - refuted: estimates this far apart would be too rare if the bias were at most the limit. Several criteria: one
      above the limit refutes; their p-values are corrected for their number (Bonferroni).
    - confirmed: for every pair of groups under every criterion, a difference above the limit is rejected by a one-sided
      t-test. Since all pairs must pass, no correction is needed (intersection-union test).
    - not refuted: neither; more episodes are needed to tell.
    """
    check_statistics(confidence, seed)
    as_number(limit, "limit", "the largest acceptable bias, a number of at least 0", low=0.0, high=np.finfo(float).max)
    if totals.episodes < 2:
        raise NotEstimableError("There is 1 episode. A test needs at least 2, and means more with 50.")
    pooled = pool(totals, confidence=confidence)
    parts = [_comparable(totals, pooled, c) for c in range(len(totals.criteria))]
    for part in parts:
        if len(part.groups) < 2:
            raise NotEstimableError(f"The bias of {part.name} cannot be tested: {_too_few(totals, part)}.")
    level = 1.0 - confidence
    refute = min(exceeds(part.rate, part.noise(level / len(parts), seed), limit) for part in parts) * len(parts)
    confirm = max(_pairwise_p(part, limit) for part in parts)
    verdict: Verdict = "refuted" if refute <= level else "confirmed" if confirm <= level else "not refuted"
    left_out = tuple(f"{totals.groups[g]}, {totals.criteria[c]}" for c, g in np.argwhere(~pooled.compared))
    return BiasTest(limit, verdict, min(1.0, refute), confirm, level, left_out)


def _comparable(totals: EpisodeTotals, pooled: Pooled, c: int) -> _Criterion:
    compared = pooled.compared[c]
    groups = tuple(name for name, included in zip(totals.groups, compared, strict=True) if included)
    parts = (pooled.rate[c], pooled.residuals[:, c], pooled.error[c], pooled.active[c])
    return _Criterion(totals.criteria[c], groups, *(part[..., compared] for part in parts))


def _too_few(totals: EpisodeTotals, part: _Criterion) -> str:
    names = f" ({part.groups[0]})" if part.groups else ""
    return f"{len(part.groups)} of {len(totals.groups)} groups{names} had enough demand; at least 2 are needed"


def _pairwise_p(part: _Criterion, limit: float) -> float:
    """The largest p-value of "|z_i - z_j| > limit" over all pairs, with the smaller group's degrees of freedom."""
    size = np.sqrt((part.residuals**2).sum(axis=0))
    unit = part.residuals / np.where(size > 0, size, 1.0)
    i, j = np.triu_indices(len(part.groups), k=1)
    correlation = (unit.T @ unit)[i, j]
    first, second = part.error[i], part.error[j]
    error = np.sqrt(np.maximum(first**2 + second**2 - 2 * correlation * first * second, 0.0))
    beyond = np.abs(part.rate[i] - part.rate[j]) - limit
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.where(error > 0, beyond / error, np.where(beyond >= 0, 0.0, -np.inf))
    return float(stdtr(np.minimum(part.counts[i], part.counts[j]) - 1, t).max())
