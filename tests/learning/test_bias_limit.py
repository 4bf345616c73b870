"""A limit on the bias: the controller by hand-computed numbers, and trainings whose answer is known."""
# pyright: reportArgumentType=false, reportOptionalOperand=false

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import elbert
from elbert.errors import InvalidInputError
from elbert.fairness.rates import Totals
from elbert.learning.estimates import Estimates, Window
from elbert.learning.methods import BiasLimit, Controller
from elbert.learning.methods.base import Clock
from elbert.learning.methods.bias_limit import limited_advantage
from elbert.learning.methods.limited import Choice
from elbert.learning.methods.rate_tracker import Foresight, RateTracker, shifted
from elbert.learning.methods.weighing import bias_advantage
from tests.learning.tiny import Probe, ProbeEnv

SMALL: dict[str, Any] = {
    "copies": 16,
    "rollout": 32,
    "minibatch": 128,
    "hidden": [8],
    "steps": 16 * 32 * 80,
    "learning_rate": 5e-3,
}


faded = jax.jit(RateTracker.faded)
CONTROLLER = Controller()


@jax.jit
def moved_on(method, state, done):
    """A rollout as the last part begins: nothing is tolerated, and an error of 1 moves the integral by 0.05."""
    return method.controlled(state, done, clock=clock_of(180)._replace(left=1.0))


def clock_of(iteration, iterations=300):
    return Clock(jnp.asarray(iteration), iterations, 1.0 - iteration / iterations)


def seen_of(rollouts, keep=0.8):
    """Rollouts with (supplies, demands) of every group."""
    seen = RateTracker.nothing(1, len(rollouts[0][0]))
    for supply, demand in rollouts:
        seen = faded(seen, keep, window_of(supply, demand))
    return seen


def window_of(supply, demand):
    given, due = (np.atleast_2d(np.asarray(x, np.float32)) for x in (supply, demand))
    return Window(given, due, np.float32(1.0))


def limit(max_bias, criteria=1, groups=2):
    return BiasLimit(max_bias=max_bias).prepared(criteria, groups)


def slopes_of(supply, demand, max_bias=0.02, moved=0.0):
    seen, method = seen_of([(supply, demand)]), limit(max_bias, groups=len(supply))
    state = method.start(1, len(supply))._replace(lasting=seen, recent=seen, moved=jnp.asarray([moved]))
    return method.slopes(state)[0]


def test_the_noise_is_taken_off_the_bias():
    # group 0 (1/2, then 3/2), group 1 (1/2, 1/2); weights 0.8 and 1 because all have the same demand
    found = seen_of([([1.0, 1.0], [2.0, 2.0]), ([3.0, 1.0], [2.0, 2.0])])
    z0 = (0.8 * 1 + 3) / 3.6
    n = 1.8**2 / (1 + 0.8**2)
    variance = n / (n - 1) * (3 - 2 * 0.5) * (3 - 2 * z0) / 3.6**2  # by the rates before and after the second
    z, noise, known = found.rates()
    assert z[0] == pytest.approx([z0, 0.5])
    assert noise[0] == pytest.approx([variance, 0.0], abs=1e-6)
    assert known.all()
    # E range**2 of two normal numbers with these variances: their sum
    square, taken, known = found.squared_bias()
    assert taken[0] == pytest.approx(variance, rel=1e-4)
    assert square[0] == pytest.approx((z0 - 0.5) ** 2 - variance, abs=1e-5)
    assert known[0]
    alone, _, known = seen_of([([1.0, 1.0], [2.0, 0.0]), ([3.0, 1.0], [2.0, 0.0])]).squared_bias()
    assert alone[0] == 0, "one group has no bias"
    assert not known[0]


@pytest.mark.slow
@pytest.mark.parametrize("groups", [2, 5])
def test_the_debiased_bias_of_equal_groups_is_near_none(groups):
    rng = np.random.default_rng(1)
    plain, corrected = [], []
    for _ in range(200):
        demand = rng.poisson(200, (30, groups)).astype(float)
        supply = rng.binomial(demand.astype(int), 0.5).astype(float)
        found = seen_of(list(zip(supply, demand, strict=True)))
        plain.append(np.ptp(found.rates()[0]) ** 2)
        corrected.append(float(found.squared_bias()[0][0]))
    assert abs(np.mean(corrected)) < 0.2 * np.mean(plain)


