"""Logs: files (CSV, Parquet) and frames behind one lazy frame, and what is wrong with a file, by name and row.

Files, and frames that are in memory, are read by polars. Frames that live in another engine (DuckDB, Spark) stay
there: narwhals puts the same questions to each.
"""

import hashlib
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from glob import glob
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias, cast

import narwhals as nw
import polars as pl

from elbert.auditing.csv_bytes import BLOCK, Look, broken_line, content, look_at, shown
from elbert.auditing.memory_frames import as_polars
from elbert.errors import ElbertError, InvalidInputError, did_you_mean
from elbert.files import FileError, as_path
from elbert.tables import visible

IN_MEMORY = 2**29
"""CSV files up to this size are parsed once, and the columns in question kept; larger ones are read at every pass."""
HASHED = 2**31
"""Files up to this size, in all, are named with their SHA-256."""
CSV_SUFFIXES, PARQUET_SUFFIXES = (".csv", ".tsv", ".txt"), (".parquet", ".pq")
ROW_NUMBER, FILE_NAME = "elbert row", "elbert file"
"""Columns that files get from us; a log must not have them."""
Lazy: TypeAlias = "nw.LazyFrame[Any] | pl.LazyFrame"
Query: TypeAlias = Callable[[nw.LazyFrame[Any]], Lazy]
"""What is made of the rows of a log, or of a part of them."""
Together: TypeAlias = Callable[[pl.DataFrame], pl.DataFrame]
"""What the answers of all parts, one below the other in the order of the rows, come to."""
Compute: TypeAlias = Callable[[Sequence[pl.LazyFrame]], Iterable[pl.DataFrame]]
"""Where parts are read: their answers, in order."""
Scan: TypeAlias = Callable[[Sequence[Path], int], pl.LazyFrame]
"""The rows of files, not read yet; the first row has this number."""
_Panic = pl.exceptions.PanicException
"""What polars raises for damaged Parquet files and times that are out of range; it is no `Exception`."""


