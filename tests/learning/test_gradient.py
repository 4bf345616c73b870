"""The sampled gradient of J is the exact one, on worlds small enough to differentiate through the exact totals."""

import itertools
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from elbert.envs import Parts
from elbert.envs.memory import Remembering, remembered
from elbert.envs.world import Means
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


class Named(Tiny):
    """The action names one of three parts, the states."""

    @property
    def parts(self) -> Any:
        return Parts([[0], [1], [2]], features=[[0.0], [1.0], [3.0]])


class Drawn(Named):
    """The action is two of three parts, or nobody; each pair is an action of its own."""

    action_space: Any = gymnasium.spaces.MultiDiscrete([4, 4])

    def step(self, key, state, action):
        return super().step(key, state, 4 * action[0] + action[1])


class Recalled(Remembering):
    """What is observed reaches back: the policy depends on all states so far."""

    def __init__(self, seed, **shape):
        super().__init__(Tiny(seed=seed, **shape), (2.0,))

    def exact(self, chances_of):
        """eta of reward, supply and demand over every course of states.   [N, observation] -> [N, actions]"""
        tiny: Any = self.world
        states, parts = len(tiny.move), [jnp.asarray(x) for x in (tiny.reward, tiny.supply, tiny.demand)]
        place, mass, seen = jnp.zeros(1, int), jnp.ones(1), remembered(jnp.eye(states)[:1], self.spans)
        sums = [jnp.zeros(()), *[jnp.zeros(parts[1].shape[2:])] * 2]
        for _ in range(int(self.horizon)):
            joint = mass[:, None] * chances_of(seen)  # [courses, actions]
            sums = [total + jnp.tensordot(joint, x[place], 2) for total, x in zip(sums, parts, strict=True)]
            mass = jnp.einsum("na,nas->ns", joint, jnp.asarray(tiny.move)[place]).reshape(-1)
            shown = jnp.tile(jnp.eye(states), (len(place), 1))
            seen, place = remembered(shown, self.spans, jnp.repeat(seen, states, axis=0)), jnp.argmax(shown, axis=1)
        return sums


class Kept(Tiny):
    """A world whose policy keeps what it likes of all states so far."""

    def exact_along(self, model, weights):
        """eta of reward, supply and demand over every course of states, each with a memory of its own."""
        states, parts = len(self.move), [jnp.asarray(x) for x in (self.reward, self.supply, self.demand)]
        place, mass, memory = jnp.zeros(1, int), jnp.ones(1), jnp.zeros((1, model.shape.carried))
        sums = [jnp.zeros(()), *[jnp.zeros(parts[1].shape[2:])] * 2]
        for _ in range(int(self.horizon)):
            rows = jnp.concatenate([jnp.eye(states)[place], memory], axis=1)
            numbers, memory = model.acted(weights, rows)
            joint = mass[:, None] * jax.nn.softmax(numbers)  # [courses, actions]
            sums = [total + jnp.tensordot(joint, x[place], 2) for total, x in zip(sums, parts, strict=True)]
            mass = jnp.einsum("na,nas->ns", joint, jnp.asarray(self.move)[place]).reshape(-1)
            place, memory = jnp.tile(jnp.arange(states), len(place)), jnp.repeat(memory, states, axis=0)
        return sums


class Noisy(Tiny):
    """What is earned and given has noise, whose mean the world knows."""

    def step(self, key, state, action):
        key_move, key_noise = jax.random.split(key)
        after, shown = super().step(key_move, state, action)
        noise = jax.random.normal(key_noise, (1 + self.supply[0, 0].size,))
        supply = shown.supply * (1 + 0.5 * noise[1:].reshape(shown.supply.shape))
        return after, shown._replace(reward=shown.reward + noise[0], supply=supply)

    def for_critic(self, state):
        return jnp.append(self.observe(state.place), state.time).astype(jnp.float32)

    def means(self, state, action):
        return Means(*(jnp.asarray(part)[state.place, action] for part in (self.reward, self.supply, self.demand)))


