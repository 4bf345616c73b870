"""Writes loans.csv, a made-up log of a bank's decisions: the one that the documentation audits.

In easy times both groups are approved alike and often, in hard times less so and "green" a little less than "blue".
More of "green" applies in hard times. So the long-term rates differ for two reasons, which an audit tells apart.
"""

import csv
import datetime as dt
from pathlib import Path

import numpy as np

MONTHS, OFFICERS, ROWS = 24, 40, 2400


def by_date(row: list[object]) -> str:
    """What rows are sorted by."""
    return str(row[1])


def main() -> None:
    """Write the log next to this file."""
    rng = np.random.default_rng(7)
    busy = rng.lognormal(0.0, 0.6, OFFICERS)
    lenient = rng.normal(0.0, 0.06, OFFICERS)
    rows: list[list[object]] = []
    for number in range(ROWS):
        group = rng.choice(["blue", "green"], p=[0.6, 0.4])
        hard = rng.random() < (0.35 if group == "blue" else 0.7)
        month = rng.integers(MONTHS // 2, MONTHS) if hard else rng.integers(0, MONTHS // 2)
        day = dt.date(2023 + month // 12, month % 12 + 1, rng.integers(1, 29))
        officer = rng.choice(OFFICERS, p=busy / busy.sum())
        grade = rng.choice(["A", "B", "C"], p=[0.3, 0.4, 0.3])
        chance = 0.66 + lenient[officer] + {"A": 0.15, "B": 0.0, "C": -0.15}[grade] - 0.22 * hard
        chance -= 0.06 if hard and group == "green" else 0.0
        approved = rng.random() < chance
        repaid = rng.random() < {"A": 0.93, "B": 0.86, "C": 0.75}[grade]
        known = approved and day < dt.date(2024, 12, 1)  # later loans are not due yet, and the refused never are
        rows.append(
            [
                number + 1,
                day.isoformat(),
                f"officer {officer + 1:02d}",
                group if rng.random() > 0.01 else "unknown",
                grade,
                "yes" if approved else "no",
                ("yes" if repaid else "no") if known else "",
            ]
        )
    with Path(__file__).with_name("loans.csv").open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["id", "date", "officer", "group", "grade", "approved", "repaid"])
        writer.writerows(sorted(rows, key=by_date))


if __name__ == "__main__":
    main()
