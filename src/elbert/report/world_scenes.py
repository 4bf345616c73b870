"""What a replay shows of each world, as numbers that the page's script draws.

An `Entry` names a function of (world, states, actions, steps): states [T + 1, ...] with the start in front, actions
[T, ...], and the steps [F] of the frames. Frame k is the world after steps[k] steps, together with the action that led
there. A world of your own may return any of these, with F rows in every list that is marked [F]:

    {"kind": "bars",                        a row of bars for each series, side by side
     "x": {"label": "score", "names": [...]},       what the bars are of, one name each
     "y": {"label": "share of the group"},
     "series": [{"name": "group 0",
                 "look": "solid",           "solid", "outline" (both bars), "diamond" or "level" (marks over the bars)
                 "style": 0,                which of the page's colours
                 "values": [[...], ...]}],  [F, bars]
     "layered": False,                      True: solid and outline bars stand in the same place
     "pointer": {"series": [...], "bar": [...], "filled": [...]},   [F] each: a mark above one bar; series None: none
     "pointed": "the applicant",            what the mark is
     "notes": [...]}                        [F] a sentence about the frame

    {"kind": "network",
     "x": [...], "y": [...],                places of the nodes, from 0 to 1
     "edges": [[0, 1], ...],
     "shapes": [...],                       group of each node
     "states": ["0120", ...],               [F] the state of every node as a digit from 0 to 2
     "names": ["susceptible", ...],         of the states
     "rings": [[3], ...],                   [F] nodes with a ring
     "ring": "today's dose",                what a ring is
     "notes": [...]}
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from elbert.envs import (
    INFECTED,
    RECOVERED,
    SUSCEPTIBLE,
    Admission,
    Applicants,
    Attention,
    Credit,
    Infectious,
    Patrol,
    WaitingList,
    World,
)
from elbert.report.world_pictures import (
    HEALTH,
    NETWORK_DRAWN,
    SCORE_BINS,
    group_name,
    network_layout,
    score_bars,
    scores_shown,
    shares_by_bar,
    shares_of,
)

MOST_BARS = 60
"""Of a picture; more are left out, and the axis says so."""
MOST_NODES = 1000
"""Of a network that is drawn node by node; of a larger one the people are counted."""
DIGITS = 4

Array = np.ndarray[Any, Any]


def lending_scene(world: Applicants, states: Any, actions: Any, steps: Array) -> dict[str, Any]:
    """Score distributions by group and the applicant who was decided about in this step; in credit, mean scores too."""
    mass = shares_by_bar(world, np.asarray(states.mass)[steps])  # [F, groups, bars]
    names, bar_of = score_bars(world)
    points = np.asarray(world.points) if isinstance(world, Credit) else np.arange(world.scores)
    group, score, repays = (np.asarray(x) for x in (states.group, states.score, states.repays))
    accepted = np.asarray(actions) == 1
    lent, repaid = (_so_far(x) for x in (accepted, accepted & repays[:-1]))
    decided = np.maximum(steps - 1, 0)  # before the first step, the first applicant waits

    def note(step: int) -> str:
        at = max(step - 1, 0)
        who = f"Applicant of {group_name(world, group[at])}, score {points[score[at]]:.0f}"
        if step == 0:
            return f"{who}: waits for a decision."
        outcome = "repaid" if repays[at] else "defaulted"
        what = f"accepted, {outcome}" if accepted[at] else f"refused, would have {outcome}"
        so_far = f"{lent[step]} of {step} accepted so far: {repaid[step]} repaid, {lent[step] - repaid[step]} defaulted"
        return f"{who}: {what}. {so_far}."

    notes = [note(int(step)) for step in steps]
    if isinstance(world, Credit):
        means = np.asarray(states.mass)[steps] @ points / np.asarray(world.sizes)  # [F, groups]
        notes = [f"{text} Mean scores: {_means(world, row)}." for text, row in zip(notes, means, strict=True)]
    groups = min(world.groups, max(1, MOST_BARS // len(names)))
    shown = group[decided] < groups
    return {
        "kind": "bars",
        "x": {"label": "score" + _left_out(groups, world.groups, "groups"), "names": names},
        "y": {"label": "share of the group"},
        "series": [
            {"name": group_name(world, g), "look": "solid", "style": g, "values": _rounded(mass[:, g])}
            for g in range(groups)
        ],
        "layered": False,
        "pointer": {
            "series": [int(g) if known else None for g, known in zip(group[decided], shown, strict=True)],
            "bar": bar_of[score[decided]].tolist(),
            "filled": [bool(step > 0 and accepted[step - 1]) for step in steps],
        },
        "pointed": "the applicant: filled if accepted",
        "notes": notes,
    }


def attention_scene(world: Attention, states: Any, actions: Any, steps: Array) -> dict[str, Any]:
    """Incidents found and missed, units of attention, and the rate of the next step, by site."""
    del actions  # the state says what the units were
    last = np.asarray(states.history[:, -1])[steps]  # [F, 4, sites]
    sites = min(world.groups, MOST_BARS)
    found, incidents, units = (last[:, k, :sites] for k in range(3))
    rates = np.asarray(states.rates)[steps][:, :sites]

    def note(frame: int, step: int) -> str:
        if step == 0:
            return f"Before the first step: {int(world.units)} units are to be sent."
        every, seen = last[frame, 1].sum(), last[frame, 0].sum()
        return f"{int(every)} incidents in this step: {int(seen)} found, {int(every - seen)} missed."

    series = [
        ("incidents found", "solid", 0, found),
        ("incidents missed", "outline", 0, incidents),
        ("units of attention", "diamond", 1, units),
        ("rate of the next step", "level", 7, rates),
    ]
    return {
        "kind": "bars",
        "x": {"label": "site" + _left_out(sites, world.groups, "sites"), "names": _numbers(sites)},
        "y": {"label": "per step"},
        "series": [
            {"name": name, "look": look, "style": style, "values": _rounded(values)}
            for name, look, style, values in series
        ],
        "layered": True,
        "notes": [note(frame, int(step)) for frame, step in enumerate(steps)],
    }


def patrol_scene(world: Patrol, states: Any, actions: Any, steps: Array) -> dict[str, Any]:
    """The shares of the record, of the patrol so far and of what happens, by region."""
    del actions  # the state says where the patrol was
    regions = min(world.groups, MOST_BARS)
    share, discovered, reported, attended, incidents = np.asarray(states.last)[steps].transpose(1, 0, 2)
    happens = np.broadcast_to(np.asarray(world.rates + world.reported), share.shape)

    def note(frame: int, step: int) -> str:
        if step == 0:
            return "Before the first day: the record is the prior one."
        there = f"In region {share[frame].argmax()}" if world.action == "region" else "In all regions"
        known, every = int(discovered[frame].sum() + reported[frame].sum()), int(incidents[frame].sum())
        return f"{there} the patrol attended to {int(attended[frame].sum())} of {every} incidents; {known} are known."

    series = [
        ("record", "solid", 0, states.counts[steps]),
        ("patrol so far", "diamond", 1, states.patrolled[steps]),
        ("true rates", "level", 7, happens),
    ]
    return {
        "kind": "bars",
        "x": {"label": "region" + _left_out(regions, world.groups, "regions"), "names": _numbers(regions)},
        "y": {"label": "share"},
        "series": [
            {"name": name, "look": look, "style": style, "values": _rounded(shares_of(amounts)[:, :regions])}
            for name, look, style, amounts in series
        ],
        "layered": True,
        "notes": [note(frame, int(step)) for frame, step in enumerate(steps)],
    }


def waiting_list_scene(world: WaitingList, states: Any, actions: Any, steps: Array) -> dict[str, Any]:
    """The list by blood group, with the transplants and deaths of the week."""
    del actions  # the state says who was served
    week = {name: np.asarray(getattr(states, name))[steps] for name in ("waiting", "organs", "given", "deaths")}
    left = np.asarray(states.withdrawals)[steps].sum(axis=1)

    def note(frame: int, step: int) -> str:
        if step == 0:
            return f"Before the first week: {int(week['waiting'][0].sum())} people wait."
        given, organs, deaths = (int(week[name][frame].sum()) for name in ("given", "organs", "deaths"))
        return f"{organs} organs, {given} transplants, {deaths} deaths, {int(left[frame])} withdrawals in this week."

    series = [
        ("waiting", "outline", 0, week["waiting"]),
        ("transplants of the week", "solid", 0, week["given"].sum(axis=1)),
        ("deaths of the week", "diamond", 1, week["deaths"]),
    ]
    return {
        "kind": "bars",
        "x": {"label": "blood group", "names": [group_name(world, g) for g in range(world.groups)]},
        "y": {"label": "people"},
        "series": [
            {"name": name, "look": look, "style": style, "values": _rounded(values)}
            for name, look, style, values in series
        ],
        "layered": True,
        "notes": [note(frame, int(step)) for frame, step in enumerate(steps)],
    }


def admission_scene(world: Admission, states: Any, actions: Any, steps: Array) -> dict[str, Any]:
    """The scores that the applicants of the next round would show, by group."""
    del actions  # the state says what was published
    group, shown, last = (np.asarray(x)[steps] for x in (states.group, states.shown, states.last))
    bars = np.stack([scores_shown(world, *frame) for frame in zip(group, shown, strict=True)])  # [F, groups, bins]
    groups = min(world.groups, max(1, MOST_BARS // SCORE_BINS))

    def note(frame: int, step: int) -> str:
        if step == 0:
            return f"Before the first round: {world.applicants} people apply."
        limits = np.asarray(states.thresholds)[step][: 1 if world.thresholds == "one" else groups]
        published = "Threshold " + ", ".join(f"{limit:.3f}" for limit in limits)
        every, admitted, rightly, again = last[frame].sum(axis=1).astype(int)
        return f"{published}: {admitted} of {every} admitted, {rightly} of them eligible. {again} refused apply again."

    return {
        "kind": "bars",
        "x": {
            "label": "score before paying" + _left_out(groups, world.groups, "groups"),
            "names": [f"{i / SCORE_BINS:g}" for i in range(SCORE_BINS)],
        },
        "y": {"label": "applicants of the next round"},
        "series": [
            {"name": group_name(world, g), "look": "solid", "style": g, "values": _rounded(bars[:, g])}
            for g in range(groups)
        ],
        "layered": False,
        "notes": [note(frame, int(step)) for frame, step in enumerate(steps)],
    }


def infectious_scene(world: Infectious, states: Any, actions: Any, steps: Array) -> dict[str, Any]:
    """The network: the fill is health, the shape the group, a ring the dose that the step gave."""
    health, group = np.asarray(states.health)[steps], np.asarray(world.group, int)  # [F, people], [people]
    doses = np.asarray(actions).reshape(len(actions), -1)
    rings = [[] if step == 0 else sorted({int(i) for i in doses[step - 1] if i < world.people}) for step in steps]
    infected = (health == INFECTED).sum(axis=1)

    def note(frame: int, step: int) -> str:
        dosed = rings[frame]
        given = f"A dose to {_listed(world, dosed, group)}. " if dosed else "No dose. " if step else ""
        return f"{given}{infected[frame]} of {world.people} people are infected."

    notes = [note(frame, int(step)) for frame, step in enumerate(steps)]
    if world.people > MOST_NODES:
        return {**_counts(world, health, group), "notes": notes}
    edges = world.edges()
    place = network_layout(edges.tobytes(), group.tobytes(), world.people)
    low, reach = place.min(axis=0), np.ptp(place, axis=0)
    place = (place - low) / np.where(reach > 0, reach, 1.0)
    return {
        "kind": "network",
        "x": _rounded(place[:, 0]),
        "y": _rounded(1 - place[:, 1]),  # pictures count downwards
        "edges": edges.tolist() if world.people <= NETWORK_DRAWN else [],
        "shapes": group.tolist(),
        "states": ["".join(map(str, row)) for row in health],
        "names": [HEALTH[state][0] for state in (SUSCEPTIBLE, INFECTED, RECOVERED)],
        "rings": rings,
        "ring": "dose of this step",
        "notes": notes,
    }


def _counts(world: Infectious, health: Array, group: Array) -> dict[str, Any]:
    """People in each state, by group, where there are too many for a picture of everyone."""
    groups = min(world.groups, MOST_BARS // len(HEALTH))
    one_hot = (group[:, None] == np.arange(groups)).astype(float)  # [people, groups]
    return {
        "kind": "bars",
        "x": {"label": "group" + _left_out(groups, world.groups, "groups"), "names": _numbers(groups)},
        "y": {"label": "people"},
        "series": [
            {"name": name, "look": "solid", "style": style, "values": _rounded((health == state) @ one_hot)}
            for style, (state, name) in zip((7, 1, 0), ((s, HEALTH[s][0]) for s in HEALTH), strict=True)
        ],
        "layered": False,
    }


def _listed(world: World, people: Sequence[int], group: Array) -> str:
    shown = [f"person {i} of {group_name(world, group[i])}" for i in people[:3]]
    return ", ".join(shown) + (f" and {len(people) - 3} more" if len(people) > 3 else "")


def _means(world: World, means: Array) -> str:
    return ", ".join(f"{group_name(world, g)} {mean:.0f}" for g, mean in enumerate(means))


def _so_far(flags: Array) -> Array:
    """How often a flag was set before each time. [T] -> [T + 1]"""
    return np.concatenate([[0], np.cumsum(flags)])


def _left_out(shown: int, every: int, what: str) -> str:
    return f" (the first {shown} of {every} {what})" if shown < every else ""


def _numbers(count: int) -> list[str]:
    return [str(number) for number in range(count)]


def _rounded(values: Array) -> list[Any]:
    return np.round(np.asarray(values, float), DIGITS).tolist()
