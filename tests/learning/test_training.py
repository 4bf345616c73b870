"""Whole trainings: probes with known answers, and laws that hold for every training."""
# pyright: reportArgumentType=false, reportCallIssue=false, reportOptionalOperand=false, reportOperatorIssue=false

import functools
from typing import Any

import gymnasium
import jax
import numpy as np
import pytest

import elbert
from elbert.errors import InvalidInputError
from elbert.learning import METHODS, DivergedError, Policy, Settings
from elbert.learning import trainer as trainer_module
from elbert.learning.distributions import distribution_for
from elbert.learning.methods import FunctionMethod
from elbert.learning.networks import Model, Moments, Shape
from elbert.learning.settings import settings_of
from elbert.learning.simulators.compiled import collect, start
from elbert.learning.trainer import Trainer
from tests.learning.tiny import Priced, Probe, Tiny, configured, learner_of, trainer_of

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
    trainer = trainer_of(world or Probe(), method, seeds=range(seeds), **(SMALL | settings))
    list(trainer)
    return trainer


@functools.cache
def level(method, **settings):
    """Reward and bias of the last rollout, over seeds."""
    trainer = trainer_of(Probe(), method, seeds=(0, 1), **(SMALL | settings))
    seen = [iteration.metrics for iteration in trainer]
    return seen[-1].reward, seen[-1].bias


@pytest.mark.slow
def test_reward_alone_serves_one_group():
    reward, bias = level("g-ppo")
    assert np.all(reward > 0.98)
    assert np.all(bias > 0.9)


@pytest.mark.slow
def test_elbert_po_serves_both_alike_at_the_price_it_must_pay():
    reward, bias = level("elbert-po", alpha=1600.0)
    assert np.all(bias < 0.05)
    assert np.all(np.abs(reward - 0.9) < 0.02)


@pytest.mark.slow
def test_r_ppo_lowers_the_bias_by_its_reward():
    _, bias = level("r-ppo", zeta=2.0, omega=0.05)
    assert np.all(bias < 0.6)
    _, unpunished = level("r-ppo", zeta=2.0, omega=2.0)  # a limit that is never passed
    assert np.all(unpunished > 0.9)


@pytest.mark.slow
def test_a_ppo_lowers_the_bias_by_its_advantage():
    _, bias = level("a-ppo", beta_1=1.0, beta_2=3.0, omega=0.05)
    assert np.all(bias < 0.6)
    _, unpunished = level("a-ppo", beta_1=0.0, beta_2=0.0)
    assert np.all(unpunished > 0.9)


def weights(trainer):
    return [np.asarray(leaf) for leaf in jax.tree.leaves(trainer.state.weights)]


@pytest.mark.slow
def test_g_ppo_is_elbert_po_with_alpha_0_to_the_bit():
    short: dict[str, Any] = {"steps": 16 * 32 * 4}
    for one, other in zip(
        weights(train("g-ppo", **short)), weights(train("elbert-po", alpha=0.0, **short)), strict=True
    ):
        assert np.array_equal(one, other)


@pytest.mark.slow
def test_the_same_seed_gives_the_same_numbers_and_another_seed_others():
    short: dict[str, Any] = {"steps": 16 * 32 * 3, "alpha": 10.0}
    first, second = train("elbert-po", **short), train("elbert-po", **short)
    for one, other in zip(weights(first), weights(second), strict=True):
        assert np.array_equal(one, other)
    assert any(not np.array_equal(leaf[0], leaf[1]) for leaf in weights(first))


@pytest.mark.slow
def test_seeds_side_by_side_are_single_runs():
    short: dict[str, Any] = {"steps": 16 * 32 * 3, "alpha": 10.0}
    together = train("elbert-po", seeds=2, world=Tiny(groups=3), **short)
    for seed in range(2):
        alone = trainer_of(Tiny(groups=3), seeds=[seed], **(SMALL | short))
        list(alone)
        for one, other in zip(weights(together), weights(alone), strict=True):
            assert np.allclose(one[seed], other[0], atol=2e-5)


@pytest.mark.slow
def test_coefficients_side_by_side_are_single_runs():
    short = SMALL | {"steps": 16 * 32 * 3}
    together = elbert.train_many(Probe(), seeds=[4], grid={"alpha": [0.0, 800.0]}, **short)
    assert [agent.about.method_settings["alpha"] for agent in together] == [0.0, 800.0]
    for agent in together:
        alone = elbert.train(Probe(), seed=4, alpha=agent.about.method_settings["alpha"], **short)
        for one, other in zip(jax.tree.leaves(agent.weights), jax.tree.leaves(alone.weights), strict=True):
            assert np.allclose(one, other, atol=2e-5)
    first, second = (jax.tree.leaves(agent.weights) for agent in together)
    assert any(np.abs(one - other).max() > 1e-3 for one, other in zip(first, second, strict=True))


