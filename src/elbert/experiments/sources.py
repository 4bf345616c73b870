"""What a page can be made from: runs and rules, studies, a reproduction, a frontier, an audit, or a question."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

from elbert.auditing.audit import audit
from elbert.auditing.law import LawTable, law_table
from elbert.auditing.question import Question, completed
from elbert.auditing.results import Audit
from elbert.errors import InvalidInputError
from elbert.exact.frontier import Frontier
from elbert.exact.rules import is_rule
from elbert.experiments.benchmark import NAME
from elbert.experiments.compare import Comparison, compare
from elbert.experiments.jit_cache import keep_compiled
from elbert.experiments.paper import EXPERIMENTS, plans_for
from elbert.experiments.reproduce import Reproduction, outcome_of
from elbert.experiments.sweep import PLAN, Sweep, read_sweep
from elbert.experiments.tradeoff import KEPT, Tradeoff, read_tradeoff
from elbert.files import FileError, as_path, read_json, read_sealed
from elbert.learning import Environment
from elbert.progress import Tell, tell_nobody

Source: TypeAlias = Comparison | Reproduction | Sweep | Tradeoff | Frontier | Audit | LawTable
AUDIT = "audit.json"
REMEDY = "Conduct the audit again."


def open_sources(sources: Sequence[str], *, env: Environment | None = None, progress: Tell = tell_nobody) -> Source:
    """The result that some sources name: several are runs and rules to compare, one may be any kind of result."""
    if not sources:
        raise InvalidInputError(
            "Nothing was named. Give folders of runs, or one of: the folder of a sweep, of a trade-off, of a "
            "reproduction, of an audit or of a frontier, or a TOML file with a question about a log."
        )
    if len(sources) == 1 and not is_rule(sources[0]):
        found = _single(as_path(sources[0], "the source"), progress)
        if found is not None:
            return found
    keep_compiled()
    short = [source if is_rule(source) else as_path(source, "the source").resolve().name for source in sources]
    names = short if len(set(short)) == len(short) else sources  # a folder's name, where that says which
    return compare(dict(zip(names, sources, strict=True)), env=env, progress=progress)


def _single(path: Path, progress: Tell) -> Source | None:
    """A result that is kept in a file or a folder; None for a run."""
    if path.suffix == ".toml":
        log, question = completed([str(path)], Question())
        return (audit if question.law is None else law_table)(log, question, progress=progress)
    if (path / PLAN).is_file():
        return read_sweep(path)
    if (named := path if path.name == KEPT else path / KEPT).is_file():
        return read_tradeoff(named)
    named = path / AUDIT if path.is_dir() else path
    if named.name == AUDIT and named.exists():
        content = read_sealed(named, remedy=REMEDY)
        if "comparisons" not in content:
            raise FileError(f"{named} holds the table of a law, which has no page of its own. Ask for it again: --out.")
        try:
            return Audit.from_dict(content)
        except (InvalidInputError, KeyError, TypeError) as error:
            raise FileError(f"{named} is of another version ({error}). {REMEDY}") from error
    frontiers = sorted(path.glob("frontier-*.json")) if path.is_dir() else [path] * path.name.startswith("frontier-")
    if frontiers:
        if len(frontiers) > 1:
            listed = ", ".join(each.name for each in frontiers)
            raise InvalidInputError(f"{path} holds several frontiers: {listed}. Name one of these files.")
        return Frontier.from_dict(read_json(frontiers[0]))
    experiments = [path / f"{name}.json" for name in (*EXPERIMENTS, NAME) if (path / f"{name}.json").is_file()]
    return _reproduction(path, experiments) if experiments and (path / "runs").is_dir() else None


def _reproduction(folder: Path, experiments: Sequence[Path]) -> Reproduction:
    """What the folder of a reproduction holds: nothing is trained."""
    outcomes = []
    for path in experiments:
        content: dict[str, Any] = read_json(path)
        if "rows" not in content:
            continue
        envs = sorted({row["env"] for row in content["rows"]})
        how = {name: content[name] for name in ("preset", "seeds", "quick")}
        (plan,) = plans_for([path.stem], part=content.get("part"), envs=envs, **how)
        outcomes.append(outcome_of(plan, folder / "runs"))
    return Reproduction(tuple(outcomes), {})
