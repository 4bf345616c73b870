"""What the bytes of a CSV file say before it is parsed: header, separator and encoding, and which line is broken.

A parser that reads some columns only does not look at the others. It takes the lines between two stray quotes for one
field, and says nothing. So quotes are checked here, for all columns.
"""

import csv
import gzip
import io
import re
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import IO

import numpy as np

from elbert.files import FileError
from elbert.tables import visible

SEPARATORS = ",;\t|"
BLOCK = 2**24
"""Bytes of a CSV file that are looked at together; a line longer than that is no line of a log."""
_MARK, _QUOTE, _LINE_END, _RETURN = b"\xef\xbb\xbf", ord('"'), ord("\n"), ord("\r")


@dataclass(frozen=True)
class Look:
    """What the bytes of a CSV file say before it is parsed."""

    path: Path
    header: tuple[str, ...]
    separator: str
    encoding: str  # utf-8, or cp1252 if it is not that


def look_at(path: Path) -> Look:
    """The header, separator and encoding; a file that is no table is refused with what it seems to be."""
    encoding, quotes, first, tail = "utf-8", 0, b"", b""
    for block in blocks(path):
        first = first or block
        if b"\n" not in block and len(block) == BLOCK:
            raise FileError(f"{shown(path)} has a line of more than {BLOCK >> 20} MB. A log has one decision per line.")
        quotes += block.count(b'"')
        whole = tail + block
        try:
            whole.decode("utf-8")
            tail = b""
        except UnicodeDecodeError as error:
            cut = error.reason == "unexpected end of data" and error.start > len(whole) - 4
            tail, encoding = (whole[error.start :], encoding) if cut else (b"", "cp1252")
    if tail:  # the last character is cut short
        encoding = "cp1252"
    _refuse_other_kinds(path, first)
    separator, header = _header(path, first.decode(encoding, "replace").lstrip("\r\n"))
    place = _quote_out_of_place(path, separator) if quotes else ""
    if quotes % 2:
        place = broken_line(path, separator) or place or "a quote is opened and never closed."
    if place:
        raise FileError(f"{shown(path)} cannot be read: {place}")
    return Look(path, header, separator, encoding)


def _refuse_other_kinds(path: Path, first: bytes) -> None:
    """Refuse what is no table of text, by its first bytes."""
    if not first.strip():
        raise FileError(
            f"{shown(path)} is empty. A log has a line with the names of its columns, and a line per decision."
        )
    if first.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise FileError(f"{shown(path)} is UTF-16 text. Save it as UTF-8 (in a spreadsheet: CSV UTF-8).")
    if b"\0" in first[:4096] or first.startswith((b"PK", b"%PDF", b"\xd0\xcf")):
        raise FileError(
            f"{shown(path)} is no text file. Give a CSV or Parquet file; a spreadsheet can be saved as CSV."
        )
    if b"\r" in first and b"\n" not in first:
        raise FileError(
            f"{shown(path)} ends its lines with a carriage return alone, as old Macintoshes did. Save it with the line "
            "ends of Windows or Unix."
        )


def _header(path: Path, text: str) -> tuple[str, tuple[str, ...]]:
    """The separator and the names of the columns."""
    outside_quotes = re.sub(r'"[^"]*"', "", text[:BLOCK].split("\n", 1)[0])
    separator = max(SEPARATORS, key=outside_quotes.count)
    try:
        header = next(csv.reader(io.StringIO(text, newline=""), delimiter=separator))
    except csv.Error as error:
        raise FileError(
            f"{shown(path)}: its first line cannot be read ({visible(error)}). It names the columns."
        ) from error
    name, often = Counter(header).most_common(1)[0]
    if often > 1:
        raise FileError(
            f"{shown(path)} has more than one column called {visible(name)!r}. Give each a name of its own."
        )
    return separator, tuple(header)


def _quote_out_of_place(path: Path, separator: str) -> str:
    """The first line with a stray quote, if the quotes of a file enclose a line end; nothing if all is well.

    A quote opens a field, closes it, or is doubled within it. Within one line, others do no harm: the parser refuses
    them or takes them for text. But where a line end is enclosed, a stray quote can hide whole lines.
    """
    before = [ord(separator), _LINE_END, _QUOTE]
    after = [*before, _RETURN]
    number, line, previous, held = 0, 1, _LINE_END, b""
    encloses, stray = False, 0
    for block in chain(blocks(path), [b"\n"]):  # the end of a file ends a line
        data = np.frombuffer(held + block, np.uint8)
        quotes, ends = (np.flatnonzero(data[:-1] == char) for char in (_QUOTE, _LINE_END))
        inside = (number + np.searchsorted(quotes, ends)) % 2 == 1
        encloses = encloses or bool(inside.any())
        left = np.where(quotes > 0, data[quotes - 1], previous)
        opens = (number + np.arange(len(quotes))) % 2 == 0
        wrong = quotes[np.where(opens, ~np.isin(left, before), ~np.isin(data[quotes + 1], after))]
        if wrong.size and not stray:
            stray = line + int(np.searchsorted(ends, wrong[0]))
        if encloses and stray:
            return (
                f"line {stray} has a quote that neither opens nor closes a field, and it would hide other lines. Write "
                'it twice within a field in quotes ("5"" pipe"), or take it out.'
            )
        number, line = number + len(quotes), line + len(ends)
        previous, held = (int(data[-2]) if len(data) > 1 else previous), data[-1:].tobytes()
    return ""


def broken_line(path: Path, separator: str) -> str:
    """The first line that has too many columns or a quote that is never closed; nothing if there is none."""
    begun, limit = 1, csv.field_size_limit(BLOCK)
    try:
        with _opened(path) as file:
            lines = (line.decode("utf-8", "replace").replace("\0", "") for line in file)
            reader = csv.reader(lines, delimiter=separator, strict=True)
            header = next(reader)
            begun = reader.line_num + 1
            for row in reader:
                if len(row) > len(header):
                    return f"line {begun} has {len(row)} columns and the header has {len(header)}. Mend that line."
                if reader.line_num - begun > 1000:
                    return f"the quote that opens in line {begun} is never closed. Mend that line."
                begun = reader.line_num + 1
    except csv.Error as error:
        return f"line {begun} ({visible(error)}): a quote is out of place or never closed. Mend that line."
    except (OSError, EOFError, zlib.error, StopIteration):
        return ""
    finally:
        csv.field_size_limit(limit)  # which holds for the whole process
    return ""


def content(path: Path) -> bytes:
    """All bytes of a file, unpacked and without a byte-order mark."""
    return b"".join(blocks(path))


def blocks(path: Path) -> Iterator[bytes]:
    """The bytes of a file in blocks, unpacked and without a byte-order mark."""
    try:
        with _opened(path) as file:
            if first := file.read(BLOCK):
                yield first.removeprefix(_MARK)
            while block := file.read(BLOCK):
                yield block
    except (OSError, EOFError, zlib.error) as error:
        raise FileError(f"Cannot read {shown(path)} ({visible(error, 200)}).") from error


def _opened(path: Path) -> IO[bytes]:
    """The file, unpacked if its first bytes say that it is packed, as the parser does; its name may say otherwise."""
    with path.open("rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
    return gzip.open(path) if packed else path.open("rb")  # type: ignore[return-value]


def shown(path: Path | str) -> str:
    """A path for people: whole, and on one line."""
    return visible(path, 10_000)
