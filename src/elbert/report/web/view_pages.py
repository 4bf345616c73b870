"""The pages of `elbert view`: all runs of a folder, and one of them, from what the runs keep.

Nothing is trained, evaluated or written here. A run is named by a digest of where it is, never by a path.
"""

import hashlib
import math
import os
import re
import shlex
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import NamedTuple

from elbert.experiments.compare import Compared, Comparison
from elbert.experiments.results import best_possible
from elbert.experiments.run_folder import RunFolder, RunSummary, coefficients_text, summarise
from elbert.files import FileError
from elbert.learning.result import Result
from elbert.report.charts import Point, point_of
from elbert.report.web.document import Block, Document, Grid, Heading, Text
from elbert.report.web.pictures import benefit_charts, curve_charts, levels_chart
from elbert.report.web.subjects import comparison_document
from elbert.tables import COLOURS, facts, number, visible

REFRESH = 5
"""Seconds after which a page that follows something loads again."""
TONES = {"green": "confirmed", "yellow": "undetermined", "bold red": "refuted"}  # classes of the style sheet
OF_ROLLOUTS = (
    "Reward and bias are those of rollouts that the policy learns from, in training. They are noisier than an "
    "evaluation in fresh episodes, and no limit is tested with them."
)

_LOOKING = threading.Lock()
"""Whether a run is training is seen from its lock, which two threads that look at once would take for a training."""


def run_paths(folder: Path) -> dict[str, Path]:
    """The folders of the runs that `find_runs` finds, by what stands for them in addresses."""
    paths = (config.parent for config in sorted(folder.glob("**/config.json")))
    return {_identity(folder, path): path for path in paths if (path / "manifest.json").exists()}


def _identity(folder: Path, path: Path) -> str:
    return hashlib.sha256(os.fsencode(path.relative_to(folder))).hexdigest()[:16]


class Seen(NamedTuple):
    """A run, or the part of it with one combination of coefficients, at one moment."""

    run: RunFolder
    summary: RunSummary
    result: Result | None  # the evaluation that it keeps

    @property
    def label(self) -> str:
        """What tells it from other parts; the folder's name where there are none."""
        return coefficients_text(self.summary.coefficients) or self.run.path.name


def look_at(path: Path) -> list[Seen]:
    """A run by coefficient. Whatever its files hold, it does not keep other runs from being listed."""
    try:
        parts = list(RunFolder(path).parts().values())
        with _LOOKING:
            summaries = [_checked(summarise(path, run.part)) for run in parts]
        pairs = zip(parts, summaries, strict=True)
        return [Seen(run, summary, run.evaluation() if summary.evaluated else None) for run, summary in pairs]
    except FileError as error:
        reason = str(error)
    except Exception as error:  # JSON with a digest that is right and content that makes no sense
        reason = f"Its files make no sense ({type(error).__name__}: {error})."
    return [Seen(RunFolder(path), RunSummary(path=path, reason=reason), None)]


def _checked(summary: RunSummary) -> RunSummary:
    """A digest can be forged: what is shown is of the type that it should be."""
    kinds = {str: ("env", "method", "preset", "status", "reason"), int: ("iteration", "iterations")}
    for kind, names in (kinds | {int | float: ("seconds",)}).items():
        for name in names:
            if not isinstance(value := getattr(summary, name), kind):
                raise TypeError(f"{name} is {visible(value)}")
    return summary


def list_page(folder: Path, *, still: bool = False) -> str:
    """All runs: those that are training first, then the latest."""
    begun = time.monotonic()
    listed = [look_at(path) for path in run_paths(folder).values()]
    listed.sort(key=lambda parts: (parts[0].summary.status != "running", -_written(parts[0])))
    runs = [seen for parts in listed for seen in parts]
    counts = Counter(parts[0].summary.status for parts in listed)
    tally = ", ".join(f"{counts[status]} {status}" for status in sorted(counts, key=lambda each: (-counts[each], each)))
    if len(counts) == 1:
        tally = f"{'it is' if len(listed) == 1 else 'all are'} {next(iter(counts))}"
    answer = f"{len(listed)} {'run' if len(listed) == 1 else 'runs'}: {tally}." if runs else "No runs here yet."
    blocks: list[Block] = [] if runs else [Text("`elbert train lending` makes one.")]
    if any(seen.summary.reward is not None and seen.result is None for seen in runs):
        blocks.append(Text("* of the last rollout in training, not of an evaluation", "note"))
    pictures = [levels_chart(f"Reward against bias in {env}", points) for env, points in _levels(folder, runs).items()]
    seconds = max(REFRESH, math.ceil(5 * (time.monotonic() - begun)))  # many runs are not read all the time
    document = Document(
        title=f"elbert: runs in {folder}",
        answer=answer,
        blocks=[*blocks, *([Heading("Evaluated runs"), Grid(pictures)] if pictures else [])],
        provenance=[("folder", str(folder.absolute()))],
        kind="runs",
        refresh=None if still else seconds,
    )
    return _with_links(document, [_pause("/", document)], _list_table(folder, runs) if runs else "")


