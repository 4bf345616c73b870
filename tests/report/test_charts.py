"""What makes pictures readable: what is behind lines, ordered colours, the front, an inset around a crowd."""

import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from elbert.report.charts import (
    Point,
    curve_legend,
    draw_levels,
    draw_scatter,
    enlarge_crowd,
    marks_explained,
    unit_of_steps,
)
from elbert.report.style import GROUP_COLOURS, plain, series_styles


def lightness(look):
    red, green, blue = (int(to_hex(look["color"])[place : place + 2], 16) for place in (1, 3, 5))
    return 0.3 * red + 0.6 * green + 0.1 * blue


@pytest.mark.parametrize(
    "labels",
    [
        ("alpha 200", "alpha 2000", "alpha 20000"),
        ("run, alpha=0.5, beta=2", "run, alpha=1e3, beta=2", "run, alpha=5e4, beta=2"),
    ],
)
def test_colours_of_an_ordered_quantity_darken_with_it(labels):
    order = [2, 0, 1]
    looks = series_styles([labels[place] for place in order])
    by_value = [looks[order.index(place)] for place in range(3)]
    light = [lightness(look) for look in by_value]
    assert light == sorted(light, reverse=True)
    assert len({look["marker"] for look in looks}) == 3, "they differ without colours too"


def test_what_stands_next_to_a_sweep_keeps_its_colour():
    looks = series_styles(["run alpha=1", "g-ppo", "run alpha=100", "run alpha=10"])
    assert looks[1]["color"] == GROUP_COLOURS[1]
    assert lightness(looks[0]) > lightness(looks[3]) > lightness(looks[2])


@pytest.mark.parametrize(
    "labels",
    [
        ("elbert-po", "g-ppo"),
        ("alpha 1",),
        ("thresholds-1-1", "thresholds-2-2"),
        ("no weight", "weight 1"),
        ("alpha 1", "beta 2"),
        ("alpha 1", "alpha 1"),
    ],
)
def test_other_series_keep_the_colours_of_the_house(labels):
    assert [look["color"] for look in series_styles(labels)] == list(GROUP_COLOURS[: len(labels)])


def curve(members):
    steps = np.repeat(np.arange(80.0)[:, None], members, axis=1)
    return {"steps": steps, "reward": steps + np.arange(members), "bias": 1 / (1 + steps)}


def test_what_is_behind_the_lines_is_in_the_legend():
    for members, text, absent in ((3, "band: lowest to highest seed", "thin"), (1, "thin: single rollouts", "band")):
        left, right = Figure().subplots(1, 2)
        curves = {"a": curve(members), "_b": curve(members)}
        draw_levels(left, right, curves)
        handles, labels = curve_legend(left, curves.values())
        assert labels == ["a", plain("_b"), text], "a name with an underscore is not left out"
        assert len(handles) == 3
        assert not any(absent in label for label in labels)
    low, high = curve_band()
    assert (low, high) == (40.0, 42.0)


def curve_band():
    """The ends of the band in the middle of three seeds whose rewards at step t are t, t + 1 and t + 2."""
    left, right = Figure().subplots(1, 2)
    draw_levels(left, right, {"a": curve(3)})
    vertices = left.collections[0].get_paths()[0].vertices
    at = vertices[np.isclose(vertices[:, 0], 40.0), 1]
    return at.min(), at.max()


@pytest.mark.parametrize(
    ("most", "expected"),
    [(2e6, (1e6, "million steps")), (999_999, (1e3, "thousand steps")), (80, (1, "steps")), (0, (1, "steps"))],
)
def test_short_trainings_are_not_counted_in_millions(most, expected):
    assert unit_of_steps(most) == expected


def test_the_front_is_named_where_it_is_a_line():
    axes = Figure().subplots()
    draw_scatter(axes, [Point("a", 0.1, 1.0), Point("b", 0.2, 2.0), Point("c", 0.3, 1.5)])
    assert "Pareto front" in axes.get_legend_handles_labels()[1]
    axes = Figure().subplots()
    draw_scatter(axes, [Point("a", 0.1, 2.0), Point("b", 0.2, 1.0)])
    assert axes.get_legend_handles_labels()[1] == ["a", "b"], "one point beats the other: there is no line"


CROWD = [Point(f"policy {letter}", 0.01 * i, 1.0 + 0.001 * i) for i, letter in enumerate("abcde")]


def test_a_crowd_is_enlarged_where_few_flatten_it():
    axes = Figure().subplots()
    points = [*CROWD, Point("far", 0.2, 0.1)]
    draw_scatter(axes, points)
    inset = enlarge_crowd(axes, points, highest=1.01)
    assert inset is not None
    (left, right), (low, high) = inset.get_xlim(), inset.get_ylim()
    inside = [left < point.bias < right and low < point.reward < high for point in points]
    assert [bool(each) for each in inside] == [True] * 5 + [False]
    assert right < 0.1, "it is as wide as the crowd"
    assert low < 1.01 < high, "the frontier above them is there too"


@pytest.mark.parametrize(
    "points",
    [CROWD, [*CROWD[:2], Point("far", 0.2, 0.1)], [Point("a", 0.1, 1.0)] * 6],
    ids=["evenly spread", "few", "all in one place"],
)
def test_nothing_is_enlarged_without_need(points):
    axes = Figure().subplots()
    draw_scatter(axes, points)
    assert enlarge_crowd(axes, points) is None


def test_bars_and_hollow_marks_are_explained_where_there_are_some():
    sure, unsure = Point("a", 0.1, 1.0), Point("a", 0.1, 1.0, (0.0, 0.2), None)
    assert marks_explained([sure]) is None
    assert marks_explained([sure, unsure]) == "bars: 95 % intervals"
    assert marks_explained([unsure], [sure]) == "bars: 95 % intervals\nhollow: published"