def test_a_rollout_with_far_more_demand_does_not_count_for_ever():
    """A group that was neglected for one rollout can have a hundred times the demand there."""
    usual = ([50.0, 50.0], [100.0, 100.0])
    found = seen_of([usual, ([50.0, 0.0], [100.0, 10_000.0]), usual])
    # what came before weighs as 400: four rollouts like this one
    assert found.demand[0, 1] == pytest.approx(500, rel=1e-4)
    assert seen_of([usual] * 40).demand[0] == pytest.approx([500, 500], rel=1e-2), "no less than usual"
    nothing = seen_of([usual, ([0.0, 0.0], [0.0, 0.0])])
    assert nothing.demand[0] == pytest.approx([100, 100]), "where nothing was due, nothing is forgotten"


def controlled_by(rollouts, max_bias=0.1, groups=2, criteria=1):
    method = limit(max_bias, criteria, groups)
    state = method.start(criteria, groups)
    for rollout in rollouts:
        state = moved_on(method, state, window_of(*rollout))
    return state


@pytest.mark.parametrize(("bias", "error"), [(0.0, -1.0), (0.05, -0.75), (0.1, 0.0), (0.15, 1.25), (0.9, 2.0)])
def test_the_multiplier_follows_the_bias(bias, error):
    rollout = [50.0 + 100 * bias, 50.0], [100.0, 100.0]
    first = controlled_by([rollout])
    assert first.mu[0] == 1, "one rollout says nothing about its own noise"
    after = controlled_by([rollout, rollout])
    assert after.bias[0] == pytest.approx(bias, abs=1e-3)
    assert after.integral[0] == pytest.approx(0.05 * error, abs=1e-3)
    expected = np.exp(0.05 * error + CONTROLLER.proportional * error)
    assert after.mu[0] == pytest.approx(expected, rel=1e-2)


def test_the_multiplier_stays_within_its_ends():
    far = controlled_by([([90.0, 10.0], [100.0, 100.0])] * 60)
    assert far.mu[0] == pytest.approx(np.exp(CONTROLLER.integral_ends[1] + 2 * CONTROLLER.proportional), rel=1e-3)
    none = controlled_by([([50.0, 50.0], [100.0, 100.0])] * 60)
    assert none.mu[0] == pytest.approx(np.exp(CONTROLLER.integral_ends[0] - CONTROLLER.proportional), rel=1e-3)


@pytest.mark.parametrize(("iteration", "part"), [(0, 1.0), (90, 0.5), (180, 0.0)])
def test_what_an_iteration_moves_is_tolerated_while_there_is_much_to_learn(iteration, part):
    """A bias of 0.2 at a limit of 0.1: the rates moved by 0.4, of which all, half, and nothing is tolerated."""
    method = limit(0.1)
    state = method.start(1, 2)
    for _ in range(2):
        state = state._replace(moved=jnp.asarray([0.4]))
        state = method.controlled(state, window_of([70.0, 50.0], [100.0, 100.0]), clock=clock_of(iteration))
    tolerated = 0.01 + (0.4 * part) ** 2
    error = np.clip((0.04 - tolerated) / tolerated, -1, 2)
    assert np.log(state.mu[0]) - state.integral[0] == pytest.approx(CONTROLLER.proportional * error, abs=1e-3)


def test_the_aim_falls_below_the_limit_by_what_is_not_known():
    """In the last part, by two deviations of the noise; no lower than half the limit."""
    assert CONTROLLER.margin_at(clock_of(0)) == CONTROLLER.margin_at(clock_of(179)) == 0
    assert CONTROLLER.margin_at(clock_of(240)) == pytest.approx(CONTROLLER.margin / 2)
    assert CONTROLLER.margin_at(clock_of(300)) == pytest.approx(CONTROLLER.margin)
    rng, method = np.random.default_rng(4), limit(0.1)
    state = method.start(1, 2)
    for supply in rng.binomial(1000, (0.59, 0.5), (40, 2)):
        state = method.controlled(state, window_of(supply, [1000.0, 1000.0]), clock=clock_of(0))
    square, noise, _ = state.lasting.squared_bias()
    late = method.controlled(state, window_of([0.0, 0.0], [0.0, 0.0]), clock=clock_of(299))
    aim = (1 - float(CONTROLLER.margin_at(clock_of(299))) * float(noise[0]) ** 0.5 / 0.1) ** 2
    stiffness = float(CONTROLLER.stiffness_at(clock_of(299)))
    error = stiffness * (float(square[0]) - aim * 0.01) / (0.01 + float(noise[0]))
    assert -1 < error < 2
    assert 1 < stiffness < CONTROLLER.stiffness
    assert 0.5 < aim < 0.99
    assert np.log(late.mu[0]) - late.integral[0] == pytest.approx(CONTROLLER.proportional * error, rel=1e-3)


