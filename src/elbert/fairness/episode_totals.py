"""Per-episode totals: what every statistic of this room starts from.

Episodes are independent of each other; the steps within one are not. So an episode is the unit that intervals are built
on, and supply and demand come as one total per episode, criterion and group.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from elbert.errors import InvalidInputError
from elbert.fairness.arrays import ArrayLike, as_array, as_pair, has_values
from elbert.fairness.notions import Notion, get_notion

Floats = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True)
class NotEstimable:
    """Something that the data do not determine, with the reason."""

    criterion: str
    group: str | None  # None: it concerns the comparison of groups, not one of them
    what: str  # "rate", "interval", "bias", "impact ratio"
    reason: str

    def __str__(self) -> str:
        """One line for a table's foot."""
        where = f"group {self.group}" if self.group is not None else "all groups"
        return f"{where}, {self.criterion}: {self.what} not estimable: {self.reason}"


@dataclass(frozen=True)
class EpisodeTotals:
    """Validated totals per episode, with the names of criteria and groups."""

    supply: Floats  # [episodes, criteria, groups]
    demand: Floats  # [episodes, criteria, groups]
    criteria: tuple[str, ...]
    groups: tuple[str, ...]
    bounded: tuple[bool, ...]  # per criterion: whether a rate is at most 1

    @property
    def episodes(self) -> int:
        """How many episodes there are."""
        return self.supply.shape[0]

    @classmethod
    def of(
        cls,
        supply: ArrayLike,
        demand: ArrayLike,
        *,
        groups: Sequence[Any] | None = None,
        criteria: Sequence[Any] | None = None,
        notion: str | Notion | None = None,
    ) -> "EpisodeTotals":
        """Totals from arrays [episodes, groups] or [episodes, criteria, groups], checked and named.

        Args:
            supply: total benefit given, per episode.
            demand: total benefit due, per episode.
            groups: a name per group; "0", "1", ... by default.
            criteria: a name per criterion; the notion's, or "benefit rate", by default.
            notion: names the criteria and refuses supply above demand where the notion forbids it.
        """
        notion = None if notion is None else get_notion(notion)
        if not has_values(supply, demand):
            raise InvalidInputError(
                "supply and demand have no values yet: statistics cannot be traced by jax.jit, vmap or grad. Call them "
                "on the arrays that the traced function returns."
            )
        given: Any = np.array(as_array(supply, "supply"), float)
        due: Any = np.array(as_array(demand, "demand"), float)
        as_pair(given, due)
        if given.ndim == 2:
            given, due = given[:, None, :], due[:, None, :]
        if given.ndim != 3:
            raise InvalidInputError(
                f"supply and demand have shape {given.shape}. Give one total per episode: [episodes, groups] or "
                "[episodes, criteria, groups]; totals() adds up over steps."
            )
        episodes, n_criteria, n_groups = given.shape
        if episodes == 0:
            raise InvalidInputError(f"There are no episodes (shape {given.shape}). Give at least one.")
        if n_criteria == 0:
            raise InvalidInputError(f"There are no criteria (shape {given.shape}). Give at least one.")
        if n_groups < 2:
            raise InvalidInputError(
                "There is one group only, and bias compares groups. Give a column for each of at least two groups."
            )
        if notion is not None and len(notion.criteria) != n_criteria:
            raise InvalidInputError(
                f"The notion {notion.name!r} has {len(notion.criteria)} criteria but the arrays have {n_criteria}."
            )
        with np.errstate(over="ignore"):
            if not np.isfinite(given.sum(axis=0) + due.sum(axis=0)).all():
                raise InvalidInputError("The totals are too large to be added up. Count in larger units.")
        bounded = tuple(c.bounded for c in notion.criteria) if notion else (False,) * n_criteria
        for c, is_bounded in enumerate(bounded):
            if is_bounded:
                as_pair(given[:, c], due[:, c], bounded=True)
        if criteria is None and notion is not None:
            criteria = [c.name for c in notion.criteria]
        elif criteria is None:
            criteria = ["benefit rate"] if n_criteria == 1 else [f"benefit rate {c}" for c in range(n_criteria)]
        given.setflags(write=False)
        due.setflags(write=False)
        return cls(
            given,
            due,
            _names(criteria, n_criteria, "criteria"),
            _names(range(n_groups) if groups is None else groups, n_groups, "groups"),
            bounded,
        )

    def unknown_rates(self) -> tuple[NotEstimable, ...]:
        """Groups without demand, each with its reason and count."""
        return tuple(
            NotEstimable(
                self.criteria[c], self.groups[g], "rate", f"no demand in any of {count(self.episodes, 'episode')}"
            )
            for c, g in np.argwhere(self.demand.sum(axis=0) == 0)
        )


def count(number: int, noun: str) -> str:
    """Number and noun: 1 episode, 50 episodes."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _names(names: Sequence[Any], length: int, what: str) -> tuple[str, ...]:
    """Names as strings: as many as needed, no two alike."""
    ordered = isinstance(names, Sequence) or hasattr(names, "__array__")
    if isinstance(names, str | bytes) or not ordered or len(names) != length:
        raise InvalidInputError(f"{what} is {names!r}. Give a list of {length} names, one for each.")
    strings = tuple(str(name) for name in names)
    if len(set(strings)) != length:
        twice = sorted({name for name in strings if strings.count(name) > 1})
        raise InvalidInputError(f"The names {twice} stand for more than one of the {what}. Give each its own.")
    return strings
