"""Pictures of the worlds: what `render()` shows."""

from collections.abc import Callable, Sequence
from functools import lru_cache, wraps
from typing import TYPE_CHECKING, Any

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
from elbert.envs.credit import BIN, HIGHEST, LOWEST
from elbert.envs.waiting_list import BLOOD_GROUPS, WEEKS
from elbert.report.style import BLUE, GREY, GROUP_COLOURS, GROUP_HATCHES, INK, VERMILION, draw_pixels, series_style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Pixels = np.ndarray[Any, Any]
SIZE = (6.4, 3.6)
NAVY = "#00395C"
HEALTH = {
    SUSCEPTIBLE: ("susceptible", "#FFFFFF"),
    INFECTED: ("infected", VERMILION),
    RECOVERED: ("recovered", NAVY),
}
SCORE_BINS = 20  # of the scores in admission
NETWORK_DRAWN = 300  # people whose network is laid out with its edges; more are drawn as a disc for each group
ROUNDS = 100  # of the layout: afterwards the places hardly move


def _picture(draw: Callable[["Figure", Any, Any, Any], None]) -> Callable[..., Pixels]:
    """What an `Entry` names: (world, state, action) of one copy -> [height, width, 3] uint8."""

    @wraps(draw)
    def picture(world: Any, state: Any, action: Any = None) -> Pixels:
        return draw_pixels(lambda figure: draw(figure, world, state, action), SIZE)

    return picture


