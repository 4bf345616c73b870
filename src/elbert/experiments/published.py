"""Results beside published ones: rows of a table, and a word on each cell."""

import json
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, TypeAlias

from elbert.experiments.paper import Experiment, Series
from elbert.experiments.results import with_best_possible, world_of
from elbert.experiments.run_folder import RunFolder

Verdict: TypeAlias = Literal["better", "alike", "worse"]
CellVerdict: TypeAlias = Literal["dominates", "alike", "mixed", "dominated"]


@cache
def published() -> dict[str, Any]:
    """The paper's numbers: levels[env][method] = {reward, reward_lo, reward_hi, bias, bias_lo, bias_hi}."""
    return json.loads((files("elbert.experiments") / "data" / "published.json").read_text("utf-8"))


def verdict(ci: Sequence[float], theirs: Sequence[float], *, more_is_better: bool) -> Verdict:
    """Say "better" where our whole interval lies on the good side of their whole band, "worse" on the other side.

    Args:
        ci: our 95 % interval.
        theirs: the ends of the published band.
        more_is_better: of the reward; not of the bias.
    """
    above, below = min(ci) > max(theirs), max(ci) < min(theirs)
    if above or below:
        return "better" if above == more_is_better else "worse"
    return "alike"


def cell(reward: Verdict, bias: Verdict) -> CellVerdict:
    """Both at once: "dominates" if neither is worse and one is better; "dominated" the other way round."""
    if reward == bias == "alike":
        return "alike"
    if "worse" not in (reward, bias):
        return "dominates"
    return "dominated" if "better" not in (reward, bias) else "mixed"


def rows_of(experiment: Experiment, folder: Path) -> list[dict[str, Any]]:
    """A row per training: what was measured, what was published, the verdict. Trainings that are missing say so."""
    return [
        _row(experiment.name, panel.env, panel.title, series, folder)
        for panel in experiment.panels
        for series in panel.series
    ]


def _row(experiment: str, env: str, panel: str, series: Series, folder: Path) -> dict[str, Any]:
    found = RunFolder(folder / series.job.name).evaluation() if (folder / series.job.name).is_dir() else None
    theirs = published()["levels"].get(env, {}).get(series.published) if series.published else None
    row: dict[str, Any] = {
        "experiment": experiment,
        "env": env,
        "panel": panel,
        "label": series.label,
        "method": series.job.method,
        "run": series.job.name,
        "published": theirs,
    }
    if found is None:
        return row | {"missing": True}
    keys = ("episodes", "horizon", "reward", "bias", "groups", "train_seconds")
    found = with_best_possible(found, world_of(folder / series.job.name))
    row |= {key: found[key] for key in keys} | ({"best": found["best"]} if "best" in found else {})
    row["seeds"] = len(found.get("seeds", [found]))
    row["verdict"] = None
    if theirs is not None and found["reward"]["ci"] is not None and found["bias"]["ci"] is not None:
        reward = verdict(found["reward"]["ci"], (theirs["reward_lo"], theirs["reward_hi"]), more_is_better=True)
        bias = verdict(found["bias"]["ci"], (theirs["bias_lo"], theirs["bias_hi"]), more_is_better=False)
        row["verdict"] = {"reward": reward, "bias": bias, "cell": cell(reward, bias)}
    return row
