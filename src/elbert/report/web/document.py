"""One HTML file: the answer, pictures, tables, how it was made, and the numbers themselves.

Nothing is loaded from anywhere. A content security policy allows the page's own script and style by their digests and
nothing else, and all text from data is escaped, so that a name can never become markup.
"""

import base64
import hashlib
import json
import math
import platform
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeAlias

from elbert import __version__
from elbert.files import write_whole
from elbert.tables import Page, Table, Toned

DIGITS = 6
"""Significant digits of the numbers that pictures are drawn from; the result itself is whole."""


@dataclass(frozen=True)
class Heading:
    """The title of a section."""

    text: str


@dataclass(frozen=True)
class Text:
    """A paragraph."""

    text: str
    kind: str = ""  # a class of the style sheet: lead, note, caution, warning


@dataclass(frozen=True)
class Picture:
    """A picture that the page's script draws: `spec` is what page.js documents."""

    spec: Mapping[str, Any]
    caption: str = ""
    table: Table | None = None  # the same numbers, for those who do not see the picture


@dataclass(frozen=True)
class Grid:
    """Pictures side by side where there is room."""

    pictures: Sequence[Picture]


@dataclass(frozen=True)
class Replays:
    """Episodes to be played, side by side."""

    spec: Mapping[str, Any]


Block: TypeAlias = Heading | Text | Picture | Grid | Replays | Table | Page


@dataclass(frozen=True)
class Document:
    """A page: what it says first, what it shows, and everything behind it."""

    title: str
    answer: str  # one sentence
    verdict: str = ""  # a word that colours the answer; the sentence says it too
    blocks: Sequence[Block] = ()
    method: Sequence[str] = ()  # paragraphs: how the numbers were found
    caution: str = ""  # what they do not show
    provenance: Sequence[tuple[str, str]] = ()  # names and values: seeds, files, digests
    result: Any = None  # as JSON
    kind: str = field(default="result")
    refresh: int | None = None  # seconds after which a page that is served loads again

    def to_html(self) -> str:
        """The file's content."""
        charts: list[Any] = []
        replays: list[Any] = []
        body = "".join(_block(block, charts, replays) for block in self.blocks)
        content = {"kind": self.kind, "charts": charts, "replays": replays}
        script = _asset("page.js") + (_asset("replay.js") if replays else "")
        style = _asset("page.css")
        policy = (
            f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}'; "
            "base-uri 'none'; form-action 'none'"
        )
        verdict = f" {self.verdict.replace(' ', '-')}" if self.verdict else ""
        return "\n".join(
            [
                "<!doctype html>",
                '<html lang="en">',
                "<head>",
                '<meta charset="utf-8">',
                f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
                '<meta name="viewport" content="width=device-width, initial-scale=1">',
                '<meta name="referrer" content="no-referrer">',
                *([] if self.refresh is None else [f'<meta http-equiv="refresh" content="{self.refresh}">']),
                f"<title>{_text(self.title)}</title>",
                f"<style>{style}</style>",
                "</head>",
                "<body>",
                "<main>",
                f'<p class="kicker">{_text(self.title)}</p>',
                f'<h1><span class="verdict{verdict}">{_text(self.answer)}</span></h1>',
                body,
                *_section("What these numbers do not show", [self.caution] if self.caution else [], "caution"),
                *_section("How the numbers were found", self.method),
                _heading("How this page was made"),
                _facts([*self.provenance, *_made()]),
                *_result(self.result),
                "</main>",
                f'<script type="application/json" id="page-data">{_data(content)}</script>',
                f"<script>{script}</script>",
                "</body>",
                "</html>",
                "",
            ]
        )

    def write(self, path: Path) -> Path:
        """Write the file whole."""
        write_whole(path, self.to_html())
        return path


def _block(block: Block, charts: list[Any], replays: list[Any]) -> str:
    match block:
        case Heading(text):
            return _heading(text)
        case Text(text, kind):
            return _paragraph(text, kind)
        case Grid(pictures):
            return f'<div class="grid">{"".join(_block(each, charts, replays) for each in pictures)}</div>'
        case Picture():
            return _picture(block, charts)
        case Replays(spec):
            replays.append({**spec, "id": f"replay-{len(replays)}"})
            return f'<div class="player" id="replay-{len(replays) - 1}"></div>'
        case Page(parts):
            return "".join(_text_part(each) if isinstance(each, str) else table_html(each) for each in parts)
        case _:
            return table_html(block)