@dataclass(frozen=True)
class Log:
    """A table of decisions that has not been read yet."""

    frame: nw.LazyFrame[Any]
    name: str  # for people: the files, or the kind of frame
    files: tuple[Path, ...] = ()
    separator: str = ""  # of a CSV file
    notes: tuple[str, ...] = ()
    places: nw.LazyFrame[Any] | None = None  # number and file of all rows, also of those that are left out later
    parts: tuple[nw.LazyFrame[Any], ...] = ()  # the same rows in order, where they are read elsewhere
    compute: Compute | None = None  # where that is
    scan: Scan | None = None  # some of the files, where they are not in memory

    @property
    def is_polars(self) -> bool:
        """Whether rows are read by polars, which can parse text."""
        return self.frame.implementation.is_polars()

    @property
    def columns(self) -> list[str]:
        """The names of all columns but our own."""
        return [name for name in self.frame.collect_schema().names() if name not in (ROW_NUMBER, FILE_NAME)]

    def new_name(self, wish: str) -> str:
        """A name for a new column, which no column has."""
        names = self.frame.collect_schema().names()
        while wish in names:
            wish += "'"
        return wish

    def changed(self, change: Callable[[Any], Any]) -> "Log":
        """The log with other columns or fewer rows, made by a function of its frame that looks at each row alone."""
        return replace(self, frame=change(self.frame), parts=tuple(map(change, self.parts)))

    def with_columns(self, *columns: pl.Expr) -> "Log":
        """The log with more columns, where polars reads it."""
        return self.changed(lambda frame: nw.from_native(frame.to_native().with_columns(*columns)))

    def collect(self, query: Query, together: Together | None = None) -> pl.DataFrame:
        """What is asked of the rows; `together` says what the answers of several parts come to.

        What goes wrong is said in terms of the log.
        """
        if not self.parts:
            return self._read(query(self.frame))
        assert together is not None, "this cannot be asked of parts"
        assert self.compute is not None
        lazy = [frame if isinstance(frame, pl.LazyFrame) else frame.to_native() for frame in map(query, self.parts)]
        try:
            return together(pl.concat(self.compute(lazy)))
        except (ElbertError, KeyboardInterrupt, MemoryError):
            raise
        except Exception as error:
            raise InvalidInputError(self.explained(error)) from error

    def number_of_rows(self) -> int:
        """How many rows there are."""
        return int(
            self.collect(lambda frame: frame.select(nw.len().cast(nw.Int64).alias("rows")), pl.DataFrame.sum).item()
        )

    def number_in_file(self, row: int, file: str) -> int:
        """The number of a row in its file, from 1 on; rows are numbered through all files."""
        assert self.places is not None
        first = self.places.filter(nw.col(FILE_NAME) == file).select(nw.col(ROW_NUMBER).min())
        return row - self._read(first).item() + 1

    def _read(self, frame: Lazy) -> pl.DataFrame:
        try:
            if isinstance(frame, pl.LazyFrame):
                return frame.collect(engine="streaming")
            if self.is_polars:
                return frame.to_native().collect(engine="streaming")
            return frame.collect(backend="polars").to_native()
        except (ElbertError, KeyboardInterrupt, MemoryError):
            raise
        except (Exception, _Panic) as error:  # each engine has its own exceptions
            raise InvalidInputError(self.explained(error)) from error

    def require(self, names: Sequence[str]) -> None:
        """Refuse names of columns that the log does not have, with the nearest one and a look at its columns."""
        columns = self.columns
        for name in names:
            if name not in columns:
                near = did_you_mean(name, _short(columns)) if _short([name]) else ""
                raise InvalidInputError(
                    f"{self.name} has no column {visible(name)!r}.{near} It has {self._glimpse(columns)}."
                )
            if name in ("", "*") or (name.startswith("^") and name.endswith("$")):
                raise InvalidInputError(
                    f"{self.name} has a column called {visible(name)!r}, which engines take for something else than a "
                    "name. Call it otherwise."
                )

    def narrowed(self, names: Sequence[str]) -> "Log":
        """The log with these columns only, read into memory where it is a small CSV file."""
        kept = [name for name in (*names, ROW_NUMBER, FILE_NAME) if name in self.frame.collect_schema().names()]
        log = self.changed(lambda frame: frame.select(*kept))
        if self.separator:
            # A line with too many columns shows only if all columns are parsed; else its values move to others.
            self.collect(lambda frame: frame.select(nw.all().null_count()), pl.DataFrame.sum)
            if not self.parts and sum(path.stat().st_size for path in self.files) <= IN_MEMORY:
                log = replace(log, frame=nw.from_native(log._read(log.frame)).lazy())
        if self.parts or not self.files:
            return log
        return replace(log, places=log.frame.select(ROW_NUMBER, FILE_NAME))

    def provenance(self) -> list[dict[str, Any]]:
        """Name, size and SHA-256 of every file; no digest where files are very large."""
        sizes = {path: path.stat().st_size for path in self.files}
        hashed = sum(sizes.values()) <= HASHED
        return [
            {"file": str(path), "bytes": size, "sha256": _sha256(path) if hashed else None}
            for path, size in sizes.items()
        ]

    def _glimpse(self, columns: Sequence[str]) -> str:
        """The columns, with what stands in the first row."""
        if not columns:
            return "none"
        try:
            first = self.collect(lambda frame: frame.head(1), lambda rows: rows.head(1))
        except InvalidInputError:
            first = pl.DataFrame()
        named = [visible(name) + _held(first, name) for name in columns[:30]]
        return ", ".join(named) + (f" and {len(columns) - 30} more" if len(columns) > 30 else "")

    def explained(self, error: BaseException) -> str:
        """What went wrong, in terms of the log: which line is broken, or what the engine says."""
        reason = visible(str(error).strip().split("\n")[0], 200) or type(error).__name__
        if self.separator:
            for path in self.files:
                place = broken_line(path, self.separator)
                if place:
                    return f"{shown(path)} cannot be read: {place}"
        return f"{self.name} cannot be read ({reason})."


