"""A limit on the bias: the controller by hand-computed numbers, and trainings whose answer is known."""
# pyright: reportArgumentType=false, reportOptionalOperand=false

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from tests.learning.tiny import Probe, ProbeEnv

import elbert
from elbert.errors import InvalidInputError
from elbert.experiments.limits import Candidates
from elbert.experiments.runs import RunFolder
from elbert.fairness.rates import Totals
from elbert.learning import Settings, Trainer, WorldProblem, multiplier
from elbert.learning.estimates import Estimates, Squares, Window
from elbert.learning.multiplier import Seen, controlled, debiased, limited_advantage, linearised, slopes

SMALL: dict[str, Any] = {
    "copies": 16,
    "rollout": 32,
    "minibatch": 128,
    "hidden": [8],
    "steps": 16 * 32 * 80,
    "learning_rate": 5e-3,
}


def seen_of(supply, demand, squares=None):
    zeros = jnp.zeros((1, len(supply)))
    squares = Squares(zeros, zeros, zeros) if squares is None else Squares(*(jnp.asarray([x]) for x in squares))
    return Seen(jnp.asarray([supply]), jnp.asarray([demand]), squares)


def dual_of(supply, demand, moved=0.0):
    seen = seen_of(supply, demand)
    return multiplier.start(1, len(supply))._replace(seen=seen, recent=seen, moved=jnp.asarray([moved]))


def test_the_noise_is_taken_off_the_bias():
    # two episodes each: group 0 (1/2, 3/2) of z = 4/4 = 1, group 1 (1/2, 1/2) of z = 2/4
    squares = [[1.0 + 9.0, 1.0 + 1.0], [2.0 + 6.0, 2.0 + 2.0], [4.0 + 4.0, 4.0 + 4.0]]
    # residuals S - z D: group 0 (-1, 1), group 1 (0, 0): variances 2 / 16 and 0
    seen = debiased(seen_of([4.0, 2.0], [4.0, 4.0], squares))
    assert seen[0] == pytest.approx(np.sqrt(0.5**2 - 2 / 16))
    assert debiased(seen_of([4.0, 2.0], [4.0, 4.0]))[0] == pytest.approx(0.5)
    assert debiased(seen_of([4.0, 2.0], [4.0, 0.0]))[0] == 0, "one group has no bias"
    assert debiased(seen_of([4.0, 4.0], [4.0, 4.0], squares))[0] < 0, "less than noise alone would show"


def test_the_debiased_bias_of_equal_groups_is_near_none():
    rng = np.random.default_rng(1)
    for groups in (2, 5):
        plain, corrected = [], []
        for _ in range(200):
            demand = rng.poisson(20, (40, groups)).astype(float)
            supply = rng.binomial(demand.astype(int), 0.5).astype(float)
            squares = [(x * y).sum(0) for x, y in ((supply, supply), (supply, demand), (demand, demand))]
            plain.append(np.ptp(supply.sum(0) / demand.sum(0)))
            corrected.append(float(debiased(seen_of(supply.sum(0), demand.sum(0), squares))[0]))
        assert abs(np.mean(corrected)) < 0.25 * np.mean(plain)


@pytest.mark.parametrize(("bias", "error"), [(0.0, -0.5), (0.05, 0.0), (0.1, 0.5), (0.9, 2.0)])
def test_the_multiplier_follows_the_bias(bias, error):
    done = Window(jnp.asarray([[50.0 + 100 * bias, 50.0]]), jnp.asarray([[100.0, 100.0]]), jnp.asarray(1.0))
    nothing = Squares(*(jnp.zeros((1, 2)),) * 3)
    start = multiplier.start(1, 2)
    after = controlled(start, done, nothing, limit=jnp.asarray(0.1), gain=jnp.asarray(0.05))
    assert after.bias[0] == pytest.approx(bias, abs=1e-6)
    assert after.integral[0] == pytest.approx(0.05 * error, abs=1e-5)
    expected = np.exp(0.05 * error + multiplier.PROPORTIONAL * error)
    assert after.mu[0] == pytest.approx(expected, rel=1e-4)


def test_every_criterion_has_a_multiplier_of_its_own():
    done = Window(jnp.asarray([[90.0, 50.0], [50.0, 50.0]]), jnp.full((2, 2), 100.0), jnp.asarray(1.0))
    nothing = Squares(*(jnp.zeros((2, 2)),) * 3)
    after = controlled(multiplier.start(2, 2), done, nothing, limit=jnp.asarray(0.1), gain=jnp.asarray(0.05))
    assert after.bias == pytest.approx([0.4, 0.0], abs=1e-6)
    assert after.mu[0] > 1 > after.mu[1]
    slope = slopes(after, jnp.asarray(0.1))
    eta = Totals(done.supply, done.demand)
    supply = jnp.asarray([[[4.0, 0.0], [0.0, 0.0]], [[0.0, 0.0], [0.0, 4.0]]])
    ones = jnp.ones(2)
    estimates = Estimates(jnp.asarray([1.0, 3.0]), supply, jnp.zeros_like(supply), eta, ones, ones, ones)
    combined, price = limited_advantage(estimates, slope, after.mu)
    assert combined[0] < 1.0, "group 0 is ahead by the first criterion: more for it counts against"
    assert price[0] > 0
    assert price[1] == pytest.approx(0, abs=1e-6), "by the second criterion all is equal"


