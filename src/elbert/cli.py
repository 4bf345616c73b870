"""The command line: parse, call, print, exit code. No logic."""

import json
import os
import sys
import traceback
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import App, Parameter

from elbert import __version__
from elbert.auditing.question import Question
from elbert.errors import ElbertError
from elbert.tables import visible

Flag = Annotated[bool, Parameter(negative=())]
Json = Annotated[bool, Parameter(name="--json", negative=(), help="Print JSON instead of a table.")]
Repeated = Annotated[list[str] | None, Parameter(negative=())]
FailOn = Literal["refuted", "unconfirmed", "never"] | None

NOTHING_ASKED = Question()

FAILED = 1
"""Exit code of a study of which a training failed."""
CRASHED = 70
"""Exit code of what should not happen (EX_SOFTWARE): 1 would read as a refuted limit."""

app = App(
    name="elbert",
    help="Long-term fairness in sequential decisions: for each group, total benefit given over total benefit due.",
    version=__version__,
    default_parameter=Parameter(negative_iterable=()),
)


@app.command
def envs(name: str | None = None, *, as_json: Json = False) -> None:
    """List the environments, or describe one with its parameters.

    Args:
        name: Name of the environment to describe, for example lending or elbert/Lending-v0.
    """
    from elbert.envs import ENTRIES, describe, get_entry
    from elbert.report.pages import world_page, worlds_page

    described = [describe(entry) for entry in ([get_entry(name)] if name else ENTRIES.values())]
    if name:
        _show(described[0], world_page(described[0]), as_json=as_json)
    else:
        _show(described, worlds_page(described), as_json=as_json)


@app.command
def presets(env: str | None = None, *, method: str = "elbert-po", preset: str = "fast", as_json: Json = False) -> None:
    """Show the settings that a training uses if nothing else is given, and where each comes from.

    Args:
        env: Name of an environment, or own for your own ones; without it, what the preset sets in each of them.
        method: Method of training: elbert-po, g-ppo (PPO on the reward alone), r-ppo, a-ppo, band, lagrangian, focops,
            cpo or return-gap.
        preset: fast, paper, or the path of a TOML file.
    """
    from elbert.experiments.settings_in_use import overview, settings_in_use
    from elbert.report.pages import presets_page, settings_page

    if env is None:
        content = {name: {each: used.value for each, used in row.items()} for name, row in overview(preset).items()}
        _show(content, presets_page(preset), as_json=as_json, width=120)
    else:
        used = settings_in_use(env, method, preset)
        _show(used.to_dict(), settings_page(used), as_json=as_json, width=120)


