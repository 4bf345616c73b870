"""Memory: averages by hand, the same in worlds and on the host, learned with, acted with, and kept."""
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportOptionalMemberAccess=false

from typing import Any, NamedTuple

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import elbert
from elbert.envs import Attention, Parts
from elbert.envs.memory import Remembering, parts_remembered, remembered
from elbert.envs.world import TimeStep
from elbert.errors import ElbertError, InvalidInputError
from elbert.learning import Settings
from elbert.learning.ppo import Learner
from elbert.learning.simulators import HostSimulator
from elbert.learning.traces import trace_agent
from tests.envs.own import clinic
from tests.learning.tiny import Probe, configured, trainer_of

SPANS = (2.0, 5.0)
TINY: dict[str, Any] = {"copies": 4, "rollout": 20, "minibatch": 40, "epochs": 2, "hidden": [6], "alpha": 1.0}
TINY |= {"steps": 4 * 20 * 3, "memory": [2, 5], "progress": None}
SHORT: dict[str, Any] = {"copies": 32, "rollout": 32, "minibatch": 128, "epochs": 4, "hidden": [16], "alpha": 0.0}
SHORT |= {"learning_rate": 3e-3, "steps": 32 * 32 * 60, "progress": None}


class CueState(NamedTuple):
    cue: jax.Array  # 0 or 1
    time: jax.Array


class Cue(Probe):
    """The first observation alone says which action is right in all steps of the episode, which pays 1."""

    def observe(self, state: Any) -> Any:
        shown = jnp.where(state.time == 0, 2.0 * state.cue - 1, 0.0)
        return jnp.stack([shown, jnp.ones(())]).astype(jnp.float32)

    def reset(self, key: Any) -> Any:
        state = CueState(jax.random.bernoulli(key).astype(jnp.int32), jnp.zeros((), jnp.int32))
        return state, self.observe(state)

    def step(self, key: Any, state: Any, action: Any) -> Any:
        after, never = state._replace(time=state.time + 1), jnp.zeros((), bool)
        right, served = (action == state.cue).astype(jnp.float32), (jnp.arange(2) == action).astype(jnp.float32)
        end = self.is_truncated(after.time)
        return after, TimeStep(self.observe(after), right, served[None], jnp.ones((1, 2)), never, end)


def test_averages_by_hand():
    first = remembered(np.asarray([[4.0, 8.0]], np.float32), SPANS)
    assert first.tolist() == [[4.0, 8.0, 4.0, 8.0, 4.0, 8.0]], "they start from the first observation"
    second = remembered(np.asarray([[6.0, 3.0]], np.float32), SPANS, first)
    assert second[0] == pytest.approx([6.0, 3.0, 5.0, 5.5, 4.4, 7.0])
    traced = remembered(jnp.asarray([[6.0, 3.0]]), SPANS, jnp.asarray(first))
    assert isinstance(traced, jax.Array)
    assert np.array_equal(traced, second)
    assert second.dtype == np.float32


def test_parts_keep_their_averages():
    parts = Parts([[0, 2], [1, 3]], features=[[1.0], [2.0]], edges=[[0, 1]], group=[0, 1], chosen=False)
    wider = parts_remembered(parts, 5, (3.0,))
    assert wider.observed.tolist() == [[0, 2, 5, 7], [1, 3, 6, 8]]
    assert wider.arrays().keys() == parts.arrays().keys()
    assert parts_remembered(None, 5, (3.0,)) is None


@pytest.mark.slow
def test_a_world_with_memory_is_the_same_world():
    """The same keys and actions: the same course, with more to see."""
    own = Attention(initial_rates=[8.0, 6.0, 4.0], history=2, horizon=6)
    world = Remembering(own, SPANS)
    assert world.observation_space.shape == (3 * own.observation_space.shape[0],)
    key = jax.random.key(3)
    (state, seen), (plain, _) = world.reset(key), own.reset(key)
    for time in range(6):
        key, action = jax.random.fold_in(key, time), jnp.asarray([0.3, -1.0, time / 3])
        means, alone = world.means(state, action) or (), own.means(plain, action) or ()
        (state, step), (plain, bare) = world.step(key, state, action), own.step(key, plain, action)
        seen = remembered(bare.observation, SPANS, seen)
        assert np.array_equal(step.observation, seen)
        assert np.array_equal(world.for_critic(state), own.for_critic(plain))
        for one, other in zip((*step[1:], *means), (*bare[1:], *alone), strict=True):
            assert np.array_equal(one, other)
        assert bool(step.truncated) == (time == 5)
        assert world.observation_space.contains(np.asarray(step.observation))


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_memory_on_the_host_begins_again_with_each_episode(mode):
    vector = SyncVectorEnv([lambda: clinic(length=5), lambda: clinic(length=7)], autoreset_mode=mode)
    simulator = HostSimulator(vector, "clinic", vector, SPANS)
    settings, method = configured(copies=2, rollout=24, minibatch=48, hidden=[4], alpha=1.0)
    learner = Learner(settings, simulator.shape)
    state = jax.tree.map(lambda x: x[None], learner.init(jax.random.key(0), method.prepared(1, 3)))
    _, rollout = simulator.collect(learner, state, 0)
    seen, after, size = rollout.observation[0], rollout.next_observation[0], 3
    assert seen.shape == (24, 2, 9)
    counted, ended, starts = rollout.counted[0], rollout.ended[0], 0
    for copy in range(2):
        fresh = True
        for time in range(24):
            now = seen[time, copy]
            before = None if fresh else seen[time - 1, copy]
            if counted[time, copy]:
                assert np.array_equal(now, remembered(now[:size], SPANS, before))
                assert np.array_equal(after[time, copy], remembered(after[time, copy, :size], SPANS, now))
            starts += fresh
            only_reset = not counted[time, copy]
            fresh = only_reset if mode is AutoresetMode.NEXT_STEP else bool(ended[time, copy])
    assert starts >= 6, "several episodes began"


