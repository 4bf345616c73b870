"""Traces: one episode step by step, on a chance that does not depend on who acts."""

from typing import Any

import gymnasium
import jax
import numpy as np
import pytest

import elbert
from elbert.envs import ENTRIES, INFECTED, RECOVERED, SUSCEPTIBLE, make_world
from elbert.errors import InvalidInputError
from elbert.exact.rules import get_rule
from elbert.learning import ForeignPolicy
from elbert.learning.simulators.traces import Keys, trace_world
from elbert.learning.traces import trace_agent, trace_foreign
from tests.envs.own import clinic
from tests.experiments.small_runs import TINY
from tests.learning.tiny import Probe, ProbeEnv, trainer_of
from tests.parameters import slow_after

NAMES = sorted(ENTRIES, key=lambda name: name not in ("lending", "attention-harder"))  # choices, and real numbers

SMALL = {"copies": 4, "rollout": 8, "minibatch": 8, "hidden": (4,), "epochs": 1}


def rule_trace(text, *, seed=3, longest=None, **parameters):
    env = text.partition("/")[0]
    world = make_world(env, **parameters)
    act = get_rule(f"rule:{text}").policy.make(world)
    return trace_world(world, lambda key, state, _: act(key, state), name=text, env=env, seed=seed, longest=longest)


def random_actions(world):
    """A policy with noise of its own, for any world."""
    space = world.action_space

    def act(key, state, observation):
        if isinstance(space, gymnasium.spaces.Discrete):
            return jax.random.randint(key, (), 0, int(space.n))
        return jax.random.uniform(key, space.shape, minval=-1.0, maxval=1.0)

    return act


@pytest.fixture(scope="module")
def agent():
    return trainer_of(Probe(horizon=8), **SMALL).agents()[0].replaced(env=Probe(horizon=8))


@pytest.mark.parametrize("name", slow_after(1, NAMES))
def test_a_trace_is_what_a_plain_loop_over_the_world_gives(name):
    """Red if the scan shifts actions, states or signals by a step, or draws other keys than (seed, time)."""
    world = make_world(name, horizon=6)
    act = random_actions(world)
    trace = trace_world(world, act, name="random", env=name, seed=5)
    keys = Keys.of(5)
    reset, step, act = jax.jit(world.reset), jax.jit(world.step), jax.jit(act)
    state, observation = reset(keys.reset())
    states, rows = [state], []
    for time in range(6):
        action = act(keys.act(time), state, observation)
        state, shown = step(keys.step(time), state, action)
        observation = shown.observation
        states.append(state)
        rows.append((action, shown.reward, shown.supply, shown.demand))
    for got, column in zip(
        (trace.actions, trace.reward, trace.supply, trace.demand), zip(*rows, strict=True), strict=True
    ):
        np.testing.assert_allclose(got, np.stack(column), rtol=1e-5)
    whole = jax.tree.map(lambda *each: np.stack(each), *states)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5), trace.states, whole)
    assert (trace.steps, trace.ended) == (6, True)


@pytest.mark.slow
def test_applicants_are_the_same_as_long_as_decisions_are():
    """Red if the policy's noise, or what it decided, got into the keys of arrivals."""
    strict, lenient = (rule_trace(f"lending/thresholds-{low}-{low}", horizon=60) for low in (3, 2))
    differ = np.flatnonzero(strict.actions != lenient.actions)
    assert len(differ), "the two never differed, so that nothing was shown"
    until = int(differ[0]) + 1  # the applicant of the first difference arrived before it
    for part in ("group", "score", "repays"):
        one, other = (np.asarray(getattr(trace.states, part)) for trace in (strict, lenient))
        np.testing.assert_array_equal(one[:until], other[:until])
    groups = [np.asarray(trace.states.group) for trace in (strict, lenient)]
    np.testing.assert_array_equal(
        groups[0], groups[1]
    )  # the group of an applicant depends on no decision, so all of them agree
    again = rule_trace("lending/thresholds-3-3", horizon=60, seed=4)
    assert (np.asarray(again.states.group) != groups[0]).any(), "another seed is another chance"


def test_a_dose_is_all_that_differs_in_an_epidemic():
    """Everyone whose neighbours and own health are the same meets the same draw: red if policies split the keys."""
    nobody, degree = (rule_trace(f"infectious/{rule}", horizon=4) for rule in ("nobody", "degree"))
    one, other = (np.asarray(trace.states.health) for trace in (nobody, degree))
    np.testing.assert_array_equal(one[0], other[0])
    dosed = int(degree.actions[0])
    assert one[0][dosed] == SUSCEPTIBLE
    changed = set(np.flatnonzero(one[1] != other[1]).tolist())
    assert changed <= {dosed}, "the others meet the same chance in the first step"
    assert other[1][dosed] == RECOVERED
    assert (one[-1] == INFECTED).sum() >= (other[-1] == INFECTED).sum()


