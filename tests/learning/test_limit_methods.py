"""The competitors of `max_bias`: their steps against hand-computed ones, and a world whose answer is known."""
# pyright: reportArgumentType=false, reportCallIssue=false, reportAttributeAccessIssue=false

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize

import elbert
from elbert.errors import InvalidInputError
from elbert.experiments.resolve import resolve
from elbert.fairness.rates import Totals
from elbert.learning import Estimates
from elbert.learning.estimates import Window
from elbert.learning.methods import CPO, FOCOPS, METHODS, Band, Lagrangian, ReturnGap
from elbert.learning.methods.band import BandState
from elbert.learning.methods.base import Clock, Compared
from elbert.learning.methods.cpo import best_step
from elbert.learning.methods.duals import Dual, hard_bias
from elbert.learning.methods.return_gap import gap
from tests.learning.tiny import Priced, Probe, trainer_of

CLOCK = Clock(jnp.zeros(()), 10, 1.0)


def estimates_of(supply, demand, reward, supplies, demands):
    """Estimates from totals of an episode and advantages sample by sample; one criterion."""
    return Estimates(
        jnp.asarray(reward),
        jnp.asarray(supplies)[:, None],
        jnp.asarray(demands)[:, None],
        Totals(jnp.asarray([supply]), jnp.asarray([demand])),
        *(jnp.zeros(len(reward)),) * 2,
        jnp.ones(len(reward)),
    )


def seen(estimates, episodes=4.0):
    return Window(episodes * estimates.eta.supply, episodes * estimates.eta.demand, jnp.asarray(episodes))


# z = (3/6, 1/4, 4/10): group 0 is highest, group 1 lowest, b = 1/4
THREE = estimates_of(
    [3.0, 1.0, 4.0],
    [6.0, 4.0, 10.0],
    [2.0, -2.0, 3.0],
    [[6.0, 0.0, 5.0], [0.0, 4.0, 0.0], [3.0, 2.0, 0.0]],
    [[0.0, 4.0, 0.0], [2.0, 0.0, 5.0], [0.0, 0.0, 0.0]],
)
# A_z,g = A_S / D - z A_D / D, sample by sample
RATES = np.array([[1.0, -0.25, 0.5], [-1 / 6, 1.0, -0.2], [0.5, 0.5, 0.0]])
REWARD = np.array([2.0, -2.0, 3.0])


def standard(x):
    return (x - x.mean()) / x.std()


def test_hard_bias_by_hand():
    bias, slope = hard_bias(THREE.eta)
    assert bias.tolist() == pytest.approx([0.25])
    assert slope.tolist() == [[1.0, -1.0, 0.0]]


def test_lagrangian_by_hand():
    """A_b = A_z,0 - A_z,1 = (5/4, -7/6, 0)."""
    method = Lagrangian(max_bias=0.1, dual_rate=0.5)
    state = method.start(1, 3)
    assert state.value.tolist() == [0.0]
    expected = (standard(REWARD) - 3.0 * standard(np.array([5 / 4, -7 / 6, 0.0]))) / (1 + 3.0)
    got = method.advantage(THREE, Dual(jnp.asarray([3.0]), None))
    assert got.tolist() == pytest.approx(expected.tolist(), rel=1e-5)
    # Adam's first step has the length of the rate, whatever the slope; up, since 0.25 > 0.1
    assert method.advance(state, THREE, seen(THREE), CLOCK).value.tolist() == pytest.approx([0.5], abs=1e-5)
    roomy = Lagrangian(max_bias=0.5, dual_rate=5.0)
    assert roomy.advance(state, THREE, seen(THREE), CLOCK).value.tolist() == [0.0], "a multiplier is not negative"
    waiting = method.advance(state, THREE, seen(THREE, 0.0), CLOCK)
    assert waiting.value.tolist() == [0.0], "between episodes nothing is known"


