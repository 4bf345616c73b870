"""Columns of plain values: what analysts take into pandas or polars, which need not be installed until they do."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

from elbert.errors import ElbertError, unknown_name
from elbert.shown import Shown

if TYPE_CHECKING:
    import pandas
    import polars


@dataclass(frozen=True)
class Frame(Shown):
    """Columns of equal length; None where a value is not known.

    `frame["reward"]` is a column, `to_pandas()`, `to_polars()` and `to_dict()` give all of them to others.
    """

    drawn_by: ClassVar[str] = "elbert.report.plots:plot_history"
    page_by: ClassVar[str] = "elbert.report.plots:frame_page"

    columns: Mapping[str, tuple[Any, ...]]
    kinds: Mapping[str, type]  # of each column: float, int, str or bool

    @classmethod
    def of_rows(cls, rows: Sequence[Mapping[str, Any]], kinds: Mapping[str, type]) -> Self:
        """From rows with an entry for every column."""
        return cls({name: tuple(row[name] for row in rows) for name in kinds}, kinds)

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def __getitem__(self, name: str) -> tuple[Any, ...]:
        if name not in self.columns:
            raise unknown_name("column", name, self.columns)
        return self.columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} rows: {', '.join(self.columns)})"

    def to_dict(self) -> dict[str, list[Any]]:
        """The columns as lists, by name."""
        return {name: list(column) for name, column in self.columns.items()}

    def to_pandas(self) -> "pandas.DataFrame":
        """As a pandas frame; what is not known is NaN. It needs pandas and nothing else."""
        try:
            import pandas
        except ImportError as error:
            raise ElbertError("to_pandas() needs pandas. Install it: pip install pandas.") from error
        types = {name: float for name, kind in self.kinds.items() if kind is float}
        return pandas.DataFrame(self.to_dict()).astype(types)

    def to_polars(self) -> "polars.DataFrame":
        """As a polars frame; what is not known is null."""
        try:
            import polars
        except ImportError as error:
            raise ElbertError("to_polars() needs polars. Install it: pip install polars.") from error
        names = {float: polars.Float64, int: polars.Int64, str: polars.String, bool: polars.Boolean}
        return polars.DataFrame(self.to_dict(), schema={name: names[kind] for name, kind in self.kinds.items()})
