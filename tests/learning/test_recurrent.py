"""A memory that is learned: the same along a segment as step by step, new with each episode, kept and resumed."""
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportOptionalMemberAccess=false

from typing import Any

import gymnasium
import jax
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import elbert
from elbert.errors import ElbertError, InvalidInputError
from elbert.learning import Settings
from elbert.learning.ppo import Learner
from elbert.learning.simulators import HostSimulator
from elbert.learning.traces import trace_agent
from tests.envs.own import clinic
from tests.learning.test_memory import SHORT, Cue
from tests.learning.tiny import Probe, configured, trainer_of
from tests.parameters import slow_after

TINY: dict[str, Any] = {"policy": "gru", "copies": 4, "rollout": 20, "minibatch": 40, "epochs": 2, "hidden": [6]}
TINY |= {"alpha": 1.0, "steps": 4 * 20 * 3}


@pytest.fixture(scope="module")
def trainer():
    """Trained once and then left alone: a world of 8 steps in rollouts of 20."""
    trainer = trainer_of(Cue(horizon=8), **TINY)
    list(trainer)
    return trainer


@pytest.mark.parametrize(("rollout", "minibatch", "segment"), [(1024, 512, 64), (20, 40, 20), (260, 256, 4), (7, 9, 1)])
def test_segments_are_the_longest_that_fit(rollout, minibatch, segment):
    settings = Settings.of({"policy": "gru", "rollout": rollout, "minibatch": minibatch})
    assert (settings.segment, settings.block) == (segment, segment)
    assert settings.with_settings({"policy": "mlp"}).segment == 1


def test_along_a_segment_it_says_what_it_said_step_by_step(trainer):
    """Episodes end within the segments of 20 steps, and the memory that follows begins anew."""
    learner, state = trainer.learner, jax.tree.map(lambda x: x[0], trainer.state)
    _, rollouts = trainer.simulator.collect(learner, trainer.state, 0)
    rollout = jax.tree.map(lambda x: x[0], rollouts)
    assert learner.settings.segment == 20
    assert rollout.ended[:-1].any()
    estimated = learner.estimate(state, rollout, trainer._prepared)
    again = learner._log_prob(state.weights, estimated, rollout)
    assert np.allclose(again, rollout.log_prob, atol=1e-5)
    memory, ended = rollout.observation[..., 2:], rollout.ended
    opened = np.concatenate([np.zeros_like(ended[:1]), ended[:-1]])
    assert np.all(memory[opened] == 0)
    assert np.all(memory[1:][~opened[1:]].any(axis=-1))
    assert np.array_equal(rollout.next_observation[:-1][~opened[1:]][..., 2:], memory[1:][~opened[1:]])


def test_what_it_carries_is_not_normalised(trainer):
    learner, state = trainer.learner, jax.tree.map(lambda x: x[0], trainer.state)
    row = np.arange(8, dtype=np.float32) / 10
    seen = learner.model.normalised(state.moments, row)
    assert np.array_equal(seen[2:], row[2:])
    assert not np.array_equal(seen[:2], row[:2])


@pytest.mark.slow
def test_what_was_shown_once_is_remembered():
    assert elbert.train(Cue(horizon=8), seed=1, policy="gru", **SHORT).evaluate(256).reward.mean > 0.95


@pytest.mark.parametrize("mode", slow_after(1, AutoresetMode))
def test_memory_on_the_host_begins_again_with_each_episode(mode):
    vector = SyncVectorEnv([lambda: clinic(length=5), lambda: clinic(length=7)], autoreset_mode=mode)
    simulator = HostSimulator(vector, "clinic", vector)
    settings, method = configured(policy="gru", copies=2, rollout=24, minibatch=48, hidden=[4], alpha=1.0)
    learner = Learner(settings, simulator.shape.seen_by(settings))
    state = jax.tree.map(lambda x: x[None], learner.init(jax.random.key(0), method.prepared(1, 3)))
    _, rollout = simulator.collect(learner, state, 0)
    memory, after = rollout.observation[0, ..., 3:], rollout.next_observation[0, ..., 3:]
    counted, ended, starts = rollout.counted[0], rollout.ended[0], 0
    for copy in range(2):
        fresh = True
        for time in range(24):
            expected = np.zeros(4, np.float32) if fresh else after[time - 1, copy]
            if counted[time, copy]:
                assert np.array_equal(memory[time, copy], expected)
            starts += fresh
            fresh = not counted[time, copy] if mode is AutoresetMode.NEXT_STEP else bool(ended[time, copy])
    assert starts >= 6, "several episodes began"


