"""What a page says about each kind of result: the answer in a sentence, the pictures, how the numbers were found."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from elbert.auditing.law import LawTable
from elbert.auditing.monitor_look import Monitored
from elbert.auditing.results import Audit
from elbert.errors import InvalidInputError
from elbert.exact.frontier import Frontier
from elbert.experiments.benchmark import BenchmarkOutcome
from elbert.experiments.compare import Compared, Comparison
from elbert.experiments.reproduce import Outcome, Reproduction
from elbert.experiments.sweep import Sweep
from elbert.experiments.tradeoff import Tradeoff, limit_text
from elbert.fairness.benefit_report import CAUTION, BenefitReport
from elbert.files import as_path, write_whole
from elbert.learning.result import Result
from elbert.report.audit_pages import CAUTION as CAUTION_OF_LOGS
from elbert.report.audit_pages import VERDICTS, audit_page, plural, rate_name
from elbert.report.benchmark import TITLE, benchmark_notes, benchmark_table, method_table
from elbert.report.charts import Point, point_of, read_curve
from elbert.report.frontier import frontier_page, rule_points
from elbert.report.law_page import law_page
from elbert.report.monitor_page import monitor_page
from elbert.report.pages import comparison_page, frontier_behind, nearness, result_page
from elbert.report.paper import experiment_table
from elbert.report.sweep import points_by_env, sweep_page
from elbert.report.tradeoff import levels_of, tradeoff_page
from elbert.report.web.document import Block, Document, Grid, Heading, Picture, Replays, Text
from elbert.report.web.pictures import (
    benefit_charts,
    course_charts,
    curve_charts,
    levels_chart,
    rates_chart,
)
from elbert.report.web.replays import comparison_replay
from elbert.tables import interval, number

HOW_JUDGED = (
    "Every policy acted in fresh episodes that it was not trained on. For each group, the benefit given (supply) and "
    "the benefit due (demand) are added up over all episodes and then divided: the long-term benefit rate. The bias is "
    "the largest difference between two groups' rates. An episode is the unit of statistics, because steps of one "
    "episode depend on each other; over several seeds the interval is that of their mean (Student's t).",
    "The observed bias is too large on average, because noise alone makes equal groups differ. The debiased value has "
    "that taken off, and the interval and the test of a limit account for it. A limit is confirmed, or refuted, only "
    "if the opposite would be improbable at the stated confidence; otherwise it is neither.",
)
HOW_BOUNDED = (
    "The best possible reward at each bias comes from an optimisation whose answer is proven by its dual bound "
    "(exact), or is an upper bound that no policy can exceed. It holds for the simulated world, not for the real one."
)
HOW_AUDITED = (
    "Rows are added up to supply and demand for every unit, period and group. Rates are ratios of these totals; their "
    "errors are those of units, not of rows, with a correction for units of unequal size (Bell and McCaffrey 2002). "
    "The split into treatment and timing is exact (Kitagawa 1955).",
    "What nobody knows is bounded and not guessed: a verdict must hold wherever the unknown lies.",
)


def comparison_document(comparison: Comparison, *, replay: bool = False) -> Document:
    """Policies in one environment."""
    policies = comparison.policies
    points = [point for each in policies if (point := point_of(each.name, each.result)) is not None]
    best = frontier_behind([(each.result, each.best) for each in policies], points)
    limits = {each.result.limit.max_bias for each in policies if each.result.limit is not None}
    blocks: list[Block] = []
    if points:
        limit = limits.pop() if len(limits) == 1 else None
        blocks.append(levels_chart(f"Reward against bias in {comparison.env}", points, best, max_bias=limit))
    blocks += [Heading("Side by side"), comparison_page(comparison)]
    blocks += [Heading("Rates of groups"), Grid([_rates(each.name, each.result) for each in policies])]
    runs = {each.name: each.run for each in policies if each.run is not None}
    if runs:
        curves = {name: read_curve(run) for name, run in runs.items()}
        seeds = {name: _seeds(comparison, name) for name in runs}
        pictures = curve_charts(curves, seeds)
        if len(runs) == 1:
            name, curve = next(iter(curves.items()))
            groups = [group.group for group in comparison[name].worst.groups]
            pictures += benefit_charts(curve, groups, seeds[name][0])
        blocks += [Heading("Training"), Grid(pictures)]
    if replay and (played := comparison_replay(comparison)) is not None:
        blocks += [Heading("Replay"), Replays(played)]
    subject = min(policies, key=lambda each: _bias_of(each.result))
    return Document(
        title=f"elbert: {len(policies)} {'policy' if len(policies) == 1 else 'policies'} in {comparison.env}",
        answer=_policy_sentence(subject, of=len(policies)),
        verdict="" if subject.result.limit is None else subject.result.limit.verdict,
        blocks=blocks,
        method=[*HOW_JUDGED, *([] if best is None else [HOW_BOUNDED, best.note])],
        caution=CAUTION,
        provenance=[fact for each in policies for fact in _provenance(each)],
        result=comparison.to_dict(),
        kind="comparison",
    )


def result_document(result: Result) -> Document:
    """One policy, or the mean over its seeds."""
    subject = Compared(result.method, result, None, None)
    return Document(
        title=f"elbert: {result.method} in {result.env}",
        answer=_policy_sentence(subject, of=1),
        verdict="" if result.limit is None else result.limit.verdict,
        blocks=[Grid([_rates(result.method, result)]), result_page(result)],
        method=HOW_JUDGED,
        caution=CAUTION,
        provenance=[("episodes", f"{result.episodes} of up to {result.horizon} steps")],
        result=result.to_dict(),
    )


def report_document(report: BenefitReport) -> Document:
    """Rates, bias and impact ratio of totals."""
    worst = max(report.criteria, key=lambda part: part.bias.estimate or 0.0)
    bias = worst.bias
    answer = f"The bias of the {worst.criterion} is not estimable."
    if bias.estimate is not None:
        around = "" if bias.ci is None else f" ({100 * report.confidence:g} % interval {interval(*bias.ci)})"
        pair = f"{bias.highest} and {bias.lowest}"
        answer = f"The {worst.criterion} differs by {number(bias.estimate)}{around} between {pair}."
    pictures = [rates_chart(part.criterion, "rate", part.groups) for part in report.criteria]
    return Document(
        title="elbert: long-term benefit rates",
        answer=answer,
        blocks=[Grid(pictures), report._page()],
        method=HOW_JUDGED[1:],
        caution=CAUTION,
        provenance=[(f"{report.unit}s", str(report.episodes))],
        result=report.to_dict(),
    )


def frontier_document(frontier: Frontier) -> Document:
    """What is possible in a world."""
    limited = [point for point in frontier.points if point.max_bias is not None]
    answer = f"No frontier is known in {frontier.env}: simple rules are shown."
    if limited:
        least, free = min(limited, key=lambda point: point.max_bias or 0.0), frontier.points[-1]
        kind = "can earn" if frontier.exact else "can earn at most"
        at_most = "without a limit" if free.max_bias is None else f"at {free.max_bias:g}"
        answer = (
            f"In {frontier.env}, a policy with a bias of at most {least.max_bias:g} {kind} {number(least.reward)} "
            f"reward per step, and {number(free.reward)} {at_most}."
        )
    points = rule_points(frontier)
    shown = points or frontier.points
    picture = [levels_chart(f"The best possible in {frontier.env}", points, frontier)] if shown else []
    return Document(
        title=f"elbert: the best possible in {frontier.env}",
        answer=answer,
        blocks=[*picture, Heading("The numbers"), frontier_page(frontier)],
        method=[HOW_BOUNDED, frontier.note],
        caution=CAUTION,
        provenance=[("episodes", f"of {frontier.horizon} steps")],
        result=frontier.to_dict(),
        kind="frontier",
    )


def reproduction_document(reproduction: Reproduction) -> Document:
    """The paper's experiments, with the published numbers, and the benchmark."""
    outcomes = [outcome for outcome in reproduction.outcomes if isinstance(outcome, Outcome)]
    benchmarks = [outcome for outcome in reproduction.outcomes if isinstance(outcome, BenchmarkOutcome)]
    if not outcomes and not benchmarks:
        raise InvalidInputError("The page of a reproduction needs an experiment with trainings; temporal has none.")
    results = [row.result for outcome in outcomes for row in outcome.rows]
    results += [cell.result for each in benchmarks for cell in each.cells]
    done = [result for result in results if result is not None]
    judged = [verdicts.cell for outcome in outcomes for row in outcome.rows if (verdicts := row.verdicts) is not None]
    better = sum(cell == "dominates" for cell in judged)
    worse = sum(cell == "dominated" for cell in judged)
    answer = f"{len(done)} of {len(results)} trainings are done."
    if judged:
        answer = (
            f"Of {len(judged)} trainings with published numbers, {better} dominate them and {worse} are dominated by "
            "them, in reward and bias."
        )
    blocks: list[Block] = []
    for outcome in outcomes:
        experiment = outcome.experiment
        blocks += [Heading(experiment.title), Text(f"{experiment.question} In the paper: {experiment.figure}.")]
        blocks += [Grid(_panels(outcome)), experiment_table(outcome)]
    for each in benchmarks:
        notes = (Text(note) for note in benchmark_notes(each))
        blocks += [Heading(TITLE), method_table(each), benchmark_table(each), *notes]
    base = outcomes[0].experiment.base if outcomes else benchmarks[0].benchmark.base
    return Document(
        title="elbert: the paper's experiments, reproduced" if outcomes else "elbert: the benchmark",
        answer=answer,
        blocks=blocks,
        method=[*HOW_JUDGED, HOW_BOUNDED],
        caution=CAUTION,
        provenance=[("preset", base.preset), ("seeds", str(base.seeds)), ("quick", str(base.quick).lower())],
        result=reproduction.to_dict(),
        kind="reproduction",
    )