def _written(seen: Seen) -> float:
    try:
        return (seen.run.path / "manifest.json").stat().st_mtime
    except OSError:  # moved away a moment ago
        return 0.0


def _levels(folder: Path, runs: Sequence[Seen]) -> dict[str, list[Point]]:
    """The evaluated runs by environment, where there are at least two to compare."""
    points: dict[str, list[Point]] = {}
    for run, summary, result in sorted(runs, key=lambda seen: seen.run.path):
        label = f"{_name(folder, run.path)} {coefficients_text(summary.coefficients)}".strip()
        if result is not None and (point := point_of(label, result)) is not None:
            points.setdefault(result.env, []).append(point)
    return {env: several for env, several in points.items() if len(several) > 1}


def _list_table(folder: Path, runs: Sequence[Seen]) -> str:
    """A row for each run, with a link to its page."""
    headings = ["run", "status", "iterations", "env", "method", "coefficients", "seeds", "reward / step", "bias"]
    headings += ["limit", "written"]
    rows = []
    for seen in runs:
        run = seen.summary
        mark = "" if run.evaluated else " *"
        reward, bias = ("" if value is None else f"{number(value)}{mark}" for value in (run.reward, run.bias))
        limit = None if seen.result is None else seen.result.limit
        told = (run.env, run.method, coefficients_text(run.coefficients), str(len(run.seeds)))
        rows.append(
            [
                f'<a href="/run/{_identity(folder, run.path)}">{_shown(_name(folder, run.path))}</a>',
                _toned(run.status),
                _meter(run),
                *map(_shown, [""] * 4 if run.status == "damaged" else told),
                reward,
                bias,
                "" if limit is None else f"{limit.max_bias:g} {_toned(limit.verdict)}",
                f"{_duration(max(0.0, time.time() - _written(seen)))} ago",
            ]
        )
    used = [place for place in range(len(headings)) if any(row[place] for row in rows)]
    whole, right = ("method", "status", "iterations", "limit"), ("reward / step", "bias", "written")
    sides = [" nowrap" if name in whole else ' class="right"' if name in right else "" for name in headings]
    head = "".join(f'<th scope="col"{sides[place]}>{headings[place]}</th>' for place in used)
    body = "".join(f"<tr>{''.join(f'<td{sides[place]}>{row[place]}</td>' for place in used)}</tr>" for row in rows)
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f'<div class="scroll" tabindex="0" role="region" aria-label="Runs">{table}</div>'


def _toned(word: str) -> str:
    """A status or a verdict in its colour."""
    return f'<span class="{TONES.get(COLOURS.get(word, ""), "")}">{_shown(word)}</span>'


def _meter(run: RunSummary) -> str:
    """How far a training is; its bar only while it goes on."""
    if run.status == "damaged":
        return ""
    text = f"{run.iteration:,} of {run.iterations:,}"
    if run.status != "running":
        return f"{run.iterations:,}" if run.status == "finished" and run.iteration == run.iterations else text
    return f'{text}<br><progress max="{max(1, run.iterations)}" value="{run.iteration}" aria-label="{text}"></progress>'


def run_page(folder: Path, path: Path, *, still: bool = False, best: bool = False) -> str:
    """One run: its evaluation if it keeps one, with the best possible if asked for, else its training so far."""
    parts = look_at(path)
    status, here = parts[0].summary.status, f"/run/{_identity(folder, path)}"
    title, links = f"elbert: {_name(folder, path)}", [("/", "All runs")]
    reasons = [seen.summary.reason for seen in parts if seen.summary.status == "damaged"]
    if reasons:
        blocks = [Text(reason) for reason in dict.fromkeys(reasons)]
        document = Document(title, "This run is damaged.", "refuted", blocks)
    elif status != "running" and any(seen.result is not None for seen in parts):
        document = _evaluated(parts, best=best)
        if not best and parts[0].run.world is not None:
            links.append((f"{here}?best", "Compare with the best possible: takes some seconds"))
    else:
        document = replace(_training(parts), title=title)
    if status == "running" and not reasons:
        document = replace(document, refresh=None if still else REFRESH)
        links.append(_pause(here, document))
    return _with_links(document, links)


def _evaluated(parts: Sequence[Seen], *, best: bool) -> Document:
    """The comparison of the policies that a run keeps evaluations of: one, or one for each coefficient."""
    policies: list[Compared] = []
    first, warnings = parts[0].summary, []
    for seen in parts:
        if seen.result is None:
            warnings.append(f"{seen.label} is not evaluated: elbert evaluate {_quoted(seen)} does it.")
            continue
        try:
            kept = seen.run if seen.run.columns() else None
            warnings += [] if kept else [f"{seen.run.path} has no metrics: there are no learning curves."]
        except FileError as error:
            kept = None
            warnings.append(str(error))
        possible = best_possible(seen.result, seen.run.world) if best else None
        policies.append(Compared(seen.label, seen.result, possible, kept))
    if best and not any(policy.best for policy in policies):
        warnings.append("The best possible is not known in this world.")
    if first.status != "finished":
        warnings.append(_state(first))
    document = comparison_document(Comparison(first.env, tuple(policies)))
    notes = [Text(warning, "warning") for warning in dict.fromkeys(warnings)]
    return replace(document, blocks=[*notes, *document.blocks])