@app.command
def train(
    env: str,
    *,
    method: str = "elbert-po",
    preset: str = "fast",
    max_bias: float | None = None,
    alpha: float | None = None,
    beta: float | None = None,
    steps: int | None = None,
    seed: int = 0,
    seeds: int | None = None,
    grid: Repeated = None,
    out: Path | None = None,
    resume: bool = False,
    settings: Annotated[Repeated, Parameter(name="--set")] = None,
    world: Repeated = None,
    evaluate: bool = True,
    fail_on: FailOn = None,
    tensorboard: Flag = False,
    as_json: Json = False,
) -> None:
    """Train a policy in an environment, evaluate it, and keep everything in a folder.

    With --max-bias the exit code is the verdict on the limit: 0 confirmed, 1 refuted, 3 undetermined.

    Args:
        env: Name of a world (elbert envs lists them), or module:function or file.py:function that makes an environment.
        method: elbert-po, g-ppo or ppo (PPO on the reward alone), r-ppo, a-ppo, band, lagrangian, focops, cpo or
            return-gap.
        preset: fast, paper, or the path of a TOML file: the settings that are not given here.
        max_bias: Largest bias that is allowed: reward is maximised within this limit (elbert-po, in place of
            alpha; band, lagrangian, focops, cpo).
        alpha: Weight of the bias against the reward (elbert-po).
        beta: Temperature of the soft bias (elbert-po, three or more groups).
        steps: Number of environment steps in all, rounded up to whole rollouts; by default the preset's.
        seed: Seed of all randomness.
        seeds: Number of seeds to train side by side, from --seed on.
        grid: Values of a coefficient to train side by side, each with every seed: --grid alpha=1e3,1e4,1e5. Given for
            several coefficients, every combination is trained.
        out: Folder of the run; a new one in runs by default.
        resume: Resume the run in --out, or the latest unfinished run of this environment and method in runs.
        settings: Any other setting: --set gamma=0.999 --set hidden=[64,64]. elbert presets ENV lists
            them.
        world: Parameters of the world in training: --world horizon=5000.
        evaluate: Evaluate the trained policy. Without it no limit is tested, and the exit code says nothing about it.
        fail_on: Verdict from which on the exit code is not 0: unconfirmed (refuted or undetermined, the default),
            refuted, or never.
        tensorboard: Also write metrics for TensorBoard (needs tensorboardX).
    """
    from elbert.report.live import ProgressDisplay

    with ProgressDisplay(f"{method} on {env}", at_first="compiling") as display:
        from elbert.cli_arguments import assignments, grid_from, run_folder
        from elbert.experiments.by_coefficient import evaluate_by_coefficient
        from elbert.experiments.environment_from import environment_from
        from elbert.experiments.evaluate import Conditions
        from elbert.experiments.gate import check_gate
        from elbert.experiments.jit_cache import keep_compiled
        from elbert.experiments.resolve import check_names, listed_seeds
        from elbert.experiments.run_folder import RunFolder
        from elbert.experiments.train import train_many
        from elbert.learning import get_method

        keep_compiled()
        method = get_method(method).name  # ppo is g-ppo, in the folder's name too
        folder = run_folder(env, method, out, resume=resume)
        chosen = assignments(settings, "--set", max_bias=max_bias, alpha=alpha, beta=beta, steps=steps)
        values = grid_from(grid)
        check_names(method, [*chosen, *values])
        check_gate(fail_on, limited="max_bias" in chosen or "max_bias" in values, evaluated=evaluate)
        where = environment_from(env)
        agents = train_many(
            where,
            seeds=listed_seeds(1 if seeds is None else seeds, first=seed),
            grid=values,
            method=method,
            preset=preset,
            world=assignments(world, "--world"),
            out=folder,
            resume=resume,
            tensorboard=tensorboard,
            progress=display,
            **chosen,
        )
        conditions = Conditions(env=None if isinstance(where, str) else where)
        run = RunFolder(folder)
        results = evaluate_by_coefficient(run, conditions, agents=agents, progress=display) if evaluate else {}
    if results:
        _show_results(results, as_json=as_json)
    print(f"Run: {folder}", file=sys.stderr if as_json else sys.stdout)
    if results:
        _pass_gate(results, fail_on, asked="max_bias" in chosen, as_json=as_json)


@app.command
def evaluate(
    run: str,
    *,
    protocol: str = "default",
    episodes: int | None = None,
    horizon: int | None = None,
    seed: int = 1,
    deterministic: Flag = False,
    env: str | None = None,
    max_bias: float | None = None,
    fail_on: FailOn = None,
    as_json: Json = False,
) -> None:
    """Evaluate the policies of a run, one for each seed, in fresh episodes.

    With --max-bias the exit code is the verdict on the limit: 0 confirmed, 1 refuted, 3 undetermined.

    Args:
        run: Folder of a run, or a rule such as rule:lending/thresholds-2-1.
        protocol: default, or paper: the published number of episodes, horizon, and 1 added to every group's demand.
        episodes: Number of episodes, in place of the protocol's.
        horizon: Steps of an episode, in place of the protocol's.
        seed: Seed of the episodes.
        deterministic: Take the most probable action instead of sampling one.
        env: Environment of a policy that was trained in one of your own: module:function or file.py:function.
        max_bias: Limit on the bias to be tested, whatever the policy was trained for.
        fail_on: Verdict from which on the exit code is not 0: unconfirmed (refuted or undetermined, the default with
            --max-bias), refuted, or never.
    """
    from elbert.report.live import ProgressDisplay

    with ProgressDisplay(run) as display:
        from elbert.checks import as_number
        from elbert.cli_arguments import policy_from
        from elbert.experiments.by_coefficient import evaluate_by_coefficient
        from elbert.experiments.environment_from import environment_from
        from elbert.experiments.evaluate import Conditions
        from elbert.experiments.gate import check_gate, trained_with_limit
        from elbert.experiments.jit_cache import keep_compiled

        keep_compiled()
        if max_bias is not None:
            as_number(max_bias, "max_bias", "the largest acceptable bias, a number of at least 0", low=0)
        conditions = Conditions(
            protocol=protocol,
            episodes=episodes,
            horizon=horizon,
            seed=seed,
            deterministic=deterministic,
            env=None if env is None else environment_from(env),
            max_bias=max_bias,
        )
        policy = policy_from(run)
        limited = max_bias is not None or (fail_on is not None and trained_with_limit(policy))
        check_gate(fail_on, limited=limited, evaluated=True)
        results = evaluate_by_coefficient(policy, conditions, progress=display)
    _show_results(results, as_json=as_json)
    _pass_gate(results, fail_on, asked=max_bias is not None, as_json=as_json)