def _held(first: pl.DataFrame, name: str) -> str:
    """What stands in a column of the first row, in brackets; nothing where it is blank, or neither text nor number."""
    if not first.height or name not in first.columns:
        return ""
    kind = first[name].dtype
    value = first[name].item() if kind == pl.String or kind.is_numeric() else None
    return f" ({visible(value, 20)})" if value else ""


def _short(names: Sequence[str]) -> list[str]:
    """Names that can be compared for nearness, which takes long where they are long or many."""
    return [name for name in islice(names, 1000) if len(name) <= 100]


def open_log(source: Any) -> Log:
    """A log from a path, several paths, a pattern of paths, or a frame."""
    if isinstance(source, str | os.PathLike):
        return _open_files(_paths(source))
    if isinstance(source, list | tuple) and source and all(isinstance(each, str | os.PathLike) for each in source):
        return _open_files([path for each in source for path in _paths(each)])
    try:
        frame: Any = nw.from_native(cast("Any", source))
    except TypeError as error:
        raise InvalidInputError(
            f"The log is of type {type(source).__name__}. Give the path of a CSV or Parquet file, or a frame: pandas, "
            "polars, pyarrow, DuckDB or Spark."
        ) from error
    except nw.exceptions.DuplicateError as error:
        raise InvalidInputError(
            f"The log has columns of the same name ({visible(error, 200)}). Give each a name of its own."
        ) from error
    name = f"The {frame.implementation.value} frame"
    if isinstance(frame, nw.DataFrame):
        frame = nw.from_native(as_polars(frame)).lazy()
    log = Log(frame, name)
    try:
        _refuse_own_names(name, log.frame.collect_schema().names())
    except ElbertError:
        raise
    except (Exception, _Panic) as error:  # a lazy frame may be no more than a wrong query; each engine has its own
        raise InvalidInputError(log.explained(error)) from error
    return log


def _refuse_own_names(name: str, columns: Sequence[str]) -> None:
    for own in (ROW_NUMBER, FILE_NAME):
        if own in columns:
            raise InvalidInputError(f"{name} has a column called {own!r}, which an audit adds itself. Rename it.")


def _open_files(paths: Sequence[Path]) -> Log:
    paths, twice = _each_once(paths)
    kinds = {_kind(path) for path in paths}
    if len(kinds) > 1:
        raise InvalidInputError(f"The log is made of {' and '.join(sorted(kinds))} files. Give files of one kind.")
    more = len(paths) - 1
    name = f"{shown(paths[0])} and {more} more {'file' if more == 1 else 'files'}" if more else shown(paths[0])
    if kinds == {"CSV"}:
        log = _open_csv([look_at(path) for path in paths], name)
        return replace(log, notes=(*twice, *log.notes))
    try:
        _refuse_own_names(name, list(pl.read_parquet_schema(paths[0])))
        # The first file says what columns there are, also where others are read alone. Names of files are names here,
        # also those with brackets: they are not patterns.
        scan = partial(_scan_parquet, pl.read_parquet_schema(paths[0]))
        lazy = scan(paths, 0)
        lazy.collect_schema()
    except ElbertError:
        raise
    except (Exception, _Panic) as error:
        raise FileError(f"{name} cannot be read as Parquet ({visible(error, 200)}).") from error
    return Log(nw.from_native(lazy), name, tuple(paths), notes=twice, scan=scan)


def _scan_parquet(schema: Mapping[str, pl.DataType], paths: Sequence[Path], start: int) -> pl.LazyFrame:
    return pl.scan_parquet(
        list(paths),
        schema=pl.Schema(schema),
        row_index_name=ROW_NUMBER,
        row_index_offset=start,
        include_file_paths=FILE_NAME,
        glob=False,
    )


def _scan_csv(separator: str, paths: Sequence[Path], start: int) -> pl.LazyFrame:
    return pl.scan_csv(
        list(paths),
        infer_schema=False,
        separator=separator,
        row_index_name=ROW_NUMBER,
        row_index_offset=start,
        include_file_paths=FILE_NAME,
        glob=False,
    )


