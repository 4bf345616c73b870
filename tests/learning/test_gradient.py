"""The sampled gradient of J is the exact one, on worlds small enough to differentiate through the exact totals."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from elbert.fairness import squared_bias
from elbert.learning.policy import Policy
from elbert.learning.ppo import weighed
from elbert.learning.simulators.compiled import collect, start
from tests.learning.tiny import Tiny, learner_of
from tests.parameters import slow_after

EPISODES, CHUNKS = 4000, 24


def spread(rates):
    """A penalty of a user's own: twice the variance of all rates."""
    return 2 * jnp.mean((rates - jnp.mean(rates)) ** 2)


CASES = {
    "two groups, hard": ({"groups": 2}, {"alpha": 30.0, "bias_kind": "hard"}, None),
    "three groups, soft": ({"groups": 3}, {"alpha": 20.0, "bias_kind": "soft", "beta": 5.0}, None),
    "two criteria, two groups": ({"groups": 2, "criteria": 2}, {"alpha": 20.0}, None),
    "two criteria, three groups, soft": ({"groups": 3, "criteria": 2}, {"alpha": 10.0, "beta": 10.0}, None),
    "demand regularisation": ({"groups": 2}, {"alpha": 20.0, "demand_weight": [0.7, -0.4]}, None),
    "own penalty": ({"groups": 3, "criteria": 2}, {"alpha": 50.0}, spread),
}


def problem(shape, chosen, penalty, **more):
    world = Tiny(seed=3, **shape)
    fixed = {"hidden": [], "gamma": 1.0, "gae_lambda": 1.0, "copies": EPISODES, "rollout": 5, "minibatch": 64}
    own = {} if penalty is None else {"penalty": penalty}
    fixed |= {"bootstrap_at_truncation": False, "normalise_observations": False}
    learner, method = learner_of(world, **fixed, **chosen, **own, **more)
    state = learner.init(jax.random.key(1), method)
    # a policy away from uniform, and a critic that is wrong: a baseline must not change the expectation
    numbers = jax.random.normal(jax.random.key(2), state.weights.actor.layers[0].weight.shape)
    actor = eqx.tree_at(lambda a: a.layers[0].weight, state.weights.actor, numbers)
    return world, learner, method, state._replace(weights=state.weights._replace(actor=actor))


def objective(world, method, actor):
    policy = jax.nn.softmax(jax.vmap(actor)(jnp.eye(world.move.shape[0])))
    reward, supply, demand = world.exact(policy)
    h = method.penalty or (lambda z: squared_bias(z, beta=method.beta, kind=method.bias_kind))
    return reward - method.alpha * h(supply / demand) + jnp.sum(method.demand_weight * demand)


@pytest.mark.parametrize("case", slow_after(1, CASES))
def test_sampled_gradient_is_the_exact_one(case):
    world, learner, method, state = problem(*CASES[case])
    exact = jax.grad(lambda actor: objective(world, method, actor))(state.weights.actor)

    @jax.jit
    def sampled(key):
        key_start, key_rollout = jax.random.split(key)
        copies = start(world, key_start, EPISODES)
        policy = Policy(state.weights, state.moments)
        _, shown = collect(world, learner.model, policy, copies, key_rollout, 5)
        advantage = method.advantage(learner.estimate(state, shown, method).estimates, None)

        def weighted(actor):
            flat = shown.observation.reshape(-1, shown.observation.shape[-1])
            log_prob = learner.model.distribution.log_prob(jax.vmap(actor)(flat), shown.action.reshape(-1, 1))
            return jnp.sum(log_prob * advantage.reshape(-1)) / EPISODES

        return jax.grad(weighted)(state.weights.actor)

    keys = jax.random.split(jax.random.key(5), CHUNKS)
    drawn = [np.asarray(leaf) for leaf in jax.tree.leaves(jax.lax.map(sampled, keys))]
    wanted = [np.asarray(leaf) for leaf in jax.tree.leaves(exact)]
    mean = np.concatenate([leaf.mean(axis=0).ravel() for leaf in drawn])
    error = np.concatenate([leaf.std(axis=0, ddof=1).ravel() for leaf in drawn]) / np.sqrt(CHUNKS)
    target = np.concatenate([leaf.ravel() for leaf in wanted])
    assert np.abs(target).max() > 20 * error.max(), "the gradient must stand out from its sampling error"
    assert np.all(np.abs(mean - target) < 4.5 * error + 1e-6), (mean, target, error)


@pytest.mark.slow
def test_only_standardising_after_combining_keeps_the_gradient():
    """Stretched as a whole the advantage keeps its direction; with each signal stretched first it does not."""
    chosen = {"alpha": 10.0, "bias_kind": "hard"}
    world, learner, method, state = problem({"groups": 2}, chosen, None)
    copies = start(world, jax.random.key(7), EPISODES)
    policy = Policy(state.weights, state.moments)
    _, shown = collect(world, learner.model, policy, copies, jax.random.key(8), 5)
    estimates = learner.estimate(state, shown, method).estimates
    exact = np.ravel(method.advantage(estimates, None))

    def correlation(standardise):
        return np.corrcoef(exact, np.ravel(weighed(method, estimates, None, standardise)))[0, 1]

    assert correlation("combined") == pytest.approx(1, abs=1e-6)
    assert correlation("none") == pytest.approx(1, abs=1e-6)
    assert correlation("per-signal") < 0.99