def test_noise_alone_does_not_push_the_multiplier_up():
    rng = np.random.default_rng(2)
    state = multiplier.start(1, 2)
    for _ in range(400):  # the true bias is where the controller aims
        demand = np.full((4, 2), 25.0)
        supply = rng.binomial(25, [0.5 + multiplier.AIM * 0.02, 0.5], (4, 2)).astype(float)
        sums = [jnp.asarray([(x * y).sum(0)]) for x, y in ((supply, supply), (supply, demand), (demand, demand))]
        done = Window(jnp.asarray([supply.sum(0)]), jnp.asarray([demand.sum(0)]), jnp.asarray(4.0))
        state = controlled(state, done, Squares(*sums), limit=jnp.asarray(0.02), gain=jnp.asarray(0.01))
    assert -2 < state.integral[0] < 0.6, "errors of one sign would make 4"


def test_without_demand_nothing_is_known_and_nothing_moves():
    nothing = jnp.zeros((1, 2))
    done = Window(nothing, nothing, jnp.zeros(()))
    after = controlled(multiplier.start(1, 2), done, Squares(nothing, nothing, nothing), limit=0.1, gain=1.0)
    assert after.mu[0] == 1
    assert np.isfinite(slopes(after, jnp.asarray(0.1))).all()


def test_slopes_are_whole_for_large_differences_and_fade_for_small_ones():
    far = slopes(dual_of([90.0, 10.0], [100.0, 100.0]), jnp.asarray(0.02))[0]
    assert far == pytest.approx([1, -1], abs=1e-4)
    near = slopes(dual_of([50.01, 50.0], [100.0, 100.0]), jnp.asarray(0.02))[0]
    assert 0 < near[0] < 0.05
    swinging = slopes(dual_of([55.0, 50.0], [100.0, 100.0], moved=0.4), jnp.asarray(0.02))[0]
    steady = slopes(dual_of([55.0, 50.0], [100.0, 100.0]), jnp.asarray(0.02))[0]
    assert 0 < swinging[0] < 0.3 * steady[0], "one iteration changes more than this difference"
    missing = slopes(dual_of([90.0, 10.0, 0.0], [100.0, 100.0, 0.0]), jnp.asarray(0.02))[0]
    assert missing[2] == 0


def test_the_advantage_by_hand():
    # A_R = (1, 3), dev 1; eta_S = (2, 1), eta_D = (4, 2); slopes (1, -1)
    eta = Totals(jnp.asarray([[2.0, 1.0]]), jnp.asarray([[4.0, 2.0]]))
    supply = jnp.asarray([[[4.0, 0.0]], [[0.0, 0.0]]])
    demand = jnp.asarray([[[0.0, 0.0]], [[8.0, 0.0]]])
    slope = jnp.asarray([[1.0, -1.0]])
    # first sample 4 / 4 = 1; second -(2 / 16) 8 = -1: mean 0, dev 1
    assert linearised(supply, demand, eta, slope)[:, 0] == pytest.approx([1, -1])
    ones = jnp.ones(2)
    estimates = Estimates(jnp.asarray([1.0, 3.0]), supply, demand, eta, ones, ones, ones)
    combined, price = limited_advantage(estimates, slope, jnp.asarray([0.5]))
    assert combined == pytest.approx([1 - 0.5, 3 + 0.5])
    assert price[0] == pytest.approx(0.5)
    half, price = limited_advantage(estimates, slope / 2, jnp.asarray([0.5]))
    assert half == pytest.approx([1 - 0.25, 3 + 0.25]), "the same direction with half the weight"


@pytest.mark.parametrize("limit", [0.1, 0.4])
def test_the_limit_is_held_and_its_price_found(limit):
    """Reward is 0.9 + 0.1 * bias per step: under any limit 0.01 of bias is worth 0.001."""
    agent = elbert.train(Probe(), max_bias=limit, **SMALL)
    seen = agent.evaluate(400)
    bias = seen.criterion.bias
    assert bias.debiased is not None
    assert bias.estimate is not None
    assert seen.limit is not None
    assert seen.price is not None
    assert 0.2 * limit < bias.debiased <= limit, "the limit is held, and no more is given up than must be"
    assert seen.reward.mean == pytest.approx(0.9 + 0.1 * bias.estimate, abs=0.01)
    assert seen.limit.verdict != "refuted"
    assert 0.0003 < seen.price < 0.003
    assert f"bias <= {limit:g}" in str(seen)
    shown = seen.to_dict()["limit"]
    assert set(shown) == {"max_bias", "verdict", "p_refute", "p_confirm", "price"}