def test_focops_by_hand():
    method = FOCOPS(max_bias=0.1, temperature=2.0, region=0.1, multiplier_rate=0.2)
    # excess = 0.25 / 0.1 - 1 = 1.5
    assert method.advance(jnp.asarray([0.5]), THREE, seen(THREE), CLOCK).tolist() == pytest.approx([0.8])
    assert method.advance(jnp.asarray([1.9]), THREE, seen(THREE), CLOCK).tolist() == [2.0]
    new = Compared(jnp.asarray([1.5, 0.5]), jnp.asarray([0.05, 0.2]))
    # inside: 0.05 - 1.5 * 4 / 2; outside nothing
    assert method.loss(new, jnp.asarray([4.0, 4.0]), 0.2).tolist() == pytest.approx([0.05 - 3.0, 0.0])
    slope = jax.grad(lambda kl: jnp.sum(method.loss(new._replace(divergence=kl), jnp.ones(2), 0.2)))(new.divergence)
    assert slope.tolist() == [1.0, 0.0]


def test_focops_fits_the_best_policy_near_the_old_one():
    """Its loss is least at pi_old exp(A / temperature) / Z, in the policies of one state with three actions."""
    old, advantage, method = jnp.asarray([0.5, 0.3, 0.2]), jnp.asarray([1.0, -0.5, 0.2]), FOCOPS(max_bias=1, region=9)
    best = old * jnp.exp(advantage / method.temperature)

    def loss(logits):
        p = jax.nn.softmax(logits)
        apart = jnp.sum(p * (jnp.log(p) - jnp.log(old)))
        return jnp.sum(old * method.loss(Compared(p / old, jnp.broadcast_to(apart, 3)), advantage, 0.2))

    slope = jax.grad(loss)
    assert np.allclose(slope(jnp.log(best)), 0.0, atol=1e-6)
    assert not np.allclose(slope(jnp.log(old)), 0.0, atol=1e-2)


def test_band_by_hand():
    method = Band(max_bias=0.1, side_rate=0.5, stiffness=0.2, rho_rate=0.25)
    high, low = jnp.asarray([[2.0, 0.0, 0.0]]), jnp.asarray([[0.0, 1.0, 0.1]])
    state = BandState(high, low, jnp.asarray([0.3]), high - low, jnp.asarray(True))
    expected = REWARD / REWARD.std() - RATES @ [2.0, -1.0, -0.1] / np.mean(RATES.std(axis=0))
    got = method.advantage(THREE, state).tolist()
    assert got == pytest.approx((expected / (1 + 3.1 / 2)).tolist(), rel=1e-5)
    after = method.advance(state, THREE, seen(THREE), CLOCK)
    # band [0.3, 0.4] of width 0.1: z = 0.5 lies 1 limit above it, 0.25 half a limit below, 0.4 on its upper end
    assert after.high[0].tolist() == pytest.approx([2.5, 0.0, 0.0], abs=1e-5)
    assert after.low[0].tolist() == pytest.approx([0.0, 1.25, 0.0], abs=1e-5)
    # what a violation adds: 2.5 + 0.2 * 1 and 1.25 + 0.2 * 0.5
    assert after.net[0].tolist() == pytest.approx([2.7, -1.35, 0.0], abs=1e-5)
    pull = (2.7 - 1.35) / (2.7 + 1.35)  # the upper side weighs more
    assert after.rho.tolist() == pytest.approx([0.3 + 0.25 * 0.1 * pull], abs=1e-5)
    lost = method.advance(state._replace(rho=jnp.asarray([0.9])), THREE, seen(THREE), CLOCK)
    assert float(lost.rho[0]) < 0.43, "a band above all rates is brought to the highest minus the limit, 0.4"
    fresh = method.advance(method.start(1, 3), THREE, seen(THREE), CLOCK)
    begun = (0.5 + 0.25 - 0.1) / 2  # around the first rates: both sides are violated alike
    assert fresh.rho.tolist() == pytest.approx([begun], abs=1e-5)
    waiting = method.advance(state, THREE, seen(THREE, 0.0), CLOCK)
    assert jax.tree.map(lambda x: x.tolist(), waiting) == jax.tree.map(lambda x: x.tolist(), state)


