"""What a monitor keeps between looks: sums over units, the units of the latest period, and hashes of what was seen."""

import base64
import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from elbert.auditing.question import ROW, Question
from elbert.auditing.rows import TIME_BLOCKS, Measures
from elbert.errors import InvalidInputError
from elbert.fairness.confidence_sequences import BEST_AT, FEWEST_UNITS, GRID, STAKES, Wealth
from elbert.fairness.episode_totals import Floats
from elbert.fairness.rates import ratio
from elbert.files import FileError, read_sealed, write_sealed

VERSION = 1
LATE, AGAIN, REPEATED = "came after its period was over", "unit came back in a later period", "key was seen before"
UNKNOWN_GROUP, UNKNOWN_OUTCOME = "of these, of unknown group", "of these, of unknown outcome"
"""Entries next to the reasons: rows that are counted, and of which something is not known."""
LONGEST_WAIT = 60.0
"""Seconds to wait for another process that writes the same state."""
FEWEST_EVENTS = 10.0
"""A group is compared once so many of its members received, and so many did not: before, its errors are too small."""
FIRST_SHARE = 0.8
"""Of the probability to err: what pairs of groups have that were there when the first could be compared."""


@dataclass
class State:
    """What is kept between looks: sums over units, the units of the latest period, and what was seen."""

    question: dict[str, Any]
    counts: bool  # whether rows are counted by decision and outcome; otherwise they are of any amount
    exact: bool
    largest: float  # demand of a unit, for exact bounds
    best_at: float
    unit: str
    criteria: list[str]
    groups: list[str]  # in the order in which they first counted
    batches: list[int]  # of each group: 0 if it was there when two could first be compared, later ones 1, 2 ...
    begun: bool  # whether two groups could be compared
    units: int
    sums: Floats  # [criteria, 2, groups] supply and demand
    moments: Floats  # [criteria, 2, groups, 2, groups] sums of products over units
    period: int | None  # the latest, whose units are open
    until: str  # its name
    open: dict[str, dict[str, list[float]]]  # unit, group: measures
    reasons: dict[str, int]
    counted: dict[str, float]  # by group: decisions in the sums, or rows where these are of any amount
    astray: dict[str, float]  # by group: decisions that may belong there and are not in the sums; "" is any group
    wealth: dict[str, list[Wealth]]  # group: by criterion
    units_seen: set[int]
    keys_seen: set[int]

    @classmethod
    def empty(
        cls,
        question: Question,
        criteria: Sequence[str],
        *,
        unit: str,
        counts: bool = True,
        exact: bool = False,
        largest: float = 0.0,
        best_at: float = BEST_AT,
    ) -> "State":
        """Before the first row."""
        number = len(criteria)
        return cls(
            question=question.to_dict(),
            counts=counts,
            exact=exact,
            largest=largest,
            best_at=best_at,
            unit=unit,
            criteria=list(criteria),
            groups=[],
            batches=[],
            begun=False,
            units=0,
            sums=np.zeros((number, 2, 0)),
            moments=np.zeros((number, 2, 0, 2, 0)),
            period=None,
            until="",
            open={},
            reasons={},
            counted={},
            astray={},
            wealth={},
            units_seen=set(),
            keys_seen=set(),
        )

    @classmethod
    def read(cls, path: Path) -> "State":
        """From a file; one that was changed is refused."""
        content = read_sealed(path, remedy="Start again with a new file, from the whole log.")
        if content.pop("version", None) != VERSION:
            raise FileError(f"{path} is not the state of a monitor of this version. Start again with a new file.")
        try:
            _check_kinds(content)
            content["sums"], content["moments"] = (np.array(content[name], float) for name in ("sums", "moments"))
            groups, criteria = len(content["groups"]), len(content["criteria"])
            content["sums"] = content["sums"].reshape(criteria, 2, groups)
            content["moments"] = content["moments"].reshape(criteria, 2, groups, 2, groups)
            content["wealth"] = {
                name: [Wealth(_unpacked(w[0]), _unpacked(w[1])) for w in each]
                for name, each in content["wealth"].items()
            }
            for name in ("units_seen", "keys_seen"):
                content[name] = set(np.frombuffer(base64.b64decode(content[name]), np.uint64).tolist())
            state = cls(**content)
            if not (np.isfinite(state.sums).all() and np.isfinite(state.moments).all() and state.best_at >= 1):
                raise ValueError("it holds numbers that there cannot be")
            if state.exact and any(len(state.wealth[name]) != criteria for name in state.groups):
                raise ValueError("it holds no bounds for a group")
            return state
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            raise FileError(f"{path} is damaged ({error}). Start again with a new file, from the whole log.") from error

    def write(self, path: Path) -> None:
        """Whole, with a digest."""
        content = dict(vars(self)) | {
            "version": VERSION,
            "open": {unit: dict(sorted(groups.items())) for unit, groups in sorted(self.open.items())},
            **{name: dict(sorted(getattr(self, name).items())) for name in ("reasons", "counted", "astray")},
            "sums": self.sums.tolist(),
            "moments": self.moments.tolist(),
            "wealth": {
                name: [[_packed(w.above), _packed(w.below)] for w in each] for name, each in self.wealth.items()
            },
        }
        for name in ("units_seen", "keys_seen"):
            content[name] = base64.b64encode(np.array(sorted(getattr(self, name)), np.uint64).tobytes()).decode()
        write_sealed(path, content)

    def close(self, measures: Measures) -> None:
        """Count the units of the latest period: it is over."""
        names = sorted({name for unit in self.open.values() for name in unit} - {""})
        batch = max(self.batches, default=0) + 1 if self.begun else 0
        for name in names:
            if name not in self.groups:
                self.add_group(name, batch)
        for unit in sorted(self.open):
            here = self.open[unit]
            sums = np.array([here.get(name, [0.0] * measures.number) for name in self.groups])  # [groups, measures]
            if self.unit == ROW:
                self._close_rows(measures, sums)
            else:
                self.add_unit(np.stack([each.T for each in measures.totals(sums)], axis=1))
            if self.unit not in (ROW, TIME_BLOCKS):
                self.units_seen.add(hashed(unit))
        self.open = {}
        self.begun = self.begun or any(len(self.ready(c)) > 1 for c in range(len(self.criteria)))

    def add_unit(self, totals: Floats) -> None:
        """Count a unit.   [criteria, 2, groups]"""
        self.units += 1
        self.sums = self.sums + totals
        self.moments = self.moments + np.einsum("cag,cbh->cagbh", totals, totals)
        if self.exact:
            one = np.ones(1)
            self._bet(lambda c, g: (totals[c, 0, g : g + 1], totals[c, 1, g : g + 1], one))

    def _close_rows(self, measures: Measures, sums: Floats) -> None:
        """Every row is a unit: squares come from counts by decision and outcome."""
        supply, demand = measures.supply, measures.demand  # [criteria, measures]
        self.units += round(sums.sum())
        self.sums = self.sums + np.stack([each.T for each in measures.totals(sums)], axis=1)
        both = np.stack([supply, demand], axis=1)  # [criteria, 2, measures]
        squares = np.einsum("gm,cam,cbm->cabg", sums, both, both)
        places = np.arange(len(self.groups))
        self.moments = self.moments.copy()
        for a in range(2):
            for b in range(2):
                self.moments[:, a, places, b, places] += squares[:, a, b]
        if self.exact:
            self._bet(lambda c, g: (supply[c], demand[c], sums[g]))

    def _bet(self, kinds: Callable[[int, int], tuple[Floats, Floats, Floats]]) -> None:
        for g, name in enumerate(self.groups):
            after = []
            for c, wealth in enumerate(self.wealth[name]):
                supply, demand, number = kinds(c, g)
                if (supply > demand).any():
                    raise InvalidInputError(
                        "More was given than was due, and exact bounds need rates between 0 and 1. Begin without exact."
                    )
                if demand.max(initial=0.0) > self.largest:
                    raise InvalidInputError(
                        f"A unit has a demand of {demand.max():g}, and exact bounds were asked for with at most "
                        f"{self.largest:g} (--largest). Start again with a larger number."
                    )
                after.append(wealth.after(supply / self.largest, demand / self.largest, number))
            self.wealth[name] = after

    @property
    def rows(self) -> int:
        """All rows that were read so far."""
        within = (UNKNOWN_GROUP, UNKNOWN_OUTCOME)
        return sum(rows for reason, rows in self.reasons.items() if reason not in within)

    def moved(self, g: int) -> float:
        """How far decisions that are not in the sums could move a group's rate at the most; infinite if any far."""
        name, anywhere = self.groups[g], self.astray.get("", 0.0)
        astray = self.astray.get(name, 0.0) + anywhere
        if not astray:
            return 0.0
        if anywhere and not self.counts:  # a row may be of any amount
            return np.inf
        base = float(self.sums[:, 1, g].min()) if self.counts else self.counted.get(name, 0.0)
        return astray / (base + astray)

    @property
    def level(self) -> float:
        """The confidence."""
        return float(self.question.get("confidence", 0.95))

    def effective(self, c: int) -> Floats:
        """The number of equal units that would weigh as much as each group's.   -> [groups]"""
        places = np.arange(len(self.groups))
        return ratio(self.sums[c, 1] ** 2, self.moments[c, 1, places, 1, places], otherwise=0.0)

    def ready(self, c: int) -> list[int]:
        """The groups that can be compared: enough units carry their demand, and enough went either way."""
        supply, demand = self.sums[c]
        varied = np.minimum(supply, demand - supply) >= FEWEST_EVENTS if self.counts else demand > 0
        return np.flatnonzero((self.effective(c) >= FEWEST_UNITS) & varied).tolist()

    def pair_level(self, i: int, j: int) -> float:
        """The probability to err about a pair of groups, fixed once it can be compared; over all pairs they add up."""
        batch = max(self.batches[i], self.batches[j])
        own, before = self.batches.count(batch), sum(other < batch for other in self.batches)
        return self._batch_level(batch) / max(own * before + own * (own - 1) / 2, 1)

    def group_level(self, g: int) -> float:
        """The same, about the rate of a group."""
        return self._batch_level(self.batches[g]) / self.batches.count(self.batches[g])

    def _batch_level(self, batch: int) -> float:
        share = FIRST_SHARE if batch == 0 else (1 - FIRST_SHARE) * 0.5**batch
        return (1 - self.level) * share / len(self.criteria)

    def add_group(self, name: str, batch: int = 0) -> None:
        """Make room for a group that was not seen before."""
        self.groups.append(name)
        self.batches.append(batch)
        wider = [(0, 0)] * 2 + [(0, 1)]
        self.sums = np.pad(self.sums, wider)
        self.moments = np.pad(self.moments, [(0, 0), (0, 0), (0, 1), (0, 0), (0, 1)])
        self.wealth[name] = [Wealth.start() for _ in self.criteria] if self.exact else []