def test_an_agent_acts_with_what_it_carries(trainer, tmp_path):
    agent = trainer.agents()[0]
    rows = np.asarray([[[1.0, 1.0], [-1.0, 1.0]], [[0.0, 1.0], [0.0, 1.0]]], np.float32)
    _, once = agent.predict(rows[0], state=None)
    _, twice = agent.predict(rows[1], state=once, episode_start=[False, True])
    _, fresh = agent.predict(rows[1], state=None)
    assert once.shape == (2, 6)
    assert np.array_equal(twice[1], fresh[1])
    assert not np.array_equal(twice[0], fresh[0])
    here, there = (agent.action_probabilities(rows[1], state=before) for before in (None, once))
    assert not np.array_equal(here, there)
    assert agent.values(rows[1], state=once).reward.shape == (2,)
    for given, says in (
        ({}, r'remembers what it observed \(policy = "gru"\), and state was not given'),
        ({"state": np.zeros((1, 2))}, r"state has shape \(1, 2\)"),
    ):
        with pytest.raises(InvalidInputError, match=says):
            agent.predict(rows[0], **given)
    again, world = elbert.load(agent.save(tmp_path / "agent")), Cue(horizon=8)
    assert again.evaluate(8, env=world).to_dict()["reward"] == agent.evaluate(8, env=world).to_dict()["reward"]
    assert trace_agent(again, env=world).steps == 8
    with pytest.raises(ElbertError, match="no ONNX model yet"):
        agent.to_onnx(tmp_path / "policy")


def test_resumed_to_the_same_bits(trainer):
    half, again = (trainer_of(Cue(horizon=8), **TINY) for _ in range(2))
    half.step()
    again.restore(half.stored(), 1, 0.0)
    list(again)
    whole, resumed = trainer.stored(), again.stored()
    assert any("carried" in name for name in whole), "what copies carry is part of it"
    assert whole.keys() == resumed.keys()
    for name, array in whole.items():
        assert np.array_equal(array, resumed[name]), name


@pytest.mark.slow
def test_users_environments_have_it_too():
    made = lambda: gymnasium.wrappers.TimeLimit(clinic(), 5)  # noqa: E731
    trained = elbert.train(made, memory=[3], progress=None, **TINY)
    assert trained.evaluate(4, env=made).worst.bias is not None
    assert trace_agent(trained, env=made).steps == 5
    _, state = trained.predict(np.zeros(3), state=None)
    assert state.shape == (1, 2 * 3 + 6), "averages and what is learned, side by side"
    assert trained.predict(np.zeros(3), state=state)[1].shape == state.shape


@pytest.mark.slow
@pytest.mark.parametrize("given", [{"critic": "separate"}, {"method": "cpo", "max_bias": 0.1, "alpha": None}], ids=str)
def test_it_goes_with_other_settings(given):
    agent = elbert.train(Probe(), progress=None, **(TINY | given))
    still = elbert.train(Probe(), progress=None, **(TINY | given | {"learning_rate": 1e-12, "steps": 80}))
    moved, before = (each.weights.actor.cell.weight_hh for each in (agent, still))
    assert not np.allclose(moved, before, atol=1e-6), "what is remembered is learned"


def test_it_needs_a_width():
    with pytest.raises(InvalidInputError, match=r'hidden is empty\. Give at least one width with policy = "gru"'):
        elbert.train(Probe(), progress=None, **(TINY | {"hidden": []}))