def test_swings_do_not_push_the_multiplier_up():
    """A policy that steps to and fro around equal rates is not pushed harder, one that stays apart is."""
    swings = [([50.0 + 20 * (-1) ** i, 50.0], [100.0, 100.0]) for i in range(20)]
    assert controlled_by(swings).mu[0] < 1
    apart = [([70.0 + 20 * (-1) ** i, 50.0], [100.0, 100.0]) for i in range(20)]
    assert controlled_by(apart).mu[0] > 2


@pytest.mark.slow
def test_every_criterion_has_a_multiplier_of_its_own():
    supply, demand = [[90.0, 50.0], [50.0, 50.0]], [[100.0, 100.0], [100.0, 100.0]]
    after = controlled_by([(supply, demand)] * 2, criteria=2)
    assert after.bias == pytest.approx([0.4, 0.0], abs=1e-3)
    assert after.mu[0] > 1 > after.mu[1]
    slope = limit(0.1, 2).slopes(after)
    eta = Totals(jnp.asarray(supply), jnp.asarray(demand))
    advantage = jnp.asarray([[[4.0, 0.0], [0.0, 0.0]], [[0.0, 0.0], [0.0, 4.0]]])
    ones = jnp.ones(2)
    estimates = Estimates(jnp.asarray([1.0, 3.0]), advantage, jnp.zeros_like(advantage), eta, ones, ones, ones)
    combined = limited_advantage(estimates, slope, after.mu)
    assert combined[0] < 1.0, "group 0 is ahead by the first criterion: more for it counts against"
    alone = limited_advantage(estimates, slope.at[1].set(0.0), after.mu)
    assert combined == pytest.approx(alone.tolist(), abs=1e-5), "by the second criterion all is equal"


@pytest.mark.parametrize("groups", [2, 5, 12])
@pytest.mark.parametrize("part", [0.0, 1.0])
def test_noise_alone_does_not_push_the_multiplier_up(groups, part):
    """The noise of a rollout is 2.5 times the limit; the bias 0, or where the controller aims."""
    rng = np.random.default_rng(2)
    rates = np.full(groups, 0.5)
    rates[0] += part**0.5 * 0.02
    supply = rng.binomial(100, rates, (400, groups))
    state = controlled_by([(row, np.full(groups, 100.0)) for row in supply], max_bias=0.02, groups=groups)
    assert state.integral[0] < 0.6, "it would be at its end if errors were not weighed by what is known"
    apart = rng.binomial(100, rates + 0.2 * (np.arange(groups) == 0), (400, groups))
    state = controlled_by([(row, np.full(groups, 100.0)) for row in apart], max_bias=0.02, groups=groups)
    assert state.integral[0] == CONTROLLER.integral_ends[1], "a bias that can be seen in it does"


def test_how_it_began_is_forgotten():
    """A bias of the first rollouts does not hold the multiplier up for ever."""
    began = [([90.0, 10.0], [100.0, 100.0])] * 5 + [([50.0 + 10 * (-1) ** i, 50.0], [100.0, 100.0]) for i in range(60)]
    assert abs(controlled_by(began, max_bias=0.02).bias[0]) < 0.05


def test_between_episodes_the_multiplier_waits():
    rollout, nothing = ([90.0, 50.0], [100.0, 100.0]), ([0.0, 0.0], [0.0, 0.0])
    before = controlled_by([rollout, rollout])
    after = controlled_by([rollout, rollout, *[nothing] * 5])
    assert before.integral[0] > 0
    assert after.integral[0] == before.integral[0]
    assert after.bias[0] == before.bias[0]


def test_without_demand_nothing_is_known_and_nothing_moves():
    after = controlled_by([([0.0, 0.0], [0.0, 0.0])] * 3)
    assert after.mu[0] == 1
    assert np.isfinite(limit(0.1).slopes(after)).all()