@app.command
def export(
    run: str,
    *,
    out: Path = Path("policy.onnx"),
    seed: int | None = None,
    member: int | None = None,
    as_json: Json = False,
) -> None:
    """Write a trained policy as an ONNX model, which acts without JAX, after a check that it acts like the original.

    Args:
        run: Folder of a run, or the file of an agent.
        out: File of the model.
        seed: Seed of the policy, in a run of several.
        member: Place of the policy among all of a run of several coefficients, from 0.
    """
    from elbert.cli_arguments import agent_from
    from elbert.report.pages import export_page

    exported = agent_from(run, seed=seed, member=member).to_onnx(out)
    _show(exported.to_dict(), export_page(exported), as_json=as_json, written=[exported.path])


@app.command
def runs(folder: Path = Path("runs"), *, as_json: Json = False) -> None:
    """List runs with their status and results.

    Args:
        folder: Folder to look into, with all folders below it.
    """
    from elbert.experiments.run_folder import find_runs
    from elbert.report.pages import runs_page

    listed = list(find_runs(folder))
    _show([run.to_dict() for run in listed], runs_page(listed), as_json=as_json)


@app.command
def compare(
    *run: str,
    out: Path = Path("comparison"),
    env: str | None = None,
    as_json: Json = False,
) -> None:
    """Compare runs in one environment: table, learning curves, and how near they are to the best possible.

    Args:
        run: Folders of runs, and rules such as rule:lending/thresholds-2-1.
        out: Folder for the page, the table (Markdown, JSON) and the figures (PNG, SVG).
        env: Environment of runs that were trained in one of your own: module:function or file.py:function.
    """
    from elbert.report.live import ProgressDisplay

    with ProgressDisplay("compare") as display:
        from elbert.cli_arguments import policies_from
        from elbert.experiments.compare import compare as compare_policies
        from elbert.experiments.environment_from import environment_from
        from elbert.experiments.jit_cache import keep_compiled

        keep_compiled()
        where = None if env is None else environment_from(env)
        comparison = compare_policies(policies_from(run), env=where, progress=display)
    from elbert.report.pages import comparison_page, write_comparison

    written = write_comparison(comparison, out)
    _show(comparison.to_dict(), comparison_page(comparison), as_json=as_json, written=written, width=120)


@app.command
def audit(
    *log: str,
    question: Annotated[Question, Parameter(name="*", show_default=False)] = NOTHING_ASKED,
    ray: str | None = None,
    out: Path | None = None,
    as_json: Json = False,
) -> None:
    """Audit a log of decisions: long-term benefit rates of groups, their uncertainty, and what is not known.

    The exit code is the verdict on --max-bias: 0 confirmed (or no limit asked), 1 refuted, 3 undetermined. Wrong use or
    data end with 2.

    Args:
        log: CSV or Parquet files, a folder or a pattern, or a TOML file that holds log = "..." and these options.
        ray: Let Ray tasks read the files, each a part: local for this machine, auto or host:port for a cluster. The
            answer is the same.
        out: Folder for the answer (a page, JSON, Markdown) and its figures (PNG, SVG).
    """
    from elbert.report.live import ProgressDisplay

    with ProgressDisplay(f"audit of {visible(' '.join(log), 200)}") as display:
        from elbert.auditing.audit import audit as conduct_audit
        from elbert.auditing.law import law_table
        from elbert.auditing.question import completed

        source, asked = completed(log, question)
        conduct = partial(conduct_audit, ray=ray) if asked.law is None or ray is not None else law_table
        answer = conduct(source, asked, progress=display)
    from elbert.report.audit_pages import page_of, write_audit

    written = [] if out is None else write_audit(answer, out)
    _show(answer.to_dict(), page_of(answer), as_json=as_json, written=written, width=110)
    if answer.code:
        sys.exit(answer.code)