def _picture(picture: Picture, charts: list[Any]) -> str:
    identity = f"chart-{len(charts)}"
    charts.append({**picture.spec, "id": identity})
    title = str(picture.spec["title"])
    caption = f'<p class="caption">{_text(picture.caption)}</p>' if picture.caption else ""
    table = picture.table
    numbers = "" if table is None else f"<details><summary>The numbers</summary>{table_html(table)}</details>"
    return (
        f'<div><figure id="{identity}" aria-label="{_text(title)}"><figcaption>{_text(title)}</figcaption>{caption}'
        f"</figure>{numbers}</div>"
    )


def _text_part(text: str) -> str:
    if text.startswith("# "):
        return f"<h3>{_text(text[2:].strip())}</h3>"
    return "".join(_paragraph(line.removeprefix("* "), "note") for line in text.splitlines() if line.strip())


def _section(title: str, paragraphs: Sequence[str], kind: str = "") -> list[str]:
    """A section of text; nothing where there is none."""
    return [_heading(title), *(_paragraph(text, kind) for text in paragraphs)] if paragraphs else []


def _heading(text: str) -> str:
    return f"<h2>{_text(text)}</h2>"


def _paragraph(text: str, kind: str = "") -> str:
    return f'<p class="{kind}">{_text(text)}</p>' if kind else f"<p>{_text(text)}</p>"


def table_html(table: Table) -> str:
    """A table with its title as caption, in a box that scrolls where it is too wide."""
    if not table.columns:
        return ""
    sides = [' class="right"' if column.right else "" for column in table.columns]

    def cell(tag: str, side: str, text: str) -> str:
        shown = _text(text)
        if isinstance(text, Toned):  # a verdict or a status, in its colour
            shown = f'<span class="{shown.replace(" ", "-")}">{shown}</span>'
        return f"<{tag}{side}>{shown}</{tag}>"

    headings = [column.heading for column in table.columns]
    head = "".join(cell("th", f' scope="col"{side}', text) for side, text in zip(sides, headings, strict=True))
    rows = (
        "<tr>" + "".join(cell("td", side, text) for side, text in zip(sides, row, strict=True)) + "</tr>"
        for row in table.rows
    )
    title = f"<caption>{_text(table.title)}</caption>" if table.title else ""
    headed = f"<thead><tr>{head}</tr></thead>" if all(headings) else ""
    label = table.title or ", ".join(filter(None, headings)) or ", ".join(row[0] for row in table.rows)
    return _scrolling(label, f"<table>{title}{headed}<tbody>{''.join(rows)}</tbody></table>")


def _facts(rows: Sequence[tuple[str, str]]) -> str:
    listed = "".join(f'<tr><th scope="row">{_text(name)}</th><td>{_text(value)}</td></tr>' for name, value in rows)
    return _scrolling("How this page was made", f"<table><tbody>{listed}</tbody></table>")


def _scrolling(label: str, content: str) -> str:
    """A part that scrolls by itself where it is too wide, also by keyboard."""
    return f'<div class="scroll" tabindex="0" role="region" aria-label="{_text(label)}">{content}</div>'


def _result(result: Any) -> list[str]:
    if result is None:
        return []
    content = json.dumps(result, indent=1, allow_nan=False)
    return [
        "<details><summary>The result as JSON</summary>",
        '<div class="tools"><button type="button" id="save-json">Save as a file</button></div>',
        f'<pre id="result" tabindex="0">{_text(content)}</pre></details>',
    ]


def _made() -> list[tuple[str, str]]:
    """What made the page; the command only where one did."""
    program = Path(sys.argv[0]).name if sys.argv else ""
    command = " ".join([program, *sys.argv[1:]]) if program in ("elbert", "__main__.py") else "made in Python"
    return [
        ("command", command.replace("__main__.py", "python -m elbert")),
        ("elbert", __version__),
        ("Python", f"{platform.python_version()} on {platform.system()}"),
    ]


def _text(text: object) -> str:
    """Text that cannot become markup; direction marks in a name cannot turn what stands around it."""
    shown = "".join(char if char.isprintable() or char == "\n" else repr(char)[1:-1] for char in str(text))
    return escape(shown, quote=True)


def _data(content: Any) -> str:
    """JSON in a script element: nothing in it can end the element."""
    text = json.dumps(_rounded(content), allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026").replace("\u2028", "\\u2028")


def _rounded(value: Any) -> Any:
    """Numbers short enough to draw from; what is not finite is null."""
    if isinstance(value, bool) or value is None or isinstance(value, str | int):
        return value
    if isinstance(value, Mapping):
        return {str(name): _rounded(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(each) for each in value]
    number = float(value)
    return float(f"{number:.{DIGITS}g}") if math.isfinite(number) else None


@cache
def _asset(name: str) -> str:
    return (files("elbert.report.web") / name).read_text("utf-8")


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