def test_what_is_foreseen_moves_all_that_was_seen():
    # group 0: 30 of 100, and 0.2 supplies and 0.25 demands more per demand: 50 of 125; group 1 loses more than it has
    seen = seen_of([([30.0, 30.0], [100.0, 100.0])])
    after = seen.foreseen(Totals(jnp.asarray([[0.2, -0.5]]), jnp.asarray([[0.25, -2.0]])))
    assert after.supply[0] == pytest.approx([50, 0])
    assert after.demand[0] == pytest.approx([125, 10])
    assert after.weight[0] == pytest.approx(seen.weight[0])
    nothing = shifted(Totals(jnp.zeros((1, 2)), jnp.zeros((1, 2))), Totals(jnp.ones((1, 2)), jnp.ones((1, 2))))
    assert not np.any(nothing), "a group without demand stays without"


@pytest.mark.parametrize(("true_part", "belief"), [(0.0, 0.0), (0.5, 0.5), (1.0, 1.0), (3.0, 1.0), (-1.0, 0.0)])
def test_as_much_is_believed_as_came_true(true_part, belief):
    """Both groups are given more by the same amount, which nobody foresaw and which is no change of the bias."""
    foresight, seen = Foresight.none(1, 2), seen_of([([50.0, 50.0], [100.0, 100.0])])
    assert foresight.belief == pytest.approx([0.5])
    for change in (0.1, -0.2, 0.05):
        foresight = foresight.noted(seen, Totals(jnp.asarray([[change, -change]]), jnp.zeros((1, 2))))
        moved = 100 * true_part * change
        foresight = foresight.checked(0.9, window_of([55 + moved, 55 - moved], [100.0, 100.0]))
    assert foresight.belief == pytest.approx([belief], abs=1e-4)


def test_a_rollout_without_demand_changes_no_belief():
    seen = seen_of([([50.0, 50.0], [100.0, 100.0])])
    noted = Foresight.none(1, 2).noted(seen, Totals(jnp.asarray([[0.1, -0.1]]), jnp.zeros((1, 2))))
    assert noted.checked(0.9, window_of([0.0, 0.0], [0.0, 0.0])).belief == pytest.approx([0.5])


@pytest.mark.parametrize(
    ("steps", "pure", "budget"),
    [(1000, True, 30_000), (200_000, True, 4_000_000), (20_000_000, True, 12_000_000), (100_000, False, 30_000)],
)
def test_the_budget_of_the_choice(steps, pure, budget):
    assert Choice().budget(steps, pure=pure) == pytest.approx(budget)
    large = Choice().budget(steps, pure=pure, numbers=2000)
    assert large == pytest.approx(min(budget, max(0.6 * steps, 400_000)) if pure else budget)


def test_slopes_are_whole_for_large_differences_and_fade_for_small_ones():
    assert slopes_of([90.0, 10.0], [100.0, 100.0]) == pytest.approx([1, -1], abs=1e-4)
    assert 0 < slopes_of([50.01, 50.0], [100.0, 100.0])[0] < 0.05
    swinging = slopes_of([55.0, 50.0], [100.0, 100.0], moved=0.4)
    steady = slopes_of([55.0, 50.0], [100.0, 100.0])
    assert 0 < swinging[0] < 0.3 * steady[0], "one iteration changes more than this difference"
    assert slopes_of([90.0, 10.0, 0.0], [100.0, 100.0, 0.0])[2] == 0


def test_the_advantage_by_hand():
    # A_R = (1, 3), dev 1; eta_S = (2, 1), eta_D = (4, 2); slopes (1, -1)
    eta = Totals(jnp.asarray([[2.0, 1.0]]), jnp.asarray([[4.0, 2.0]]))
    supply = jnp.asarray([[[4.0, 0.0]], [[0.0, 0.0]]])
    demand = jnp.asarray([[[0.0, 0.0]], [[8.0, 0.0]]])
    slope = jnp.asarray([[1.0, -1.0]])
    # first sample 4 / 4 = 1; second -(2 / 16) 8 = -1: mean 0, dev 1
    ones = jnp.ones(2)
    estimates = Estimates(jnp.asarray([1.0, 3.0]), supply, demand, eta, ones, ones, ones)
    assert bias_advantage(estimates, slope)[:, 0] == pytest.approx([1, -1])
    combined = limited_advantage(estimates, slope, jnp.asarray([0.5]))
    assert combined == pytest.approx([1 - 0.5, 3 + 0.5])
    half = limited_advantage(estimates, slope / 2, jnp.asarray([0.5]))
    assert half == pytest.approx([1 - 0.25, 3 + 0.25]), "the same direction with half the weight"