@pytest.mark.slow
def test_what_was_shown_once_is_remembered():
    """Without memory nothing is better than a guess: 1 for the first step and half of the others."""
    world = Cue(horizon=8)
    blind = elbert.train(world, seed=1, **SHORT).evaluate(256)
    sees = elbert.train(world, seed=1, memory=[100.0], **SHORT).evaluate(256)
    assert blind.reward.mean < 0.65
    assert sees.reward.mean > 0.95


@pytest.fixture(scope="module")
def agent():
    return elbert.train(Cue(horizon=8), **TINY)


@pytest.mark.slow
def test_an_agent_acts_with_what_it_remembers(agent):
    """Two copies, of which the second begins a new episode in the third call."""
    rows = np.asarray([[[1.0, 1.0], [-1.0, 1.0]], [[0.0, 1.0], [0.0, 1.0]], [[0.0, 1.0], [1.0, 1.0]]], np.float32)
    _, state = agent.predict(rows[0], state=None)
    assert np.array_equal(state, remembered(rows[0], SPANS))
    _, state = agent.predict(rows[1], state=state, episode_start=[False, False])
    once = remembered(rows[1], SPANS, remembered(rows[0], SPANS))
    assert np.array_equal(state, once)
    _, state = agent.predict(rows[2], state=state, episode_start=np.asarray([False, True]))
    assert np.array_equal(state[0], remembered(rows[2], SPANS, once)[0])
    assert np.array_equal(state[1], remembered(rows[2], SPANS)[1])
    action, state = agent.predict(rows[0, 0], state=None)
    assert np.shape(action) == ()
    assert state.shape == (1, 6)
    here, there = (agent.action_probabilities(rows[1, 0], state=before) for before in (None, state))
    assert here.shape == (2,)
    assert not np.array_equal(here, there), "what was seen before has a part in it"
    assert agent.values(rows[0], state=None).reward.shape == (2,)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, r"remembers what it observed \(memory = \[2.0, 5.0\]\), and state was not given"),
        ({"state": np.zeros((2, 6))}, r"state has shape \(2, 6\)"),
        ({"state": np.zeros((1, 2))}, r"state has shape \(1, 2\)"),
        ({"state": "before"}, "state is no array of numbers"),
        ({"state": np.zeros((1, 6)), "episode_start": [True, False]}, r"episode_start has shape \(2,\). Give one"),
    ],
)
def test_a_memory_that_is_missing_or_of_others_is_refused(agent, given, says):
    with pytest.raises(InvalidInputError, match=says):
        agent.predict([1.0, 1.0], **given)


@pytest.mark.slow
def test_it_is_kept_with_the_agent(agent, tmp_path):
    again = elbert.load(agent.save(tmp_path / "agent"))
    world = Cue(horizon=8)
    assert again.settings.memory == SPANS
    assert again.evaluate(8, env=world).to_dict()["reward"] == agent.evaluate(8, env=world).to_dict()["reward"]
    with pytest.raises(ElbertError, match="no ONNX model yet"):
        agent.to_onnx(tmp_path / "policy")
    trace = trace_agent(agent, env=world)
    assert trace.states.cue.shape == (9,), "the world's own states, for pictures"


@pytest.mark.slow
def test_users_environments_have_it_too():
    made = lambda: gymnasium.wrappers.TimeLimit(clinic(), 5)  # noqa: E731
    trained = elbert.train(made, **TINY)
    assert trained.shape.observation == 9
    assert trained.evaluate(4, env=made).worst.bias is not None
    assert trace_agent(trained, env=made).steps == 5


@pytest.mark.slow
def test_parts_and_memory_together():
    world = Attention(initial_rates=[8.0, 6.0, 4.0], horizon=20, history=2)
    trained = elbert.train(world, policy="parts", **TINY)
    assert trained.shape.parts.observed.shape == (3, 2 * 4 * 3)
    assert trained.evaluate(2).worst.bias is not None


@pytest.mark.slow
def test_resumed_to_the_same_bits():
    settings = {name: value for name, value in TINY.items() if name != "progress"}
    whole, half, again = (trainer_of(Remembering(Cue(horizon=8), SPANS), **settings) for _ in range(3))
    list(whole)
    half.step()
    again.restore(half.stored(), 1, 0.0)
    list(again)
    for one, other in zip(jax.tree.leaves(whole.state.weights), jax.tree.leaves(again.state.weights), strict=True):
        assert np.array_equal(one, other)


@pytest.mark.parametrize("spans", [[1.0], [0.5], [-3], ["a"], 4])
def test_spans_that_make_no_sense_are_refused(spans):
    with pytest.raises(InvalidInputError, match="memory is"):
        Settings.of({"memory": spans})