@app.command
def monitor(
    log: str | None = None,
    *,
    state: Path,
    question: Annotated[Question, Parameter(name="*", show_default=False)] = NOTHING_ASKED,
    exact: Flag = False,
    largest: float | None = None,
    best_at: float | None = None,
    as_json: Json = False,
) -> None:
    """Add new rows of a log to a state, and say what all rows so far show, however often you look.

    The options of an audit are given the first time; later they are in the state. The exit code is as in an audit.

    Args:
        log: The new rows: a CSV or Parquet file, or a pattern. Without it, the state is shown as it is.
        state: File that keeps what was seen; it is made the first time.
        exact: Give bounds without approximation, by betting: rows must be units (--unit row), or --largest be given.
        largest: Largest demand that a unit can have, for exact bounds.
        best_at: Number of units at which the bounds are narrowest; 500 by default.
    """
    from elbert.report.live import ProgressDisplay

    with ProgressDisplay("monitor") as display:
        from elbert.auditing.monitor import monitor as add_rows

        seen = add_rows(log, question, state=state, exact=exact, largest=largest, best_at=best_at, progress=display)
    from elbert.report.monitor_page import monitor_page

    _show(seen.to_dict(), monitor_page(seen), as_json=as_json, width=110)
    if seen.code:
        sys.exit(seen.code)


@app.command
def report(
    *source: str,
    out: Path = Path("page.html"),
    replay: bool = True,
    env: str | None = None,
) -> None:
    """Write a page that opens offline in any browser: the answer, pictures, an episode to watch, and every number.

    Args:
        source: Folders of runs and rules to compare; or the folder of a sweep, of a trade-off, of a reproduction, of an
            audit or of a frontier; or a TOML file with a question about a log.
        out: File of the page.
        replay: Let two of the policies act once more, side by side on the same chance.
        env: Environment of runs that were trained in one of your own: module:function or file.py:function.
    """
    from elbert.report.live import ProgressDisplay

    with ProgressDisplay("report") as display:
        from elbert.experiments.environment_from import environment_from
        from elbert.experiments.sources import open_sources

        where = None if env is None else environment_from(env)
        result = open_sources(source, env=where, progress=display)
        from elbert.report.web.subjects import document_of

        document = document_of(result, replay=replay)
        document.write(out)
    print(document.answer)
    print(f"Page: {out}")


@app.command
def view(
    folder: Path = Path("runs"), *, port: int = 8050, host: str = "127.0.0.1", let_anyone_read: Flag = False
) -> None:
    """Serve a page over all runs in a folder on this computer, following those that are running.

    Args:
        folder: Folder to look into, with all folders below it.
        port: Port of the page; 0 takes any that is free.
        host: Address to serve at. There is no login: any other than this computer's own is refused.
        let_anyone_read: Serve at another address all the same: whoever reaches it can read all runs.
    """
    from elbert.report.web.view import serve

    def ready(address: str) -> None:
        print(f"Open {address} in a browser; Ctrl-C ends it.", flush=True)

    serve(folder, host=host, port=port, anyone=let_anyone_read, ready=ready)


@app.command
def frontier(
    env: str = "lending",
    *,
    max_bias: Annotated[list[float] | None, Parameter(negative=(), consume_multiple=True)] = None,
    horizon: int | None = None,
    out: Path = Path("frontier"),
    as_json: Json = False,
) -> None:
    """Show the most reward that any policy can have within each limit on the bias, and simple rules to compare with.

    Args:
        env: A world's name. Lending's frontier is exact; attention has upper bounds; infectious has rules only.
        max_bias: Limits on the bias: --max-bias 0 0.01 0.05. By default several limits, and none.
        horizon: Steps of an episode; by default those over which policies are evaluated.
        out: Folder for the page, the figure (PNG, SVG) and the numbers (JSON).
    """
    from elbert.exact.frontier import LIMITS
    from elbert.exact.frontier import frontier as found_frontier
    from elbert.report.frontier import frontier_page, write_frontier
    from elbert.report.live import ProgressDisplay

    limits = LIMITS if max_bias is None else max_bias
    with ProgressDisplay(f"frontier of {env}") as display:
        found = found_frontier(env, max_bias=limits, horizon=horizon, progress=display)
    _show(found.to_dict(), frontier_page(found), as_json=as_json, written=write_frontier(found, out))


