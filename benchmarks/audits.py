"""Are audits and monitors as sure as they say? Simulated logs whose truth is known, through the doors that users take.

    python benchmarks/audits.py coverage [--replications 500]
    python benchmarks/audits.py unknown [--replications 300]
    python benchmarks/audits.py monitor [--runs 1000]
    python benchmarks/audits.py jumps [--replications 500]

`coverage`: shares of 95 % intervals that hold the truth, with few and many units of equal and of log-normal size.
`unknown`: shares of intervals around bounds that hold the truth, where the assumption behind them does.
`monitor`: how often equal groups raise an alarm, if one looks after every unit.
`jumps`: how often a log whose chances never change is flagged, and one that is broken for a stretch of time is not.
"""

import argparse
import datetime as dt
import multiprocessing
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import polars as pl

import elbert
from elbert.auditing.monitor_look import criterion_so_far
from elbert.auditing.monitor_state import State
from elbert.auditing.question import Assumption, Question
from elbert.tables import Table, columns

LEVEL = 0.95
Processes = partial(ProcessPoolExecutor, mp_context=multiprocessing.get_context("spawn"))  # JAX must not be forked


class Units(NamedTuple):
    """Independent units that differ in size and in how they treat people."""

    name: str
    number: int
    sigma: float  # of the logarithm of their size
    rates: tuple[float, ...] = (0.6, 0.6)
    mean: float = 60.0  # people of each group in a unit
    spread: float = 0.1  # standard deviation of a unit's rate, the same for all groups
    own: float = 0.05  # and of each group's in it


UNITS = tuple(
    Units(f"{kind}, {'equal groups' if len(set(rates)) == 1 else '0.10 apart'}", number, sigma, rates)
    for kind, sigma in (("equal units", 0.0), ("log-normal, s = 1", 1.0), ("log-normal, s = 1.5", 1.5))
    for rates in ((0.6, 0.6), (0.65, 0.55))
    for number in (30, 300)
)