_KINDS: dict[str, Any] = {
    **dict.fromkeys(("question", "open", "reasons", "counted", "astray", "wealth"), dict),
    **dict.fromkeys(("criteria", "groups", "sums", "moments"), list),
    **dict.fromkeys(("largest", "best_at"), int | float),
    **dict.fromkeys(("unit", "until", "units_seen", "keys_seen"), str),
    "exact": bool,
    "units": int,
    "period": int | None,
}
"""What each entry of a state is."""


def _check_kinds(content: dict[str, Any]) -> None:
    """Refuse entries that are something else: a digest shows that a file was changed, not who made it."""
    for name, kind in _KINDS.items():
        if not isinstance(content[name], kind):
            raise TypeError(f"{name} is {type(content[name]).__name__}")
    texts = [*content["criteria"], *content["groups"]]
    sums = [sums for groups in content["open"].values() for sums in groups.values()]
    if not (all(isinstance(text, str) for text in texts) and all(isinstance(each, list) for each in sums)):
        raise TypeError("entries of a list are something else")
    if not all(isinstance(number, int) for number in content["reasons"].values()):
        raise TypeError("reasons are no counts")
    amounts = [*content["counted"].values(), *content["astray"].values()]
    if not all(isinstance(number, int | float) and number >= 0 for number in amounts):
        raise TypeError("numbers of decisions are no numbers")


def _packed(values: Floats) -> str:
    return base64.b64encode(np.ascontiguousarray(values).tobytes()).decode()


def _unpacked(text: str) -> Floats:
    return np.frombuffer(base64.b64decode(text), np.float64).reshape(STAKES.size, GRID.size)


def hashed(text: str) -> int:
    """64 bits that stand for a text: enough to notice it again."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Nobody else writes the state meanwhile."""
    from filelock import FileLock, Timeout

    if not path.name:
        raise InvalidInputError(f"state is {str(path)!r}. Give the path of a file.")
    lock = FileLock(path.with_name(f".{path.name}.lock"))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=LONGEST_WAIT)
    except Timeout as error:
        raise FileError(f"Another process is writing {path}. Try again when it is done.") from error
    except OSError as error:
        reason = error.strerror or error
        raise FileError(f"Cannot write {path} ({reason}). Name a folder that can be written.") from error
    try:
        yield
    finally:
        lock.release()