def _training(parts: Sequence[Seen]) -> Document:
    """A training so far: how far it is, and its learning curves."""
    first = parts[0].summary
    told = [("iterations", f"{first.iteration:,} of {first.iterations:,}"), ("trained for", _duration(first.seconds))]
    if first.status == "running" and first.iteration:
        left = first.seconds / first.iteration * (first.iterations - first.iteration)
        told.append(("left", f"about {_duration(left)}"))
    for _, summary, _ in parts:
        if summary.reward is not None:
            levels = f"reward {number(summary.reward)} per step, bias {number(summary.bias)}"
            told.append((f"last rollout {coefficients_text(summary.coefficients)}".strip(), levels))
    told += [("seeds", ", ".join(map(str, first.seeds))), ("preset", first.preset)]
    blocks: list[Block] = [facts(told)]
    if first.reason:
        blocks.append(Text(first.reason, "warning"))
    if first.status == "finished":
        blocks.append(Text(f"To evaluate it: elbert evaluate {_quoted(parts[0])}"))
    elif first.status != "running":
        blocks.append(Text(f"To go on with it, repeat its command with --out {_quoted(parts[0])} --resume."))
    return Document(
        title="",
        answer=_state(first),
        blocks=[*blocks, *_curves(parts)],
        caution=OF_ROLLOUTS,
        provenance=[("run", str(first.path.absolute()))],
        kind="training",
    )


def _curves(parts: Sequence[Seen]) -> list[Block]:
    curves = {seen.label: (seen.summary, curve) for seen in parts if (curve := seen.run.columns())}
    if not curves:
        return [Text("There are no metrics yet: they come with the first checkpoint.")]
    seeds: dict[str, Sequence[int]] = {}
    for label, (summary, curve) in curves.items():
        members = curve["reward"].shape[1]
        seeds[label] = summary.seeds if len(summary.seeds) == members else range(members)
    pictures = curve_charts({label: curve for label, (_, curve) in curves.items()}, seeds)
    if len(curves) == 1:
        label, (_, curve) = next(iter(curves.items()))
        groups = [f"group {name[7:]}" for name in curve if re.fullmatch(r"supply_\d+", name)]
        pictures += benefit_charts(curve, groups, seeds[label][0]) if groups else []
    return [Heading("Training"), Grid(pictures)]


def _quoted(seen: Seen) -> str:
    """The folder as a shell takes it."""
    return shlex.quote(str(seen.run.path))


def _state(run: RunSummary) -> str:
    """The status in a sentence."""
    who = f"{run.method} in {run.env}"
    far = f"{run.iteration:,} of {run.iterations:,} iterations"
    match run.status:
        case "running":
            return f"{who} is training: {far} are done."
        case "finished":
            return f"{who} is trained and not evaluated."
        case "failed":
            return f"{who} failed after {far}."
        case status:
            return f"{who} was {status} after {far}."


def error_page(answer: str, reason: str = "") -> str:
    """A page that says what went wrong."""
    blocks = [Text(visible(reason, 1000))] if reason else []
    return _with_links(Document(title="elbert", answer=answer, blocks=blocks), [("/", "All runs")])


def _with_links(document: Document, links: Sequence[tuple[str, str]], after: str = "") -> str:
    """The document with links above it, and with HTML after its first sentence."""
    listed = " | ".join(f'<a href="{where}">{_shown(text)}</a>' for where, text in links)
    head, main, rest = document.to_html().partition("<main>")  # text before them is escaped: these are the first
    above, title, below = rest.partition("</h1>")
    return f'{head}{main}\n<nav class="kicker" aria-label="Pages">{listed}</nav>{above}{title}{after}{below}'


def _pause(here: str, document: Document) -> tuple[str, str]:
    """The link that stops a page from refreshing itself, or lets it go on."""
    seconds = document.refresh
    return (here, "Follow again") if seconds is None else (f"{here}?still", f"Pause: refreshes every {seconds} seconds")


def _name(folder: Path, path: Path) -> str:
    """How a run is called within the folder."""
    return path.name if path == folder else path.relative_to(folder).as_posix()


def _shown(text: object) -> str:
    """Text that cannot become markup, in one line."""
    return escape(visible(text, 200), quote=True)


def _duration(seconds: float) -> str:
    for unit, name in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * unit:
            return f"{seconds / unit:.0f} {name}"
    return f"{seconds:.0f} s"