def test_return_gap_by_hand():
    """Returns (3, 1, 4): gap (4 - 1) / (8/3) = 9/8; d/dS = (+-1 - (9/8) / 3) / (8/3)."""
    assert gap(THREE.eta.supply).tolist() == pytest.approx([9 / 8])
    method = ReturnGap(max_gap=0.1, dual_rate=0.5)
    slope = (np.array([0.0, -1.0, 1.0]) - 3 / 8) * 3 / 8
    cost = np.array([[6.0, 0.0, 5.0], [0.0, 4.0, 0.0], [3.0, 2.0, 0.0]]) @ slope
    expected = (standard(REWARD) - 2.0 * standard(cost)) / (1 + 2.0)
    got = method.advantage(THREE, Dual(jnp.asarray([2.0]), None))
    assert got.tolist() == pytest.approx(expected.tolist(), rel=1e-5)
    assert method.advance(method.start(1, 3), THREE, seen(THREE), CLOCK).value.tolist() == pytest.approx(
        [0.5], abs=1e-5
    )
    assert gap(jnp.zeros((1, 3))).tolist() == [0.0]


def test_the_step_of_cpo_by_hand():
    """H = 1, region 1/2: the unit circle. g = (1, 0), b = (1, 0), c = -1/2: half a step to the right."""
    fisher, region = (lambda x: x), jnp.asarray(0.5)
    towards = jnp.asarray([1.0, 0.0])
    assert best_step(towards, jnp.asarray([0.0, 1.0]), -0.5, fisher, region).x.tolist() == pytest.approx([1.0, 0.0])
    found = best_step(towards, jnp.asarray([0.6, 0.8]), 0.0, fisher, region)  # along the limit, not beyond it
    assert found.x.tolist() == pytest.approx([0.8, -0.6], abs=1e-5)
    assert float(found.multiplier) == pytest.approx(0.6, abs=1e-5)
    lost = best_step(towards, jnp.asarray([0.0, 1.0]), 2.0, fisher, region)
    assert lost.x.tolist() == pytest.approx([0.0, -1.0])
    assert bool(lost.recovers)
    far = best_step(towards, jnp.asarray([1.0, 0.0]), -2.0, fisher, region)
    assert far.x.tolist() == pytest.approx([1.0, 0.0])
    free = best_step(towards, jnp.zeros(2), 0.3, fisher, region)
    assert free.x.tolist() == pytest.approx([1.0, 0.0]), "a bias that no step changes is no constraint"


@pytest.mark.parametrize("seed", range(12))
def test_the_step_of_cpo_is_the_best_there_is(seed):
    """Against a general solver, for limits that are kept already, are exceeded, and cannot be reached."""
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(4, 4))
    h, region = root @ root.T + 0.5 * np.eye(4), 0.02
    g, b = rng.normal(size=(2, 4))
    reach = np.sqrt(2 * region * b @ np.linalg.solve(h, b))
    c = reach * rng.uniform(-1.3, 0.95)

    def wanted(x):
        return -g @ x

    limits = [
        {"type": "ineq", "fun": lambda x: -(c + b @ x)},
        {"type": "ineq", "fun": lambda x: region - x @ h @ x / 2},
    ]
    start = -np.linalg.solve(h, b) * max(c, 0) / (b @ np.linalg.solve(h, b))
    best = minimize(wanted, start, constraints=limits, method="SLSQP", options={"ftol": 1e-12, "maxiter": 500})
    found = best_step(
        *(jnp.asarray(x, jnp.float32) for x in (g, b, c)), lambda x: jnp.asarray(h, jnp.float32) @ x, region
    )
    assert np.allclose(found.x, best.x, atol=2e-3), (found, best.x)


