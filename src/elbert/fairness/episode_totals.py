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
from elbert.fairness.rates import ratio

Floats = np.ndarray[Any, np.dtype[np.float64]]

LARGEST = 1e250
"""Totals and rates must lie between 1 / LARGEST and LARGEST, so that squares and products of them stay finite."""


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


@dataclass(frozen=True, eq=False)
class EpisodeTotals:
    """Validated totals per episode, with the names of criteria and groups."""

    supply: Floats  # [episodes, criteria, groups]
    demand: Floats  # [episodes, criteria, groups]
    criteria: tuple[str, ...]
    groups: tuple[str, ...]
    notion: Notion | None
    unit: str = "episode"  # what each total is of, for people: "episode", "month", "officer"

    @property
    def episodes(self) -> int:
        """How many episodes there are."""
        return self.supply.shape[0]

    @property
    def bounded(self) -> tuple[bool, ...]:
        """Per criterion: whether a rate is at most 1."""
        if self.notion is None:
            return (False,) * len(self.criteria)
        return tuple(criterion.bounded for criterion in self.notion.criteria)

    @classmethod
    def of(
        cls,
        supply: ArrayLike,
        demand: ArrayLike,
        *,
        groups: Sequence[Any] | None = None,
        criteria: Sequence[Any] | None = None,
        notion: str | Notion | None = None,
        unit: str = "episode",
    ) -> "EpisodeTotals":
        """Totals from arrays [episodes, groups] or [episodes, criteria, groups], checked and named.

        Arguments as in `benefit_report`. Groups are called "0", "1", ... by default, a criterion "benefit rate".
        """
        notion = None if notion is None else get_notion(notion)
        supplies, demands = _read(supply, demand)
        _, n_criteria, n_groups = supplies.shape
        if notion is not None and len(notion.criteria) != n_criteria:
            raise InvalidInputError(
                f"The notion {notion.name!r} has {len(notion.criteria)} criteria but the arrays have {n_criteria}."
            )
        if criteria is None and notion is not None:
            criteria = [criterion.name for criterion in notion.criteria]
        elif criteria is None:
            criteria = ["benefit rate"] if n_criteria == 1 else [f"benefit rate {c}" for c in range(n_criteria)]
        totals = cls(
            supply=supplies,
            demand=demands,
            criteria=as_names(criteria, n_criteria, "criteria"),
            groups=as_names(range(n_groups) if groups is None else groups, n_groups, "groups"),
            notion=notion,
            unit=unit,
        )
        totals._check()
        return totals

    def unknown_rates(self) -> tuple[NotEstimable, ...]:
        """Groups without demand, each with its reason and count."""
        return tuple(
            NotEstimable(
                self.criteria[c], self.groups[g], "rate", f"no demand in any of {count(self.episodes, self.unit)}"
            )
            for c, g in np.argwhere(self.demand.sum(axis=0) == 0)
        )

    def _check(self) -> None:
        """Refuse what the notion forbids, and amounts that cannot be computed with."""
        for c, bounded in enumerate(self.bounded):
            if bounded:
                as_pair(self.supply[:, c], self.demand[:, c], bounded=True)
        with np.errstate(over="ignore", invalid="ignore"):
            supply, demand = self.supply.sum(axis=0), self.demand.sum(axis=0)
            amounts = np.stack([supply, demand, ratio(supply, demand, otherwise=0.0)])
        small = (amounts < 1 / LARGEST) & (np.stack([supply, demand, supply * (demand > 0)]) > 0)
        wrong = (amounts > LARGEST) | small
        if wrong.any():
            c, g = np.argwhere(wrong.any(axis=0))[0]
            raise InvalidInputError(
                f"Group {self.groups[g]}, {self.criteria[c]}: the totals are {supply[c, g]:g} of supply and "
                f"{demand[c, g]:g} of demand, too large or too small to be computed with. Count in units that make "
                f"both, and their ratio, lie between {1 / LARGEST:g} and {LARGEST:g}."
            )


def count(number: int, noun: str) -> str:
    """Number and noun: 1 episode, 50 episodes."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _read(supply: Any, demand: Any) -> tuple[Floats, Floats]:
    """Supply and demand as read-only copies of shape [episodes, criteria, groups]."""
    if not has_values(supply, demand):
        raise InvalidInputError(
            "supply and demand have no values yet: statistics cannot be traced by jax.jit, vmap or grad. Call them "
            "on the arrays that the traced function returns."
        )
    # NumPy's before they meet, so that float64 amounts are not rounded to the float32 of a JAX array next to them
    supplies, demands = as_pair(np.asarray(as_array(supply, "supply")), np.asarray(as_array(demand, "demand")))
    if supplies.ndim == 2:
        supplies, demands = supplies[:, None, :], demands[:, None, :]
    if supplies.ndim != 3:
        raise InvalidInputError(
            f"supply and demand have shape {supplies.shape}. Give one total per episode: [episodes, groups] or "
            "[episodes, criteria, groups]; totals() adds up over steps."
        )
    if 0 in supplies.shape:
        raise InvalidInputError(f"There are no episodes or no criteria (shape {supplies.shape}). Give at least one.")
    if supplies.shape[2] < 2:
        raise InvalidInputError(
            "There is one group only, and bias compares groups. Give a column for each of at least two groups."
        )
    supplies.setflags(write=False)
    demands.setflags(write=False)
    return supplies, demands


def as_names(names: Sequence[Any], length: int, what: str) -> tuple[str, ...]:
    """Names as strings: as many as needed, no two alike."""
    ordered = isinstance(names, Sequence) or hasattr(names, "__array__")
    if isinstance(names, str | bytes) or not ordered or len(names) != length:
        raise InvalidInputError(f"{what} is {names!r}. Give a list of {length} names, one for each.")
    strings = tuple(str(name) for name in names)
    if len(set(strings)) != length:
        twice = sorted({name for name in strings if strings.count(name) > 1})
        raise InvalidInputError(f"The names {twice} stand for more than one of the {what}. Give each its own.")
    return strings
