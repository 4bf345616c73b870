"""A world is added by one call, and is then known wherever worlds are known by name."""

import json
from typing import Annotated, Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import elbert
from elbert import cli
from elbert.envs import ENTRIES, Entry, TimeStep, World, check_env, get_entry, make_world, register
from elbert.errors import InvalidInputError


class Desk(World):
    """Two groups queue at a desk, which serves one of them a step."""

    arrival: Any
    horizon: Any

    def __init__(
        self,
        arrival: Annotated[float, "probability that a group has somebody waiting"] = 0.5,
        horizon: Annotated[int, "steps of an episode"] = 8,
    ):
        self.arrival, self.horizon = np.float32(arrival), np.int32(horizon)

    @property
    def groups(self) -> Any:
        return 2

    @property
    def benefit(self) -> Any:
        return elbert.fairness.NOTIONS["discovery-probability"]

    @property
    def observation_space(self) -> Any:
        return gymnasium.spaces.Box(0, 1, (2,), np.float32)

    @property
    def action_space(self) -> Any:
        return gymnasium.spaces.Discrete(2)

    def reset(self, key):
        waiting = jax.random.bernoulli(key, self.arrival, (2,)).astype(jnp.float32)
        return (waiting, jnp.zeros((), jnp.int32)), waiting

    def step(self, key, state, action):
        waiting, time = state
        served = waiting * jax.nn.one_hot(action, 2)
        (after, _), observation = self.reset(key)
        end, never = self.is_truncated(time + 1), jnp.zeros((), bool)
        return (after, time + 1), TimeStep(observation, served.sum(), served[None], waiting[None], never, end)


def drawn(world, state, action=None):
    return np.full((2, 3, 3), 7, np.uint8)


DESK = Entry(
    "desk",
    "mine/Desk-v0",
    Desk,
    settings={"arrival": 0.75},
    summary="A desk serves one of two groups.",
    draw=drawn,
    training={"settings": {"steps": 4096}, "elbert-po": {"alpha": 50.0}},
    evaluation={"episodes": 10, "horizon": 8},
)


@pytest.fixture
def clean():
    """What a test registers is gone after it."""
    before: list[tuple[dict[str, Any], Any]] = [(known, dict(known)) for known in (ENTRIES, gymnasium.registry)]
    yield
    for known, entries in before:
        known.clear()
        known.update(entries)


@pytest.mark.usefixtures("clean")
def test_one_call_adds_a_world_everywhere(capsys):
    assert elbert.register(DESK) is DESK
    assert float(make_world("desk").arrival) == 0.75  # pyright: ignore[reportAttributeAccessIssue]
    assert float(make_world("mine/Desk-v0", arrival=0.1).arrival) == np.float32(0.1)  # pyright: ignore[reportAttributeAccessIssue]
    assert check_env("desk", steps=40).episodes == 5
    env = gymnasium.make("mine/Desk-v0", horizon=3, render_mode="rgb_array")
    env.reset(seed=0)
    assert np.array_equal(np.asarray(env.render()), drawn(None, None))
    vector = gymnasium.make_vec("mine/Desk-v0", num_envs=4)
    assert check_env(vector, steps=20).copies == 4
    assert isinstance(vector, elbert.envs.WorldVectorEnv)
    cli.envs()
    assert "mine/Desk-v0" in capsys.readouterr().out
    cli.envs("desk")
    shown = capsys.readouterr().out
    assert "probability that a group has somebody waiting" in shown
    assert "0.75" in shown
    cli.envs("desk", as_json=True)
    assert json.loads(capsys.readouterr().out)["summary"] == "A desk serves one of two groups."


@pytest.mark.usefixtures("clean")
def test_the_same_entry_may_come_again_and_another_may_not():
    register(DESK)
    register(Entry(**vars(DESK)))
    again = type("Desk", (Desk,), {"__module__": Desk.__module__, "__qualname__": Desk.__qualname__})
    register(Entry("desk", "mine/Desk-v0", again))  # a notebook's cell, run twice
    assert get_entry("desk").world is again
    with pytest.raises(InvalidInputError, match="The name 'desk' stands for Desk"):
        register(Entry("desk", "mine/Other-v0", elbert.envs.Lending))
    with pytest.raises(InvalidInputError, match="The name 'lending' stands for Lending"):
        register(Entry("lending", "mine/Lending-v0", Desk))
    for identifier in ("elbert/Lending-v0", "CartPole-v1"):
        with pytest.raises(InvalidInputError, match="is taken"):
            register(Entry("mine", identifier, Desk))
    assert "mine" not in ENTRIES


class Needy(Desk):
    def __init__(self, rate):
        super().__init__(rate)


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (Entry("my desk", "mine/Desk-v0", Desk), "The name is 'my desk'. Give one word"),
        (Entry("desk.py:f", "mine/Desk-v0", Desk), "Give one word"),
        (Entry("desk", "not an id", Desk), "The Gymnasium id is 'not an id'"),
        (Entry("desk", "mine/Desk-v0", gymnasium.Env), "world is .*derived from elbert.envs.World"),  # pyright: ignore[reportArgumentType]
        (Entry("desk", "mine/Desk-v0", Desk, settings={"arival": 1}), "no parameter 'arival'. Did you mean 'arrival'"),
        (Entry("needy", "mine/Needy-v0", Needy), "Needy needs the parameter 'rate'"),
        ("desk", "This is str. Give an elbert.envs.Entry"),
    ],
)
def test_entries_that_could_never_be_made_are_refused(entry, message):
    before = dict(ENTRIES)
    with pytest.raises(InvalidInputError, match=message):
        register(entry)
    assert before == ENTRIES


@pytest.mark.usefixtures("clean")
def test_a_world_without_annotations_or_pictures():
    register(Entry("needy", "mine/Needy-v0", Needy, settings={"rate": 0.5}))
    (parameter,) = get_entry("needy").parameters()
    assert parameter == ("rate", 0.5, "")
    assert elbert.envs.describe(get_entry("needy"))["horizon"] == 8
    with pytest.raises(InvalidInputError, match="there is no draw="):
        gymnasium.make("mine/Needy-v0", render_mode="rgb_array")
