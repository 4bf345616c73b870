"""`.plot()`: what stands where in the figure, and what cannot be drawn."""
# pyright: reportAttributeAccessIssue=false

import numpy as np
import pytest

import elbert
from elbert.errors import ElbertError, InvalidInputError
from elbert.exact.frontier import Frontier, RulePoint
from elbert.exact.rules import get_rule
from elbert.exact.world_frontiers import FrontierPoint
from elbert.experiments.compare import Compared, Comparison
from elbert.learning.history import History
from tests.test_package import modules_after


def drawn(axes):
    """Every line of a panel as (x, y)."""
    return [(np.asarray(line.get_xdata()).tolist(), np.asarray(line.get_ydata()).tolist()) for line in axes.lines]


def test_a_report_draws_a_mark_at_every_rate_and_its_interval_around_it():
    supply = np.tile([[1.0, 3.0, 0.0]], (30, 1)) + np.random.default_rng(0).uniform(0, 1, (30, 1)) * [1, 1, 0]
    report = elbert.benefit_report(supply, np.tile([[4.0, 4.0, 0.0]], (30, 1)), groups=["a", "$b", "none"])
    figure = report.plot()
    (axes,), groups = figure.axes, report.criteria[0].groups
    for place, group in enumerate(groups[:2]):
        assert ([group.rate], [place]) in drawn(axes)
        assert ([group.low, group.high], [place, place]) in drawn(axes)
    assert [text.get_text() for text in axes.texts] == ["not estimable"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["a", r"\$b", "none"], "a dollar is no formula"
    assert axes.yaxis_inverted(), "the first group stands at the top"
    assert figure._repr_png_().startswith(b"\x89PNG"), "notebooks show it without pyplot"


def test_a_report_is_drawn_without_the_training_stack():
    code = "import elbert; elbert.benefit_report([[1, 2], [2, 1]], [[3, 3], [3, 3]])"
    loaded = modules_after(f"{code}.plot(); {code}._repr_html_()")
    assert "matplotlib" in loaded
    assert "jax" not in loaded


def history(**columns):
    columns = {"steps": (1_000_000, 2_000_000, 3_000_000), **columns}
    return History(columns, dict.fromkeys(columns, float))


def test_a_history_draws_its_columns_over_steps():
    shown = history(reward=(1.0, 4.0, 7.0), bias=(0.5, None, 0.25), kl=(0.1, 0.2, 0.3))
    reward, bias = shown.plot().axes
    assert drawn(reward) == [([1.0, 2.0, 3.0], [1.0, 4.0, 7.0])]
    assert np.isnan(drawn(bias)[0][1][1]), "what is not known is a gap"
    (kl,) = shown.plot(columns="kl").axes
    assert (kl.get_title(loc="left"), drawn(kl)[0][1]) == ("kl", [0.1, 0.2, 0.3])
    (smooth,) = shown.plot(columns=["reward"], smooth=0.67).axes
    assert drawn(smooth)[0][1] == [2.5, 4.0, 5.5], "a window of three iterations, cut at the ends"
    (gap,) = shown.plot(columns=["bias"], smooth=0.67).axes
    assert drawn(gap)[0][1] == [0.5, 0.375, 0.25], "what is not known counts for nothing"


@pytest.mark.parametrize(
    ("shown", "options", "message"),
    [
        (history(reward=(1.0, 2.0, 3.0)), {"columns": ["rewards"]}, "No column is called 'rewards'. Did you mean"),
        (history(reward=(1.0, 2.0, 3.0)), {"smooth": 2}, "smooth is 2"),
        (History({"steps": ()}, {"steps": int}), {}, "no iterations"),
        (Frontier("lending", 10, True, (), (), ""), {}, "neither points nor rules"),
        (Comparison("lending", ()), {"kind": "scatter"}, "No kind of plot is called 'scatter'"),
        (Comparison("lending", ()), {"kind": "curves"}, "None of the policies is a run"),
        (Comparison("lending", ()), {}, "The bias of no policy is estimable"),
    ],
)
def test_what_cannot_be_drawn_says_why(shown, options, message):
    with pytest.raises((ElbertError, InvalidInputError), match=message):
        shown.plot(**options)


def test_a_comparison_draws_every_policy_at_its_bias_and_reward():
    result = elbert.evaluate(get_rule("rule:lending/thresholds-2-1"), episodes=4, horizon=20)
    comparison = Comparison("lending", (Compared(name="$mine", result=result, best=None, run=None),))
    figure = comparison.plot()
    assert ([result.worst.bias.estimate], [result.reward.mean]) in drawn(figure.axes[0])
    assert figure._repr_png_().startswith(b"\x89PNG")


def test_a_frontier_draws_rules_and_the_line_above_them():
    points = tuple(
        FrontierPoint(max_bias=limit, reward=reward, bound=reward, rates=((0.5, 0.5),), price=None, bias=limit)
        for limit, reward in ((0.0, 1.0), (0.1, 2.0))
    )
    found = Frontier("lending", 10, True, points, (RulePoint("rule:lending/all", 0.9, 0.05, simulated=False),), "")
    (axes,) = found.plot().axes
    assert ([0.05], [0.9]) in drawn(axes)
    assert any((x[:2], y[:2]) == ([0.0, 0.1], [1.0, 2.0]) for x, y in drawn(axes))