def test_a_limit_that_nothing_breaks_costs_nothing():
    agent = elbert.train(Probe(), max_bias=5.0, **SMALL)
    assert agent.evaluate(100).reward.mean > 0.98


class Clocked(ProbeEnv):
    """Shows the time that is left."""

    def _observe(self):
        return np.array([super()._observe()[0], self.time / self.horizon], np.float32)


def test_a_users_environment_holds_a_limit():
    host = {"rollout": 64, "minibatch": 128, "hidden": [8], "learning_rate": 5e-3, "steps": 8 * 64 * 40, "copies": 8}
    agent = elbert.train(Clocked, max_bias=0.2, **host)
    assert agent.evaluate(200, env=Clocked).criterion.bias.debiased < 0.2


def test_candidates_are_the_last_policies_and_survive_on_disk(tmp_path):
    short = SMALL | {"steps": 16 * 32 * 10}
    trainer = Trainer(WorldProblem(Probe(), "Probe"), Settings.of(short | {"max_bias": 0.1}))
    assert Candidates(trainer, None, None).iterations == [8, 9, 10]
    agent = elbert.train(Probe(), max_bias=0.1, out=tmp_path / "run", **short)
    assert len(list((tmp_path / "run" / "candidates").iterdir())) == 3
    again = elbert.train(Probe(), max_bias=0.1, out=tmp_path / "run", resume=True, **short)
    assert agent.about.steps == again.about.steps
    stored = RunFolder(tmp_path / "run").agents()[0]
    assert stored.about == agent.about
    assert stored.about.price > 0
    head = (tmp_path / "run" / "metrics.csv").read_text().splitlines()[0]
    assert {"mu", "price", "limited_bias"} <= set(head.split(","))


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"alpha": 3.0}, "alpha has no effect beside max_bias"),
        ({"beta": 3.0}, "beta has no effect beside max_bias"),
        ({"penalty": lambda rates: rates.sum()}, "a penalty of your own has no effect beside max_bias"),
        ({"method": "g-ppo"}, "max_bias has no effect with g-ppo"),
        ({"rollout": 8, "reset_each_rollout": True}, "max_bias needs whole episodes, .* none of 16 steps ends"),
        ({"standardise": "per-signal"}, "standardise is per-signal, which has no effect beside max_bias"),
        ({"max_bias": 0.0}, "max_bias is 0. Give a number above 0"),
        ({"max_bias": -0.1}, "max_bias is -0.1"),
    ],
)
def test_what_makes_no_sense_beside_a_limit_is_refused(given, says):
    with pytest.raises(InvalidInputError, match=says):
        elbert.train(Probe(), **({"max_bias": 0.1} | SMALL | given))


def test_a_limit_before_any_episode_has_ended(tmp_path):
    """The first rollouts know no rates: the columns of the metrics are there all the same."""
    long = {"copies": 4, "rollout": 8, "minibatch": 16, "hidden": [4], "steps": 4 * 8 * 6, "epochs": 1}
    agent = elbert.train(Probe(horizon=20), max_bias=0.1, out=tmp_path / "run", **long)
    rows = (tmp_path / "run" / "metrics.csv").read_text().splitlines()
    assert len(rows) == 7
    assert "limited_bias" in rows[0]
    one = agent.evaluate(1)
    assert one.limit is not None
    assert one.limit.verdict == "not estimable"
    assert one.to_dict()["limit"]["p_refute"] is None
    assert "bias <= 0.1: not estimable" in str(one)


def test_the_price_is_per_step_of_training():
    long = {"copies": 4, "rollout": 16, "minibatch": 32, "hidden": [4], "steps": 4 * 16 * 4, "epochs": 1}
    agent = elbert.train(Probe(), max_bias=0.1, **long)
    price = agent.about.price
    assert price is not None
    assert agent.evaluate(4, env=Probe(horizon=4)).price == pytest.approx(0.01 * price / 16)


@pytest.mark.parametrize(
    ("limits", "says"),
    [([], "Give a list of limits"), (0.05, "Give a list of limits"), ([0.02, None], "Give a list of limits")],
)
def test_a_grid_of_limits_is_a_list_of_numbers(limits, says):
    with pytest.raises(InvalidInputError, match=says):
        elbert.train_many(Probe(), seeds=1, grid={"max_bias": limits}, **SMALL)


def test_limits_side_by_side():
    short = SMALL | {"steps": 16 * 32 * 4}
    agents = elbert.train_many(Probe(), seeds=1, grid={"max_bias": [0.1, 0.4]}, **short)
    assert [agent.settings.max_bias for agent in agents] == [0.1, 0.4]


def test_a_method_of_ones_own_has_no_limit():
    def mine(estimates, coefficients, penalty):
        return estimates.reward

    with pytest.raises(InvalidInputError, match="max_bias has no effect with mine"):
        elbert.train(Probe(), method=mine, max_bias=0.1, **SMALL)