CASES = {
    "two groups, hard": ({"groups": 2}, {"alpha": 30.0, "bias_kind": "hard"}, None),
    "three groups, soft": ({"groups": 3}, {"alpha": 20.0, "bias_kind": "soft", "beta": 5.0}, None),
    "two criteria, two groups": ({"groups": 2, "criteria": 2}, {"alpha": 20.0}, None),
    "two criteria, three groups, soft": ({"groups": 3, "criteria": 2}, {"alpha": 10.0, "beta": 10.0}, None),
    "demand regularisation": ({"groups": 2}, {"alpha": 20.0, "demand_weight": [0.7, -0.4]}, None),
    "own penalty": ({"groups": 3, "criteria": 2}, {"alpha": 50.0}, spread),
}
BY_PARTS = {
    "parts": (Named, {"groups": 2, "actions": 3}, {"alpha": 30.0, "bias_kind": "hard"}, None),
    "several parts at once": (Drawn, {"groups": 2, "actions": 16}, {"alpha": 30.0, "bias_kind": "hard"}, None),
}
BY_MEMORY = {"memory": (Recalled, {"groups": 2}, {"alpha": 30.0, "bias_kind": "hard"}, None)}
BY_MEMORY |= {"a learned memory": (Kept, {"groups": 2}, {"alpha": 30.0, "bias_kind": "hard"}, None)}
BY_STATE = {"a critic of the state": {"critic_sees": "state"}, "means": {"critic_sees": "state", "signals": "means"}}
ALL = {name: (Tiny, *case) for name, case in CASES.items()} | BY_PARTS | BY_MEMORY
ALL |= {
    name: (Noisy, {"groups": 2}, {"alpha": 30.0, "bias_kind": "hard", **own}, None) for name, own in BY_STATE.items()
}


def problem(kind, shape, chosen, penalty, **more):
    world, by_parts = kind(seed=3, **shape), issubclass(kind, Named)
    more |= {"policy": "parts", "hidden": [3]} if by_parts else {"hidden": []}
    more |= {"policy": "gru", "hidden": [2]} if kind is Kept else {}
    fixed = {"gamma": 1.0, "gae_lambda": 1.0, "copies": EPISODES, "rollout": 5, "minibatch": 65}
    own = {} if penalty is None else {"penalty": penalty}
    fixed |= {"bootstrap_at_truncation": False, "normalise_observations": False}
    learner, method = learner_of(world, **fixed, **chosen, **own, **more)
    state = learner.init(jax.random.key(1), method)
    # a policy away from uniform, and a critic that is wrong: a baseline must not change the expectation
    actor = jax.tree.map(lambda x: jax.random.normal(jax.random.key(2), x.shape), state.weights.actor)
    return world, learner, method, state._replace(weights=state.weights._replace(actor=actor))


def chances(learner, weights, observations):
    """p(action | observation) of every action there is: those that no draw without replacement gives have none."""
    d, numbers, states = learner.model.distribution, learner.model.policy(weights, observations), len(observations)
    sizes = (d.size,) * getattr(d, "draws", 1)
    rows = list(itertools.product(*map(range, sizes)))
    possible = np.asarray([len(set(row)) == len(row) or set(row) == {d.size - 1} for row in rows])
    each = [d.log_prob(numbers, jnp.broadcast_to(jnp.asarray(row)[None], (states, len(row)))) for row in rows]
    return jnp.where(possible[None], jnp.exp(jnp.stack(each, axis=1)), 0.0)


def objective(world, method, learner, weights):
    if isinstance(world, Kept):
        reward, supply, demand = world.exact_along(learner.model, weights)
    elif isinstance(world, Recalled):
        reward, supply, demand = world.exact(lambda seen: chances(learner, weights, seen))
    else:
        reward, supply, demand = world.exact(chances(learner, weights, jnp.eye(world.move.shape[0])))
    h = method.penalty or (lambda z: squared_bias(z, beta=method.beta, kind=method.bias_kind))
    return reward - method.alpha * h(supply / demand) + jnp.sum(method.demand_weight * demand)


