"""From results to what page.js draws: every picture with the same numbers as a table."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from elbert.auditing.results import Audit, Comparison, Course
from elbert.exact.frontier import Frontier
from elbert.report.charts import Curve, Point, smoothed, unit_of_steps
from elbert.report.web.document import Picture
from elbert.tables import Column, Table, columns, interval, number

MOST_POINTS = 400
"""Of one line; a page of many runs stays small."""
DEMAND_ROWS = 400


def chart(title: str, x: str, y: str, series: Sequence[Mapping[str, Any]], **more: Any) -> dict[str, Any]:
    """A picture of lines and points; `zero` names the axes that start at 0."""
    zero = more.pop("zero", "")
    return {
        "kind": "xy",
        "title": title,
        "x": {"label": x, "names": more.pop("names", None), "zero": "x" in zero},
        "y": {"label": y, "zero": "y" in zero},
        "series": list(series),
        **more,
    }


def levels_chart(
    title: str,
    points: Sequence[Point],
    best: Frontier | None = None,
    theirs: Sequence[Point] = (),
    max_bias: float | None = None,
) -> Picture:
    """Reward against bias: policies with their intervals, and the line that no policy is above."""
    series: list[dict[str, Any]] = [] if best is None else [*_frontier_lines(best, points)]
    for style, point in enumerate(points):
        series.append(_point_series(point, style))
    for point in theirs:
        style = next((place for place, each in enumerate(points) if each.label == point.label), len(points))
        series.append(_point_series(point, style) | {"name": f"{point.label}, published", "hollow": True})
    limits = [] if max_bias is None else [{"x": max_bias, "name": f"limit {max_bias:g}"}]
    summary = f"{len(points)} policies."
    spec = chart(
        title,
        "bias (less is better)",
        "reward per step (more is better)",
        series,
        zero="x",
        limits=limits,
        summary=summary,
    )
    shown = (Column("policy"), *columns("bias", "95 % interval", "reward per step", "95 % interval", right=True))
    rows = tuple(
        (
            point.label,
            number(point.bias),
            "" if point.bias_ci is None else interval(point.bias_ci[0], point.bias_ci[1]),
            number(point.reward),
            "" if point.reward_ci is None else interval(point.reward_ci[0], point.reward_ci[1]),
        )
        for point in (*points, *theirs)
    )
    caption = "Bars are 95 % intervals. Drag over a part of the picture to enlarge it."
    return Picture(spec, caption, Table(shown, rows))


def _frontier_lines(best: Frontier, points: Sequence[Point]) -> list[dict[str, Any]]:
    limited = sorted((point.max_bias, point.reward) for point in best.points if point.max_bias is not None)
    free = [point for point in best.points if point.max_bias is None]
    ends = [max(point.bias, (point.bias_ci or (0.0, 0.0))[1]) for point in points]
    right = max([1.05 * end for end in ends] + [limit for limit, _ in limited] + [0.02])
    if free and free[0].bias is not None:
        limited = sorted([*limited, (free[0].bias, free[0].reward)])
    elif free:
        limited.append((right, free[0].reward))
    if not limited:
        return []
    if limited[-1][0] < right:
        limited.append((right, limited[-1][1]))
    proven = best.points[0].rates is None
    name = "best possible" if best.exact else "upper bound: no policy is above it" if proven else "best, approximate"
    return [
        {
            "name": name,
            "best": True,
            "line": True,
            "step": proven,
            "dash": "" if best.exact else "6 4",
            "x": [limit for limit, _ in limited],
            "y": [reward for _, reward in limited],
        }
    ]


def _point_series(point: Point, style: int) -> dict[str, Any]:
    ends: dict[str, Any] = {}
    if point.bias_ci is not None:
        ends |= {"xlow": [max(0.0, point.bias_ci[0])], "xhigh": [point.bias_ci[1]]}
    if point.reward_ci is not None:
        ends |= {"low": [point.reward_ci[0]], "high": [point.reward_ci[1]]}
    return {"name": point.label, "style": style, "points": True, "x": [point.bias], "y": [point.reward], **ends}


def curve_charts(curves: Mapping[str, Curve], seeds: Mapping[str, Sequence[Any]]) -> list[Picture]:
    """Reward and bias of the rollouts, a line for every seed of every run."""
    most = max((float(curve["steps"].max()) for curve in curves.values()), default=0.0)
    unit, label = unit_of_steps(most)
    pictures = []
    for column, title in (("reward", "Reward per step in training"), ("bias", "Bias of a rollout in training")):
        series = []
        for style, (name, curve) in enumerate(curves.items()):
            values = smoothed(curve[column])
            for member in range(values.shape[1]):
                which = f", seed {seeds[name][member]}" if values.shape[1] > 1 else ""
                places = _thinned(len(values))
                series.append(
                    {
                        "name": f"{name}{which}",
                        "style": style,
                        "line": True,
                        "faint": member > 0,
                        "x": (curve["steps"][places, member] / unit).tolist(),
                        "y": values[places, member].tolist(),
                    }
                )
        spec = chart(title, label, column, series, zero="y" if column == "bias" else "")
        caption = "Smoothed over a fortieth of the training. These are the rollouts that were learned from."
        pictures.append(Picture(spec, caption))
    return pictures


def benefit_charts(curve: Curve, groups: Sequence[str], seed: Any) -> list[Picture]:
    """Supply and demand of the groups in training, of the first seed."""
    unit, label = unit_of_steps(float(curve["steps"].max()))
    pictures = []
    for kind in ("supply", "demand"):
        columns_of = [f"{kind}_{place}" for place in range(len(groups))]
        if not all(name in curve for name in columns_of):
            return []  # several criteria: tables have them
        series = []
        for place, (group, name) in enumerate(zip(groups, columns_of, strict=True)):
            values, places = smoothed(curve[name])[:, 0], _thinned(len(curve[name]))
            steps = (curve["steps"][places, 0] / unit).tolist()
            series.append({"name": group, "style": place, "line": True, "x": steps, "y": values[places].tolist()})
        caption = f"Per step of the environment, seed {seed}."
        pictures.append(Picture(chart(f"{kind.capitalize()} of each group", label, kind, series, zero="y"), caption))
    return pictures


def _thinned(length: int) -> list[int]:
    return sorted({round(place) for place in np.linspace(0, length - 1, min(length, MOST_POINTS))})


def rates_chart(title: str, label: str, groups: Sequence[Any], caption: str = "") -> Picture:
    """Rates with intervals: anything with group, rate, low and high."""
    rows = [
        {"name": each.group, "value": each.rate, "low": each.low, "high": each.high, "style": place}
        for place, each in enumerate(groups)
    ]
    return Picture({"kind": "dots", "title": title, "label": label, "rows": rows}, caption)


def course_charts(audit: Audit, comparison: Comparison, course: Course, rate: str) -> list[Picture]:
    """Long-term rates with bands, the bias so far with its noise floor, rates and demand of single periods."""
    steps = list(range(len(course.periods)))
    spans = [
        {
            "from": course.periods.index(jump.first) - 0.5,
            "to": course.periods.index(jump.last) + 0.5,
            "name": str(jump),
        }
        for jump in audit.jumps
    ]
    common = {"names": list(course.periods), "spans": spans}
    period = audit.period or "period"

    def by_group(values: str, **more: str) -> list[dict[str, Any]]:
        return [
            {"name": group.group, "style": place, "line": True, "x": steps, "y": list(getattr(group, values))}
            | {name: list(getattr(group, each)) for name, each in more.items()}
            for place, group in enumerate(course.groups)
        ]

    limits = [] if audit.max_bias is None else [{"y": audit.max_bias, "name": f"limit {audit.max_bias:g}"}]
    percent = "95" if comparison.report is None else f"{100 * comparison.report.confidence:g}"
    bias = [
        {"name": "bias so far", "best": True, "line": True, "x": steps, "y": list(course.bias)},
        {
            "name": "expected from noise alone",
            "style": 7,
            "dash": "5 4",
            "line": True,
            "x": steps,
            "y": list(course.noise_floor),
        },
    ]
    grey = "Grey: a stretch in which the log is unlike itself." if spans else ""
    long_term = by_group("cumulative", low="low", high="high")
    return [
        Picture(
            chart(f"Long-term {rate}", f"up to {period}", "rate so far", long_term, **common),
            f"Everything added up so far, then divided; bands are {percent} % intervals. {grey}",
            course_table(course, period),
        ),
        Picture(
            chart("Bias so far", f"up to {period}", "bias", bias, zero="y", limits=limits, **common),
            "Read it against what equal groups would show by chance.",
        ),
        Picture(chart(f"Rate in each {period}", period, "rate", by_group("rate"), **common), "Each period on its own."),
        Picture(chart(f"Demand in each {period}", period, "demand", by_group("demand"), zero="y", **common)),
    ]


def course_table(course: Course, period: str) -> Table:
    """Long-term rates of every period, or of some where there are very many."""
    places = sorted({round(p) for p in np.linspace(0, len(course.periods) - 1, min(len(course.periods), DEMAND_ROWS))})
    heads = (Column(f"up to {period}"), *columns(*(group.group for group in course.groups), right=True))
    heads += columns("bias so far", "noise alone", right=True)
    rows = tuple(
        (
            course.periods[place],
            *(number(group.cumulative[place], 3, unknown="") for group in course.groups),
            number(course.bias[place], unknown=""),
            number(course.noise_floor[place], unknown=""),
        )
        for place in places
    )
    return Table(heads, rows)
