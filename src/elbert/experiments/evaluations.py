"""One result from the evaluations of several seeds, and results side by side."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from elbert.experiments.runs import RunFolder
from elbert.experiments.training import evaluate
from elbert.fairness.intervals import mean_interval
from elbert.files import read_json, write_json
from elbert.learning import Evaluation


def over_seeds(evaluations: Sequence[Evaluation], seeds: Sequence[int]) -> dict[str, Any]:
    """The object that `elbert evaluate --json` prints.

    One seed: its evaluation. Several: means over seeds, with intervals over seeds (Student's t), because what varies
    from training to training is more than what varies from episode to episode; the single ones are under `seeds`.
    """
    each = [evaluation.to_dict() for evaluation in evaluations]
    if len(each) == 1:
        return each[0]
    first = each[0]
    biases = {key: _mean([one["bias"][key] for one in each]) for key in ("estimate", "debiased", "noise_floor")}
    groups = []
    for g, group in enumerate(first["groups"]):
        rows = [one["groups"][g] for one in each]
        means = {key: _mean([row[key] for row in rows]) for key in ("rate", "supply", "demand")}
        groups.append({"group": group["group"], **means, "ci": _interval([row["rate"] for row in rows])})
    return {
        **{key: first[key] for key in ("env", "method", "episodes", "horizon")},
        "reward": {
            "mean": _mean([one["reward"]["mean"] for one in each]),
            "ci": _interval([one["reward"]["mean"] for one in each]),
        },
        "bias": {**biases, "ci": _interval([one["bias"]["estimate"] for one in each])},
        "groups": groups,
        **{key: first[key] for key in ("criterion", "extra_demand", "deterministic", "train_seconds")},
        "seeds": [{"seed": seed, **one} for seed, one in zip(seeds, each, strict=True)],
    }


def evaluate_run(path: Path, *, store: bool = True, **how: Any) -> tuple[dict[str, Any], list[Evaluation]]:
    """Evaluate all agents of a run (arguments as `elbert.evaluate`); the result is kept in the run's folder."""
    run = RunFolder(path)
    agents = run.agents()
    evaluations = [evaluate(agent, **how) for agent in agents]
    result = over_seeds(evaluations, [agent.about.seed for agent in agents])
    if store:
        write_json(path / "evaluation.json", result | {"protocol": how.get("protocol", "default")})
    return result, evaluations


def stored_evaluation(path: Path) -> dict[str, Any]:
    """The evaluation that is kept in a run's folder, made now if there is none."""
    kept = path / "evaluation.json"
    return read_json(kept) if kept.exists() else evaluate_run(path)[0]


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if len(known) == len(values) else None


def _interval(values: Sequence[float | None]) -> list[float] | None:
    known = [value for value in values if value is not None]
    if len(known) != len(values) or len(known) < 2:
        return None
    around = mean_interval(known)
    return None if around.low is None or around.high is None else [around.low, around.high]
