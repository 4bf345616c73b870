"""Training with what only a simulator knows: a critic of the state, means of what a step brings, noise that falls."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import elbert
from elbert.envs import Attention, Lending
from elbert.errors import InvalidInputError
from elbert.learning.networks import Moments
from elbert.learning.trees import to_arrays
from tests.learning.tiny import Probe, ProbeEnv, Tiny, trainer_of

SMALL: dict[str, Any] = {"copies": 4, "rollout": 10, "minibatch": 20, "epochs": 2, "hidden": [6], "steps": 4 * 10 * 3}
KNOWING = {"critic_sees": "state", "signals": "means"}


def attention():
    return Attention(initial_rates=(4.0, 2.0), units=3, horizon=10)


@functools.cache
def learned(**settings):
    """A training that has ended; nothing in these tests changes it."""
    trainer = trainer_of(attention(), **SMALL, alpha=10.0, **settings)
    list(trainer)
    return trainer


def same(one, other):
    pairs = [(np.asarray(a), np.asarray(b)) for a, b in zip(*map(jax.tree.leaves, (one, other)), strict=True)]
    return all(a.shape == b.shape and np.array_equal(a, b) for a, b in pairs)


@pytest.mark.slow
@pytest.mark.parametrize("given", [{"critic_sees": "state"}, {"signals": "means"}, {"deviation_kept": 0.5}], ids=str)
def test_each_setting_changes_the_policy(given):
    usual, other = learned().state.weights, learned(**given).state.weights
    assert not same(usual.actor, other.actor) or not same(usual.log_std, other.log_std)


def test_auto_takes_what_a_world_knows():
    auto = trainer_of(attention(), **SMALL, alpha=10.0, critic_sees="auto", signals="auto")
    assert (auto.settings.signals, auto.learner.shape.state) == ("means", 5)


@pytest.mark.slow
def test_auto_trains_as_if_one_had_asked_for_it():
    auto, told = learned(critic_sees="auto", signals="auto"), learned(**KNOWING)
    assert same(auto.state.weights, told.state.weights)


def test_auto_takes_what_happened_where_nothing_else_is_known():
    auto = trainer_of(Probe(), **SMALL, alpha=1.0, signals="auto")
    assert auto.settings.signals == "sampled"
    running = trainer_of(attention(), "r-ppo", **SMALL, signals="auto", zeta=1.0)
    assert running.settings.signals == "sampled", "the bias of the running episode is made of what happened"


@pytest.mark.slow
def test_a_policy_does_not_see_the_state():
    trainer = learned(**KNOWING)
    agent = trainer.agents()[0]
    model, weights = agent.model, agent.weights
    rows = jax.random.normal(jax.random.key(0), (3, model.shape.seen))
    other = rows.at[:, model.shape.observation :].set(0.0)
    assert same(model.policy(weights, rows), model.policy(weights, other))
    assert not same(model.scaled_values(weights, rows), model.scaled_values(weights, other))
    hidden = rows.at[:, : model.shape.observation].set(0.0)
    assert same(model.scaled_values(weights, rows), model.scaled_values(weights, hidden)), "the critic sees it alone"
    assert agent.predict(np.zeros(model.shape.observation)).shape == (2,)


def test_moments_of_observations_are_used_for_acting():
    agent = learned(**KNOWING).agents()[0]
    observation = jnp.arange(agent.shape.observation, dtype=jnp.float32)[None]
    moments = Moments(*agent.policy.moments)
    cut = Moments(moments.seen, *(part[: agent.shape.observation] for part in (moments.mean, moments.squares)))
    assert same(agent.model.normalised(moments, observation), agent.model.normalised(cut, observation))


@pytest.mark.slow
def test_files_keep_the_critic_of_the_state(tmp_path):
    agent = learned(**KNOWING).agents()[0]
    agent.save(tmp_path / "agent.safetensors")
    read = elbert.load(tmp_path / "agent.safetensors")
    assert same(to_arrays(agent.policy), to_arrays(read.policy))
    assert read.shape.state == agent.shape.state
    result = read.evaluate(8, env=attention(), seed=1)
    assert result.to_dict() == agent.evaluate(8, env=attention(), seed=1).to_dict()
    with pytest.raises(InvalidInputError, match="critic of this agent saw the simulator's state"):
        read.values(np.zeros(agent.shape.observation))


def test_a_training_goes_on_to_the_same_bits():
    whole, first = learned(**KNOWING), trainer_of(attention(), **SMALL, alpha=10.0, **KNOWING)
    first.step()
    second = trainer_of(attention(), **SMALL, alpha=10.0, **KNOWING)
    second.restore(first.stored(), first.iteration, first.seconds)
    list(second)
    assert same(whole.state.weights, second.state.weights)


@pytest.mark.slow
def test_the_deviation_falls_by_the_factor():
    """A learning rate of next to nothing leaves nothing but the fall."""
    trainer = learned(deviation_kept=0.25, initial_deviation=0.8, learning_rate=1e-12)
    np.testing.assert_allclose(np.exp(np.asarray(trainer.state.weights.log_std)), 0.2, rtol=1e-4)


def test_critics_of_lending_see_whose_scores_moved():
    world = Lending()
    state, _ = world.reset(jax.random.key(0))
    moved = state._replace(mass=state.mass[:, ::-1])
    assert not np.array_equal(world.for_critic(state), world.for_critic(moved))
    assert np.array_equal(world.observe(state), world.observe(moved))


@pytest.mark.parametrize(
    ("world", "method", "settings", "message"),
    [
        (Tiny(), "elbert-po", {"signals": "means", "alpha": 1.0}, "does not say what a step brings on average"),
        (Tiny(), "elbert-po", {"critic_sees": "state", "alpha": 1.0}, "shows no state"),
        (attention(), "r-ppo", {"signals": "means", "zeta": 1.0}, "weighs the bias of the running episode"),
        (attention(), "elbert-po", {"critic_sees": "state", "policy": "parts", "alpha": 1.0}, 'policy = "mlp"'),
    ],
)
def test_what_cannot_be_had_is_refused(world, method, settings, message):
    with pytest.raises(InvalidInputError, match=message):
        trainer_of(world, method, **SMALL, **settings)


def test_environments_on_the_host_show_no_state():
    with pytest.raises(InvalidInputError, match="the environment shows no state"):
        elbert.train(ProbeEnv(), critic_sees="state", alpha=1.0, progress=None, **SMALL)


def parts_with_auto():
    return trainer_of(attention(), **SMALL, alpha=1.0, policy="parts", critic_sees="auto", signals="auto")


def test_parts_with_auto_score_the_observation():
    assert parts_with_auto().learner.shape.state == 0


@pytest.mark.slow
def test_parts_with_auto_train():
    parts_with_auto().step()


@pytest.mark.slow
def test_seeds_side_by_side_are_single_runs():
    lending = Lending(horizon=10)
    both, alone = (trainer_of(lending, **SMALL, alpha=1.0, seeds=seeds, **KNOWING) for seeds in ((0, 1), (1,)))
    for trainer in (both, alone):
        list(trainer)
    for one, other in zip(jax.tree.leaves(both.state.weights), jax.tree.leaves(alone.state.weights), strict=True):
        np.testing.assert_allclose(one[1], other[0], rtol=1e-3, atol=1e-5)