def _panels(outcome: Outcome) -> list[Picture]:
    """Reward against bias, a picture for each panel of the experiment."""
    pictures = []
    for panel in outcome.experiment.panels:
        rows = [row for row in outcome.rows if row.panel == panel and row.result is not None]
        shown = [(row, row.result, point_of(row.series.label, row.result)) for row in rows if row.result is not None]
        points = [point for _, _, point in shown if point is not None]
        published = [(row.series.label, row.published) for row in rows]
        theirs = [Point(label, level.bias, level.reward) for label, level in published if level is not None]
        best = frontier_behind([(result, row.best) for row, result, _ in shown], points)
        if points:
            pictures.append(levels_chart(panel.title, points, best, theirs))
    return pictures


def sweep_document(sweep: Sweep) -> Document:
    """A study, done or under way."""
    done = [row for row in sweep.rows if row.done == len(row.plan.seeds)]
    confirmed = [row for row in done if row.result and row.result.limit and row.result.limit.verdict == "confirmed"]
    limited = [row for row in done if row.result is not None and row.result.limit is not None]
    answer = f"{len(done)} of {len(sweep.rows)} rows are done."
    if limited:
        answer += f" Of {len(limited)} with a limit on the bias, it is confirmed for all seeds of {len(confirmed)}."
    pictures = []
    for env, rows in points_by_env(sweep).items():
        points = [point for _, point in rows]
        best = frontier_behind([(row.result, row.best) for row, _ in rows if row.result is not None], points)
        pictures.append(levels_chart(f"Reward against bias in {env}", points, best))
    return Document(
        title=f"elbert: {sweep.title or 'sweep'}",
        answer=answer,
        blocks=[Grid(pictures), Heading("All rows"), sweep_page(sweep)],
        method=[*HOW_JUDGED, HOW_BOUNDED],
        caution=CAUTION,
        provenance=[("rows", str(len(sweep.rows))), ("folder", sweep.folder.name)],
        result=sweep.to_dict(),
        kind="sweep",
    )


