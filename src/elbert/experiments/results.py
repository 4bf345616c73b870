"""One result from the evaluations of several seeds, and results side by side."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from elbert.envs import ENTRIES
from elbert.errors import ElbertError, InvalidInputError
from elbert.exact.frontier import best_reward_at
from elbert.exact.rules import get_rule, is_rule
from elbert.experiments.choose_policy import ORDER
from elbert.experiments.evaluate import evaluate
from elbert.experiments.run_folder import RunFolder
from elbert.fairness.rate_intervals import mean_interval
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
    criteria = [_criterion([one["criteria"][c] for one in each]) for c in range(len(first["criteria"]))]
    worst = max(criteria, key=lambda part: -1.0 if part["bias"]["estimate"] is None else part["bias"]["estimate"])
    return {
        **{key: first[key] for key in ("env", "method", "episodes", "horizon")},
        "reward": {
            "mean": _mean([one["reward"]["mean"] for one in each]),
            "ci": _interval([one["reward"]["mean"] for one in each]),
        },
        **{key: worst[key] for key in ("bias", "groups", "criterion")},
        "criteria": criteria,
        **{key: first[key] for key in ("extra_demand", "deterministic", "not_estimable")},
        "train_seconds": first["train_seconds"],  # of all seeds together
        "limit": _limit([one["limit"] for one in each]),
        "seeds": [{"seed": seed, **one} for seed, one in zip(seeds, each, strict=True)],
    }


def _limit(parts: Sequence[dict[str, Any] | None]) -> dict[str, Any] | None:
    """The limit over seeds: the least favourable verdict, with its p-values, and the mean price."""
    known = [part for part in parts if part is not None]
    if not known:
        return None
    worst = max(known, key=lambda part: (ORDER.index(part["verdict"]), part["p_confirm"] or 0.0))
    return worst | {"price": _mean([part["price"] for part in known])}


def _criterion(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """One criterion, means over seeds."""
    biases = {key: _mean([part["bias"][key] for part in parts]) for key in ("estimate", "debiased", "noise_floor")}
    groups = []
    for rows in zip(*(part["groups"] for part in parts), strict=True):
        means = {key: _mean([row[key] for row in rows]) for key in ("rate", "supply", "demand")}
        groups.append({"group": rows[0]["group"], **means, "ci": _interval([row["rate"] for row in rows])})
    interval = _interval([part["bias"]["estimate"] for part in parts])
    if interval is not None:  # Student's t knows nothing of it, but no bias is negative
        interval = [max(0.0, interval[0]), interval[1]]
    return {"criterion": parts[0]["criterion"], "bias": {**biases, "ci": interval}, "groups": groups}


def evaluate_run(
    path: Path, *, store: bool = True, world: Mapping[str, Any] | None = None, **how: Any
) -> tuple[dict[str, Any], list[Evaluation]]:
    """Evaluate all agents of a run (arguments as `elbert.evaluate`); the result is kept in the run's folder.

    In place of a folder, "rule:lending/thresholds-2-1" names a rule, which leaves nothing behind; it is evaluated in
    the environment's world with the parameters `world`. A run has a world of its own.
    """
    if is_rule(path):
        evaluation = evaluate(get_rule(str(path), **(world or {})), **how)
        return evaluation.to_dict(), [evaluation]
    run = RunFolder(path)
    digest = run.digest()  # first: a checkpoint that comes in between makes the result old, not wrong
    agents = run.agents()
    if any(agent.about.method_settings != agents[0].about.method_settings for agent in agents):
        raise InvalidInputError(
            f"The agents in {path} were trained with different coefficients: a mean over them says nothing. Evaluate "
            "them one by one: elbert.load(folder, member=...)."
        )
    # every seed meets episodes of its own, so that an interval over seeds covers both kinds of chance
    first = how.get("seed", 1)
    tick, evaluations = how.pop("tick", None), []
    for i, agent in enumerate(agents):
        before = sum(one.episodes for one in evaluations)
        counted = None if tick is None else lambda done, before=before: tick(before + done)
        evaluations.append(evaluate(agent, **(how | {"seed": first + i, "tick": counted})))
    result = over_seeds(evaluations, [agent.about.seed for agent in agents])
    if store and (how.get("env") is None or world_of(path) is None):
        run.keep_evaluation(result | {"protocol": how.get("protocol", "default"), "agents": digest})
    return result, evaluations


def compared(runs: Sequence[tuple[str, Path]], **how: Any) -> list[tuple[str, dict[str, Any]]]:
    """The evaluations of runs and rules by name, each with what the best possible policy reaches at its bias.

    Those kept in the runs' folders are taken, missing ones made now (arguments as `evaluate_run`). Rules are evaluated
    in the world of the runs.
    """
    worlds = {name: world_of(path) for name, path in runs if not is_rule(path)}
    one = next(iter(worlds.values()), {})
    others = [name for name, world in worlds.items() if world != one]
    if others and any(is_rule(path) for _, path in runs):
        first = next(iter(worlds))
        raise InvalidInputError(
            f"The worlds of {first} ({_said(one)}) and {others[0]} ({_said(worlds[others[0]])}) differ: a rule cannot "
            "be beside both. Compare it with one of them."
        )
    results = []
    for name, path in runs:
        world = worlds.get(name, one)
        kept = None if is_rule(path) else RunFolder(path).evaluation()
        result = kept or evaluate_run(path, world=world, **how)[0]
        results.append((name, with_best_possible(result, world)))
    return results


def world_of(path: Path) -> dict[str, Any] | None:
    """The parameters of a run's world but for the horizon, which the protocol sets; None if it is a user's own."""
    parameters = RunFolder(path).config.get("parameters")
    return None if parameters is None else {name: value for name, value in parameters.items() if name != "horizon"}


def _said(world: Mapping[str, Any] | None) -> str:
    if world is None:
        return "an environment of its own"
    return ", ".join(f"{name}={value}" for name, value in world.items()) or "as it is by default"


def with_best_possible(result: dict[str, Any], world: Mapping[str, Any] | None) -> dict[str, Any]:
    """A result in a world with these parameters, and under `best` what the best possible policy reaches at its bias.

    It is there where that is known.
    `share` is reward / best reward, where both are of one sign that makes it mean something: the best reward is
    positive. `short` is best reward - reward, which always means something. Where `exact` is false, the best reward is
    an upper bound, and the share a lower bound.
    """
    bias = result["bias"]["estimate"]
    if world is None or bias is None or result["env"] not in ENTRIES:
        return result
    try:
        best = best_reward_at(result["env"], result["horizon"], bias, **world)
    except ElbertError:  # a world that has no frontier, or a bias smaller by luck than any policy's can be
        best = None
    if best is None:
        return result
    reward = result["reward"]["mean"]
    share = reward / best.reward if best.reward > 0 else None
    return result | {
        "best": {
            "reward": best.reward,
            "exact": best.exact,
            "share": share,
            "short": best.reward - reward,
            "parameters": dict(world),
        }
    }


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if len(known) == len(values) else None


def _interval(values: Sequence[float | None]) -> list[float] | None:
    known = [value for value in values if value is not None]
    if len(known) != len(values) or len(known) < 2:
        return None
    around = mean_interval(known)
    return None if around.low is None or around.high is None else [around.low, around.high]
