"""Notions of fairness as supply and demand: who received a benefit, and who was due one.

A notion looks at one decision about one person, an outcome (group, decision, qualified), and says how much benefit the
person's group received and how much it was due. Equal opportunity, for example: a qualified person is due an
acceptance, and receives it when accepted. Added up over people and time, supply over demand is the group's benefit
rate; over a single step it is the static notion of the literature.

Your own notion is a name and, for each criterion, two functions of (decision, qualified):

    served_in_time = Notion(
        "served-in-time",
        Criterion("served", supply=lambda days, _: days <= 3, demand=lambda days, _: days >= 0),
    )
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from elbert.checks import as_whole
from elbert.errors import InvalidInputError, unknown_name
from elbert.fairness.arrays import ArrayLike, as_array, check_amounts, has_values, namespace
from elbert.fairness.rates import Totals

Amount: TypeAlias = Callable[[Any, Any], Any]
"""(decision, qualified) -> amount of benefit, elementwise."""

MOST_GROUPS = 1_000_000
"""Counts of more groups than this would fill the memory rather than describe people."""


@dataclass(frozen=True)
class Criterion:
    """One rate that a notion wants equal among groups."""

    name: str  # what the rate is called, for example "true positive rate"
    supply: Amount  # benefit that the decision gives
    demand: Amount  # benefit that was due
    bounded: bool = True  # whether supply can never exceed demand, so that the rate is at most 1


@dataclass(frozen=True, init=False)
class Notion:
    """A notion of fairness: one criterion, or several that must all be equal among groups."""

    name: str
    criteria: tuple[Criterion, ...]
    needs_qualified: bool  # refuse outcomes that do not say whether the person was qualified
    binary: bool  # refuse decisions and qualifications outside [0, 1] (probabilities are welcome)

    def __init__(self, name: str, *criteria: Criterion, needs_qualified: bool = False, binary: bool = False) -> None:
        """A notion from its name, for messages and tables, and at least one criterion."""
        if not criteria:
            raise InvalidInputError(f"The notion {name!r} has no criterion. Give at least one.")
        self.__dict__.update(name=name, criteria=criteria, needs_qualified=needs_qualified, binary=binary)

    def __reduce__(self) -> str | tuple[Any, ...]:
        """The published notions are pickled by name, so that what holds one can be sent to another process."""
        published = any(self is notion for notion in _PUBLISHED)
        return (get_notion, (self.name,)) if published else super().__reduce__()

    @property
    def bounded(self) -> bool:
        """Whether every rate of this notion is at most 1."""
        return all(criterion.bounded for criterion in self.criteria)

    def per_outcome(
        self, group: ArrayLike, decision: ArrayLike, qualified: ArrayLike | None = None, *, groups: int
    ) -> Totals:
        """S_g = 1[G = g] s(decision, qualified) and D_g = 1[G = g] d(decision, qualified).

        [...] -> supply and demand of shape [..., criteria, groups]. Can be jitted and vmapped.

        Args:
            group: whom each decision is about, whole numbers 0 .. groups - 1.
            decision: 1 accepted, 0 rejected; a probability is taken as the expected amount.
            qualified: 1 if the benefit was due (would repay, was an incident), else 0.
            groups: how many groups there are.
        """
        index, supply, demand = self._amounts(group, decision, qualified, groups)
        xp = namespace(supply)
        member = (index[..., None, None] == xp.arange(groups).reshape((1,) * (index.ndim + 1) + (-1,))) * 1.0
        return Totals(supply[..., None] * member, demand[..., None] * member)

    def total(
        self, group: ArrayLike, decision: ArrayLike, qualified: ArrayLike | None = None, *, groups: int
    ) -> Totals:
        """The sums of `per_outcome` over all outcomes, without holding them all.   [...] -> [criteria, groups]

        Beware of a `qualified` that is known for accepted people only (whether a loan was repaid) and filled with 0 for
        the others: then no rejected person is ever qualified, and a true positive rate is 1 whatever was decided. A
        `benefit_report` of these totals says so.
        """
        whom, supply, demand = self._amounts(group, decision, qualified, groups)
        xp = namespace(supply)
        index = whom.reshape(-1)
        inside = (index >= 0) & (index < groups)  # under jit, where it cannot be refused, any other index is nobody
        index, length = xp.where(inside, index, 0), {"minlength" if xp is np else "length": groups}

        def count(amount: Any) -> Any:
            columns = amount.reshape(-1, len(self.criteria)) * inside[:, None]
            return xp.stack([xp.bincount(index, weights=column, **length) * 1.0 for column in columns.T])

        return Totals(count(supply), count(demand))

    def _amounts(self, group: Any, decision: Any, qualified: Any, groups: int) -> tuple[Any, Any, Any]:
        """Checked group indices [...], and the benefit given and due under each criterion [..., criteria]."""
        need = f"the number of groups, from 1 to {MOST_GROUPS}"
        as_whole(groups, "groups", need, low=1, high=MOST_GROUPS)
        if qualified is None and self.needs_qualified:
            raise InvalidInputError(
                f"The notion {self.name!r} needs to know who was qualified. Give qualified=, or use demographic "
                "parity, which does without."
            )
        xp = namespace(group, decision, qualified)
        try:
            group = xp.asarray(group, None if np.size(group) else int)  # an empty list is one of floats
        except (ValueError, TypeError) as error:
            raise InvalidInputError(f"group is not an array ({error}). Give one whole number per outcome.") from error
        if group.size and not xp.issubdtype(group.dtype, xp.integer):
            raise InvalidInputError(f"group has dtype {group.dtype}. Number the groups 0, 1, 2, ... as whole numbers.")
        decision = xp.asarray(as_array(decision, "decision"))
        qualified = xp.zeros_like(decision) if qualified is None else xp.asarray(as_array(qualified, "qualified"))
        if not group.shape == decision.shape == qualified.shape:
            raise InvalidInputError(
                f"group, decision and qualified have shapes {group.shape}, {decision.shape}, {qualified.shape}. "
                "Give one entry of each per outcome."
            )
        if has_values(group, decision, qualified):
            self._check_values(np.asarray(group), np.asarray(decision), np.asarray(qualified), groups)
        supply, demand = (
            xp.stack([xp.broadcast_to(f(decision, qualified) * 1.0, decision.shape) for f in amounts], axis=-1)
            for amounts in ([c.supply for c in self.criteria], [c.demand for c in self.criteria])
        )
        if has_values(supply, demand):
            for c, criterion in enumerate(self.criteria):
                check_amounts(np.asarray(supply)[..., c], np.asarray(demand)[..., c], bounded=criterion.bounded)
        return group, supply, demand

    def _check_values(self, group: Any, decision: Any, qualified: Any, groups: int) -> None:
        if group.size and not (group.min() >= 0 and group.max() < groups):
            raise InvalidInputError(
                f"group runs from {group.min()} to {group.max()}, but groups={groups} allows 0 to {groups - 1}."
            )
        for name, values in (("decision", decision), ("qualified", qualified)):
            if not np.isfinite(values).all():
                raise InvalidInputError(f"{name} has entries that are not finite. Remove or mend them before counting.")
            if self.binary and values.size and not (values.min() >= 0 and values.max() <= 1):
                raise InvalidInputError(
                    f"{name} runs from {values.min():g} to {values.max():g}. The notion {self.name!r} takes 0 or 1, "
                    "or a probability between them."
                )


def _one(decision: Any, _: Any) -> Any:
    return namespace(decision).ones_like(decision)


_TRUE_POSITIVE = Criterion("true positive rate", supply=lambda d, q: d * q, demand=lambda d, q: q)
_FALSE_POSITIVE = Criterion("false positive rate", supply=lambda d, q: d * (1 - q), demand=lambda d, q: 1 - q)

DEMOGRAPHIC_PARITY = Notion(
    "demographic-parity", Criterion("acceptance rate", supply=lambda d, q: d, demand=_one), binary=True
)
"""P[accepted | g]. Supply: accepted. Demand: everyone who is decided on."""

EQUAL_OPPORTUNITY = Notion("equal-opportunity", _TRUE_POSITIVE, needs_qualified=True, binary=True)
"""P[accepted | qualified, g]. Supply: qualified and accepted. Demand: qualified."""

EQUALIZED_ODDS = Notion("equalized-odds", _TRUE_POSITIVE, _FALSE_POSITIVE, needs_qualified=True, binary=True)
"""P[accepted | qualified, g] and P[accepted | not qualified, g]: two criteria, both to be equal among groups."""

ACCURACY_PARITY = Notion(
    "accuracy-parity",
    Criterion("accuracy", supply=lambda d, q: d * q + (1 - d) * (1 - q), demand=_one),
    needs_qualified=True,
    binary=True,
)
"""P[decision = qualified | g]. Supply: decided as the label says. Demand: everyone who is decided on."""

DISCOVERY_PROBABILITY = Notion(
    "discovery-probability",
    Criterion("discovery rate", supply=lambda d, q: namespace(d, q).minimum(d, q), demand=lambda d, q: q),
    needs_qualified=True,
)
"""P[discovered | incident, g]. Supply: incidents found. Demand: incidents. `decision` and `qualified` may be counts:
the units of attention at a site and the incidents there, of which min(units, incidents) are found."""

DECISION_RATES = Notion(
    "decision-rates",
    *DEMOGRAPHIC_PARITY.criteria,
    *EQUALIZED_ODDS.criteria,
    *ACCURACY_PARITY.criteria,
    needs_qualified=True,
    binary=True,
)
"""The four rates of the notions on single decisions side by side: to judge by, not to demand, for groups that differ in
how many are qualified cannot have all of them equal."""

_PUBLISHED = (
    *(DEMOGRAPHIC_PARITY, EQUAL_OPPORTUNITY, EQUALIZED_ODDS, ACCURACY_PARITY),
    *(DISCOVERY_PROBABILITY, DECISION_RATES),
)

NOTIONS: dict[str, Notion] = {notion.name: notion for notion in _PUBLISHED}
"""Notions by name: those of the paper's appendix A, all rates of them at once, and what `register_notion` adds."""


def get_notion(name: str | Notion) -> Notion:
    """The notion of this name, or the notion itself; an unknown name is refused with the nearest known one."""
    if isinstance(name, Notion):
        return name
    if isinstance(name, str) and name in NOTIONS:
        return NOTIONS[name]
    raise unknown_name("notion", name, NOTIONS)


def register_notion(notion: Notion) -> Notion:
    """Make a notion known by its name, everywhere that a name of a notion is taken, and return it.

    Registering an equal notion again changes nothing. A name that another notion has is refused.
    """
    if not isinstance(notion, Notion):
        raise InvalidInputError(f"notion is {notion!r}. Give a Notion, built from a name and its criteria.")
    if NOTIONS.setdefault(notion.name, notion) != notion:
        raise InvalidInputError(f"Another notion is called {notion.name!r} already. Give this one a different name.")
    return notion
