"""The command line: parse, call, print, exit code. No logic."""

import json
import os
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

from elbert import __version__
from elbert.errors import ElbertError

if TYPE_CHECKING:
    from rich.console import Console

app = App(
    name="elbert",
    help="Long-term fairness in sequential decisions: total benefit given over total benefit due, per group.",
    version=__version__,
)


@app.command
def envs(
    name: str | None = None,
    *,
    as_json: Annotated[bool, Parameter(name="--json", negative=())] = False,
) -> None:
    """List the environments, or describe one with its parameters.

    Parameters
    ----------
    name
        Which one to describe, for example lending or elbert/Lending-v0.
    as_json
        Print JSON instead of a table.
    """
    from elbert.envs import ENTRIES, describe, get_entry
    from elbert.report.world_tables import description, listing

    known = [describe(entry) for entry in ([get_entry(name)] if name else ENTRIES.values())]
    if as_json:
        _print_json(known[0] if name else known)
        return
    _console().print(description(known[0]) if name else listing(known))


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
    out: Path | None = None,
    resume: bool = False,
    settings: Annotated[list[str] | None, Parameter(name="--set", negative=())] = None,
    world: Annotated[list[str] | None, Parameter(name="--world", negative=())] = None,
    evaluate: bool = True,
    tensorboard: Annotated[bool, Parameter(negative=())] = False,
    as_json: Annotated[bool, Parameter(name="--json", negative=())] = False,
) -> None:
    """Train a policy in an environment, evaluate it, and keep everything in a folder.

    Parameters
    ----------
    env
        A world's name (elbert envs lists them), or module:function or file.py:function that makes an environment.
    method
        elbert-po, g-ppo, r-ppo or a-ppo.
    preset
        fast, paper, or the path of a TOML file.
    max_bias
        Largest bias to be allowed: reward is maximised under this limit (elbert-po; no alpha is needed).
    alpha
        Weight of the bias against the reward (elbert-po).
    beta
        Temperature of the soft bias (elbert-po, three or more groups).
    steps
        Environment steps in all.
    seed
        Of everything random.
    seeds
        How many seeds to train side by side, from --seed on.
    out
        Folder of the run; by default a new one in runs.
    resume
        Go on with the run in --out, or else with the latest unfinished one of this environment and method in runs.
    settings
        Any other setting: --set gamma=0.999 --set hidden=[64,64]. A wrong name lists them all.
    world
        Parameters of the world in training: --world horizon=5000.
    evaluate
        Evaluate the trained policy.
    tensorboard
        Also write metrics for TensorBoard (needs the extra: pip install elbert[tensorboard]).
    as_json
        Print the evaluation as JSON.
    """
    from elbert.cli_arguments import assignments, chosen_settings, environment_from, run_folder, seeds_from
    from elbert.experiments.jit_cache import keep_compiled
    from elbert.experiments.results import evaluate_run
    from elbert.experiments.train import train_many
    from elbert.report.live import LiveDisplay, waiting
    from elbert.report.results import result_table

    keep_compiled()
    folder = run_folder(env, method, out, resume=resume)
    given = {"max_bias": max_bias, "alpha": alpha, "beta": beta, "steps": steps}
    chosen = chosen_settings(given, settings)
    from elbert.experiments.resolve import check_names

    check_names(method, chosen)
    where = environment_from(env)
    with LiveDisplay(f"{method} on {env}") as display:
        callbacks: list[Any] = []
        if tensorboard:
            from elbert.experiments.tensorboard import TensorBoard

            callbacks.append(TensorBoard(folder / "tensorboard"))
        train_many(
            where,
            seeds=seeds_from(seed, seeds),
            method=method,
            preset=preset,
            world=assignments(world, "--world"),
            out=folder,
            resume=resume,
            callbacks=callbacks,
            progress=display,
            **chosen,
        )
    if evaluate:
        with waiting("evaluating") as tick:
            result, _ = evaluate_run(folder, env=None if isinstance(where, str) else where, tick=tick)
        _print_json(result) if as_json else _console().print(result_table(result))
    print(f"Run: {folder}", file=sys.stderr if as_json else sys.stdout)


@app.command
def evaluate(
    run: Path,
    *,
    protocol: str = "default",
    episodes: int | None = None,
    horizon: int | None = None,
    seed: int = 1,
    deterministic: Annotated[bool, Parameter(negative=())] = False,
    env: str | None = None,
    as_json: Annotated[bool, Parameter(name="--json", negative=())] = False,
) -> None:
    """Evaluate a run's policy, or that of all its seeds, in fresh episodes.

    Parameters
    ----------
    run
        Folder of a run, or a rule to compare with, such as rule:lending/thresholds-2-1.
    protocol
        default, or paper: the published number of episodes, horizon, and 1 added to every group's demand.
    episodes
        How many, instead of the protocol's number.
    horizon
        Steps of an episode, instead of the protocol's number.
    seed
        Of the episodes.
    deterministic
        Act by the most probable action instead of sampling.
    env
        Where, for a policy trained in an environment of your own: module:function or file.py:function.
    as_json
        Print JSON instead of a table.
    """
    from elbert.cli_arguments import environment_from
    from elbert.experiments.jit_cache import keep_compiled
    from elbert.experiments.results import evaluate_run
    from elbert.report.live import waiting
    from elbert.report.results import result_table

    keep_compiled()
    where = None if env is None else environment_from(env)
    changed = any(option is not None for option in (episodes, horizon)) or deterministic or seed != 1
    how: dict[str, Any] = {"protocol": protocol, "episodes": episodes, "horizon": horizon, "seed": seed}
    how |= {"deterministic": deterministic, "env": where}
    with waiting("evaluating") as tick:
        result, _ = evaluate_run(run, store=protocol == "default" and not changed, tick=tick, **how)
    _print_json(result) if as_json else _console().print(result_table(result))