@app.command
def tradeoff(
    env: str,
    *,
    max_bias: Annotated[list[float] | None, Parameter(negative=(), consume_multiple=True)] = None,
    preset: str = "fast",
    steps: int | None = None,
    seed: int = 0,
    seeds: int = 3,
    out: Path | None = None,
    resume: bool = False,
    settings: Annotated[Repeated, Parameter(name="--set")] = None,
    world: Repeated = None,
    as_json: Json = False,
) -> None:
    """Train policies for several limits on the bias, and show what reward each limit leaves and what more would gain.

    Args:
        env: Name of a world (elbert envs lists them), or module:function or file.py:function that makes an environment.
        max_bias: Limits on the bias: --max-bias 0.01 0.05 inf, where inf is no limit. By default 0.01, 0.02, 0.05, 0.1
            and no limit.
        preset: fast, paper, or the path of a TOML file: the settings that are not given here.
        steps: Number of environment steps of each policy, rounded up to whole rollouts; by default the preset's.
        seed: Seed of all randomness.
        seeds: Number of seeds to train for each limit, from --seed on. One gives no prices.
        out: Folder of the run, the page, the tables and the figure; a new one in runs by default.
        resume: Resume the run in --out, or the latest unfinished trade-off of this environment in runs.
        settings: Any other setting: --set gamma=0.999 --set hidden=[64,64]. elbert presets ENV lists
            them.
        world: Parameters of the world in training: --world horizon=5000.
    """
    from elbert.report.live import ProgressDisplay

    with ProgressDisplay(f"trade-off in {env}", at_first="compiling") as display:
        from elbert.cli_arguments import assignments, run_folder
        from elbert.experiments.environment_from import environment_from
        from elbert.experiments.resolve import check_names, listed_seeds
        from elbert.experiments.tradeoff import LIMITS
        from elbert.experiments.tradeoff import tradeoff as train_limits

        folder = run_folder(env, "tradeoff", out, resume=resume)
        limits = LIMITS if max_bias is None else max_bias
        chosen = assignments(settings, "--set", max_bias=limits, steps=steps)
        check_names("elbert-po", chosen)
        found = train_limits(
            environment_from(env),
            seeds=listed_seeds(seeds, first=seed),
            preset=preset,
            world=assignments(world, "--world"),
            out=folder,
            resume=resume,
            progress=display,
            **chosen,
        )
        from elbert.report.tradeoff import tradeoff_page, write_tradeoff

        written = write_tradeoff(found, folder)
    _show(found.to_dict(), tradeoff_page(found), as_json=as_json, written=written, width=140)


@app.command
def reproduce(
    *experiment: str,
    preset: str = "fast",
    seeds: int | None = None,
    env: Repeated = None,
    quick: Flag = False,
    part: float | None = None,
    workers: int | None = None,
    ray: str | None = None,
    store: str | None = None,
    out: Path = Path("reproduction"),
    as_json: Json = False,
) -> None:
    """Reproduce the paper's experiments: tables and figures, with the published numbers next to ours.

    Trainings that the folder holds already are not repeated, and an interrupted command goes on where it stopped.

    Args:
        experiment: main, original, alpha, beta, supply-demand, notions, demand, details, temporal; all of them if none
            is named. Or benchmark: every method in every world at two limits, which is ours.
        preset: fast, paper, or the path of a TOML file.
        seeds: Number of seeds of every training; 3 by default, 1 with --quick.
        env: Environment to restrict the experiments to; may be given several times.
        quick: Give a first complete picture: fewer steps and evaluation episodes, one seed.
        part: Part of the preset's steps to train for; all of them by default, 0.4 with --quick (benchmark: 0.1).
        workers: Number of trainings at a time; one for each core by default, but at most 8.
        ray: Address of a Ray cluster whose nodes train; local starts one on this machine.
        store: Address at which runs are kept, for nodes that share no folder: s3://bucket/study.
        out: Folder for runs, tables (Markdown, JSON) and figures (PNG, SVG).
    """
    from elbert.report.live import ProgressDisplay

    with ProgressDisplay("reproduce") as display:
        from elbert.experiments.reproduce import reproduce as reproduce_experiments
        from elbert.experiments.store import open_store
        from elbert.report.paper import reproduction_page, write_reproduction

        reproduction = reproduce_experiments(
            experiment,
            out=out,
            preset=preset,
            seeds=seeds,
            envs=env,
            quick=quick,
            part=part,
            workers=workers,
            ray=ray,
            store=open_store(store),
            progress=display,
        )
    written = write_reproduction(reproduction, out)
    _show(reproduction.to_dict(), reproduction_page(reproduction), as_json=as_json, written=written)
    _name_failures(reproduction)


