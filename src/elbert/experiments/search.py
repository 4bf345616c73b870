"""A search in place of a grid: Optuna proposes settings, and the same machinery trains and judges them.

What is searched for is the most reward among settings with which every seed's limit is confirmed. The best of many
noisy results is too good by luck: so the best settings are trained again with fresh seeds, and that row is the one to
report.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from typing import Any, NamedTuple

from elbert.checks import as_seed, as_whole
from elbert.errors import ElbertError, InvalidInputError, did_you_mean
from elbert.experiments.jobs import Job
from elbert.experiments.plan import PlanRow, trainings_of
from elbert.experiments.resolve import listed_seeds
from elbert.learning.result import Result

OWN_ENTRIES = ("trials", "batch", "seed", "space")
CHOICE_ENTRIES, RANGE_ENTRIES = ("choices",), ("low", "high", "log")
FAR = 1.0
"""How far beyond the limit a training counts whose bias is not known."""

Perform = Callable[[Sequence[Job]], Mapping[str, str]]
"""Does jobs; why some failed, by name."""
Read = Callable[[PlanRow], Result | None]
"""The result of a row over its seeds; None if one is missing."""
Note = Callable[[Sequence[PlanRow]], None]
"""Is told all rows so far, so that a search can be followed."""


class Search(NamedTuple):
    """Settings to be found."""

    fixed: dict[str, Any]  # a grid with one value for everything, the limit among them
    space: dict[str, Mapping[str, Any]]  # name of a setting -> {low, high, log} or {choices}
    trials: int
    batch: int  # proposals that are trained at a time: more are quicker, fewer learn more from each other
    seed: int

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> "Search":
        """From the [search] of a plan; what makes no sense is refused."""
        fixed = {name: value for name, value in content.items() if name not in OWN_ENTRIES}
        space = content.get("space", {})
        if not isinstance(space, Mapping) or not space:
            raise InvalidInputError(
                "The search has no space. Write [search.space] and below it, for example, "
                "gamma = {low = 0.9, high = 0.999} or minibatch = {choices = [128, 256]}."
            )
        for name, entry in space.items():
            _check_entry(name, entry)
            if name in fixed:
                raise InvalidInputError(
                    f"{name} is given twice, in the search and in its space. Leave one of them out."
                )
        if not isinstance(fixed.get("max_bias"), int | float):
            raise InvalidInputError(
                f"The search's max_bias is {fixed.get('max_bias')!r}. Give the limit on the bias that the best "
                "settings have to hold: max_bias = 0.05."
            )
        lists = {name: value for name, value in fixed.items() if isinstance(value, list) and name != "seeds"}
        several = [name for name, value in lists.items() if len(value) != 1]
        if several:
            raise InvalidInputError(
                f"The search gives several values of {', '.join(several)}. Give one; [[grid]] has several."
            )
        world = fixed.get("world", {})
        if not isinstance(world, Mapping) or any(
            isinstance(value, list) and len(value) != 1 for value in world.values()
        ):
            raise InvalidInputError(f"The search's world is {world!r}. Give one value for each of its parameters.")
        seeds = listed_seeds(fixed.get("seeds", 3))
        as_seed(max(seeds) + len(seeds), "The last of the fresh seeds, which follow those of the search,")
        trials = as_whole(content.get("trials", 20), "trials", "how many settings are tried, at least 1", low=1)
        batch = as_whole(content.get("batch", 4), "batch", "how many are trained at a time, at least 1", low=1)
        return cls(fixed, dict(space), trials, batch, as_seed(content.get("seed", 0)))


def _check_entry(name: str, entry: Any) -> None:
    known = CHOICE_ENTRIES if isinstance(entry, Mapping) and "choices" in entry else RANGE_ENTRIES
    makes_sense = isinstance(entry, Mapping) and all(key in known for key in entry)
    if makes_sense and known is CHOICE_ENTRIES:
        makes_sense = isinstance(entry["choices"], list) and len(entry["choices"]) > 0
    elif makes_sense:
        ends = [entry.get("low"), entry.get("high")]
        numbers = [end for end in ends if isinstance(end, int | float) and not isinstance(end, bool)]
        makes_sense = len(numbers) == len(ends) and -math.inf < numbers[0] < numbers[1] < math.inf
        makes_sense = makes_sense and isinstance(log := entry.get("log", False), bool) and (not log or numbers[0] > 0)
    if not makes_sense:
        wrong = next((key for key in entry if key not in known), "") if isinstance(entry, Mapping) else ""
        raise InvalidInputError(
            f"The space of {name} is {entry!r}.{did_you_mean(wrong, known) if wrong else ''} Give {{low = ..., high = "
            "...}, with log = true to search over orders of magnitude, or {choices = [...]}."
        )


def check_search(search: Search, most: int) -> None:
    """Refuse what would fail later: settings that make no sense at an end of the space, or Optuna missing."""
    _imported()
    ends = [
        {name: entry["choices"][end] if "choices" in entry else entry[key] for name, entry in search.space.items()}
        for end, key in ((0, "low"), (-1, "high"))
    ]
    for values in ends:
        trainings_of([_grid(search, values, [0])], most)


def do_search(search: Search, perform: Perform, read: Read, note: Note, most: int) -> list[PlanRow]:
    """Try settings, batch by batch, and train the best ones again with fresh seeds; the rows of all, that one first.

    Proposals depend on the seed and on the results before them, in order: a search that was stopped proposes the same
    again, and finds the trainings that are done.
    """
    optuna = _imported()
    seeds, limit = listed_seeds(search.fixed.get("seeds", 3)), search.fixed["max_bias"]
    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=search.seed))
    rows: list[PlanRow] = []
    done: list[tuple[PlanRow, Result]] = []
    for start in range(0, search.trials, search.batch):
        proposed = [study.ask() for _ in range(min(search.batch, search.trials - start))]
        values = [{name: _suggested(trial, name, entry) for name, entry in search.space.items()} for trial in proposed]
        planned = [_planned(search, each, seeds, most) for each in values]
        tried = [
            None if plan is None else replace(plan[0], note=f"trial {start + place}")
            for place, plan in enumerate(planned)
        ]
        rows += [row for row in tried if row is not None]
        note(rows)
        perform([job for plan in planned if plan is not None for job in plan[1]])
        for trial, row in zip(proposed, tried, strict=True):
            result = None if row is None else read(row)
            if row is None or result is None:
                study.tell(trial, state=optuna.trial.TrialState.FAIL)
            else:
                done.append((row, result))
                trial.set_constraint("bias", _beyond(result, limit))
                study.tell(trial, result.reward.mean)
    if not done:
        return rows
    best, result = max(done, key=lambda each: (-max(0.0, _beyond(each[1], limit)), each[1].reward.mean))
    fresh = [max(seeds) + 1 + place for place in range(len(seeds))]
    (again,), jobs = trainings_of([_grid(search, {name: best.settings[name] for name in search.space}, fresh)], most)
    which = "best" if _beyond(result, limit) <= 0 else "nearest to the limit, which no trial held"
    again = replace(again, note=f"{which} ({best.note}), fresh seeds")
    note([again, *rows])
    perform(jobs)
    return [again, *rows]


def _planned(
    search: Search, values: Mapping[str, Any], seeds: Sequence[int], most: int
) -> tuple[PlanRow, tuple[Job, ...]] | None:
    """The row and the jobs of a proposal; None for one that makes no sense together."""
    try:
        (row,), jobs = trainings_of([_grid(search, values, seeds)], most)
    except InvalidInputError:
        return None
    return row, jobs


def _grid(search: Search, values: Mapping[str, Any], seeds: Sequence[int]) -> dict[str, Any]:
    """One combination as a grid, in which a list would be several values."""
    return {**search.fixed, **{name: [value] for name, value in values.items()}, "seeds": list(seeds)}


def _beyond(result: Result, max_bias: float) -> float:
    """How far the bias may be beyond the limit, at worst over seeds; not positive only if every seed is confirmed."""
    worst = -FAR
    for single in result.singles:
        confirmed = single.limit is not None and single.limit.verdict == "confirmed"
        ends = single.worst.bias.ci
        distance = FAR if ends is None else ends[1] - max_bias
        worst = max(worst, min(distance, 0.0) if confirmed else max(distance, 1e-6))
    return worst


def _suggested(trial: Any, name: str, entry: Mapping[str, Any]) -> Any:
    if "choices" in entry:
        choices = entry["choices"]  # Optuna's choices are plain values: take the place of one that is a list
        return choices[trial.suggest_categorical(name, list(range(len(choices))))]
    whole = all(isinstance(entry[end], int) for end in ("low", "high"))
    suggest = trial.suggest_int if whole else trial.suggest_float
    return suggest(name, entry["low"], entry["high"], log=bool(entry.get("log", False)))


def _imported() -> Any:
    try:
        optuna = import_module("optuna")
    except ImportError as error:
        raise ElbertError("A search needs Optuna. Install it: pip install 'elbert[search]'.") from error
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna
