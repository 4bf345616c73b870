"""What a log holds from period to period: how many decisions, how much of them is known, and where that jumps."""

from dataclasses import dataclass

import numpy as np

from elbert.auditing.counting import Tally
from elbert.auditing.jumps import rows_jump, share_jump
from elbert.auditing.results import Jump, Period
from elbert.auditing.rows import DECIDED, Rows
from elbert.auditing.sweeping import Side
from elbert.fairness.episode_totals import Floats
from elbert.fairness.rates import ratio
from elbert.tables import visible


@dataclass(frozen=True)
class Timeline:
    """Counts of each period; [periods]."""

    names: tuple[str, ...]
    decided: str  # what counts as the decision, for people
    due: str  # what counts as a good outcome, for people
    counted: Floats  # decisions that count; units of demand, where amounts are given
    unknown_groups: Floats
    left_out: Floats  # rows that do not count
    favourable: Floats | None = None  # decisions that are a benefit, or a burden; None for amounts
    known: Floats | None = None  # decisions whose outcome is known; None where none is asked for
    good: Floats | None = None  # those of them that were due

    @classmethod
    def of(cls, rows: Rows, tally: Tally, side: Side) -> "Timeline":
        """The whole log, and who is of unknown group in one comparison."""
        pairs, everybody = rows.measures.pairs, tally.by_period.sum(axis=1)  # [periods, measures]
        unknown = side.sums(tally.by_period)[:, -1]
        if not pairs:
            demand = rows.measures.demand[0]
            return cls(tally.periods, "", "", everybody @ demand, unknown @ demand, tally.left_out)

        def number(*chosen: bool) -> Floats:
            return everybody[:, np.array(chosen)].sum(axis=1)

        outcomes = any(q is not None for _, q in pairs)
        return cls(
            names=tally.periods,
            decided=rows.favourable,
            due=rows.due,
            counted=everybody.sum(axis=1),
            unknown_groups=unknown.sum(axis=1),
            left_out=tally.left_out,
            favourable=number(*(d == DECIDED for d, _ in pairs)),
            known=number(*(q is not None for _, q in pairs)) if outcomes else None,
            good=number(*(q == 1.0 for _, q in pairs)) if outcomes else None,
        )

    def periods(self) -> tuple[Period, ...]:
        """What is known in each period."""
        groups = ratio(self.counted - self.unknown_groups, self.counted, otherwise=np.nan)
        known = np.full_like(groups, np.nan) if self.known is None else self.known
        outcomes = ratio(known, self.counted, otherwise=np.nan)
        return tuple(
            Period(name, float(number), *(None if np.isnan(share) else float(share) for share in shares))
            for name, number, *shares in zip(self.names, self.counted, groups, outcomes, strict=True)
        )

    def jumps(self) -> tuple[Jump, ...]:
        """Stretches of time in which the log is unlike itself."""
        if self.favourable is None:
            return ()
        counted = self.counted
        found = [
            rows_jump(counted, self.names),
            share_jump(f"share of {visible(self.decided)}", self.favourable, counted, self.names),
        ]
        if self.known is not None and self.good is not None:
            found.append(share_jump(f"share of {visible(self.due)}", self.good, self.known, self.names))
            found.append(share_jump("share of known outcomes", self.known, counted, self.names))
        found.append(share_jump("share of unknown groups", self.unknown_groups, counted, self.names))
        found.append(share_jump("share of rows that do not count", self.left_out, self.left_out + counted, self.names))
        return tuple(jump for jump in found if jump is not None)