@app.command
def sweep(
    plan: Path,
    *,
    out: Path | None = None,
    workers: int | None = None,
    ray: str | None = None,
    store: str | None = None,
    list_only: Annotated[bool, Parameter(name="--list", negative=())] = False,
    as_json: Json = False,
) -> None:
    """Train and evaluate every combination of a plan, and show the results side by side.

    Trainings that the folder holds already are not repeated, and an interrupted command goes on where it stopped. The
    exit code is 1 if a training failed; the others are done all the same.

    Args:
        plan: TOML file with grids over environments, methods, limits, settings and seeds (docs/howto/sweep.md).
        out: Folder for runs, tables (Markdown, CSV, JSON), figures and a page; named after the plan by default.
        workers: Number of trainings at a time; one for each core by default, but at most 8.
        ray: Address of a Ray cluster whose nodes train; local starts one on this machine.
        store: Address at which runs are kept, for nodes that share no folder: s3://bucket/study.
        list_only: List the trainings, and train nothing.
    """
    from elbert.report.live import ProgressDisplay

    with ProgressDisplay(f"sweep {visible(plan.name, 100)}") as display:
        from elbert.experiments.jobs import finished
        from elbert.experiments.plan import plan_from
        from elbert.experiments.run_folder import RunFolder
        from elbert.experiments.store import open_store
        from elbert.experiments.sweep import do_sweep, folder_of, search_of
        from elbert.report.sweep import plan_page, sweep_page, write_sweep

        whole = plan_from(plan)
        folder = folder_of(whole) if out is None else out
        search_of(whole)
        how = {"workers": workers, "ray": ray, "store": open_store(store), "progress": display}
        study = None if list_only else do_sweep(whole, folder, **how)
    if study is None:
        done = sum(finished(RunFolder(folder / "runs" / job.name)) for job in whole.jobs)
        _show([job.name for job in whole.jobs], plan_page(whole, done), as_json=as_json, width=120)
        return
    _show(study.to_dict(), sweep_page(study), as_json=as_json, written=write_sweep(study), width=140)
    _name_failures(study)


def _name_failures(done: Any) -> None:
    """Name the trainings that failed and exit with 1, if any did."""
    if done.failed:
        print(f"elbert: {done.failures}", file=sys.stderr)
        sys.exit(FAILED)


def _show_results(results: Mapping[str, Any], *, as_json: bool) -> None:
    """One result as a page, several by coefficient as a table."""
    from elbert.report.pages import coefficients_page, result_page

    if len(results) == 1:
        result = next(iter(results.values()))
        _show(result.to_dict(), result_page(result), as_json=as_json)
    else:
        content = {label: result.to_dict() for label, result in results.items()}
        _show(content, coefficients_page(results), as_json=as_json, width=120)


def _pass_gate(results: Mapping[str, Any], fail_on: FailOn, *, asked: bool, as_json: bool) -> None:
    """Say whether the limit is kept, and exit with the code that says so, if a limit was asked for."""
    from elbert.experiments.gate import gate

    if not asked and fail_on is None:
        return
    verdict = gate(list(results.values()), fail_on or "unconfirmed")
    print(verdict.text, file=sys.stderr if as_json else sys.stdout)
    if verdict.code:
        sys.exit(verdict.code)


def _show(content: Any, page: Any, *, as_json: bool, written: Sequence[Path] = (), width: int = 100) -> None:
    """Print JSON, or a page and what was written: as wide as the terminal, or this wide in a file or a pipe."""
    from rich.console import Console

    if as_json:
        print(json.dumps(content, indent=2, allow_nan=False))
        return
    Console(width=None if sys.stdout.isatty() else width, highlight=False).print(page)
    if written:
        print("Written: " + ", ".join(str(path) for path in written))


def main() -> None:
    """Run the command line. An error becomes a message and an exit code, never a traceback."""
    try:
        app(sys.argv[1:])
    except ElbertError as error:
        print(f"elbert: {error}", file=sys.stderr)
        stopped_by = getattr(error, "signal_number", None)
        sys.exit(2 if stopped_by is None else 128 + stopped_by)
    except OSError as error:
        print(f"elbert: {error.filename or 'a file'}: {error.strerror or error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("elbert: interrupted", file=sys.stderr)
        sys.exit(130)
    except Exception as error:  # in a user's environment, or a mistake of ours
        if os.environ.get("ELBERT_TRACEBACK"):
            raise
        at = traceback.extract_tb(error.__traceback__)[-1]
        print(f"elbert: {type(error).__name__}: {error} ({at.filename}, line {at.lineno})", file=sys.stderr)
        print("With ELBERT_TRACEBACK=1 in the environment the whole traceback is shown.", file=sys.stderr)
        sys.exit(CRASHED)