@pytest.mark.slow
def test_the_same_shapes_and_settings_compile_once(monkeypatch):
    """Another trainer, another world object with the same numbers, another alpha and another seed share a program."""
    short = SMALL | {"steps": 16 * 32, "rollout": 24}
    list(trainer_of(Probe(), alpha=1.0, **short))
    compiled: Any = trainer_module._compiled_iteration
    before = compiled._cache_size()
    list(trainer_of(Probe(), alpha=2.0, seeds=[7], **short))
    assert compiled._cache_size() == before
    list(trainer_of(Probe(second=0.7), alpha=2.0, **short))
    assert compiled._cache_size() == before + 1


def test_values_stay_the_same_when_their_scale_moves():
    trainer = trainer_of(Tiny(), **SMALL)
    state = jax.tree.map(lambda x: x[0], trainer.state)
    observations = np.eye(3, dtype=np.float32)
    model = trainer.learner.model
    new = state.scale._replace(mean=state.scale.mean + 3.0, deviation=state.scale.deviation * 7.0)
    moved = model.rescaled(state.weights, state.scale, new)
    before = model.scaled_values(state.weights, observations)
    after = model.scaled_values(moved, observations) * 7.0 + 3.0
    assert np.allclose(before, after, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("critic", ["shared", "separate"])
def test_critics_learn_the_exact_values_of_all_signals(critic):
    """Under a policy that stays as it is, V = (I - gamma P)^-1 x: episodes that are cut off are continued."""
    world, gamma = Tiny(horizon=5), 0.5
    settings, _ = configured("g-ppo", **(SMALL | {"critic": critic, "gamma": gamma, "steps": 16 * 32 * 30}))
    still = FunctionMethod(function=lambda estimates: 0 * estimates.reward)
    trainer = Trainer(trainer_of(world, **SMALL).simulator, settings, still)
    list(trainer)
    state, model = jax.tree.map(lambda x: x[0], trainer.state), trainer.learner.model
    seen = model.normalised(state.moments, np.eye(3, dtype=np.float32))
    policy = np.asarray(jax.nn.softmax(model.policy(state.weights, seen)), float)
    assert np.allclose(policy, 0.5, atol=0.05), "nothing pushed it"
    move = np.einsum("sa,sat->st", policy, world.move)
    signals = np.concatenate(
        [world.reward[..., None], world.supply.reshape(3, 2, -1), world.demand.reshape(3, 2, -1)], axis=-1
    )
    exact = np.linalg.solve(np.eye(3) - gamma * move, np.einsum("sa,sak->sk", policy, signals))
    learned = np.asarray(model.scaled_values(state.weights, seen)) * np.asarray(state.scale.deviation)
    learned += np.asarray(state.scale.mean)
    spread = exact.max(axis=0) - exact.min(axis=0)
    assert np.all(np.abs(learned - exact) < 0.15 * spread + 0.02), (learned, exact)
    assert np.all(spread > 0.1), "a critic that only knew each signal's mean would miss by half of this"


EFFECTS: list[tuple[str, dict[str, Any]]] = [
    *(
        ("elbert-po", {name: value})
        for name, value in (
            ("gamma", 0.5),
            ("gae_lambda", 0.1),
            ("clip", 0.001),
            ("value_weight", 2.0),
            ("entropy_weight", 0.5),
            ("gradient_clip", 0.01),
            ("adam_epsilon", 0.1),
            ("learning_rate", 1e-4),
            ("standardise", "none"),
            ("standardise", "per-signal"),
            ("standardise_over", "minibatch"),
            ("bootstrap_at_truncation", False),
            ("activation", "relu"),
            ("critic", "separate"),
            ("scale_values", False),
            ("normalise_observations", False),
            ("anneal", "none"),
            ("anneal", "cosine"),
            ("divergence", 1e-4),
            ("eta_discount", 0.5),
            ("epochs", 2),
            ("minibatch", 12),
            ("alpha", 30.0),
            ("beta", 3.0),
            ("bias_kind", "hard"),
            ("bias_kind", "centred"),
            ("demand_weight", (1.0, 0.0, 0.0)),
            ("max_bias", 0.1),
        )
    ),
    ("elbert-po", {"max_bias": 0.1, "demand_weight": (1.0, 0.0, 0.0)}),
    ("r-ppo", {"zeta": 3.0}),
    ("r-ppo", {"omega": 0.5}),
    ("r-ppo", {"penalty_form": "excess"}),
    ("r-ppo", {"penalty_form": "as-printed"}),
    ("r-ppo", {"extra_demand": 3.0}),
    ("a-ppo", {"omega": 0.5}),
    ("a-ppo", {"beta_1": 3.0}),
    ("a-ppo", {"beta_2": 3.0}),
    ("a-ppo", {"term_scaling": "none"}),
    ("a-ppo", {"extra_demand": 3.0}),
    ("lagrangian", {"max_bias": 0.9}),
    ("lagrangian", {"dual_rate": 1.0}),
    ("band", {"max_bias": 0.9}),
    ("band", {"side_rate": 1.0}),
    ("band", {"stiffness": 5.0}),
    ("band", {"max_bias": 0.05, "rho_rate": 5.0}),
    ("focops", {"max_bias": 0.9}),
    ("focops", {"temperature": 5.0}),
    ("focops", {"region": 1e-6}),
    ("focops", {"multiplier_rate": 1.0}),
    ("focops", {"multiplier_rate": 1.0, "largest_multiplier": 0.1}),
    ("cpo", {"max_bias": 0.9}),
    ("cpo", {"region": 0.2}),
    ("cpo", {"damping": 5.0}),
    ("return-gap", {"max_gap": 1.9}),
    ("return-gap", {"dual_rate": 1.0}),
]


@functools.cache
def updated_weights(method, given):
    """The weights after learning twice from one rollout, the second time with everything that is carried along."""
    base = {"copies": 4, "rollout": 12, "minibatch": 16, "hidden": [4], "epochs": 1, "steps": 96}
    base |= {"alpha": 10.0} if method == "elbert-po" and "max_bias" not in dict(given) else {}
    base |= {"max_bias": 0.01} if "max_bias" in METHODS[method].settings() else {}
    learner, prepared = learner_of(Tiny(groups=3, horizon=5), method, **(base | dict(given)))
    state = learner.init(jax.random.key(0), prepared)
    update = jax.jit(learner.update)
    for _ in range(2):
        state, _ = update(state, rollout(), prepared)
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(state.weights)])