@_picture
def draw_lending(figure: "Figure", world: Applicants, state: Any, _: Any) -> None:
    """Score distributions by group, the applicant at the counter, and the running rates; in credit, mean scores too."""
    names, bar_of = score_bars(world)
    mass, groups, bars = shares_by_bar(world, np.asarray(state.mass)), world.groups, len(names)
    axes = figure.add_axes((0.09, 0.14, 0.56, 0.70))
    width = _group_bars(axes, world, mass)
    g, c = int(state.group), int(bar_of[int(state.score)])
    x = c + (g - (groups - 1) / 2) * width
    axes.plot(x, mass[g, c] + 0.035, "v", color=INK, markersize=7, label="applicant")
    ticks = np.arange(0, bars, 1 + bars // 15)
    axes.set(xlabel="score", ylabel="share of the group")
    axes.set_xticks(ticks, [names[tick] for tick in ticks])
    axes.set_ylim(0, max(0.5, float(mass.max()) + 0.09))
    cash, labels = f"cash {float(state.cash):,.0f}".replace(",", " "), None
    if isinstance(world, Credit):
        cash = cash.replace("cash", "profit")
        labels = [f"{group_name(world, g)}\nmean {mean:.0f}" for g, mean in enumerate(world.mean_scores(state))]
    title = f"{type(world).__name__}: {int(state.time)} of {int(world.horizon)} applicants decided, {cash}"
    figure.text(0.02, 0.93, title, fontweight="bold")
    if groups < 6:  # more have no room, and the rates name them
        axes.legend(loc="upper left", ncols=2, handlelength=1.4)
    rates = figure.add_axes((0.77, 0.14, 0.20, 0.70))
    _rates(
        rates, np.asarray(state.supply)[0], np.asarray(state.demand)[0], world.notion.criteria[0].name, "group", labels
    )


@_picture
def draw_attention(figure: "Figure", world: Attention, state: Any, _: Any) -> None:
    """Incidents, those found, units and rates by site, and the running rates."""
    found, incidents, units, _ = np.asarray(state.history)[-1]
    sites = np.arange(world.groups)
    axes = figure.add_axes((0.09, 0.14, 0.56, 0.70))
    axes.bar(sites, incidents, 0.6, facecolor="white", edgecolor=INK, hatch="///", label="incidents missed")
    axes.bar(sites, found, 0.6, facecolor=BLUE, edgecolor=INK, label="incidents found")
    axes.plot(sites, units, marker="D", color=VERMILION, markersize=6, linestyle="none", label="units of attention")
    rate = np.asarray(state.rates)
    axes.hlines(rate, sites - 0.42, sites + 0.42, color=INK, linewidth=2, label="rate of the next step")
    axes.set(xlabel="site", ylabel="per step", xticks=sites if len(sites) <= 20 else sites[:: len(sites) // 10])
    axes.set_ylim(0, 1.15 * max(1.0, float(incidents.max()), float(units.max()), float(rate.max())))
    title = f"Attention: step {int(state.time)} of {int(world.horizon)}, {int(world.units)} units"
    figure.text(0.02, 0.93, title, fontweight="bold")
    figure.legend(loc="upper left", bbox_to_anchor=(0.67, 0.90))
    rates = figure.add_axes((0.77, 0.14, 0.20, 0.36))
    _rates(rates, np.asarray(state.found), np.asarray(state.incidents), "discovery rate", "site")


@_picture
def draw_patrol(figure: "Figure", world: Patrol, state: Any, _: Any) -> None:
    """The shares of the record, of the patrol and of what happens, by region, and the running rates."""
    regions = np.arange(world.groups)
    axes = figure.add_axes((0.09, 0.14, 0.56, 0.70))
    record, patrolled, happens = map(shares_of, (state.counts, state.patrolled, world.rates + world.reported))
    axes.bar(regions, record, 0.6, facecolor=BLUE, edgecolor=INK, label="record")
    axes.plot(regions, patrolled, marker="D", color=VERMILION, markersize=6, linestyle="none", label="patrol so far")
    axes.hlines(happens, regions - 0.42, regions + 0.42, color=INK, linewidth=2, label="true rates")
    ticks = regions if len(regions) <= 20 else regions[:: len(regions) // 10]
    axes.set(xlabel="region", ylabel="share", xticks=ticks, ylim=(0, 1))
    figure.text(0.02, 0.93, f"Patrol: day {int(state.time)} of {int(world.horizon)}", fontweight="bold")
    figure.legend(loc="upper left", bbox_to_anchor=(0.67, 0.90))
    rates = figure.add_axes((0.77, 0.14, 0.20, 0.36))
    _rates(rates, np.asarray(state.attended), np.asarray(state.incidents), "discovery rate", "region")


def shares_of(amounts: Any) -> Pixels:
    """Amounts as shares of their sum along the last axis; zeros where that is 0. [..., n] -> [..., n]"""
    array = np.asarray(amounts, float)
    return array / np.maximum(array.sum(axis=-1, keepdims=True), 1e-9)


@_picture
def draw_admission(figure: "Figure", world: Admission, state: Any, _: Any) -> None:
    """The scores that the applicants of the next round would show, the thresholds of the last, and running rates."""
    axes = figure.add_axes((0.09, 0.14, 0.56, 0.70))
    bars = scores_shown(world, np.asarray(state.group), np.asarray(state.shown))
    _group_bars(axes, world, bars)
    for g, threshold in enumerate(np.asarray(state.thresholds) if int(state.time) else ()):
        look = {"color": GROUP_COLOURS[g % len(GROUP_COLOURS)], "linewidth": 2, "linestyle": "-" if g == 0 else "--"}
        axes.axvline(threshold * SCORE_BINS - 0.5, **look)
    axes.set(xlabel="score before paying (lines: last thresholds)", ylabel="applicants of the next round")
    axes.set_xticks(np.arange(SCORE_BINS + 1)[::2] - 0.5, [f"{i / SCORE_BINS:g}" for i in range(SCORE_BINS + 1)[::2]])
    axes.set_ylim(0, 1.25 * max(1.0, float(bars.max())))
    title = f"Admission: round {int(state.time)} of {int(world.horizon)}, {world.applicants} applicants"
    figure.text(0.02, 0.93, title, fontweight="bold")
    if world.groups < 6:  # as in lending
        axes.legend(loc="upper left", ncols=2, handlelength=1.4)
    for bottom, supply, demand, criterion in zip(
        (0.60, 0.14), np.asarray(state.supply), np.asarray(state.demand), world.benefit.criteria, strict=True
    ):
        _rates(figure.add_axes((0.77, bottom, 0.20, 0.24)), supply, demand, criterion.name, "group")


def scores_shown(world: Admission, group: Pixels, shown: Pixels) -> Pixels:
    """Applicants of each group by the score that they would show without paying. [groups, SCORE_BINS]"""
    place = np.minimum((shown * SCORE_BINS).astype(int), SCORE_BINS - 1)
    return np.bincount(group * SCORE_BINS + place, minlength=world.groups * SCORE_BINS).reshape(world.groups, -1)


@_picture
def draw_infectious(figure: "Figure", world: Infectious, state: Any, action: Any) -> None:
    """The network: colour is health, shape is the group, a ring is the dose that the action gave."""
    health = np.asarray(state.health)
    edges, group = world.edges(), np.asarray(world.group, int)
    place = network_layout(edges.tobytes(), group.tobytes(), world.people)
    axes = figure.add_axes((0.02, 0.03, 0.66, 0.86))
    axes.axis("off")
    _frame(axes, place)
    small = world.people <= NETWORK_DRAWN
    if small:
        axes.plot(*place[edges].transpose(2, 1, 0), color=GREY, linewidth=0.6, zorder=1)
    size = 90 if world.people <= 60 else max(2.0, 6000 / world.people)
    for g in range(world.groups):
        for value, (_, colour) in HEALTH.items():
            chosen = (group == g) & (health == value)
            look = {"edgecolors": INK, "linewidths": 0.8} if small else {"edgecolors": GREY, "linewidths": 0.2}
            axes.scatter(*place[chosen].T, s=size, c=colour, marker=series_style(g)["marker"], zorder=2, **look)
    dosed = [int(i) for i in np.atleast_1d(action)] if action is not None else []
    dosed = [i for i in dosed if i < world.people]
    axes.scatter(*place[dosed].T, s=3.2 * size + 30, facecolors="none", edgecolors=INK, linewidths=1.8, zorder=3)
    figure.text(0.02, 0.93, f"Infectious disease: step {int(state.time)} of {int(world.horizon)}", fontweight="bold")
    _network_legend(figure, world, health, group)


def _network_legend(figure: "Figure", world: Infectious, health: Pixels, group: Pixels) -> None:
    from matplotlib.lines import Line2D

    def dot(label: str, marker: str, colour: str, size: float = 9, edge: float = 1.0) -> Line2D:
        look = {"markerfacecolor": colour, "markeredgecolor": INK, "markersize": size, "markeredgewidth": edge}
        return Line2D([], [], marker=marker, linestyle="none", label=label, **look)

    handles = [dot(f"{name}: {int((health == value).sum())}", "o", colour) for value, (name, colour) in HEALTH.items()]
    shown = min(world.groups, 6)
    for g in range(shown):
        infected, people = int(((group == g) & (health == INFECTED)).sum()), int((group == g).sum())
        handles.append(dot(f"group {g}: {infected} of {people} infected", series_style(g)["marker"], "#DDDDDD"))
    if world.groups > shown:
        handles.append(dot(f"and {world.groups - shown} groups more", "", "none"))
    handles.append(dot("today's dose", "o", "none", size=13, edge=1.8))
    figure.legend(handles=handles, loc="upper left", bbox_to_anchor=(0.66, 0.90), labelspacing=0.9, fontsize=8)


def score_bars(world: Applicants) -> tuple[list[str], Pixels]:
    """What the bars of scores are called, and the bar of each score [scores]; FICO in bins of 50 points."""
    if not isinstance(world, Credit):
        return [str(score) for score in range(world.scores)], np.arange(world.scores)
    starts = range(LOWEST, HIGHEST, BIN)
    return [str(start) for start in starts], np.minimum(
        (np.asarray(world.points) - LOWEST) // BIN, len(starts) - 1
    ).astype(int)


def shares_by_bar(world: Applicants, mass: Pixels) -> Pixels:
    """Shares of each group at each bar.   [..., groups, scores] -> [..., groups, bars]"""
    names, bar_of = score_bars(world)
    return mass @ (bar_of[:, None] == np.arange(len(names))) / mass.sum(axis=-1, keepdims=True)


def group_name(world: World, number: int) -> str:
    """What a group is called, or its number."""
    return f"group {number}" if world.group_names is None else str(world.group_names[number])


@_picture
def draw_waiting_list(figure: "Figure", world: WaitingList, state: Any, _: Any) -> None:
    """The list by blood group, what the last week changed in it, and the running rates."""
    places = np.arange(world.groups)
    axes = figure.add_axes((0.09, 0.14, 0.50, 0.70))
    axes.bar(places, np.asarray(state.waiting), 0.8, label="waiting", facecolor="white", edgecolor=INK)
    changes = (("transplants", np.asarray(state.given).sum(axis=0), BLUE), ("deaths", state.deaths, VERMILION))
    for shift, (label, number, colour) in zip((-0.15, 0.15), changes, strict=True):
        axes.bar(places + shift, np.asarray(number), 0.3, label=f"{label} of the week", color=colour)
    axes.set(xlabel="blood group", ylabel="people")
    axes.set_xticks(places, BLOOD_GROUPS)
    axes.set_ylim(0, max(10.0, 1.5 * float(np.max(state.waiting))))
    axes.legend(loc="upper right")
    figure.text(0.02, 0.93, f"Waiting list: week {int(state.time)} of {int(world.horizon)}", fontweight="bold")
    rates = figure.add_axes((0.73, 0.14, 0.24, 0.70))
    demand = np.asarray(state.person_weeks) / WEEKS if world.demand == "person-years" else np.asarray(state.listed)
    _rates(rates, np.asarray(state.transplants), demand, world.benefit.criteria[0].name, "group")
    rates.set_yticks(places, BLOOD_GROUPS)


def _rates(axes: Any, supply: Pixels, demand: Pixels, name: str, of: str, labels: Sequence[str] | None = None) -> None:
    """Running benefit rates as bars; a group without demand has none, and none is drawn."""
    known = demand > 0
    rate = np.where(known, supply / np.where(known, demand, 1), 0.0)
    for g in range(len(rate)):
        axes.barh(g, rate[g], 0.6, **_look(g if of == "group" else 0))
        if not known[g]:
            axes.text(0.03, g, "no demand yet", va="center", fontsize=7)
    axes.set(xlim=(0, max(1.0, float(rate.max()))), xlabel=name)
    ticks = range(0, len(rate), 1 if len(rate) <= 10 else len(rate) // 5)
    axes.set_yticks(ticks, [f"{of} {g}" if labels is None else labels[g] for g in ticks])
    axes.invert_yaxis()


def _group_bars(axes: Any, world: World, values: Pixels) -> float:
    """A row of bars for each group, side by side, and the width of one. values: [groups, bars]"""
    groups, bars = values.shape
    width = 0.8 / groups
    for g in range(groups):
        place = np.arange(bars) + (g - (groups - 1) / 2) * width
        axes.bar(place, values[g], width, label=group_name(world, g), **_look(g))
    return width


def _look(g: int) -> dict[str, Any]:
    """Colour and hatch of a group: either alone tells groups apart."""
    i = g % len(GROUP_COLOURS)
    return {"facecolor": GROUP_COLOURS[i], "hatch": GROUP_HATCHES[i], "edgecolor": INK, "linewidth": 0.6}


@lru_cache(maxsize=8)
def network_layout(edge_bytes: bytes, group_bytes: bytes, people: int) -> Pixels:
    """A place for everyone, the same in every picture of this network. [people, 2]"""
    edges = np.frombuffer(edge_bytes, int).reshape(-1, 2)
    group = np.frombuffer(group_bytes, int)
    if people <= NETWORK_DRAWN:
        return _by_distances(edges, people)
    angle, place = np.pi * (3 - np.sqrt(5)), np.zeros((people, 2))
    left = 0.0
    for g in range(int(group.max()) + 1):  # sunflower discs of equal density side by side
        members = np.flatnonzero(group == g)
        turn, radius = np.arange(len(members)) * angle, np.sqrt(np.arange(len(members)) + 0.5)
        spread = np.stack([np.cos(turn), np.sin(turn)], axis=1) * radius[:, None]
        left += np.sqrt(len(members))
        place[members] = spread + np.asarray([left, 0.0])
        left += 1.2 * np.sqrt(len(members))
    return place


def _by_distances(edges: Pixels, people: int) -> Pixels:
    """Places whose distances are as near as can be to the steps l_ij along the edges. [people, 2]

    Minimises sum_ij (|x_i - x_j| / l_ij - 1)^2 (Kamada and Kawai 1989) by majorisation (Gansner et al. 2004), from
    everyone on a circle. Separate parts are one step further apart than the longest way.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import shortest_path

    joined = coo_array((np.ones(len(edges)), (edges[:, 0], edges[:, 1])), shape=(people, people))
    lengths = shortest_path(joined.tocsr(), directed=False, unweighted=True)
    reached = np.isfinite(lengths)
    lengths = np.where(reached, lengths, lengths[reached].max() + 1)
    weights = 1 / (lengths + np.eye(people)) ** 2 - np.eye(people)
    solve = np.linalg.pinv(np.diag(weights.sum(axis=0)) - weights)
    turn = 2 * np.pi * np.arange(people) / people
    place = np.stack([np.cos(turn), np.sin(turn)], axis=1)
    for _ in range(ROUNDS):
        distance = np.linalg.norm(place[:, None] - place[None], axis=-1)
        pull = weights * lengths / np.maximum(distance, 1e-9)
        place = solve @ (np.diag(pull.sum(axis=0)) - pull) @ place
    directions = np.linalg.eigh(place.T @ place)[1].T[::-1]  # the longest way lies across the picture
    return place @ (directions * np.where(directions[:, :1] < 0, -1.0, 1.0)).T


def _frame(axes: Any, place: Pixels) -> None:
    """Limits around all places, with room for the symbols and never flat."""
    middle, reach = (place.max(axis=0) + place.min(axis=0)) / 2, np.ptp(place, axis=0) / 2
    reach = 1.12 * np.maximum(reach, max(0.3 * float(reach.max()), 1e-3))
    axes.set(xlim=(middle[0] - reach[0], middle[0] + reach[0]), ylim=(middle[1] - reach[1], middle[1] + reach[1]))
    axes.set_aspect("equal")
