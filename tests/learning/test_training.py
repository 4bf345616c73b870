"""Whole trainings: probes with known answers, and laws that hold for every training."""
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
from elbert.learning import DivergedError, Learner, Member, Settings, Trainer, WorldProblem, get_method
from elbert.learning.distributions import distribution_for
from elbert.learning.networks import Model, Moments
from elbert.learning.rollout import collect, start
from tests.learning.tiny import Probe, ProbeEnv, Tiny

SMALL: dict[str, Any] = {
    "copies": 16,
    "rollout": 32,
    "minibatch": 128,
    "hidden": [8],
    "steps": 16 * 32 * 40,
    "learning_rate": 5e-3,
    "entropy_weight": 0.0,
}


def train(method, seeds=2, world=None, **settings):
    trainer = Trainer(
        WorldProblem(world or Probe(), "probe"),
        Settings.of(SMALL | settings),
        method,
        members=[Member(seed, {}) for seed in range(seeds)],
    )
    trainer.fit()
    return trainer


@functools.cache
def level(method, **settings):
    """Reward and bias of the last rollout, over seeds."""
    seen = []
    trainer = Trainer(
        WorldProblem(Probe(), "probe"),
        Settings.of(SMALL | settings),
        method,
        members=[Member(0, {}), Member(1, {})],
    )
    trainer.fit([lambda progress: seen.append(progress.metrics)])
    return seen[-1].reward, seen[-1].bias


def test_reward_alone_serves_one_group():
    reward, bias = level("g-ppo")
    assert np.all(reward > 0.98)
    assert np.all(bias > 0.9)


def test_elbert_po_serves_both_alike_at_the_price_it_must_pay():
    reward, bias = level("elbert-po", alpha=1600.0)
    assert np.all(bias < 0.05)
    assert np.all(np.abs(reward - 0.9) < 0.02)


def test_r_ppo_lowers_the_bias_by_its_reward():
    _, bias = level("r-ppo", zeta=2.0, omega=0.05)
    assert np.all(bias < 0.6)
    _, unpunished = level("r-ppo", zeta=2.0, omega=2.0)  # a limit that is never passed
    assert np.all(unpunished > 0.9)


def test_a_ppo_lowers_the_bias_by_its_advantage():
    _, bias = level("a-ppo", beta_1=1.0, beta_2=3.0, omega=0.05)
    assert np.all(bias < 0.6)
    _, unpunished = level("a-ppo", beta_1=0.0, beta_2=0.0)
    assert np.all(unpunished > 0.9)


def weights(trainer):
    return [np.asarray(leaf) for leaf in jax.tree.leaves(trainer.state.weights)]


def test_g_ppo_is_elbert_po_with_alpha_0_to_the_bit():
    short: dict[str, Any] = {"steps": 16 * 32 * 4}
    for one, other in zip(
        weights(train("g-ppo", **short)), weights(train("elbert-po", alpha=0.0, **short)), strict=True
    ):
        assert np.array_equal(one, other)


def test_the_same_seed_gives_the_same_numbers_and_another_seed_others():
    short: dict[str, Any] = {"steps": 16 * 32 * 3, "alpha": 10.0}
    first, second = train("elbert-po", **short), train("elbert-po", **short)
    for one, other in zip(weights(first), weights(second), strict=True):
        assert np.array_equal(one, other)
    assert any(not np.array_equal(leaf[0], leaf[1]) for leaf in weights(first))


def test_seeds_side_by_side_are_single_runs():
    short: dict[str, Any] = {"steps": 16 * 32 * 3, "alpha": 10.0}
    together = train("elbert-po", seeds=2, world=Tiny(groups=3), **short)
    for seed in range(2):
        alone = Trainer(WorldProblem(Tiny(groups=3), "tiny"), Settings.of(SMALL | short), members=[Member(seed, {})])
        alone.fit()
        for one, other in zip(weights(together), weights(alone), strict=True):
            assert np.allclose(one[seed], other[0], atol=2e-5)


def test_coefficients_side_by_side_are_single_runs():
    agents = elbert.train_many(Probe(), seeds=[4], grid={"alpha": [0.0, 800.0]}, **(SMALL | {"steps": 16 * 32 * 40}))
    biases = [agent.evaluate(200).criterion.bias.estimate for agent in agents]
    assert biases[0] > 0.9 > 0.1 > biases[1]
    assert [agent.settings.alpha for agent in agents] == [0.0, 800.0]


def test_values_stay_the_same_when_their_scale_moves():
    trainer = Trainer(WorldProblem(Tiny(), "tiny"), Settings.of(SMALL))
    state = jax.tree.map(lambda x: x[0], trainer.state)
    observations = np.eye(3, dtype=np.float32)
    model = trainer.learner.model
    new = state.scale._replace(mean=state.scale.mean + 3.0, deviation=state.scale.deviation * 7.0)
    moved = model.rescaled(state.weights, state.scale, new)
    before = model.scaled_values(state.weights, observations)
    after = model.scaled_values(moved, observations) * 7.0 + 3.0
    assert np.allclose(before, after, atol=1e-5)


