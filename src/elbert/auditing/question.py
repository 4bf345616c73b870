"""What is asked of a log: which columns say what, what fair means, what is independent, which limit is tested."""

import math
import re
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from elbert.checks import as_number, as_seed
from elbert.errors import InvalidInputError, did_you_mean
from elbert.files import FileError, as_path, read_text
from elbert.tables import visible

if TYPE_CHECKING:
    from elbert.fairness.notions import Notion

Operator: TypeAlias = Literal["=", "!=", "<", "<=", ">", ">="]
PERIODS = ("day", "week", "month", "quarter", "year")
ROW = "row"
"""The unit of a log whose rows are independent of each other."""
SEVERAL = ("group", "favourable", "good", "control", "where", "missing")
"""Entries that may be given several times."""


@dataclass(frozen=True, kw_only=True)
class Question:
    """What is asked of a log. None means not given.

    Attributes:
        group: Column with the group. Given several times, each column and their intersections are compared.
        decision: Column with the decision: yes or no, 0 or 1, two words, or a score (with threshold).
        favourable: Value of the decision that is the benefit, or the burden; may be given several times.
        burden: The decision is a burden (a search, a refusal) and not a benefit. The numbers are the same.
        threshold: Scores from here on count as the decision: 620; or '<5' for scores below.
        outcome: Column that says whether the benefit was due: repaid, qualified, an incident.
        good: Value of the outcome that means it was due; may be given several times.
        notion: demographic-parity (the default), equal-opportunity, equalized-odds, accuracy-parity or
            discovery-probability.
        supply: Column with the amount of benefit given, in place of a decision.
        demand: Column with the amount of benefit due, together with supply.
        count: Column with the number of decisions that a row stands for.
        time: Column with the time of the decision: a date, a timestamp, a year or a step number.
        time_format: How the time is written, as in %d.%m.%Y.
        period: day, week, month, quarter or year; for step numbers, how many make a period.
        unit: Column with what is independent: person, officer, branch; or row. Without it, blocks of time are.
        control: Column to compare within, such as a department; may be given several times.
        where: Rows to keep: year>=2015, or sex=F,M; may be given several times.
        missing: A value that means "not known", besides blank, NA, Unknown and the like; may be given several times.
        outcome_time: Column with the time at which the outcome was known.
        due: Days after which an outcome can be known: later decisions have none yet.
        key: Column that identifies a row; rows with the same key are counted and named.
        max_bias: Largest acceptable bias: the verdict is about this limit.
        assume: What is assumed of outcomes that nobody saw: none, no-better, odds:2 or random.
        unknown_groups: bound (the default: a limit must hold wherever they belong) or leave-out.
        smallest: Smallest demand of a group that is compared; 30 by default.
        law: ll144 for the table of New York City's Local Law 144.
        confidence: Confidence of intervals and verdicts; 0.95 by default.
        seed: Seed of the simulated noise.
    """

    group: tuple[str, ...] = ()
    decision: str | None = None
    favourable: tuple[str, ...] = ()
    burden: bool = False
    threshold: str | None = None
    outcome: str | None = None
    good: tuple[str, ...] = ()
    notion: str | None = None
    supply: str | None = None
    demand: str | None = None
    count: str | None = None
    time: str | None = None
    time_format: str | None = None
    period: str | None = None
    unit: str | None = None
    control: tuple[str, ...] = ()
    where: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    outcome_time: str | None = None
    due: float | None = None
    key: str | None = None
    max_bias: float | None = None
    assume: str | None = None
    unknown_groups: Literal["bound", "leave-out"] | None = None
    smallest: float | None = None
    law: Literal["ll144"] | None = None
    confidence: float | None = None
    seed: int | None = None

    def check(self, own: "Notion | None" = None) -> None:
        """Refuse what does not fit together, before the log is read; a notion may be given that has no known name."""
        from elbert.fairness.rate_intervals import as_confidence

        for name, values in (("unknown_groups", ("bound", "leave-out")), ("law", ("ll144",))):
            if getattr(self, name) not in (None, *values):
                raise InvalidInputError(f"{name} is {visible(getattr(self, name))!r}. Give {' or '.join(values)}.")
        if "" in self.columns:
            raise InvalidInputError("A column is asked for whose name is empty. Give the name of a column.")
        amounts = [name for name in ("supply", "demand") if getattr(self, name) is not None]
        if len(amounts) == 1:
            raise InvalidInputError(f"{amounts[0]} is given alone. Give supply and demand: what was given and was due.")
        if not self.group:
            raise InvalidInputError("No group is given. Name the column of the groups to compare: --group race.")
        if self.law is None and not amounts and self.decision is None:
            raise InvalidInputError(
                "Neither a decision nor amounts are given. Name the column of the decision (--decision approved), or "
                "those of supply and demand."
            )
        taken = [name for name in ("decision", "outcome", "notion", "threshold", "count") if getattr(self, name)]
        if amounts and taken:
            raise InvalidInputError(
                f"supply and demand are given next to {', '.join(taken)}. Amounts say who was due and who received by "
                "themselves: leave out one or the other."
            )
        if self.outcome is not None and self.notion is None and own is None:
            raise InvalidInputError(
                "An outcome is given but no notion. Choose what should be equal: equal-opportunity (acceptance among "
                "those who were due), equalized-odds (also among the others), accuracy-parity (right decisions)."
            )
        for name, needed in (("good", "outcome"), ("favourable", "decision"), ("threshold", "decision")):
            if getattr(self, name) and getattr(self, needed) is None:
                raise InvalidInputError(f"{name} is given without {needed}. Name its column, or leave {name} out.")
        for name in ("due", "outcome_time"):
            lacking = [needed for needed in ("outcome", "time") if getattr(self, needed) is None]
            if getattr(self, name) is not None and lacking:
                raise InvalidInputError(
                    f"{name} is given without {' and '.join(lacking)}. Name the column, or leave it out."
                )
        roles = [*(("group", name) for name in self.group), *(("control", name) for name in self.control)]
        roles += [(role, getattr(self, role)) for role in ("decision", "outcome", "supply", "demand", "unit")]
        taken_by: dict[str, str] = {}
        for role, name in roles:
            if name is not None and name in taken_by:
                raise InvalidInputError(
                    f"Column {visible(name)!r} is given as {taken_by[name]} and as {role}. Name another one for one of "
                    "them."
                )
            if name is not None and name != ROW:
                taken_by[name] = role
        if self.time is None and self.unit is None and self.law is None:
            raise InvalidInputError(
                "Neither a time nor a unit is given, so nothing says which rows are independent. Name a column: --time "
                "date, or --unit officer. If every row is independent of all others, say so: --unit row."
            )
        if self.period is not None and self.time is None:
            raise InvalidInputError("period is given without time. Name the column of the time, or leave period out.")
        if self.threshold is not None and self.favourable:
            raise InvalidInputError("Both threshold and favourable are given. A score needs the one, words the other.")
        if own is None:
            self.checked_notion()
        self.assumption()
        self.cut()
        self.conditions()
        as_confidence(self.level)
        as_seed(self.seed or 0)
        for name, need in (
            ("max_bias", "the largest acceptable bias, a number of at least 0"),
            ("smallest", "the smallest demand of a group that is compared, a number of at least 0"),
            ("due", "the number of days after which an outcome can be known"),
        ):
            if getattr(self, name) is not None:
                as_number(getattr(self, name), name, need, low=0, high=sys.float_info.max)

    @property
    def level(self) -> float:
        """The confidence of intervals and verdicts."""
        return 0.95 if self.confidence is None else self.confidence

    def checked_notion(self) -> "Notion | None":
        """The notion; None where supply and demand are columns of the log."""
        from elbert.fairness.notions import DEMOGRAPHIC_PARITY, get_notion

        if self.supply is not None:
            return None
        notion = DEMOGRAPHIC_PARITY if self.notion is None else get_notion(self.notion)
        if notion.needs_qualified and self.outcome is None and self.law is None:
            raise InvalidInputError(
                f"The notion {notion.name!r} needs to know who was due the benefit. Name the column of the outcome "
                "(--outcome repaid), or use demographic-parity, which does without."
            )
        return notion

    def cut(self) -> "Cut | None":
        """The threshold of a score."""
        if self.threshold is None:
            return None
        match = re.fullmatch(r"(<=|>=|<|>)?\s*(-?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?)", str(self.threshold).strip())
        if match is None or not math.isfinite(float(match[2])):
            raise InvalidInputError(
                f"threshold is {visible(self.threshold)!r}. Give a number (620), or '<5' for scores below it."
            )
        operator: Any = match[1] or ">="
        return Cut(operator, float(match[2]))

    def conditions(self) -> tuple["Condition", ...]:
        """The conditions on rows."""
        return tuple(Condition.of(text) for text in self.where)

    def assumption(self) -> "Assumption":
        """What is assumed of outcomes that nobody saw."""
        return Assumption.of("none" if self.assume is None else self.assume)

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns that are named, each once."""
        single = (self.decision, self.outcome, self.supply, self.demand, self.count, self.time, self.outcome_time)
        named = [*self.group, *single, *self.control, self.key, *(each.column for each in self.conditions())]
        named += [self.unit] if self.unit != ROW else []
        return tuple(dict.fromkeys(name for name in named if name is not None))

    def to_dict(self) -> dict[str, Any]:
        """What was given, as plain values."""
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        listed = {name: list(value) if isinstance(value, tuple) else value for name, value in given.items()}
        return {name: value for name, value in listed.items() if not (value is None or value is False or value == [])}

    def over(self, other: "Question") -> "Question":
        """This question, completed by what another one gives."""
        blank = Question()
        taken = {
            f.name: getattr(other, f.name) for f in fields(self) if getattr(self, f.name) == getattr(blank, f.name)
        }
        return replace(self, **taken)


@dataclass(frozen=True)
class Cut:
    """Which scores count as the decision."""

    operator: Operator
    at: float

    def __str__(self) -> str:
        return f"{self.operator} {self.at:g}"


@dataclass(frozen=True)
class Condition:
    """A condition that rows must meet to be counted."""

    column: str
    operator: Operator
    values: tuple[str, ...]  # one of them, for = and !=

    @classmethod
    def of(cls, text: str) -> "Condition":
        """From text such as year>=2015 or sex=F,M."""
        match = re.search(r"!=|<=|>=|=|<|>", text)
        if match is None or not text[: match.start()].strip():
            raise InvalidInputError(
                f"where is {visible(text)!r}. Give a column, one of = != < <= > >=, and a value: year>=2015."
            )
        operator: Any = match[0]
        column, value = text[: match.start()].strip(), text[match.end() :].strip()
        values = tuple(part.strip() for part in value.split(",")) if operator in ("=", "!=") else (value,)
        return cls(column, operator, values)


AssumptionName: TypeAlias = Literal["none", "no-better", "odds", "random"]


@dataclass(frozen=True)
class Assumption:
    """What is assumed of outcomes that nobody saw."""

    name: AssumptionName
    gamma: float = 1.0  # for odds: how far the odds of being good may differ from those of the accepted

    @classmethod
    def of(cls, text: str) -> "Assumption":
        """From its name; odds:2 names gamma too."""
        kind, _, number = str(text).partition(":")
        names: tuple[AssumptionName, ...] = ("none", "no-better", "odds", "random")
        if kind not in names or (number and kind != "odds"):
            raise InvalidInputError(
                f"assume is {text!r}.{did_you_mean(kind, names)} Give none, no-better (the refused are on average no "
                "better than the accepted), odds:2 (their odds of being good are 1/2 to 1 times those of the accepted) "
                "or random (alike, given the controls)."
            )
        if kind != "odds":
            return cls(kind)
        try:
            gamma = float(number)
            return cls(kind, as_number(gamma, "assume", "odds:2, with a factor of at least 1", low=1.0, high=1e6))
        except ValueError as error:
            raise InvalidInputError(
                f"assume is {visible(text)!r}. Give odds:2, with a factor of at least 1."
            ) from error

    def __str__(self) -> str:
        return f"odds:{self.gamma:g}" if self.name == "odds" else self.name


def question_of(given: Mapping[str, Any], *, source: str = "audit") -> Question:
    """A question from names and values; an unknown name is refused with the nearest known one."""
    known = {field.name for field in fields(Question)}
    cleaned = {}
    for name, value in given.items():
        if name not in known:
            raise InvalidInputError(
                f"{source}: nothing is called {name!r}.{did_you_mean(name, known)} Known: {', '.join(sorted(known))}."
            )
        cleaned[name] = _as_given(name, value)
    return Question(**cleaned)


def asked_of(asked: Mapping[str, Any], question: Question | None, *, source: str) -> Question:
    """The question that fields given by name ask, completed by one that is given whole."""
    if question is not None and not isinstance(question, Question):
        raise InvalidInputError(f"question is a {type(question).__name__}. Give an elbert.Question, or fields by name.")
    whole = {} if question is None else question.to_dict()
    return question_of(asked, source=source).over(question_of(whole, source=source))


def completed(log: Sequence[str], question: Question) -> tuple[list[str], Question]:
    """A log and a question; a TOML file in place of the log names both, and what is given besides takes precedence."""
    if not log:
        raise InvalidInputError("No log is given. Name a CSV or Parquet file, or a TOML file that names one.")
    path = as_path(log[0], "the log")
    if len(log) > 1 or path.suffix != ".toml":
        return list(log), question
    try:
        content = tomllib.loads(read_text(path))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise FileError(f"{path} is no TOML file ({error}).") from error
    named = content.pop("log", None)
    files = named if isinstance(named, list) else [named]
    if not files or not all(isinstance(each, str) for each in files):
        raise FileError(f'{path} does not say which log. Write log = "decisions.csv", relative to its own folder.')
    given: dict[str, Any] = {}
    for name, value in content.items():
        if name.replace("-", "_") in given:
            raise FileError(f"{path} gives {name} twice, with - and with _. Leave one of them out.")
        given[name.replace("-", "_")] = value
    return [str(path.parent / each) for each in files], question.over(question_of(given, source=str(path)))


def _as_given(name: str, value: Any) -> Any:
    """A value as the field holds it: text for names, a tuple where several may be given."""
    if value is None:
        return None if name not in SEVERAL else ()
    if name in SEVERAL:
        entries = value if isinstance(value, list | tuple) else [value]
        return tuple(_text(name, entry) for entry in entries)
    if name == "burden":
        if not isinstance(value, bool):
            raise InvalidInputError(f"burden is {value!r}. Give true or false.")
        return value
    if name in ("due", "max_bias", "smallest", "confidence", "seed"):
        return value.item() if getattr(value, "ndim", None) == 0 else value  # JSON knows no numbers of NumPy
    return _text(name, value)


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str | int | float):
        raise InvalidInputError(f"{name} is {visible(repr(value))}. Give a text.")
    try:
        text = str(value).lower() if isinstance(value, bool) else str(value)
        text.encode()
    except ValueError as error:  # bytes of a command line that are no text, or a number of thousands of digits
        raise InvalidInputError(f"{name} is no text that can be in a log ({visible(error)}).") from error
    return text
