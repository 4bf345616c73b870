"""Results: what the statistics of the fairness room become, in memory and in files."""

import json

import numpy as np
import pytest

import elbert
from elbert.exact.rules import get_rule
from elbert.learning import Result
from elbert.learning.result import judged
from elbert.learning.simulators import Episodes
from elbert.report.pages import result_page


@pytest.mark.parametrize(("notion", "warned"), [("demographic-parity", False), ("equal-opportunity", True)])
def test_only_labels_are_warned_of(notion, warned):
    """Everybody who asks is served: a rate of 1 may come from labels that were filled in, if there are labels."""
    result = get_rule("rule:lending/thresholds-0-0", notion=notion).evaluate(4, horizon=50)
    assert {group.rate for group in result.worst.groups} == {1.0}
    assert ("WARNING" in str(result)) is warned


@pytest.mark.slow
def test_an_agent_passes_on_the_notion_of_its_world():
    small = {"steps": 64, "copies": 2, "rollout": 32, "minibatch": 32, "hidden": [4], "epochs": 1}
    agent = elbert.train("lending", method="g-ppo", world={"notion": "demographic-parity", "horizon": 32}, **small)
    report = agent.evaluate(2).report
    assert report is not None
    assert report.totals is not None
    assert report.totals.notion is not None
    assert report.totals.notion.name == "demographic-parity"


def test_a_result_says_whom_the_bias_leaves_out_and_whether_to_rely_on_it():
    """Group 1 is due something in one episode of 20 only, group 2 mostly in one."""
    demand = np.full((20, 1, 4), 10.0)
    demand[1:, 0, 1] = 0.0
    demand[0, 0, 2] = 1000.0
    supply = demand * np.linspace(0.3, 0.6, 20)[:, None, None]
    sums = Episodes(np.ones(20), np.full(20, 5.0), supply, demand)
    result = judged(sums, env="mine", method="g-ppo", criteria=("rate",))
    assert result.worst.bias.left_out == ("1",)
    assert result.worst.bias.reliable is False
    again = Result.from_dict(json.loads(json.dumps(result.to_dict())))
    assert again == result
    assert again.report is None
    table = str(result_page(again))
    assert "without 1; unreliable: too few episodes carry the demand of a group" in " ".join(table.split())
    demand[:] = 10.0
    assert judged(sums, env="mine", method="g-ppo", criteria=("rate",)).worst.bias.reliable


def test_files_from_before_say_nothing_about_reliability():
    sums = Episodes(np.ones(9), np.full(9, 5.0), np.full((9, 1, 2), 2.0), np.full((9, 1, 2), 4.0))
    content = judged(sums, env="mine", method="g-ppo", criteria=("rate",)).to_dict()
    for name in ("left_out", "reliable"):
        del content["criteria"][0]["bias"][name]
    assert Result.from_dict(content).worst.bias.reliable is None


def test_the_price_in_files_from_before_is_passed_over():
    sums = Episodes(np.ones(9), np.full(9, 5.0), np.full((9, 1, 2), 2.0), np.full((9, 1, 2), 4.0))
    result = judged(sums, env="mine", method="g-ppo", criteria=("rate",), max_bias=0.1)
    content = result.to_dict()
    assert "price" not in content["limit"]
    content["limit"]["price"] = 0.003
    assert Result.from_dict(content) == result
