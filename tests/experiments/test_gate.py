"""The gate: exit codes that a script can rely on, in every combination of verdicts and of --fail-on."""
# pyright: reportArgumentType=false, reportOptionalMemberAccess=false

from dataclasses import replace

import numpy as np
import pytest

from elbert.errors import InvalidInputError
from elbert.experiments.gate import check_gate, gate
from elbert.experiments.results import over_seeds
from elbert.fairness.bias_inference import BiasTest
from elbert.learning.result import judged
from elbert.learning.simulators import Episodes
from tests.command_line import cli

SMALL = [f"--set={each}" for each in ("copies=4", "rollout=60", "minibatch=60", "hidden=[4]", "epochs=1")]
RULE = ["evaluate", "rule:lending/thresholds-2-1", "--episodes", "40", "--horizon", "100"]


def result(difference, episodes=50, max_bias=None):
    """A policy whose second group has a rate higher by this, with little noise around it."""
    noise = np.random.default_rng(0).uniform(-0.01, 0.01, (episodes, 1, 2))
    supply = 0.5 + noise + np.asarray([0.0, difference])
    sums = Episodes(
        reward=np.ones(episodes), length=np.full(episodes, 4), supply=supply, demand=np.ones((episodes, 1, 2))
    )
    return judged(sums, env="lending", method="g-ppo", criteria=("rate",), max_bias=max_bias)


def with_verdicts(*verdicts):
    single = result(0.0)
    limits = [BiasTest(max_bias=0.1, verdict=verdict) for verdict in verdicts]
    return over_seeds([replace(single, limit=limit) for limit in limits], range(len(limits)))


def test_a_limit_is_tested_whatever_the_policy_was_trained_for():
    assert result(0.05, max_bias=0.1).limit.verdict == "confirmed"
    assert result(0.05, max_bias=0.01).limit.verdict == "refuted"
    both = over_seeds([result(0.05, max_bias=0.1), result(0.3, max_bias=0.1)], [0, 1])
    assert [single.limit.verdict for single in both.seeds] == ["confirmed", "refuted"]
    assert both.limit.verdict == "refuted", "the least favourable"


@pytest.mark.parametrize(
    ("verdicts", "unconfirmed", "refuted"),
    [
        (["confirmed"], 0, 0),
        (["refuted"], 1, 1),
        (["not refuted"], 3, 0),
        (["not estimable"], 3, 0),
        (["confirmed", "not refuted"], 3, 0),
        (["confirmed", "refuted", "not estimable"], 1, 1),
    ],
)
def test_the_exit_code_is_the_verdict_over_all_policies(verdicts, unconfirmed, refuted):
    results = [with_verdicts(*verdicts)]
    assert gate(results).code == unconfirmed
    assert gate(results, "refuted").code == refuted
    assert gate(results, "never").code == 0
    passes = gate(results, "refuted").text
    assert ("It passes because of --fail-on refuted" in passes) == (unconfirmed == 3), "never without a word"
    assert gate([with_verdicts("confirmed"), *results]).code == unconfirmed, "all coefficients count"


def test_a_gate_without_anything_to_judge_is_wrong_use():
    with pytest.raises(InvalidInputError, match="needs a limit"):
        gate([result(0.1)])
    for fail_on, limited, evaluated in (("never", False, True), ("refuted", True, False)):
        with pytest.raises(InvalidInputError, match="--fail-on needs"):
            check_gate(fail_on, limited=limited, evaluated=evaluated)
    check_gate(None, limited=False, evaluated=False)


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["--max-bias", "0.5"], 0, "Gate: bias <= 0.5 is confirmed."),
        (["--max-bias", "0.001"], 3, "Gate: bias <= 0.001 is undetermined"),
        (["--max-bias", "0.001", "--fail-on", "refuted"], 0, "It passes because of --fail-on refuted."),
        (["--max-bias", "-1"], 2, "max_bias is -1.0. Give the largest acceptable bias"),
        (["--fail-on", "refuted"], 2, "--fail-on needs a limit"),
        (["--fail-on", "sometimes"], 2, "sometimes"),
        ([], 0, "debiased"),
    ],
)
def test_evaluate_is_a_gate_for_shell_scripts(arguments, code, says):
    done = cli(*RULE, *arguments)
    assert done.returncode == code, done.stderr
    assert says in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_a_refuted_limit_ends_with_1():
    unfair = ["evaluate", "rule:lending/thresholds-2-6", "--episodes", "40", "--horizon", "100", "--max-bias", "0.1"]
    done = cli(*unfair, "--json")
    assert done.returncode == 1, done.stderr
    assert "Gate" not in done.stdout, "JSON stays one document"
    assert "Gate: bias <= 0.1 is refuted." in done.stderr


@pytest.mark.slow
def test_training_under_a_limit_ends_with_the_verdict(tmp_path):
    train = ["train", "infectious", *SMALL, "--steps", "480", "--max-bias", "0.0001"]
    done = cli(*train, "--out", "run", cwd=tmp_path)
    assert done.returncode in (1, 3), done.stderr
    assert done.stdout.splitlines()[-1].startswith("Gate: bias <= 0.0001 is ")
    done = cli(*train, "--out", "run", "--resume", "--fail-on", "never", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "It passes because of --fail-on never" in done.stdout
    done = cli("evaluate", "run", "--episodes", "20", "--fail-on", "never", cwd=tmp_path)
    assert (done.returncode, "Gate: bias <= 0.0001 is " in done.stdout) == (0, True), "the limit of its training"
    done = cli("train", "infectious", *SMALL, "--fail-on", "refuted", "--out", "none", cwd=tmp_path)
    assert (done.returncode, (tmp_path / "none").exists()) == (2, False), "refused before it is trained"