def tradeoff_document(found: Tradeoff) -> Document:
    """What each limit on the bias leaves."""
    least, most = found.rows[0], found.rows[-1]
    lowest, highest = (number(row.result.reward.mean) for row in (least, most))
    points, best = levels_of(found)
    known = sum(price.gain is not None for price in found.prices)
    limit = "without a limit" if most.max_bias is None else f"for at most {most.max_bias:g}"
    return Document(
        title=f"elbert: limits on the bias in {found.env}",
        answer=f"In {found.env}, policies for a bias of at most {least.max_bias:g} earn {lowest} per step, and "
        f"{highest} {limit}. What more of bias gains is known for {known} of "
        f"{len(found.prices)} steps from limit to limit.",
        blocks=[
            *([levels_chart(f"Reward against bias in {found.env}", points, best)] if points else []),
            Heading("The numbers"),
            tradeoff_page(found),
            Heading("Rates of groups"),
            Grid([_rates(limit_text(row.max_bias), row.result) for row in found.rows]),
        ],
        method=[*HOW_JUDGED, *([] if best is None else [HOW_BOUNDED, best.note])],
        caution=CAUTION,
        provenance=[("seeds", ", ".join(str(single.seed) for single in least.result.seeds) or "one")],
        result=found.to_dict(),
        kind="tradeoff",
    )


