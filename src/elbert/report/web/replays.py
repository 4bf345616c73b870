"""Replays: one episode of each policy as frames for the page's script, on the same chance.

A frame is a step; where there are too many steps, frames are thinned. What a frame says is exact all the same: its
supply, demand and reward are sums over all steps up to it, and the last frame is the last step.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from elbert.envs import ENTRIES, World
from elbert.errors import ElbertError
from elbert.exact.rules import get_rule, is_rule
from elbert.experiments.compare import Compared, Comparison
from elbert.learning.traces import Trace, trace_agent, trace_world

MOST_FRAMES = 240
MOST_NUMBERS = 60_000
"""Of all frames of one policy together: with very many groups there are fewer frames."""
LONGEST = 2000
"""Steps of an episode that are replayed at most."""


def replay_of(traces: Mapping[str, Trace], *, caption: str = "", groups: Sequence[str] | None = None) -> dict[str, Any]:
    """What replay.js plays: traces of the same environment, by the names of their policies.

    Frames are common to all policies; one whose episode is shorter stays at its last step. `groups` are names in
    place of those that the traces have.
    """
    first = next(iter(traces.values()))
    steps = frame_steps(max(trace.steps for trace in traces.values()), first.supply[0].size)
    return {
        "env": first.env,
        "caption": caption,
        "criteria": list(first.criteria),
        "groups": [f"group {name}" if name.isdigit() else name for name in groups or first.groups],
        "steps": steps.tolist(),
        "policies": [_played(name, trace, np.minimum(steps, trace.steps)) for name, trace in traces.items()],
    }


def frame_steps(steps: int, amounts: int = 1) -> np.ndarray[Any, Any]:
    """The steps that frames show, for as many amounts in each: the start, the last, and what lies evenly between."""
    most = max(2, min(MOST_FRAMES, MOST_NUMBERS // amounts))
    return np.unique(np.linspace(0, steps, min(steps + 1, most)).round().astype(int))


def _played(name: str, trace: Trace, steps: np.ndarray[Any, Any]) -> dict[str, Any]:
    """One policy: sums so far in every frame, the totals, and the scene."""
    reward, supply, demand = (_so_far(x)[steps].tolist() for x in (trace.reward, trace.supply, trace.demand))
    totals = {"reward": trace.reward.sum(), "supply": trace.supply.sum(axis=0), "demand": trace.demand.sum(axis=0)}
    return {
        "name": name,
        "length": trace.steps,
        "ended": trace.ended,
        "frames": {"step": steps.tolist(), "reward": reward, "supply": supply, "demand": demand},
        "totals": {key: np.asarray(value).tolist() for key, value in totals.items()},
        "scene": scene_of(trace, steps),
    }


def scene_of(trace: Trace, steps: np.ndarray[Any, Any]) -> Mapping[str, Any] | None:
    """What the world shows in these steps; None where it has no scene, or is an environment on the host."""
    if trace.world is None:
        return None
    make = _staging(trace.env, trace.world)
    return None if make is None else make(trace.world, trace.states, trace.actions, steps)


def _staging(name: str, world: World) -> Callable[..., Mapping[str, Any]] | None:
    """The scene of the world's entry: that of its name, or one of the same class."""
    of_class = [entry for entry in ENTRIES.values() if type(world) is entry.world]
    for entry in sorted(of_class, key=lambda entry: entry.name != name):
        return entry.staging()
    return None


