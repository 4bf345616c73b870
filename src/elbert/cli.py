"""The command line: parse, call, print, exit code. No logic."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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
reproduce = App(name="reproduce", help="Make the paper's experiments again.")
app.command(reproduce)


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
    from elbert.report.environments import description, listing

    known = [describe(entry) for entry in ([get_entry(name)] if name else ENTRIES.values())]
    if as_json:
        print(json.dumps(known[0] if name else known, indent=2))
        return
    _console().print(description(known[0]) if name else listing(known))


@reproduce.command
def temporal(
    *,
    out: Path = Path("reproduction"),
    as_json: Annotated[bool, Parameter(name="--json", negative=())] = False,
) -> None:
    """Show the paper's two loan trajectories under step-wise notions and under the long-term benefit rate.

    Parameters
    ----------
    out
        Folder for the table (Markdown, JSON) and the picture (PNG, SVG).
    as_json
        Print the numbers as JSON instead of a table.
    """
    from elbert.experiments.temporal import temporal_example
    from elbert.report.temporal import rich_table, write_temporal

    readings = temporal_example()
    written = write_temporal(readings, out)
    if as_json:
        print(json.dumps([reading.to_dict() for reading in readings], indent=2))
        return
    _console().print(rich_table(readings))
    print("Both approve 100 of 101 blue and 1 of 101 red applicants; step-wise notions call A unbiased and B biased.")
    print("The long-term benefit rate gives both the same bias, and every decision the same weight.")
    print("Written: " + ", ".join(str(path) for path in written))


def _console() -> "Console":
    """Where tables go: as wide as the terminal, or the same for every reader of a file."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else 100, highlight=False)


def main() -> None:
    """Run the command line; errors of ours become one message and exit code 2, never a traceback."""
    try:
        app()
    except ElbertError as error:
        print(f"elbert: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("elbert: interrupted", file=sys.stderr)
        sys.exit(130)