@pytest.mark.parametrize("critic", ["shared", "separate"])
def test_critics_learn_the_values_of_all_signals(critic):
    """After training, what the heads miss is no more than the noise of the returns."""
    trainer = train("g-ppo", seeds=1, world=Tiny(horizon=5), critic=critic, steps=16 * 32 * 30)
    state = jax.tree.map(lambda x: x[0], trainer.state)
    assert state.scale.mean.shape == (5,)
    assert np.all(np.asarray(state.scale.deviation) > 0.05)
    metrics = trainer.step().metrics
    assert metrics.value_loss[0] < 1.2  # of the returns' own variance, which noise makes up


SETTINGS_WITH_AN_EFFECT = [
    {"gamma": 0.5},
    {"gae_lambda": 0.1},
    {"clip": 0.01},
    {"value_weight": 2.0},
    {"entropy_weight": 0.5},
    {"gradient_clip": 0.01},
    {"adam_epsilon": 0.1},
    {"standardise": "none"},
    {"standardise": "per-signal"},
    {"standardise_over": "minibatch"},
    {"bootstrap_at_truncation": False},
    {"activation": "relu"},
    {"critic": "separate"},
    {"scale_values": False},
    {"normalise_observations": False},
    {"anneal": "none"},
    {"eta_discount": 0.5},
    {"alpha": 30.0},
    {"beta": 3.0},
    {"bias_kind": "hard"},
    {"bias_kind": "centred"},
    {"demand_weight": [1.0, 0.0, 0.0]},
    {"epochs": 2},
    {"learning_rate": 1e-4, "anneal": "none"},
]


def program(**given):
    """What an update computes, written out, with its coefficients: traced only, since compiling takes far longer."""
    base = {"copies": 4, "rollout": 12, "minibatch": 16, "hidden": [4], "epochs": 1, "alpha": 10.0, "steps": 96}
    settings = Settings.of(base | given)
    world = Tiny(groups=3, horizon=5)
    method, actions = get_method("elbert-po", settings), distribution_for(world.action_space)
    learner = Learner(settings, method, actions, observation=3, criteria=1, groups=3)
    state = jax.eval_shape(learner.init, jax.random.key(0))
    coefficients = learner.coefficients()
    return str(jax.make_jaxpr(learner.update)(state, rollout(), coefficients)), str(coefficients)


@functools.cache
def rollout():
    world = Tiny(groups=3, horizon=5)
    settings = Settings.of({"copies": 4, "rollout": 12, "minibatch": 16, "hidden": [4]})
    model = Model(settings, 3, 7, distribution_for(world.action_space))
    weights = model.init(jax.random.key(1))
    moments = Moments(np.zeros(()), np.zeros(3), np.zeros(3))
    return jax.jit(lambda key: collect(world, model, weights, moments, start(world, key, 4), key, 12))(
        jax.random.key(2)
    )[1]


@functools.cache
def baseline():
    return program()


@pytest.mark.parametrize("given", SETTINGS_WITH_AN_EFFECT, ids=str)
def test_every_setting_has_an_effect(given):
    assert program(**given) != baseline()


def test_the_same_settings_are_the_same_program():
    assert program() == baseline()


def vector(mode):
    return SyncVectorEnv([ProbeEnv] * 8, autoreset_mode=mode)


HOST: dict[str, Any] = {"rollout": 64, "minibatch": 128, "hidden": [8], "learning_rate": 5e-3, "steps": 8 * 64 * 30}


@pytest.mark.parametrize("mode", AutoresetMode)
def test_a_users_vector_environment_trains_as_well(mode):
    env = vector(mode)
    agent = elbert.train(env, alpha=1600.0, seed=1, **HOST)
    evaluation = agent.evaluate(80)
    assert evaluation.criterion.bias.estimate < 0.1
    assert evaluation.episodes == 80
    assert evaluation.horizon == 16
    assert abs(evaluation.reward.mean - 0.9) < 0.05


def test_an_asynchronous_vector_environment_trains():
    env = AsyncVectorEnv([ProbeEnv] * 2, context="spawn")
    try:
        agent = elbert.train(env, method="g-ppo", **(HOST | {"steps": 2 * 64 * 2, "minibatch": 64}))
        assert agent.evaluate(4).episodes == 4
    finally:
        env.close()