def audit_document(audit: Audit) -> Document:
    """A log of decisions."""
    page = audit_page(audit)
    sentence = next((part for part in page.parts if isinstance(part, str) and part and not part.startswith("# ")), "")
    blocks: list[Block] = [] if audit.verdict is None else [Text(sentence, "lead")]
    blocks += [Text(str(jump), "warning") for jump in audit.jumps]
    for comparison in audit.comparisons:
        by = f", by {comparison.name}" if len(audit.comparisons) > 1 else ""
        if comparison.report is not None:
            parts = comparison.report.criteria
            pictures = [rates_chart(rate_name(audit, part.criterion) + by, "rate", part.groups) for part in parts]
            blocks += [Heading(f"Rates{by}"), Grid(pictures)]
        for course in comparison.courses:
            rate = rate_name(audit, course.criterion)
            blocks += [Heading(f"Over time: {rate}{by}"), Grid(course_charts(audit, comparison, course, rate))]
    blocks += [Heading("The whole answer"), page]
    files = [(f"file {each['file']}", f"{each['bytes']:,} bytes, SHA-256 {each['sha256']}") for each in audit.files]
    asked = json.dumps(audit.question, ensure_ascii=False)
    versions = ", ".join(f"{name} {version}" for name, version in audit.versions.items())
    return Document(
        title=f"elbert: audit of {audit.log}",
        answer=sentence if audit.verdict is None else VERDICTS[audit.verdict].format(limit=audit.max_bias) + ".",
        verdict=audit.verdict or "",
        blocks=blocks,
        method=HOW_AUDITED,
        caution=CAUTION_OF_LOGS,
        provenance=[("asked", asked), *files, ("versions", versions)],
        result=audit.to_dict(),
        kind="audit",
    )


def monitor_document(seen: Monitored) -> Document:
    """What a monitor sees so far."""
    answer = f"{seen.units:,} {plural(seen.unit, seen.units)} so far, until {seen.until}."
    if seen.verdict is not None:
        answer = f"{VERDICTS[seen.verdict].format(limit=seen.max_bias)}, {answer[0].lower()}{answer[1:]}"
    pictures = [rates_chart(part.criterion, "rate so far", part.groups) for part in seen.criteria]
    return Document(
        title="elbert: monitor of a log",
        answer=answer,
        verdict=seen.verdict or "",
        blocks=[Grid(pictures), monitor_page(seen)],
        method=["The bounds hold at all looks together, however often one looks."],
        caution=CAUTION_OF_LOGS,
        provenance=[("state", seen.state)],
        result=seen.to_dict(),
        kind="monitor",
    )