@app.command
def runs(
    folder: Path = Path("runs"), *, as_json: Annotated[bool, Parameter(name="--json", negative=())] = False
) -> None:
    """List runs: what is there, and how it ended.

    Parameters
    ----------
    folder
        Where to look.
    as_json
        Print JSON instead of a table.
    """
    from elbert.experiments.run_summary import find_runs
    from elbert.report.results import runs_table

    found = list(find_runs(folder))
    _print_json([run.to_dict() for run in found]) if as_json else _console().print(runs_table(found))


@app.command
def compare(
    *run: Path,
    out: Path = Path("comparison"),
    as_json: Annotated[bool, Parameter(name="--json", negative=())] = False,
) -> None:
    """Put runs in one environment side by side: table, learning curves, and how near they are to the best possible.

    Parameters
    ----------
    run
        Folders of the runs, and rules to compare with, such as rule:lending/thresholds-2-1.
    out
        Folder for the table (Markdown, JSON) and the curves (PNG, SVG).
    as_json
        Print JSON instead of a table.
    """
    from elbert.cli_arguments import names_of
    from elbert.experiments.jit_cache import keep_compiled
    from elbert.experiments.results import compared
    from elbert.report.live import waiting
    from elbert.report.results import comparison_table, write_comparison

    keep_compiled()
    with waiting("looking up and evaluating") as tick:
        results = compared(names_of(run), tick=tick)
    written = write_comparison(results, run, out)
    if as_json:
        _print_json(dict(results))
        return
    _console(width=110).print(comparison_table(results))
    print("Written: " + ", ".join(str(path) for path in written))


@app.command
def frontier(
    env: str = "lending",
    *,
    max_bias: Annotated[list[float] | None, Parameter(negative=(), consume_multiple=True)] = None,
    horizon: int | None = None,
    out: Path = Path("frontier"),
    as_json: Annotated[bool, Parameter(name="--json", negative=())] = False,
) -> None:
    """Show the most reward that any policy can have within each limit on the bias, and simple rules to compare with.

    Parameters
    ----------
    env
        A world's name. Lending's frontier is exact; attention has upper bounds; infectious has rules only.
    max_bias
        Limits on the bias: --max-bias 0 0.01 0.05. By default several limits, and none.
    horizon
        Steps of an episode; by default those over which policies are evaluated.
    out
        Folder for the figure (PNG, SVG) and the numbers (JSON).
    as_json
        Print JSON instead of a table.
    """
    from elbert.exact.frontier import LIMITS
    from elbert.exact.frontier import frontier as found_frontier
    from elbert.report.frontier import frontier_table, write_frontier
    from elbert.report.live import waiting

    limits = LIMITS if max_bias is None else max_bias
    with waiting("solving", unit="limits", total=len(limits)) as tell:
        found = found_frontier(env, max_bias=limits, horizon=horizon, progress=lambda event: tell(event.done))
    written = write_frontier(found, out)
    if as_json:
        _print_json(found.to_dict())
        return
    _console().print(frontier_table(found))
    print("Written: " + ", ".join(str(path) for path in written))


@app.command
def reproduce(
    *experiment: str,
    preset: str = "fast",
    seeds: int | None = None,
    env: Annotated[list[str] | None, Parameter(negative=())] = None,
    quick: Annotated[bool, Parameter(negative=())] = False,
    workers: int | None = None,
    out: Path = Path("reproduction"),
    as_json: Annotated[bool, Parameter(name="--json", negative=())] = False,
) -> None:
    """Make the paper's experiments again: tables and figures with the published numbers beside ours.

    What has been trained before is found in the folder and not trained again; an interrupted command goes on.

    Parameters
    ----------
    experiment
        main, original, alpha, beta, supply-demand, notions, demand, details, temporal; all of them if none is named.
    preset
        fast, paper, or the path of a TOML file.
    seeds
        Of every training; 3 by default, 1 with --quick.
    env
        Only in this environment; may be given several times.
    quick
        A first complete picture: fewer steps and evaluation episodes, one seed.
    workers
        Trainings at a time; as many as there are cores by default, but at most 8.
    out
        Folder for runs, tables (Markdown, JSON) and figures (PNG, SVG).
    as_json
        Print the numbers as JSON instead of tables.
    """
    from elbert.report.live import StandingDisplay
    from elbert.report.reproduce import reproduced

    with StandingDisplay("reproduce") as display:
        found = reproduced(
            experiment, preset=preset, seeds=seeds, envs=env, quick=quick, workers=workers, out=out, tell=display
        )
    if as_json:
        _print_json(found.to_dict())
        return
    for part in found.tables:
        _console().print(part)
    print("Written: " + ", ".join(str(path) for path in found.written))
    if found.failed:
        raise ElbertError(found.failures)


def _print_json(content: Any) -> None:
    print(json.dumps(content, indent=2, allow_nan=False))


def _console(width: int = 100) -> "Console":
    """Where tables go: as wide as the terminal, or the same for every reader of a file."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else width, highlight=False)


def main() -> None:
    """Run the command line; errors of ours become one message and exit code 2, never a traceback."""
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
    except Exception as error:  # of an environment of the user's own, or a mistake of ours
        if os.environ.get("ELBERT_TRACEBACK"):
            raise
        at = traceback.extract_tb(error.__traceback__)[-1]
        print(f"elbert: {type(error).__name__}: {error} ({at.filename}, line {at.lineno})", file=sys.stderr)
        print("With ELBERT_TRACEBACK=1 in the environment the whole traceback is shown.", file=sys.stderr)
        sys.exit(1)
