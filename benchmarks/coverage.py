"""How often do the intervals hold the truth? Simulated episodes with correlated supply and demand.

    python benchmarks/coverage.py [--replications 500] [--situations heavy]

prints, per situation, the share of intervals that hold the true value (nominal: 95 %) among those that the data
determine, the average of the plain and of the debiased bias, and how often the test of a limit errs.
"""

import argparse
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from elbert.errors import NotEstimableError
from elbert.fairness import (
    BiasEstimate,
    EpisodeTotals,
    ImpactRatioEstimate,
    bias_limit_test,
    estimate_bias,
    estimate_impact_ratio,
    estimate_rates,
)
from elbert.fairness.rate_intervals import INTERVAL_METHODS

_SHAPE = 4.0  # of the activity's gamma distribution: its standard deviation is half its mean


class Situation(NamedTuple):
    """True rates and typical demand of each group."""

    name: str
    rates: tuple[float, ...]
    demand: tuple[float, ...]
    crowding: float = 0.2  # how much a busy episode lowers everybody's chance
    tail: float = 0.0  # above 0: each group's demand is log-normal with this sigma
    steady: float = 20.0  # how little the chance varies from episode to episode otherwise
    outage: float = 0.0  # how often the last group receives nothing at all in an episode


SITUATIONS = (
    Situation("2 equal groups", (0.6, 0.6), (30, 20)),
    Situation("2 groups, close", (0.6, 0.585), (30, 20)),
    Situation("2 groups, far apart", (0.7, 0.4), (30, 20)),
    Situation("5 equal groups", (0.5,) * 5, (30, 25, 20, 15, 10)),
    Situation("5 groups, four equal", (0.6, 0.6, 0.6, 0.6, 0.4), (30, 25, 20, 15, 10)),
    Situation("5 groups, evenly spaced", (0.40, 0.44, 0.48, 0.52, 0.56), (30, 25, 20, 15, 10)),
    Situation("3 groups, one tiny", (0.6, 0.5, 0.55), (60, 60, 1.5)),
    Situation("2 equal groups, one sparse", (0.6, 0.6), (30, 0.1)),
    Situation("2 equal groups, rarely refused", (0.98, 0.98), (20, 2), crowding=0.0),
    Situation("2 equal groups, heavy tails", (0.6, 0.6), (200, 200), crowding=0.0, tail=1.5),
    Situation("2 groups apart, heavy tails", (0.6, 0.55), (200, 200), crowding=0.0, tail=1.5),
    Situation("one never refused", (1.0, 0.98), (50, 50), crowding=0.0),
    Situation("2 groups, rare outages", (0.8, 0.784), (300, 300), crowding=0.0, steady=2000.0, outage=0.02),
    Situation("20 groups, closely spaced", tuple(np.linspace(0.45, 0.55, 20).tolist()), (20,) * 20),
    Situation("100 groups, scattered", tuple(np.random.default_rng(0).normal(0.5, 0.025, 100).tolist()), (10,) * 100),
)