@functools.cache
def rollout():
    world = Tiny(groups=3, horizon=5)
    shape = Shape(3, distribution_for(world.action_space), ("criterion",), 3)
    model = Model(Settings.of({"minibatch": 16, "hidden": [4]}), shape)
    policy = Policy(model.init(jax.random.key(1)), Moments(np.zeros(()), np.zeros(3), np.zeros(3)))
    played = jax.jit(lambda key: collect(world, model, policy, start(world, key, 4), key, 12))
    return played(jax.random.key(2))[1]


@pytest.mark.study
@pytest.mark.parametrize(("method", "given"), EFFECTS, ids=str)
def test_every_setting_changes_what_is_learned(method, given):
    without = tuple(given.items())[:-1]  # a second setting is compared with the first alone
    changed, plain = updated_weights(method, tuple(given.items())), updated_weights(method, without)
    assert changed.shape != plain.shape or np.abs(changed - plain).max() > 1e-6


def test_no_setting_is_left_out_above():
    covered = {(method, name) for method, given in EFFECTS for name in given}
    by_shape = {"steps", "copies", "rollout", "hidden", "initial_deviation", "reset_each_rollout"}  # tested below
    by_shape |= {"policy", "memory"}  # tested with parts, and in test_memory
    by_shape |= {"critic_sees", "signals", "deviation_kept"}  # tested with what the simulator knows
    for name in settings_of(Settings):
        assert name in by_shape or ("elbert-po", name) in covered
    for method, kind in METHODS.items():
        for name in {name for form in (kind, *kind.variants) for name in form.settings()} - {"penalty"}:
            assert (method, name) in covered


@pytest.mark.slow
def test_steps_reach_the_divergence_asked_for():
    """With Adam's own steps these rates move the policy by about 0.00003 and 0.005 in the median update."""
    for rate in (2e-4, 3e-2):
        paced = SMALL | {"learning_rate": rate, "anneal": "none", "divergence": 0.002, "steps": 16 * 32 * 25}
        trainer = trainer_of(Priced(), "g-ppo", **paced)
        shown = [float(each.metrics.kl[0]) for each in trainer]
        assert 0.001 < np.median(shown[5:]) < 0.003
        pace = trainer.state.pace
        assert pace is not None
        assert (pace[0] > 5) == (rate < 1e-3)


@pytest.mark.slow
def test_every_rollout_starts_new_episodes_where_that_is_asked_for():
    """An episode of 16 steps in rollouts of 12: carried on it ends in the second, started again it never does."""
    short = SMALL | {"rollout": 12, "minibatch": 96, "steps": 16 * 12 * 4}
    ended = {}
    for restart in (False, True):
        trainer = trainer_of(Probe(), "g-ppo", reset_each_rollout=restart, **short)
        ended[restart] = [int(progress.metrics.episodes[0]) for progress in trainer]
    assert ended == {False: [0, 16, 16, 16], True: [0, 0, 0, 0]}