@pytest.mark.slow
def test_an_episode_stops_at_its_end_and_where_it_is_cut():
    """Red if steps after a bankruptcy are counted, or if a cut trace says that the episode was over."""
    poor = {"initial_cash": 1.0, "horizon": 50}
    seeds = [rule_trace("lending/thresholds-0-0", seed=seed, **poor) for seed in range(4)]
    short = [trace for trace in seeds if trace.steps < 50]
    assert short
    for trace in short:
        cash = 1.0 + np.cumsum(trace.reward)
        assert cash[-1] < 1 <= cash[:-1].min(initial=1.0)
        assert trace.ended
        assert len(trace.states.time) == trace.steps + 1
    cut = rule_trace("lending/thresholds-0-0", horizon=50, longest=20)
    assert (cut.steps, cut.ended, len(cut.actions)) == (20, False, 20)


@pytest.mark.slow
def test_an_agent_has_the_same_episode_in_a_world_and_as_a_function_of_observations(agent):
    """Compiled and step by step: red if the two orders of keys differ, or observations are flattened differently."""
    compiled = trace_agent(agent, seed=2, deterministic=True)
    by_hand = trace_foreign(ForeignPolicy(agent.predict), env=Probe(horizon=8), seed=2, deterministic=True)
    np.testing.assert_array_equal(compiled.actions, by_hand.actions)
    np.testing.assert_allclose(compiled.supply, by_hand.supply)
    np.testing.assert_allclose(compiled.states.given, by_hand.states.given)
    assert (compiled.steps, compiled.criteria, compiled.groups) == (8, ("criterion 0",), ("0", "1"))


def test_the_noise_of_an_agent_is_its_own(agent):
    """Red if sampling were left out, or if every step had the same noise."""
    sampled = [trace_agent(agent, seed=seed).actions.tolist() for seed in range(6)]
    assert sampled[0] == trace_agent(agent, seed=0).actions.tolist()
    assert len({tuple(actions) for actions in sampled}) > 1
    assert any(len(set(actions)) == 2 for actions in sampled)


def test_an_environment_of_ones_own_gives_signals_and_no_states(agent):
    """Both kinds of policy on the host; the probe serves one group a step and pays 1 or 0.8 for it."""
    trace = trace_agent(agent, env=lambda: ProbeEnv(horizon=8), seed=1)
    assert (trace.world, trace.states, trace.steps, trace.ended) == (None, None, 8, True)
    np.testing.assert_allclose(trace.reward, np.where(trace.actions == 0, 1.0, 0.8))
    np.testing.assert_array_equal(trace.supply[:, 0], np.eye(2)[trace.actions])
    np.testing.assert_array_equal(trace.demand, np.ones((8, 1, 2)))


def test_copies_of_ones_own_environment_are_seeded_alike():
    """Patients arrive by the environment's generator: red if the seed does not reach it."""
    always = [trace_foreign(ForeignPolicy(lambda o, g=g: g), env=clinic, seed=9) for g in (0, 2)]
    np.testing.assert_array_equal(always[0].demand, always[1].demand)
    assert always[0].supply[:, 0, 1:].sum() == always[1].supply[:, 0, :2].sum() == 0
    other = trace_foreign(ForeignPolicy(lambda o: 0), env=clinic, seed=10)
    assert (other.demand != always[0].demand).any()
    assert always[0].groups == ("0", "1", "2")


def test_refusals_say_what_is_needed(agent):
    with pytest.raises(InvalidInputError, match="Give env="):
        trace_foreign(ForeignPolicy(lambda o: 0))
    with pytest.raises(InvalidInputError, match="longest is 0"):
        trace_agent(agent, longest=0)
    with pytest.raises(InvalidInputError, match="numbers observed"):
        trace_agent(agent, env="lending")


@pytest.mark.slow
def test_a_trained_agent_of_a_named_world_takes_parameters():
    settings: dict[str, Any] = TINY | {"steps": 256}
    trained = elbert.train("lending", progress=None, world={"horizon": 16}, **settings)
    trace = trace_agent(trained, horizon=12)
    assert (trace.env, trace.steps, trace.criteria) == ("lending", 12, ("true positive rate",))
    np.testing.assert_allclose(np.asarray(trace.states.supply)[-1], trace.supply.sum(axis=0))