def simulate(
    situation: Situation, *, episodes: int, replications: int, seed: int
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Supply and demand [episodes, replications, groups] whose long-term rates are those of the situation.

    An episode's activity A ~ Gamma (mean 1) drives everybody's demand D ~ Poisson(d_g A), so demands are correlated; in
    busy episodes the chance p = c_g (1 + k - k A) is lower, so supply S ~ Binomial(D, Beta(p)) depends on demand; the
    long-term rate is E[S] / E[D] = c_g (1 + k - k E[A^2]) with k the crowding, not the average of S / D. With heavy
    tails every group has its own, log-normal activity. In an outage the last group receives nothing.
    """
    rng = np.random.default_rng(seed)
    rates, demand, crowding = np.asarray(situation.rates), np.asarray(situation.demand), situation.crowding
    average = rates / (1 + crowding - crowding * (1 + 1 / _SHAPE))
    activity = rng.gamma(_SHAPE, 1 / _SHAPE, (episodes, replications, 1))
    if situation.tail:
        sigma = situation.tail
        activity = rng.lognormal(-(sigma**2) / 2, sigma, (episodes, replications, len(rates)))
    due = rng.poisson(demand * activity)
    average[-1] /= 1 - situation.outage
    chance = np.clip(average * (1 + crowding - crowding * activity), 0.01, 0.99)
    share = np.where(average == 1, 1.0, rng.beta(situation.steady * chance, situation.steady * (1 - chance)))
    if situation.outage:
        share[..., -1] *= rng.random((episodes, replications)) >= situation.outage
    return rng.binomial(due, share).astype(float), due.astype(float)


def rate_coverage(situation: Situation, *, episodes: int, replications: int, seed: int = 0) -> dict[str, float]:
    """Share of intervals of rates that hold the truth, per method. Replications pass as criteria, all at once."""
    totals = EpisodeTotals.of(*simulate(situation, episodes=episodes, replications=replications, seed=seed))
    truth = np.asarray(situation.rates)
    shares = {}
    for method in INTERVAL_METHODS:
        found = estimate_rates(totals, method=method, resamples=2000)
        held, known = (found.low <= truth) & (truth <= found.high), np.isfinite(found.low)
        shares[method] = float(held[known].mean())
    return shares


def bias_coverage(situation: Situation, *, episodes: int, replications: int, seed: int = 0) -> dict[str, float]:
    """Coverage of the intervals of bias and impact ratio, and the average of the plain and the debiased bias."""
    totals = EpisodeTotals.of(*simulate(situation, episodes=episodes, replications=replications, seed=seed))
    biases, _ = estimate_bias(totals)
    ratios, _ = estimate_impact_ratio(totals)
    bias = max(situation.rates) - min(situation.rates)
    ratio = min(situation.rates) / max(situation.rates)
    return {
        "bias": _share_held(biases, bias),
        "impact_ratio": _share_held(ratios, ratio),
        "true": bias,
        "naive": float(np.mean([b.estimate for b in biases if b.estimate is not None])),
        "debiased": float(np.mean([b.debiased for b in biases if b.debiased is not None])),
        "floor": float(np.mean([b.noise_floor for b in biases if b.noise_floor is not None])),
    }


def verdict_errors(situation: Situation, *, episodes: int, replications: int, seed: int = 0) -> dict[str, float]:
    """How often a true limit is refuted and a limit just below the true bias is confirmed; both should be <= 5 %."""
    supply, demand = simulate(situation, episodes=episodes, replications=replications, seed=seed)
    bias = max(situation.rates) - min(situation.rates)
    verdicts = []
    for r in range(replications):
        with suppress(NotEstimableError):
            verdicts.append(bias_limit_test(EpisodeTotals.of(supply[:, r], demand[:, r]), bias).verdict)
    return {verdict: verdicts.count(verdict) / len(verdicts) for verdict in ("refuted", "confirmed")}


def _share_held(estimates: Sequence[BiasEstimate] | Sequence[ImpactRatioEstimate], truth: float) -> float:
    """Share of intervals that hold the truth, among the estimates that have one."""
    ends = [(e.low, e.high) for e in estimates if e.low is not None and e.high is not None]
    return float(np.mean([low - 1e-9 <= truth <= high + 1e-9 for low, high in ends]))


def _measure(job: tuple[Situation, int], replications: int) -> tuple[str, int, dict[str, float]]:
    situation, episodes = job
    measured: dict[str, float] = {}
    if len(situation.rates) >= 20:
        replications = max(1, replications // 5)  # these take a second each
    for measure in (rate_coverage, bias_coverage, verdict_errors):
        measured |= measure(situation, episodes=episodes, replications=replications)
    return situation.name, episodes, measured


def main() -> None:
    """Measure every situation with few and many episodes and print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replications", type=int, default=500)
    parser.add_argument("--episodes", type=int, nargs="+", default=[10, 50, 500])
    parser.add_argument("--situations", default="", help="only those with this word in their name")
    arguments = parser.parse_args()
    chosen = [situation for situation in SITUATIONS if arguments.situations in situation.name]
    jobs = [(situation, episodes) for situation in chosen for episodes in arguments.episodes]
    print("| situation | episodes | delta | jackknife | bootstrap | bias | impact ratio | ", end="")
    print("true bias | plain | debiased | wrongly refuted | wrongly confirmed |")
    print("| --- | " + " | ".join(["---:"] * 11) + " |")
    with ProcessPoolExecutor() as pool:
        for name, episodes, m in pool.map(partial(_measure, replications=arguments.replications), jobs):
            shares = [f"{100 * m[k]:.1f}" for k in ("delta", "jackknife", "bootstrap", "bias", "impact_ratio")]
            sizes = [f"{m[k]:.4f}" for k in ("true", "naive", "debiased")]
            errors = [f"{100 * m[k]:.1f}" for k in ("refuted", "confirmed")]
            print(f"| {name} | {episodes} | {' | '.join(shares + sizes + errors)} |", flush=True)


if __name__ == "__main__":
    main()