def _open_csv(looks: Sequence[Look], name: str) -> Log:
    first, paths = looks[0], tuple(look.path for look in looks)
    for look in looks:
        if look.separator != first.separator:
            raise InvalidInputError(
                f"{shown(look.path)} separates columns by {look.separator!r}, and {shown(first.path)} by "
                f"{first.separator!r}. Give files that are written alike."
            )
        if look.header != first.header:
            raise InvalidInputError(
                f"{shown(look.path)} has the columns {', '.join(map(visible, look.header))}, and {shown(first.path)} "
                f"has {', '.join(map(visible, first.header))}. Give files with the same columns in the same order."
            )
    _refuse_own_names(name, first.header)
    others = [look for look in looks if look.encoding != "utf-8"]
    if not others:
        scan = partial(_scan_csv, first.separator)
        return Log(nw.from_native(scan(paths, 0)), name, paths, first.separator, scan=scan)
    other = shown(others[0].path)
    note = f"{other} is not UTF-8 and was read as Windows-1252: look whether the names of groups are right."
    frame = pl.concat([_decoded(look) for look in looks]).with_row_index(ROW_NUMBER)
    return Log(nw.from_native(frame).lazy(), name, paths, first.separator, (note,))


def _decoded(look: Look) -> pl.DataFrame:
    """A CSV file that is not UTF-8, or stands next to one that is not."""
    text = content(look.path).decode(look.encoding, "replace")
    try:
        frame = pl.read_csv(text.encode(), infer_schema=False, separator=look.separator)
    except (pl.exceptions.PolarsError, _Panic) as error:
        place = broken_line(look.path, look.separator) or visible(error, 200)
        raise FileError(f"{shown(look.path)} cannot be read: {place}") from error
    return frame.with_columns(pl.lit(str(look.path)).alias(FILE_NAME))


def _paths(source: str | os.PathLike[str]) -> list[Path]:
    """The files that a path, a folder or a pattern names."""
    path = as_path(source, "the log")
    if path.is_file():
        return [path]
    pattern = str(path / "*") if path.is_dir() else str(source)
    matches = map(Path, glob(pattern, recursive=True))  # noqa: PTH207 (the pattern may be absolute)
    listed = sorted(match for match in matches if match.is_file())
    readable = [match for match in listed if _suffix(match) in (*CSV_SUFFIXES, *PARQUET_SUFFIXES)] or listed
    if path.is_dir() and not readable:
        raise FileError(f"The folder {visible(str(source))} holds no file.")
    if path.exists() and not readable:
        raise FileError(f"{visible(str(source))} is no file and no folder. Write the log into a file first.")
    if not readable or not str(source):
        near = did_you_mean(path.name, [each.name for each in islice(path.parent.glob("*"), 1000)])
        raise FileError(f"There is no file {visible(str(source))}.{near}")
    return readable


def _each_once(paths: Sequence[Path]) -> tuple[list[Path], tuple[str, ...]]:
    """The files without repetitions, and a note about one that is named twice: its decisions must not count twice."""
    first: dict[Path, Path] = {}
    repeated = [path for path in paths if first.setdefault(path.resolve(), path) is not path]
    for path in paths:
        try:
            str(path).encode()
        except UnicodeEncodeError as error:
            raise FileError(f"The name of the file {shown(path)} is not UTF-8. Call it otherwise.") from error
    return list(first.values()), tuple(f"{shown(path)} is named twice and was read once." for path in repeated[:1])


def _suffix(path: Path) -> str:
    name = path.name.lower()
    return Path(name.removesuffix(".gz")).suffix


def _kind(path: Path) -> str:
    if _suffix(path) in PARQUET_SUFFIXES:
        return "Parquet"
    try:
        with path.open("rb") as file:
            return "Parquet" if file.read(4) == b"PAR1" else "CSV"
    except OSError as error:
        raise FileError(f"Cannot read {shown(path)} ({error.strerror}).") from error


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            digest.update(block)
    return digest.hexdigest()
