"""Like parts of a problem, such as sites or people: a policy can score them all with the same weights.

    Parts(observed=[[0, 1], [2, 3], [4, 5]])   three parts, two numbers of the observation each

A world has the property `parts`; any Gymnasium environment, or any of its wrappers, may have the attribute.
"""

from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from elbert.errors import InvalidInputError

Array: TypeAlias = np.ndarray[Any, Any]


class Parts:
    """Which numbers of a flat observation belong to which part, and what is known of the parts beforehand.

    Numbers of the observation that belong to no part concern all of them. Parts are equal if all their arrays are.
    """

    observed: Array  # [parts, n] places in the flat observation
    features: Array  # [parts, k] float32, as given
    edges: Array | None  # [edges, 2]
    group: Array | None  # [parts]
    chosen: bool | None

    def __init__(
        self, observed: Any, *, features: Any = None, edges: Any = None, group: Any = None, chosen: bool | None = None
    ) -> None:
        """Check the arrays.

        Args:
            observed: [parts, n] places in the flat observation, in the same order for every part.
            features: [parts, k] fixed numbers, such as the growth of a site. Policies see them standardised over parts.
            edges: [edges, 2] pairs of parts that affect each other; each pair is given once.
            group: [parts] the group that each part belongs to, from 0 on. It tells the critic whose benefits a part is
                about; without it, the critic values all groups from the mean over all parts.
            chosen: whether actions name parts (True) or hold something for each part (False). This is needed only
                where both would fit, for example for two choices of two alternatives in a problem of two parts.
        """
        places = _whole(observed, "observed", "the places of every part's numbers in the flat observation, [parts, n]")
        if places.ndim != 2 or not places.size or np.unique(places).size != places.size:
            raise InvalidInputError(
                f"observed has shape {places.shape} and {np.unique(places).size} different entries. Give for each part "
                "the places of its numbers in the flat observation, [parts, n], and each place once."
            )
        self.observed, self.chosen = places, chosen
        self.features = np.asarray(np.zeros((self.count, 0)) if features is None else features, np.float32)
        if self.features.ndim != 2 or len(self.features) != self.count or not np.isfinite(self.features).all():
            raise InvalidInputError(
                f"features has shape {self.features.shape} for {self.count} parts. Give finite numbers, the same for "
                "each part: [parts, k]."
            )
        self.edges = None if edges is None else _whole(edges, "edges", "pairs of parts, [edges, 2]").reshape(-1, 2)
        if self.edges is not None and self.edges.size and self.edges.max() >= self.count:
            raise InvalidInputError(
                f"edges names part {self.edges.max()}, but parts are numbered 0 to {self.count - 1}. Give pairs of "
                "parts."
            )
        if self.edges is not None and (self.edges[:, 0] == self.edges[:, 1]).any():
            raise InvalidInputError("edges joins a part to itself. Remove pairs of this kind.")
        self.group = None if group is None else _whole(group, "group", "the group of each part").reshape(-1)
        if self.group is not None and len(self.group) != self.count:
            raise InvalidInputError(f"group has {len(self.group)} entries for {self.count} parts. Give one for each.")

    @property
    def count(self) -> int:
        """How many parts there are."""
        return len(self.observed)

    def others(self, size: int) -> Array:
        """Places of an observation of this size that belong to no part."""
        return np.setdiff1d(np.arange(size), self.observed)

    def misfit(self, observation: int, groups: int) -> str:
        """What keeps them from being the parts of a problem with this many numbers observed and groups; or nothing."""
        used = None if self.group is None else np.unique(self.group)
        if self.observed.max() >= observation:
            return (
                f"The environment's parts name place {self.observed.max()} of the observation, which has {observation} "
                "numbers. Count the places of the flat observation from 0."
            )
        if used is not None and not np.array_equal(used, np.arange(groups)):
            return (
                f"The environment's parts belong to the groups {', '.join(map(str, used[:10]))}, but its supply and "
                f"demand have {groups} groups. Give group numbers from 0 to {groups - 1} with a part in each, or no "
                "`group`."
            )
        return ""

    def unlike(self, observation: int, other: "Parts", observed: int) -> str:
        """What keeps weights for these parts from scoring others: numbers of each, not how many; or nothing.

        `observation` is the size of the observation that these are parts of, `observed` that of the other.
        """
        mine, theirs = (
            {
                "numbers observed of each part": parts.observed.shape[1],
                "numbers known of each part": parts.features.shape[1],
                "numbers that concern all parts": len(parts.others(size)),
                "whether parts are joined by edges": parts.edges is not None,
            }
            for parts, size in ((self, observation), (other, observed))
        )
        return ", ".join(name for name in mine if mine[name] != theirs[name])

    @cached_property
    def standardised(self) -> Array:
        """The features with mean 0 and deviation 1 over parts; 0 where all parts are alike. [parts, k] float32"""
        known = self.features.astype(np.float64)
        deviation = known.std(axis=0)
        apart = (known - known.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0)
        return np.where(deviation > 0, apart, 0.0).astype(np.float32)

    @cached_property
    def neighbours(self) -> tuple[Array, Array, Array]:
        """The edges in both directions, sorted, and 1 / neighbours. [2 edges] of whom, [2 edges] neighbour, [parts]"""
        assert self.edges is not None
        both = np.concatenate([self.edges, self.edges[:, ::-1]])
        both = both[np.lexsort((both[:, 1], both[:, 0]))]
        degree = np.bincount(both[:, 0], minlength=self.count)
        return both[:, 0], both[:, 1], (1.0 / np.maximum(degree, 1)).astype(np.float32)

    def arrays(self) -> dict[str, Array]:
        """What a file holds of the parts, by name; `from_arrays` makes the same parts of it."""
        chosen = None if self.chosen is None else np.asarray(self.chosen)
        held = {
            "observed": self.observed,
            "features": self.features,
            "edges": self.edges,
            "group": self.group,
            "chosen": chosen,
        }
        return {name: array for name, array in held.items() if array is not None}

    @classmethod
    def from_arrays(cls, arrays: dict[str, Array]) -> "Parts":
        """The parts of which these are the arrays; others are refused as in the constructor."""
        held = dict(arrays)
        chosen = held.pop("chosen", None)
        return cls(held.pop("observed"), chosen=None if chosen is None else bool(chosen), **held)

    @cached_property
    def _key(self) -> tuple[Any, ...]:
        return tuple((name, array.shape, array.tobytes()) for name, array in self.arrays().items())

    @cached_property
    def _hash(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Parts) and self._key == other._key)

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        pairs = "" if self.edges is None else f", {len(self.edges)} edges"
        return f"Parts({self.count} of {self.observed.shape[1]} numbers each{pairs})"


def _whole(values: Any, name: str, need: str) -> Array:
    """Whole numbers of 0 or more."""
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise InvalidInputError(f"{name} is no array ({error}). Give {need}.") from error
    if array.size and (not np.issubdtype(array.dtype, np.integer) or array.min() < 0):
        raise InvalidInputError(
            f"{name} holds {array.dtype} numbers from {array.min()} on. Give {need}: whole numbers from 0 on."
            if np.issubdtype(array.dtype, np.number)
            else f"{name} holds no numbers, but {array.dtype}. Give {need}: whole numbers from 0 on."
        )
    return array.astype(np.int32)
