"""Made-up logs whose numbers are known."""

import datetime as dt

import numpy as np
import polars as pl


def of_counts(cells, **columns):
    """One row per decision, from {(values of columns): (favourable, all)}."""
    names = list(columns) or ["time", "group"]
    rows = []
    for values, (yes, total) in cells.items():
        rows += [(*values, "yes" if i < yes else "no") for i in range(total)]
    return pl.DataFrame(rows, schema=[*names, "decision"], orient="row")


def clustered(units=40, sigma=0.0, spread=0.1, rates=(0.6, 0.5), mean=30, seed=0, own=0.0, monthly=0.0):
    """Decisions by officers, who differ in how often they say yes: [officer, date, group, decision].

    `own` is how much they differ for each group, `monthly` how much each group's months differ.
    """
    rng = np.random.default_rng(seed)
    size = np.maximum(rng.poisson(mean * rng.lognormal(-(sigma**2) / 2, sigma, units)), 1)
    officer = np.repeat(np.arange(units), size)
    group = rng.integers(0, len(rates), officer.size)
    chance = np.asarray(rates)[group] + spread * rng.normal(size=units)[officer]
    day = rng.integers(0, 720, officer.size)
    chance = chance + own * rng.normal(size=(units, len(rates)))[officer, group]
    chance = np.clip(chance + monthly * rng.normal(size=(24, len(rates)))[day // 30, group], 0, 1)
    return pl.DataFrame(
        {
            "officer": [f"officer {number:03d}" for number in officer],
            "date": [dt.date(2020, 1, 1) + dt.timedelta(days=int(each)) for each in day],
            "group": np.array([f"group {letter}" for letter in "abcdefgh"])[group],
            "decision": np.where(rng.random(officer.size) < chance, "yes", "no"),
        }
    )


def lending(n=4000, seed=0):
    """Loans whose repayment is known for the approved only; `would` is what nobody knows."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 2, n)
    grade = rng.integers(0, 4, n)
    would = rng.random(n) < 0.3 + 0.15 * grade
    approved = rng.random(n) < 0.15 + 0.2 * grade - 0.1 * group
    return pl.DataFrame(
        {
            "branch": [f"branch {number}" for number in rng.integers(0, 80, n)],
            "group": np.array(["a", "b"])[group],
            "grade": grade,
            "approved": approved,
            "repaid": pl.Series([str(bool(w)).lower() if a else None for w, a in zip(would, approved, strict=True)]),
            "would": would,
        }
    )