def test_an_iteration_leaks_no_tracers():
    trainer = Trainer(WorldProblem(Tiny(groups=3, criteria=2), "tiny"), Settings.of(SMALL), "a-ppo")
    with jax.checking_leaks():
        state, metrics = jax.eval_shape(jax.vmap(trainer._iterate), trainer.state, trainer.coefficients)
    assert metrics.rates.shape == (1, 2, 3)
    assert jax.tree.map(lambda x: x.shape, state) == jax.tree.map(lambda x: x.shape, trainer.state)


def test_rows_that_are_mere_resets_change_nothing():
    """Whatever stands in a row that does not count, the update is the same."""
    settings = Settings.of({"copies": 4, "rollout": 12, "minibatch": 48, "hidden": [4], "steps": 96})
    learner = Learner(
        settings,
        get_method("a-ppo", settings),
        distribution_for(Tiny().action_space),
        observation=3,
        criteria=1,
        groups=3,
    )
    state, shown = learner.init(jax.random.key(0)), rollout()
    counted = np.ones((12, 4), bool)
    counted[5, 2] = False
    outcomes = []
    for filling in (0.0, 50.0):
        filled = shown._replace(counted=counted, terminated=shown.terminated.at[4, 2].set(True))  # ends before it
        for name in ("reward", "supply", "demand"):
            filled = filled._replace(**{name: getattr(filled, name).at[5, 2].set(filling)})
        outcomes.append(jax.jit(learner.update)(state, filled, learner.coefficients()))
    for one, other in zip(*(jax.tree.leaves((o[0].weights, o[0].scale)) for o in outcomes), strict=True):
        assert np.allclose(one, other, atol=1e-6)


def test_an_agent_sees_as_its_weights_were_trained():
    trainer = train("g-ppo", seeds=1, world=Tiny(), steps=16 * 32)
    assert float(trainer.state.moments.seen[0]) == 0, "the first rollout was not normalised"
    assert float(trainer.state.gathered.seen[0]) == 16 * 32
    trainer.step()
    assert float(trainer.state.moments.seen[0]) == 16 * 32


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


def test_a_gymnasium_id_of_ours_is_compiled():
    agent = elbert.train(
        gymnasium.make("elbert/Lending-v0"), method="g-ppo", steps=512, copies=4, rollout=128, minibatch=64
    )
    assert agent.evaluate(2).env == "Lending"


def test_actions_start_with_the_deviation_asked_for():
    settings = Settings.of({"hidden": [4], "initial_deviation": 0.25})
    box = distribution_for(gymnasium.spaces.Box(-1, 1, (3,), np.float32))
    assert np.allclose(np.exp(Model(settings, 2, 5, box).init(jax.random.key(0)).log_std), 0.25)
    with pytest.raises(InvalidInputError, match="initial_deviation has no effect on choices"):
        elbert.train(Probe(), method="g-ppo", initial_deviation=0.5, **SMALL)


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
    with pytest.raises(DivergedError, match=r"Iteration 4 of 8: the rewards became infinite or NaN.*look there"):
        elbert.train(
            lambda: ProbeEnv(break_at=200),
            method="g-ppo",
            callbacks=[lambda progress: seen.append(progress.iteration)],
            **(HOST | {"steps": 8 * 64 * 8}),
        )
    assert seen == [1, 2, 3]


def test_a_diverging_update_is_named_and_the_state_kept():
    trainer = Trainer(
        WorldProblem(Probe(), "probe"), Settings.of(SMALL | {"scale_values": False, "learning_rate": 1e38})
    )
    with pytest.raises(DivergedError, match=r"the (values|advantages|losses|gradients|weights) became"):
        trainer.fit()
    assert all(np.isfinite(leaf).all() for leaf in weights(trainer))


def test_callbacks_are_told_and_can_stop():
    told = []

    def stop(progress):
        told.append((progress.iteration, progress.iterations, progress.steps))
        return progress.iteration < 3

    agent = elbert.train(Probe(), method="g-ppo", callbacks=[stop], **SMALL)
    assert told == [(1, 40, 512), (2, 40, 1024), (3, 40, 1536)]
    assert agent.about.steps == 1536


def test_a_method_of_ones_own_trains():
    def only_second(estimates, coefficients):
        return estimates.supply[..., 0, 1]

    agent = elbert.train(Probe(), method=only_second, **SMALL)
    rates = [row.rate for row in agent.evaluate(100).criterion.groups]
    assert rates[1] > 0.95 > 0.05 > rates[0]
    with pytest.raises(InvalidInputError, match="one number per sample"):
        elbert.train(Probe(), method=lambda estimates, coefficients: estimates.supply, **SMALL)


def test_a_penalty_of_ones_own_trains():
    agent = elbert.train(Probe(), penalty=lambda rates: 400.0 * (rates[0, 0] - 0.75) ** 2, alpha=10.0, **SMALL)
    rates = [row.rate for row in agent.evaluate(100).criterion.groups]
    assert abs(rates[0] - 0.75) < 0.05
