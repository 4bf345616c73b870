"""Trainings in users' environments, which Gymnasium steps on the host."""
# pyright: reportArgumentType=false, reportCallIssue=false, reportOptionalOperand=false, reportOperatorIssue=false

import functools
from typing import Any

import gymnasium
import jax
import numpy as np
import pytest
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

import elbert
from elbert.errors import InvalidInputError
from elbert.learning import DivergedError
from elbert.learning.simulators import HostSimulator
from elbert.progress import tell_nobody
from tests.learning.tiny import ProbeEnv

HOST: dict[str, Any] = {"rollout": 64, "minibatch": 128, "hidden": [8], "learning_rate": 5e-3, "steps": 8 * 64 * 30}


def vector(mode):
    return SyncVectorEnv([ProbeEnv] * 8, autoreset_mode=mode)


@pytest.mark.slow
@pytest.mark.parametrize("mode", AutoresetMode)
def test_a_users_vector_environment_trains_as_well(mode):
    env = vector(mode)
    agent = elbert.train(env, alpha=1600.0, seed=1, **HOST)
    evaluation = agent.evaluate(80)
    assert evaluation.criterion.bias.estimate < 0.1
    assert evaluation.episodes == 80
    assert evaluation.horizon == 16
    assert abs(evaluation.reward.mean - 0.9) < 0.05


@pytest.mark.slow
def test_an_asynchronous_vector_environment_trains():
    env = AsyncVectorEnv([ProbeEnv] * 2, context="spawn")
    try:
        agent = elbert.train(env, method="g-ppo", **(HOST | {"steps": 2 * 64 * 2, "minibatch": 64}))
        assert agent.evaluate(4).episodes == 4
    finally:
        env.close()


@pytest.mark.slow
def test_one_environment_a_factory_and_the_same_seed():
    short: dict[str, Any] = HOST | {"steps": 64 * 4, "copies": 2, "minibatch": 32}
    with pytest.raises(InvalidInputError, match="copies is 2, but the environment that was given has 1"):
        elbert.train(ProbeEnv(), method="g-ppo", **short)
    alone = {name: value for name, value in short.items() if name != "copies"}
    one = elbert.train(ProbeEnv(), method="g-ppo", **alone)
    first, second = (elbert.train(ProbeEnv, method="g-ppo", **short) for _ in range(2))
    assert (one.settings.copies, first.settings.copies) == (1, 2)
    for a, b in zip(jax.tree.leaves(first.weights), jax.tree.leaves(second.weights), strict=True):
        assert np.array_equal(a, b)
    assert first.about.env == "ProbeEnv"


def test_several_seeds_on_the_host_are_refused():
    with pytest.raises(InvalidInputError, match="2 seeds or coefficients were given for an environment of your own"):
        elbert.train_many(ProbeEnv, seeds=2, method="g-ppo", **HOST)


def test_an_environment_that_reports_nothing_is_refused():
    class Silent(ProbeEnv):
        def step(self, action):
            return (*super().step(action)[:4], {})

    with pytest.raises(InvalidInputError, match="supply"):
        elbert.train(Silent, method="g-ppo", **HOST)


def test_what_is_not_finite_stops_the_training_and_is_named():
    seen = []
    with pytest.raises(
        DivergedError, match=r"Iteration 4 of 16: The reward is nan \(copy \d\).* The state before it is kept"
    ):
        elbert.train(
            lambda: ProbeEnv(break_at=200),
            method="g-ppo",
            callbacks=[lambda progress: seen.append(progress.iteration)],
            **(HOST | {"steps": 8 * 64 * 8}),
        )
    assert seen == [1, 2, 3]


@pytest.mark.slow
def test_neighbouring_seeds_share_no_episodes():
    """Gymnasium gives copy i the seed + i: evaluations with seeds 1 and 2 shared 35 of 40 episodes."""

    class Drawn(ProbeEnv):
        def step(self, action):
            observation, _, terminated, truncated, info = super().step(action)
            return observation, float(self.np_random.normal()), terminated, truncated, info

        def reset(self, *, seed=None, options=None):
            gymnasium.Env.reset(self, seed=seed)
            return super().reset(seed=None)

    agent = elbert.train(Drawn, method="g-ppo", **(HOST | {"steps": 512, "copies": 8}))
    simulator = HostSimulator(SyncVectorEnv([Drawn] * 8), "drawn", Drawn)
    play = functools.partial(simulator.play, agent.model, agent.policy, deterministic=False, progress=tell_nobody)
    rewards = [play(episodes=40, seed=seed).reward for seed in (1, 2, 1)]
    assert np.array_equal(rewards[0], rewards[2])
    assert not np.intersect1d(rewards[0], rewards[1]).size


def test_an_episode_that_never_ends_is_a_message(monkeypatch):
    monkeypatch.setattr("elbert.learning.simulators.host.LONGEST_EPISODE", 300)
    agent = elbert.train(lambda: ProbeEnv(horizon=10**9), method="g-ppo", **(HOST | {"steps": 512}))
    with pytest.raises(InvalidInputError, match=r"ProbeEnv has not ended after 300 steps.*TimeLimit"):
        agent.evaluate(4)