NEW_PATHS = ("cpo", "focops")  # a step of its own, a loss of its own
LIMITED: list[Any] = [name for name, kind in METHODS.items() if "max_bias" in kind.settings()]
LONG: dict[str, Any] = {
    "copies": 16,
    "rollout": 64,
    "minibatch": 256,
    "hidden": [8],
    "steps": 16 * 64 * 120,
    "epochs": 4,
}
LONG |= {"learning_rate": 3e-3, "gamma": 0.9}


def best_within(bias):
    """What the best policy of `Priced` with this bias earns per step."""
    q = (1 - bias) / 2
    return 1 - q + (1 - (1 - q) ** 2) / 2


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted([*LIMITED, "elbert-po"], key=lambda name: name not in NEW_PATHS))
def test_a_limit_is_held_where_the_best_policy_is_known(name):
    """Within 0.2 the best earns 0.92. What a method learns is nearly the best with its bias, not far from the limit."""
    agent = elbert.train(Priced(), method=name, max_bias=0.2, seed=3, **LONG)
    result = agent.evaluate(episodes=400, seed=5)
    found = result.worst.bias.estimate
    assert found is not None
    assert 0.08 < found < 0.23, result
    assert best_within(found) - 0.01 < result.reward.mean < best_within(found) + 0.01, result


@pytest.mark.slow
def test_return_gap_holds_its_own_limit_where_the_best_policy_is_known():
    """Both groups are due 1 a step: returns z T. (z_0 - z_1) / ((z_0 + z_1) / 2) = 0.4 is a bias of 0.2."""
    agent = elbert.train(Priced(), method="return-gap", max_gap=0.4, seed=3, **LONG)
    result = agent.evaluate(episodes=400, seed=5)
    found = result.worst.bias.estimate
    assert found is not None
    assert 0.08 < found < 0.23, result
    assert best_within(found) - 0.01 < result.reward.mean < best_within(found) + 0.01, result


@pytest.mark.slow
def test_cpo_moves_the_policy_by_its_own_step_alone():
    """One step within the region; gradient steps train the critics and leave the actor where the step took it."""
    trainer = trainer_of(Probe(), "cpo", max_bias=0.2, **LONG | {"epochs": 1})
    before = trainer.state.weights
    seen = trainer.step().metrics
    assert 0.0 < float(seen.kl[0]) <= 0.0301
    assert float(seen.method["taken"][0, 0]) > 0.0
    assert not np.array_equal(before.critic.layers[0].weight, trainer.state.weights.critic.layers[0].weight)
    more = trainer_of(Probe(), "cpo", max_bias=0.2, **LONG | {"epochs": 7})
    more.step()
    assert np.array_equal(more.state.weights.actor.layers[0].weight, trainer.state.weights.actor.layers[0].weight)


@pytest.mark.parametrize("name", LIMITED)
def test_a_method_with_a_limit_asks_for_it(name):
    with pytest.raises(InvalidInputError, match=f"{name} needs max_bias"):
        elbert.train(Probe(), method=name, **LONG)


def test_what_a_preset_says_is_adapted_to_the_method():
    """The preset of lending has a bonus for entropy, which CPO's step does not know, and a coefficient of ELBERT-PO."""
    asked = resolve("lending", CPO(max_bias=0.3), preset="fast", settings={}, world={}, seeds=1, grid={})
    assert asked.settings.entropy_weight == 0.0
    assert asked.method.to_dict() == CPO(max_bias=0.3).to_dict()
    asked = resolve("lending", "focops", preset="fast", settings={"max_bias": 0.3}, world={}, seeds=1, grid={})
    assert asked.settings.standardise == "none"


IGNORED = [(name, setting) for name, kind in METHODS.items() for setting in kind.ignores]


@pytest.mark.parametrize(("name", "setting"), IGNORED)
def test_what_a_method_ignores_is_refused(name, setting):
    value = {"standardise": "combined", "standardise_over": "minibatch"}.get(setting, 0.3)
    limit = {"max_bias": 0.2} if name in LIMITED else {}
    with pytest.raises(InvalidInputError, match=f"{setting} has no effect with {name}"):
        elbert.train(Probe(), method=name, **limit, **LONG, **{setting: value})
