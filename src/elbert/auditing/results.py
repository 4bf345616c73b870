"""What an audit answers, typed from the first number to the last table."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from elbert.exit_codes import Overall, code_of
from elbert.fairness.benefit_report import BenefitReport
from elbert.fairness.bias_inference import HasInterval, Verdict
from elbert.files import record_from
from elbert.shown import Shown


@dataclass(frozen=True)
class Estimate(HasInterval):
    """A number with its interval; None where there is none."""

    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class ErrorBy:
    """The standard error of the difference between two groups if rows depend on each other within this."""

    by: str
    clusters: int | None  # how many there are
    error: float
    design_effect: float | None  # its square, relative to that by row
    used: bool = False  # whether intervals and verdict are built on it


@dataclass(frozen=True)
class Jump:
    """A stretch of periods in which something was very different from all others."""

    what: str  # rows, decisions, outcomes, known outcomes, known groups
    first: str
    last: str
    inside: float
    outside: float

    def __str__(self) -> str:
        """One sentence."""
        when = f"{self.first} to {self.last}"
        return (
            f"{self.what}: {self.inside:.3g} from {when}, and {self.outside:.3g} otherwise. Find out why before you "
            "read on."
        )


@dataclass(frozen=True)
class Period:
    """What a log holds of one period; None where there is no row, or no outcome to know."""

    name: str
    counted: float  # decisions that count; units of demand, where amounts are given
    known_groups: float | None  # share whose group is known
    known_outcomes: float | None  # share whose outcome is known


@dataclass(frozen=True)
class GroupCourse:
    """One group over time; None where it has no demand."""

    group: str
    rate: tuple[float | None, ...]  # of each period
    demand: tuple[float, ...]  # of each period
    cumulative: tuple[float | None, ...]  # long-term rate up to the end of each period
    low: tuple[float | None, ...]
    high: tuple[float | None, ...]


@dataclass(frozen=True)
class Course:
    """The long-term rates and the bias as they came about, under one criterion."""

    criterion: str
    periods: tuple[str, ...]
    groups: tuple[GroupCourse, ...]
    bias: tuple[float | None, ...]  # of the rates up to the end of each period
    noise_floor: tuple[float | None, ...]  # what equal groups would show on average up to then


@dataclass(frozen=True)
class Place:
    """A period, site or stratum of a split."""

    name: str
    rate_first: float | None
    rate_second: float | None
    weight_first: float  # share of the first group's demand
    weight_second: float
    stepwise_weight: float  # what a notion gives it that divides in every period and then adds up


@dataclass(frozen=True)
class SplitOf:
    """Where a difference between two groups comes from."""

    criterion: str
    over: str  # periods, or the controls
    first: str
    second: str
    difference: Estimate
    treatment: Estimate  # different rates at the same place
    timing: Estimate  # demand at other places
    filled: int  # places where one of them has no demand and takes the other's rate
    places: tuple[Place, ...] = ()


@dataclass(frozen=True)
class Standardised:
    """The difference between two groups within strata of the controls."""

    criterion: str
    controls: tuple[str, ...]
    first: str
    second: str
    strata: int
    shared: int  # strata in which both have demand
    difference: Estimate  # plain
    pooled: Estimate  # Mantel and Haenszel's
    odds_ratio: float | None  # Mantel and Haenszel's


@dataclass(frozen=True)
class RateBounds:
    """The lowest and highest rate that a group can have."""

    group: str
    low: float
    high: float


@dataclass(frozen=True)
class Bounds(HasInterval):
    """What the bias can be if not everything is known, under a named assumption."""

    criterion: str
    assumption: str
    words: str  # the assumption, for people
    rates: tuple[RateBounds, ...]
    least: float  # smallest bias that is possible
    most: float  # largest bias that is possible
    low: float | None  # an interval around both ends, for sampling error
    high: float | None
    verdict: Verdict | None = None  # on the limit
    used: bool = False  # whether the answer is built on it


@dataclass(frozen=True)
class Unknown:
    """What is not known and what that means."""

    outcomes: float  # decisions whose outcome nobody knows
    outcomes_share: float
    groups: float  # decisions about people whose group nobody knows
    groups_share: float
    bounds: tuple[Bounds, ...] = ()
    flips: tuple[str, ...] = ()  # at which value of what is not known the verdict changes


@dataclass(frozen=True)
class NotCompared:
    """A group that is shown and not compared, with the reason."""

    group: str
    rows: int
    supply: tuple[float, ...]  # under each criterion
    demand: tuple[float, ...]
    reason: str


@dataclass(frozen=True)
class Limit:
    """The verdict on "the bias is at most the limit", after everything that is not known."""

    max_bias: float
    verdict: Verdict
    p_refute: float | None
    p_confirm: float | None
    words: str


@dataclass(frozen=True)
class Comparison:
    """The groups of one column, or of several together, compared."""

    name: str
    report: BenefitReport | None  # None where fewer than two groups can be compared
    rows: Mapping[str, int]  # rows by group
    not_compared: tuple[NotCompared, ...]
    limit: Limit | None
    errors: tuple[ErrorBy, ...]
    courses: tuple[Course, ...]
    splits: tuple[SplitOf, ...]
    standardised: tuple[Standardised, ...]
    unknown: Unknown
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Audit(Shown):
    """The answer to a question about a log.

    `print(audit)` shows it, `audit.verdict` and `audit.code` say it in a word and a number (0 confirmed or no limit
    asked, 1 refuted, 3 undetermined), `to_dict()` gives everything to programs, `plot()` draws it.
    """

    drawn_by: ClassVar[str] = "elbert.report.audit_figures:plot_audit"
    page_by: ClassVar[str] = "elbert.report.audit_pages:audit_page"

    question: Mapping[str, Any]  # what was asked
    log: str
    files: tuple[Mapping[str, Any], ...]  # name, bytes, SHA-256
    rows: int
    reasons: Mapping[str, int]  # rows by what became of them
    examples: Mapping[str, str]  # where the first row of a reason stands
    favourable: str  # what counts as the decision: "approved = yes", "score >= 620"
    due: str  # what counts as a good outcome: "repaid = true"
    burden: bool
    unit: str  # what is independent, as the answer calls it
    unit_words: str  # how that was decided
    units: int
    period: str | None
    periods: tuple[str, ...]
    timeline: tuple[Period, ...]
    jumps: tuple[Jump, ...]
    comparisons: tuple[Comparison, ...]
    max_bias: float | None
    verdict: Overall | None  # None where no limit was asked for
    notes: tuple[str, ...]
    versions: Mapping[str, str]

    @property
    def code(self) -> int:
        """The exit code: 0 confirmed or no limit asked, 1 refuted, 3 undetermined."""
        return code_of(self.verdict)

    @property
    def comparison(self) -> Comparison:
        """The first comparison, or the only one."""
        return self.comparisons[0]

    @property
    def report(self) -> BenefitReport | None:
        """The report of the first comparison."""
        return self.comparison.report

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> "Audit":
        """What `to_dict` gave; an entry that is missing or does not fit is refused by its name."""
        reports = [each["report"] for each in content["comparisons"]]
        audit = record_from(
            cls, {**content, "comparisons": [{**each, "report": None} for each in content["comparisons"]]}
        )
        read = [None if report is None else BenefitReport.from_dict(report) for report in reports]
        both = zip(audit.comparisons, read, strict=True)
        return dataclasses.replace(
            audit, comparisons=tuple(dataclasses.replace(each, report=report) for each, report in both)
        )

    def __str__(self) -> str:
        return str(self._page())

    def __rich__(self) -> Any:
        """For a rich console."""
        return self._page().__rich__()

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain numbers, texts, lists and dictionaries; None where something is not known."""
        content = {each.name: getattr(self, each.name) for each in dataclasses.fields(self)}
        plain = plain_record({name: value for name, value in content.items() if name != "comparisons"})
        return plain | {
            "code": self.code,
            "comparisons": [_plain_comparison(comparison) for comparison in self.comparisons],
        }


def _plain_comparison(comparison: Comparison) -> dict[str, Any]:
    report = None if comparison.report is None else comparison.report.to_dict()
    fields = {each.name: getattr(comparison, each.name) for each in dataclasses.fields(comparison)}
    return plain_record(fields | {"report": None}) | {"report": report}


def plain_record(value: Any) -> Any:
    """Records as dictionaries, with the ends of an interval as one entry `ci`; tuples as lists."""
    if hasattr(value, "__dataclass_fields__"):
        fields = {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}
        if isinstance(value, HasInterval):
            fields = {name: each for name, each in fields.items() if name not in ("low", "high")} | {"ci": value.ci}
        return plain_record(fields)
    if isinstance(value, Mapping):
        return {str(name): plain_record(each) for name, each in value.items()}
    if isinstance(value, tuple | list):
        return [plain_record(each) for each in value]
    return value