def drawn(units: Units, rng: np.random.Generator) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Supply and demand [units, groups]; sizes are independent of rates, so the long-term rates are those given."""
    size = rng.lognormal(-(units.sigma**2) / 2, units.sigma, (units.number, 1))
    demand = rng.poisson(units.mean * size * np.ones(len(units.rates)))
    shared, own = (rng.uniform(-1, 1, (units.number, n)) * np.sqrt(3) for n in (1, len(units.rates)))
    chance = np.asarray(units.rates) + units.spread * shared + units.own * own
    return rng.binomial(demand, chance), demand


def coverage(units: Units, replications: int) -> list[str]:
    """Of rates and of the bias, wrong verdicts at the true bias, and how many results are named unreliable."""
    truth = max(units.rates) - min(units.rates)
    held_rates, held_bias, reliable, refuted, confirmed = [], [], [], [], []
    for seed in range(replications):
        supply, demand = drawn(units, np.random.default_rng([seed, units.number]))
        frame = pl.DataFrame(
            {
                "unit": np.repeat(np.arange(units.number), len(units.rates)),
                "group": list("abcdefgh"[: len(units.rates)]) * units.number,
                "given": supply.ravel(),
                "due": demand.ravel(),
            }
        )
        asked = {"group": "group", "unit": "unit", "supply": "given", "demand": "due", "max_bias": truth}
        answer = elbert.audit(frame, progress=None, **asked)
        report, limit = answer.report, answer.comparison.limit
        assert report is not None
        assert limit is not None
        part = report.criteria[0]
        by_group = {each.group: each for each in part.groups}
        for name, rate in zip("abcdefgh", units.rates, strict=False):
            ends = by_group[name].ci
            held_rates.append(ends is not None and ends[0] <= rate <= ends[1])
        held_bias.append(part.bias.ci is not None and part.bias.ci[0] <= truth <= part.bias.ci[1])
        reliable.append(part.bias.reliable)
        refuted.append(limit.verdict == "refuted")
        confirmed.append(limit.verdict == "confirmed")
    sure = np.repeat(reliable, len(units.rates))
    among = f"{100 * np.mean(np.array(held_rates)[sure]):.1f}" if any(reliable) else ""
    shares = (held_rates, held_bias, refuted, confirmed)
    return [
        units.name,
        str(units.number),
        *(f"{100 * np.mean(share):.1f}" for share in shares),
        f"{100 * (1 - np.mean(reliable)):.0f}",
        among,
    ]


COVERAGE = (
    "units",
    "number",
    "rates",
    "bias",
    "wrongly refuted",
    "wrongly confirmed",
    "unreliable",
    "rates if reliable",
)


def loans(assumption: str, seed: int) -> tuple[pl.DataFrame, float]:
    """Loans whose repayment is known for the approved only, and the true bias.

    The refused are as the assumption allows them to be at the worst: good in group b, and bad in group a. So the truth
    lies at an end of the bounds. Under "random" they are as good as the approved of their grade.
    """
    rng = np.random.default_rng(seed)
    n, branches = 6000, 60
    group, grade, branch = rng.integers(0, 2, n), rng.integers(0, 4, n), rng.integers(0, branches, n)
    approve = np.array([0.65, 0.55]) + 0.05 * (np.arange(4)[:, None] - 1.5)  # [grades, groups]
    approved = rng.random(n) < approve[grade, group] + rng.uniform(-0.1, 0.1, branches)[branch]
    good = np.full((4, 2), 0.7)
    if assumption == "random":
        good = good + 0.08 * (np.arange(4)[:, None] - 1.5)
    kind = Assumption.of(assumption)
    odds = 0.7 / 0.3 / kind.gamma
    refused = {"none": [0.0, 1.0], "no-better": [0.0, 0.7], "odds": [odds / (1 + odds), 0.7]}.get(kind.name)
    missed = good if refused is None else np.broadcast_to(refused, (4, 2))
    would = rng.random(n) < np.where(approved, good[grade, group], missed[grade, group])
    frame = pl.DataFrame(
        {
            "branch": branch,
            "group": np.array(["a", "b"])[group],
            "grade": grade,
            "approved": approved,
            "repaid": [str(bool(w)).lower() if a else None for w, a in zip(would, approved, strict=True)],
        }
    )
    due, lost = (approve * good).sum(axis=0), ((1 - approve) * missed).sum(axis=0)
    rates = due / (due + lost)
    return frame, float(abs(rates[0] - rates[1]))


def unknown(assumption: str, replications: int) -> list[str]:
    """How often the interval around the bounds holds the truth, and how wide they are."""
    held, least, most = [], [], []
    for seed in range(replications):
        frame, truth = loans(assumption, seed)
        asked = Question(
            group=("group",),
            decision="approved",
            outcome="repaid",
            notion="equal-opportunity",
            unit="branch",
            control=("grade",),
            assume=assumption,
        )
        answer = elbert.audit(frame, asked, progress=None)
        (bounds,) = [each for each in answer.comparison.unknown.bounds if each.used]
        assert bounds.ci is not None
        held.append(bounds.ci[0] <= truth <= bounds.ci[1])
        least.append(bounds.least)
        most.append(bounds.most)
    _, truth = loans(assumption, 0)
    return [
        assumption,
        f"{truth:.4f}",
        f"{np.mean(least):.4f} .. {np.mean(most):.4f}",
        f"{100 * np.mean(held):.1f}",
    ]


UNKNOWN = ("assumption", "true bias", "bounds, on average", "interval holds the truth")


def alarm(run: int, *, units: int, sigma: float, groups: int, seed: int) -> bool:
    """Whether equal groups are ever found to differ, looking after every unit."""
    rng = np.random.default_rng([seed, run])
    kind = Units("", units, sigma, rates=(0.5,) * groups, mean=20.0)
    supply, demand = (each.astype(float) for each in drawn(kind, rng))
    state = State.empty(Question(max_bias=0.0), ["rate"], unit="unit")
    for name in "abcdefgh"[:groups]:
        state.add_group(name)
    totals = np.stack([supply, demand], axis=1)  # [units, 2, groups]
    for total in totals:
        state.add_unit(total[None])
        found = criterion_so_far(state, 0)
        if found.low is not None and found.low > 0:
            return True
    return False


def false_alarms(*, runs: int, units: int, sigma: float, groups: int, seed: int) -> float:
    """The share of runs with an alarm."""
    one = partial(alarm, units=units, sigma=sigma, groups=groups, seed=seed)
    with Processes() as pool:
        return float(np.mean(list(pool.map(one, range(runs), chunksize=10))))


MONITORED = ((0.0, 2), (1.0, 2), (1.5, 2), (0.0, 5))


def steady_log(seed: int, *, months: int, trend: float, season: float, broken: bool) -> pl.DataFrame:
    """Decisions and outcomes of some months; chances may rise, follow the year, or break for a stretch."""
    rng = np.random.default_rng(seed)
    number = rng.poisson(120, months)
    month = np.repeat(np.arange(months), number)
    rise = trend * (month / months - 0.5) + season * np.sin(2 * np.pi * month / 12)
    outcome = 0.35 + 0.03 * rng.normal(size=months)[month] + rise
    if broken:
        outcome = np.where((month >= months // 3) & (month < months // 2), 0.6, outcome)
    decision = 0.5 + 0.03 * rng.normal(size=months)[month] + rise
    return pl.DataFrame(
        {
            "month": [dt.date(2010 + int(m) // 12, int(m) % 12 + 1, 1) for m in month],
            "group": rng.choice(["a", "b"], month.size),
            "decision": (rng.random(month.size) < decision).astype(int),
            "outcome": (rng.random(month.size) < outcome).astype(int),
        }
    )


JUMPS = {
    "chances that scatter from month to month": {"trend": 0.0, "season": 0.0, "broken": False},
    "rising by 0.05": {"trend": 0.05, "season": 0.0, "broken": False},
    "rising by 0.20": {"trend": 0.2, "season": 0.0, "broken": False},
    "with the seasons, by 0.05": {"trend": 0.0, "season": 0.05, "broken": False},
    "broken for a sixth of the time": {"trend": 0.0, "season": 0.0, "broken": True},
}


def flagged(kind: str, replications: int) -> list[str]:
    """The share of logs of this kind that are flagged."""
    asked = Question(
        time="month",
        period="month",
        group=("group",),
        decision="decision",
        outcome="outcome",
        notion="equalized-odds",
    )
    logs = (steady_log(seed, months=36, **JUMPS[kind]) for seed in range(replications))
    found = [bool(elbert.audit(log, asked, progress=None).jumps) for log in logs]
    return [kind, f"{100 * np.mean(found):.1f}"]


def in_parallel(
    measure: Callable[..., list[str]], jobs: Sequence[Any], heads: Sequence[str], replications: int
) -> None:
    """Print a Markdown table with a row per job."""
    with Processes() as pool:
        rows = tuple(tuple(row) for row in pool.map(partial(measure, replications=replications), jobs))
    print(Table((columns(heads[0]) + columns(*heads[1:], right=True)), rows).to_markdown())


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["coverage", "unknown", "monitor", "jumps"])
    parser.add_argument("--replications", type=int, default=500)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--units", type=int, default=1000)
    given = parser.parse_args()
    if given.what == "coverage":
        in_parallel(coverage, UNITS, COVERAGE, given.replications)
    elif given.what == "unknown":
        in_parallel(unknown, ["none", "no-better", "odds:2", "random"], UNKNOWN, given.replications)
    elif given.what == "jumps":
        in_parallel(flagged, list(JUMPS), ("a log of 36 months", "flagged"), given.replications)
    else:
        rows = []
        for sigma, groups in MONITORED:
            share = false_alarms(runs=given.runs, units=given.units, sigma=sigma, groups=groups, seed=1)
            rows.append((f"{sigma:g}", str(groups), f"{100 * share:.1f}"))
        print(Table(columns("sigma", "groups", "runs with a false alarm, %", right=True), tuple(rows)).to_markdown())


if __name__ == "__main__":
    main()