def law_document(table: LawTable) -> Document:
    """The table of New York City's rule."""
    return Document(
        title="elbert: Local Law 144",
        answer="Selection or scoring rates and impact ratios as New York City's Local Law 144 asks for.",
        blocks=[law_page(table)],
        caution="The law asks for this table and sets no limit. It says nothing about uncertainty.",
        result=table.to_dict(),
        kind="audit",
    )


def _rates(name: str, result: Result) -> Picture:
    part = result.worst
    over = "over seeds" if result.seeds else "95 % intervals"
    return rates_chart(name, part.criterion, part.groups, f"{result.method}: {part.criterion}, {over}")


def _bias_of(result: Result) -> float:
    estimate = result.worst.bias.estimate
    return float("inf") if estimate is None else estimate


def _policy_sentence(subject: Compared, *, of: int) -> str:
    """Who, which bias, which limit, confirmed or not, compared with the best possible."""
    result, bias = subject.result, subject.result.worst.bias
    who = f"{subject.name} in {result.env}" if of == 1 else f"Of {of} policies in {result.env}, {subject.name}"
    if bias.estimate is None:
        return f"{who}: the bias is not estimable, at a reward of {number(result.reward.mean)} per step."
    around = "" if bias.ci is None else f" (95 % interval {interval(*bias.ci)})"
    has = "has a bias of" if of == 1 else "has the smallest bias,"
    near = nearness(subject.best)
    how = ""
    if near:
        how = f", {near} of the best possible at this bias" if near.endswith("%") else f", {near} the upper bound"
    limit = "" if result.limit is None else f" A limit of {result.limit.max_bias:g} is {result.limit.verdict}."
    reward = f"at a reward of {number(result.reward.mean)} per step"
    return f"{who} {has} {number(bias.estimate)}{around}, {reward}{how}.{limit}"


def _seeds(comparison: Comparison, name: str) -> list[Any]:
    run = next(each.run for each in comparison.policies if each.name == name)
    assert run is not None
    members = run.columns()["reward"].shape[1]
    seeds = list(run.config.get("seeds", []))
    return seeds if len(seeds) == members else list(range(members))


def _provenance(each: Compared) -> list[tuple[str, str]]:
    result = each.result
    facts = [(each.name, f"{result.method}; {result.episodes} episodes of up to {result.horizon} steps")]
    if each.run is not None:
        config, digest = each.run.config, each.run.digest()
        seeds = ", ".join(map(str, config.get("seeds", []))) or "not kept"
        facts.append((f"{each.name}: run", f"{each.run.path.name}; seeds {seeds}; SHA-256 of the agents {digest}"))
    return facts


def document_of(result: Any, *, replay: bool = False) -> Document:
    """The page of any result that has one; policies may act once more for it."""
    if isinstance(result, Comparison):
        return comparison_document(result, replay=replay)
    makers: dict[type[Any], Callable[[Any], Document]] = {
        Result: result_document,
        Frontier: frontier_document,
        Reproduction: reproduction_document,
        Sweep: sweep_document,
        Tradeoff: tradeoff_document,
        Audit: audit_document,
        LawTable: law_document,
        Monitored: monitor_document,
        BenefitReport: report_document,
    }
    make = next((make for kind, make in makers.items() if isinstance(result, kind)), None)
    if make is None:
        raise InvalidInputError(f"There is no page for a {type(result).__name__}.")
    return make(result)


def page_of(result: Any, path: str | Path | None = None) -> str:
    """The page as text; written to a file as well if a path is given."""
    content = document_of(result).to_html()
    if path is not None:
        write_whole(as_path(path), content)
    return content