@pytest.mark.slow
@pytest.mark.parametrize("max_bias", [0.1, 0.4])
def test_the_limit_is_held(max_bias):
    """Reward is 0.9 + 0.1 * bias per step."""
    agent = elbert.train(Probe(), max_bias=max_bias, **SMALL)
    seen = agent.evaluate(400)
    bias = seen.worst.bias
    assert bias.debiased is not None
    assert bias.estimate is not None
    assert seen.limit is not None
    assert 0.2 * max_bias < bias.debiased <= max_bias, "the limit is held, and no more is given up than must be"
    assert seen.reward.mean == pytest.approx(0.9 + 0.1 * bias.estimate, abs=0.01)
    assert seen.limit.verdict != "refuted"
    assert f"bias <= {max_bias:g}" in str(seen)
    shown = seen.to_dict()["limit"]
    assert set(shown) == {"max_bias", "verdict", "p_refute", "p_confirm", "level", "left_out", "reliable"}


@pytest.mark.slow
def test_a_limit_that_nothing_breaks_costs_nothing():
    agent = elbert.train(Probe(), max_bias=5.0, **SMALL)
    assert agent.evaluate(100).reward.mean > 0.98


class Clocked(ProbeEnv):
    """Shows the time that is left."""

    def _observe(self):
        return np.array([super()._observe()[0], self.time / self.horizon], np.float32)


@pytest.mark.slow
def test_a_users_environment_holds_a_limit():
    host = {"rollout": 64, "minibatch": 128, "hidden": [8], "learning_rate": 5e-3, "steps": 8 * 64 * 40, "copies": 8}
    agent = elbert.train(Clocked, max_bias=0.2, **host)
    assert agent.evaluate(200, env=Clocked).criterion.bias.debiased < 0.2


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"alpha": 3.0}, "alpha has no effect with elbert-po under max_bias"),
        ({"beta": 3.0}, "beta has no effect with elbert-po under max_bias"),
        ({"penalty": lambda rates: rates.sum()}, "penalty has no effect with elbert-po under max_bias"),
        ({"method": "g-ppo"}, "max_bias has no effect with g-ppo"),
        ({"rollout": 8, "reset_each_rollout": True}, "max_bias needs whole episodes, .* none of 16 steps ends in a"),
        (
            {"rollout": 4, "minibatch": 64, "steps": 16 * 4 * 3},
            "none of 16 steps ends in 3 rollouts of 4. Give more steps",
        ),
        ({"standardise": "per-signal"}, "standardise is per-signal, which has no effect beside max_bias"),
        ({"max_bias": 0.0}, "max_bias is 0. Give a number above 0"),
        ({"max_bias": -0.1}, "max_bias is -0.1"),
    ],
)
def test_what_makes_no_sense_beside_a_limit_is_refused(given, says):
    with pytest.raises(InvalidInputError, match=says):
        elbert.train(Probe(), **({"max_bias": 0.1} | SMALL | given))


@pytest.mark.slow
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


@pytest.mark.parametrize(
    ("limits", "says"),
    [([], "Give a list of values"), (0.05, "Give a list of values"), ([0.02, None], "Give a list of values")],
)
def test_a_grid_of_limits_is_a_list_of_numbers(limits, says):
    with pytest.raises(InvalidInputError, match=says):
        elbert.train_many(Probe(), seeds=1, grid={"max_bias": limits}, **SMALL)


@pytest.mark.slow
def test_limits_side_by_side_are_single_runs():
    short = SMALL | {"steps": 16 * 32 * 4}
    together = elbert.train_many(Probe(), seeds=1, grid={"max_bias": [0.1, 0.4]}, **short)
    assert [agent.about.max_bias for agent in together] == [0.1, 0.4]
    for agent in together:
        alone = elbert.train(Probe(), max_bias=agent.about.max_bias, **short)
        for one, two in zip(jax.tree.leaves(agent.weights), jax.tree.leaves(alone.weights), strict=True):
            assert np.allclose(one, two, atol=2e-5)


def test_a_function_has_no_limit():
    def mine(estimates):
        return estimates.reward

    with pytest.raises(InvalidInputError, match="max_bias has no effect with mine"):
        elbert.train(Probe(), method=mine, max_bias=0.1, **SMALL)