@pytest.mark.slow
def test_an_iteration_leaks_no_tracers():
    trainer = trainer_of(Tiny(groups=3, criteria=2), "a-ppo", **SMALL)
    with jax.checking_leaks():
        iteration = functools.partial(trainer_module._iteration, trainer.simulator, trainer.learner)
        state, metrics = jax.eval_shape(iteration, trainer.state, trainer._prepared, 0)
    assert metrics.rates.shape == (1, 2, 3)
    assert jax.tree.map(lambda x: x.shape, state) == jax.tree.map(lambda x: x.shape, trainer.state)


@pytest.mark.slow
def test_rows_that_are_mere_resets_change_nothing():
    """Whatever stands in a row that does not count, the update is the same."""
    settings = {"copies": 4, "rollout": 12, "minibatch": 48, "hidden": [4], "steps": 96}
    learner, method = learner_of(Tiny(groups=3), "a-ppo", **settings)
    state, shown = learner.init(jax.random.key(0), method), rollout()
    counted = np.ones((12, 4), bool)
    counted[5, 2] = False
    outcomes = []
    update = jax.jit(learner.update)
    for filling in (0.0, 50.0):
        filled = shown._replace(counted=counted, terminated=shown.terminated.at[4, 2].set(True))  # ends before it
        for name in ("reward", "supply", "demand"):
            filled = filled._replace(**{name: getattr(filled, name).at[5, 2].set(filling)})
        outcomes.append(update(state, filled, method))
    for one, other in zip(*(jax.tree.leaves((o[0].weights, o[0].scale)) for o in outcomes), strict=True):
        assert np.allclose(one, other, atol=1e-6)


@pytest.mark.slow
def test_an_agent_sees_as_its_weights_were_trained():
    trainer = train("g-ppo", seeds=1, world=Tiny(), steps=16 * 32)
    assert float(trainer.state.moments.seen[0]) == 0, "the first rollout was not normalised"
    assert float(trainer.state.gathered.seen[0]) == 16 * 32
    trainer.step()
    assert float(trainer.state.moments.seen[0]) == 16 * 32


@pytest.mark.slow
def test_a_gymnasium_id_of_ours_is_compiled():
    agent = elbert.train(
        gymnasium.make("elbert/Lending-v0"), method="g-ppo", steps=512, copies=4, rollout=128, minibatch=64
    )
    assert agent.evaluate(2).env == "Lending"


def test_actions_start_with_the_deviation_asked_for():
    settings = Settings.of({"hidden": [4], "initial_deviation": 0.25})
    box = distribution_for(gymnasium.spaces.Box(-1, 1, (3,), np.float32))
    assert np.allclose(np.exp(Model(settings, Shape(2, box, ("criterion",), 2)).init(jax.random.key(0)).log_std), 0.25)
    with pytest.raises(InvalidInputError, match="initial_deviation has no effect on choices"):
        elbert.train(Probe(), method="g-ppo", initial_deviation=0.5, **SMALL)


def test_a_diverging_update_is_named_and_the_state_kept():
    trainer = trainer_of(Probe(), **(SMALL | {"scale_values": False, "learning_rate": 1e38}))
    with pytest.raises(DivergedError, match=r"the (values|advantages|losses|gradients|weights) became"):
        list(trainer)
    assert all(np.isfinite(leaf).all() for leaf in weights(trainer))


def test_callbacks_are_told_and_can_stop():
    told = []

    def stop(progress):
        told.append((progress.iteration, progress.iterations, progress.steps))
        return progress.iteration < 3

    agent = elbert.train(Probe(), method="g-ppo", callbacks=[stop], **SMALL)
    assert told == [(1, 40, 512), (2, 40, 1024), (3, 40, 1536)]
    assert agent.about.steps == 1536


@pytest.mark.slow
def test_a_function_trains():
    agent = elbert.train(Probe(), method=lambda estimates: estimates.supply[..., 0, 1], **SMALL)
    rates = [row.rate for row in agent.evaluate(100).criterion.groups]
    assert rates[1] > 0.95 > 0.05 > rates[0]


@pytest.mark.slow
def test_a_penalty_of_ones_own_trains():
    agent = elbert.train(Probe(), penalty=lambda rates: 400.0 * (rates[0, 0] - 0.75) ** 2, alpha=10.0, **SMALL)
    rates = [row.rate for row in agent.evaluate(100).criterion.groups]
    assert abs(rates[0] - 0.75) < 0.05


def test_a_policy_acts_on_numbers_only():
    agent = trainer_of(Probe(), "g-ppo", **SMALL).agents()[0]
    for observation in ([np.nan, 0.0], [np.inf, 0.0]):
        with pytest.raises(InvalidInputError, match="infinite numbers or NaN"):
            agent.predict(observation)
    with pytest.raises(InvalidInputError, match="no array of numbers"):
        agent.predict(["a", "b"])