def _so_far(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Sums before each time. [T, ...] -> [T + 1, ...]"""
    return np.concatenate([np.zeros_like(values[:1]), np.cumsum(values, axis=0)])


class Stage(NamedTuple):
    """Where policies of a comparison act again."""

    env: str
    parameters: dict[str, Any] | None  # of a named world; None: an environment that Gymnasium makes by its name
    horizon: int  # steps of the longest episode that anybody was judged by

    def words(self) -> str:
        """For the caption."""
        shown = [f"{name} {value}" for name, value in (self.parameters or {}).items()]
        return self.env + (f" ({', '.join(shown)})" if shown else "")


def comparison_replay(comparison: Comparison, *, seed: int = 1, longest: int = LONGEST) -> dict[str, Any] | None:
    """An episode of up to two policies of a comparison on the same chance; None where nobody can act again.

    Of more than two, those with the smallest and the largest bias are shown. A policy acts again if it comes from a
    run (its first seed acts) or is a rule, and its environment is a world or has a Gymnasium id.
    """
    traces: dict[str, Trace] = {}
    stage = groups = None
    for each in _by_interest(comparison.policies):
        place = _stage(each, comparison)
        if place is None or (stage is not None and place != stage):
            continue
        try:
            trace = _trace(each, place, seed, longest)
        except ElbertError:  # no agent yet, or an environment that is not at hand: nothing that a page could say
            continue
        names = [group.group for group in each.result.worst.groups]
        if len(names) != len(trace.groups) or len(each.result.criteria) != len(trace.criteria):
            continue  # a world of the same name with other groups
        stage, groups = place, names
        traces[each.name] = trace
        if len(traces) == 2:
            break
    if stage is None:
        return None
    ordered = {each.name: traces[each.name] for each in comparison.policies if each.name in traces}
    caption = _caption(ordered, stage, seed, every=len(comparison.policies))
    return replay_of(ordered, caption=caption, groups=groups)


def _by_interest(policies: Sequence[Compared]) -> list[Compared]:
    """The smallest bias first, then the largest, then the others in their order."""
    known = [each for each in policies if each.result.worst.bias.estimate is not None]
    if len(policies) <= 2 or not known:
        return list(policies)
    ends = [pick(known, key=lambda each: each.result.worst.bias.estimate or 0.0) for pick in (min, max)]
    return [*ends, *(each for each in policies if each not in ends)]


def _stage(each: Compared, comparison: Comparison) -> Stage | None:
    """Where a policy was judged; None if that cannot be made again."""
    env, horizon = each.result.env, max(other.result.horizon for other in comparison.policies)
    if env not in ENTRIES:
        at_home = each.run is not None and each.run.config["env"] == env and each.run.world is None
        return Stage(env, None, horizon) if at_home else None
    if each.best is not None:
        return Stage(env, dict(each.best.parameters), horizon)
    hosts = [other.run for other in ((each,) if each.run is not None else comparison.policies) if other.run is not None]
    worlds = [run.world for run in hosts if run.config["env"] == env]
    return Stage(env, dict(worlds[0] or {}) if worlds else {}, horizon)


def _trace(each: Compared, stage: Stage, seed: int, longest: int) -> Trace:
    """One episode of a policy, as long as those that it was judged by."""
    result, parameters = each.result, dict(stage.parameters or {})
    entry = ENTRIES.get(stage.env)
    if entry is not None and "horizon" in {parameter.name for parameter in entry.parameters()}:
        parameters["horizon"] = stage.horizon
    if each.run is not None:
        where = None if entry is None else stage.env
        options = {"seed": seed, "longest": longest, "deterministic": result.deterministic}
        return trace_agent(each.run.agents()[0], env=where, **options, **parameters)
    if entry is None or not is_rule(result.method):
        raise ElbertError(f"{each.name} is neither of a run nor a rule, and is not at hand any more.")
    world = entry.make(**parameters)
    act = get_rule(result.method, **parameters).policy.make(world)
    name = str(result.method)
    return trace_world(
        world, lambda key, state, _: act(key, state), name=name, env=stage.env, seed=seed, longest=longest
    )


def _caption(traces: Mapping[str, Trace], stage: Stage, seed: int, *, every: int) -> str:
    first, both = next(iter(traces.values())), len(traces) > 1
    parts = [f"One episode in {stage.words()}, seed {seed}."]
    if both and first.world is not None:
        parts.append(
            "Both policies meet the same random numbers in every step; what differs comes from what they decided."
        )
    elif both:
        parts.append("Both environments were given the same seed; how far their chance agrees is up to them.")
    if every > 2 and both:
        parts.append(f"Of {every} policies, those with the smallest and the largest bias are shown.")
    cut = max((trace.steps for trace in traces.values() if not trace.ended), default=0)
    if cut:
        parts.append(f"The first {cut:,} steps are shown; the episode is longer.")
    parts.append("A single episode is an example and no estimate.")
    return " ".join(parts)