SLOW = [*slow_after(0, BY_PARTS), *slow_after(0, BY_STATE), *slow_after(0, BY_MEMORY)]


@pytest.mark.parametrize("case", [*slow_after(1, CASES), *SLOW])
def test_sampled_gradient_is_the_exact_one(case):
    world, learner, method, state = problem(*ALL[case])
    weights = state.weights
    rows = jnp.eye(3, learner.model.shape.acts_on)
    assert float(jax.jit(lambda weights: chances(learner, weights, rows))(weights).sum()) == pytest.approx(3, abs=1e-5)

    @jax.jit
    @jax.grad
    def slope(actor):
        return objective(world, method, learner, weights._replace(actor=actor))

    exact = slope(weights.actor)

    @jax.jit
    def sampled(key):
        key_start, key_rollout = jax.random.split(key)
        copies = start(world, key_start, EPISODES, learner.model.shape.carried)
        policy = Policy(state.weights, state.moments)
        means = learner.settings.signals == "means"
        _, shown = collect(world, learner.model, policy, copies, key_rollout, 5, means=means)
        estimated = learner.estimate(state, shown, method)
        advantage = method.advantage(estimated.estimates, None)

        def weighted(actor):
            log_prob = learner._log_prob(weights._replace(actor=actor), estimated, shown)
            return jnp.sum(log_prob * advantage) / EPISODES

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
    world, learner, method, state = problem(Tiny, {"groups": 2}, chosen, None)
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


@pytest.mark.slow
@pytest.mark.parametrize("case", ["two criteria, two groups", "own penalty"])
def test_what_new_weights_change_is_foreseen(case):
    """To first order, supply and demand change by what the old policy's advantages say under the new one."""
    world, learner, method, state = problem(*ALL[case])
    step = jax.tree.map(lambda x: x + 0.01 * jax.random.normal(jax.random.key(3), x.shape), state.weights.actor)
    moved = state.weights._replace(actor=step)

    @jax.jit
    def foreseen(key, weights=moved):
        key_start, key_rollout = jax.random.split(key)
        copies = start(world, key_start, EPISODES)
        _, shown = collect(world, learner.model, Policy(state.weights, state.moments), copies, key_rollout, 5)
        return learner.change(weights, learner.estimate(state, shown, method), shown)

    drawn = jax.lax.map(foreseen, jax.random.split(jax.random.key(5), CHUNKS))
    exactly = jax.jit(lambda weights: world.exact(chances(learner, weights, jnp.eye(world.move.shape[0]))))
    before, after = exactly(state.weights), exactly(moved)
    for sampled, old, new in zip(drawn, before[1:], after[1:], strict=True):
        exact = np.asarray((new - old) / before[2])
        error = np.asarray(sampled).std(axis=0, ddof=1) / np.sqrt(CHUNKS)
        assert np.abs(exact).max() > 8 * error.max(), "the change must stand out from its sampling error"
        assert np.all(np.abs(np.asarray(sampled).mean(axis=0) - exact) < 4.5 * error + 0.05 * np.abs(exact).max())
    assert max(np.abs(part).max() for part in foreseen(jax.random.key(6), state.weights)) < 1e-5


@pytest.mark.slow
def test_means_take_noise_off_the_gradient():
    """The same policy, critic and keys; what differs is whether chance has a part in what is learned from.

    The noise of the rewards alone, of variance 1 in each of the steps that are left, adds (5 + 4 + 3 + 2 + 1) / 5 = 3.
    """

    def variance(signals):
        own = {"alpha": 30.0, "bias_kind": "hard", "critic_sees": "state", "signals": signals}
        world, learner, method, state = problem(Noisy, {"groups": 2}, own, None)
        copies, policy = start(world, jax.random.key(3), EPISODES), Policy(state.weights, state.moments)
        collected = collect(world, learner.model, policy, copies, jax.random.key(4), 5, means=signals == "means")
        return float(jnp.var(method.advantage(learner.estimate(state, collected[1], method).estimates, None)))

    assert variance("sampled") - variance("means") > 3
