"""One contract over every registered environment, as pure functions and through Gymnasium."""

import copy
import itertools
import pickle
import subprocess
import sys

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env as gymnasium_check_env
from gymnasium.vector import AutoresetMode

import elbert
from elbert.envs import ENTRIES, Attention, Credit, Infectious, Lending, WaitingList, World, WorldVectorEnv, make_world
from elbert.envs.waiting_list import FITS
from tests.parameters import slow_after

FIRST = ("lending", "attention-harder", "waiting-list", "infectious-harder")  # choices, numbers, two criteria, people
NAMES = sorted(ENTRIES, key=lambda name: FIRST.index(name) if name in FIRST else len(FIRST))
COURSE = 25
COPIES = 3
"""Everywhere the same lengths and numbers of copies: each world is compiled once for all tests of a process."""
by_name = pytest.mark.parametrize("name", slow_after(3, NAMES))
by_id = pytest.mark.parametrize("identifier", slow_after(3, [ENTRIES[name].id for name in NAMES]))
by_typical_name = pytest.mark.parametrize("name", slow_after(1, NAMES))
by_typical_id = pytest.mark.parametrize("identifier", slow_after(1, [ENTRIES[name].id for name in NAMES]))


def actions_of(world, key, shape=()):
    """Random actions of a world."""
    space = world.action_space
    if isinstance(space, gymnasium.spaces.Discrete):
        return jax.random.randint(key, shape, 0, int(space.n), jnp.int32)
    assert isinstance(space, gymnasium.spaces.Box)
    return jax.random.uniform(key, (*shape, *space.shape), jnp.float32, minval=-3.0, maxval=3.0)


def course(world, key, steps=COURSE):
    """(state, TimeStep) of some steps with random actions, plainly, one after the other."""
    key_reset, key_actions, key_steps = jax.random.split(key, 3)
    state, _ = world.reset(key_reset)
    actions = actions_of(world, key_actions, (steps,))
    for action, key_step in zip(actions, jax.random.split(key_steps, steps), strict=True):
        state, step = world.step(key_step, state, action)
        yield state, step


WITH_MEANS = [name for name in NAMES if ENTRIES[name].world.means is not World.means]


@pytest.mark.parametrize("name", slow_after(2, WITH_MEANS))
def test_means_are_the_means_of_what_happens(name):
    """Over many episodes, what happened and what was to be expected differ by chance alone, step by step and in sum."""
    world, copies, steps = make_world(name), 400, 20

    @jax.jit
    @jax.vmap
    def differences(key):
        key_reset, key_actions, key_steps = jax.random.split(key, 3)

        def step(state, now):
            after, shown = world.step(now[0], state, now[1])
            means = world.means(state, now[1])
            assert means is not None
            parts = [(getattr(shown, part), getattr(means, part)) for part in means._fields]
            return after, jnp.concatenate([jnp.ravel(jnp.stack(both)) for both in parts]).reshape(-1)

        actions = actions_of(world, key_actions, (steps,))
        return jax.lax.scan(step, world.reset(key_reset)[0], (jax.random.split(key_steps, steps), actions))[1]

    rows = differences(jax.random.split(jax.random.key(11), copies))
    count = world.groups * len(world.benefit.criteria)
    happened, expected = [], []
    for begin, size in ((0, 1), (2, count), (2 + 2 * count, count)):
        happened.append(rows[..., begin : begin + size])
        expected.append(rows[..., begin + size : begin + 2 * size])
    apart = np.asarray(jnp.concatenate(happened, -1) - jnp.concatenate(expected, -1)).sum(axis=1)  # of each episode
    error = apart.std(axis=0, ddof=1) / np.sqrt(copies)
    assert np.all(np.abs(apart.mean(axis=0)) <= 4 * error + 1e-4), (apart.mean(axis=0), error)
    assert error.max() > 0, "chance has no part in this world"


def stacked(pairs):
    return jax.tree.map(lambda *leaves: np.stack(leaves), *pairs)


def assert_same(one, other, exact=False):
    """Two trees, leaf by leaf; rounding may differ where the same sums are compiled in two ways."""
    assert jax.tree.structure(one) == jax.tree.structure(other)
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        a, b = np.asarray(a), np.asarray(b)
        assert a.shape == b.shape
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=0 if exact else 1e-5, atol=0 if exact else 1e-6)


def scanned(world, key, steps=COURSE):
    """The same as `course`, as one scan."""
    key_reset, key_actions, key_steps = jax.random.split(key, 3)
    state, _ = world.reset(key_reset)
    actions = actions_of(world, key_actions, (steps,))

    def one_step(state, now):
        state, step = world.step(now[0], state, now[1])
        return state, (state, step)

    return jax.lax.scan(one_step, state, (jax.random.split(key_steps, steps), actions))[1]


@by_typical_name
def test_jit_equals_plain(name):
    world, key = make_world(name), jax.random.key(3)
    compiled = jax.jit(scanned)(world, key)
    plain = stacked(list(itertools.islice(course(world, key), 8)))
    assert_same(plain, jax.tree.map(lambda leaf: np.asarray(leaf)[:8], compiled))


@by_typical_name
def test_vmap_equals_a_loop(name):
    world = make_world(name)
    keys = jax.random.split(jax.random.key(5), 3)
    together = jax.jit(jax.vmap(lambda key: scanned(world, key)))(keys)
    alone = stacked([jax.tree.map(np.asarray, jax.jit(scanned)(world, key)) for key in keys])
    assert_same(alone, jax.tree.map(np.asarray, together))


@by_typical_name
def test_one_can_vmap_over_parameters(name):
    """Two worlds of other horizons, mapped over together, do what each does alone."""
    key = jax.random.key(7)
    short, long = make_world(name, horizon=3), make_world(name, horizon=COURSE)
    both = jax.tree.map(lambda *leaves: jnp.stack(leaves), short, long)
    together = jax.jit(jax.vmap(scanned, in_axes=(0, None)))(both, key)
    alone = stacked([jax.tree.map(np.asarray, jax.jit(scanned)(world, key)) for world in (short, long)])
    assert_same(alone, jax.tree.map(np.asarray, together))
    truncated = np.asarray(together[1].truncated)
    assert truncated[0].tolist() == [False, False] + [True] * (COURSE - 2)
    assert truncated[1].tolist() == [False] * (COURSE - 1) + [True]


@pytest.mark.parametrize(
    ("make", "values"),
    slow_after(
        2,
        [
            pytest.param(lambda value: Lending(shift=value), [0.0, 0.2], id="lending"),
            pytest.param(lambda value: Attention(growth=value, units=2), [0.1, 5.0], id="attention"),
            pytest.param(lambda value: Credit(fall=value, bin_width=50), [0.0, 200.0], id="credit"),
            pytest.param(lambda value: Infectious(infection=value, waning=0.2), [0.1, 0.9], id="infectious"),
            pytest.param(lambda value: WaitingList(organs=value, initial_list=3), [0.0, 500.0], id="waiting-list"),
        ],
    ),
)
def test_worlds_can_be_made_inside_vmap(make, values):
    key = jax.random.key(11)
    together = jax.jit(jax.vmap(lambda value: scanned(make(value), key)))(jnp.asarray(values))
    alone = stacked([jax.tree.map(np.asarray, jax.jit(scanned)(make(value), key)) for value in values])
    assert_same(alone, jax.tree.map(np.asarray, together))


@pytest.mark.parametrize(
    ("name", "parameters"),
    slow_after(
        2,
        [
            *(pytest.param(name, {}, id=name) for name in NAMES),
            *(
                pytest.param(name, {"first_case": None}, id=f"{name}, any first case")
                for name in ("infectious", "infectious-harder")
            ),
        ],
    ),
)
def test_double_precision_changes_nothing(name, parameters):
    """A user who enables 64 bits gets the same course in the same kinds of numbers, and true spaces."""
    usual = jax.tree.map(np.asarray, jax.jit(scanned)(make_world(name, **parameters), jax.random.key(0)))
    with jax.enable_x64(True):
        world = make_world(name, **parameters)
        doubled = jax.tree.map(np.asarray, jax.jit(scanned)(world, jax.random.key(0)))
        assert world.observation_space.contains(doubled[1].observation[-1])
    assert_same(usual, doubled)


@by_typical_name
def test_bound_functions_can_be_jitted(name):
    world = make_world(name)
    state, observation = jax.jit(world.reset)(jax.random.key(0))
    action = actions_of(world, jax.random.key(1))
    _, step = jax.jit(world.step)(jax.random.key(2), state, action)
    _, plain = world.step(jax.random.key(2), state, action)
    assert_same(jax.tree.map(np.asarray, plain), jax.tree.map(np.asarray, step))
    assert observation.shape == world.observation_space.shape
    assert repr(world).startswith(f"{type(world).__name__}(")


@by_typical_name
def test_subclasses_are_worlds_too(name):
    entry = ENTRIES[name]
    kind = type("Mine", (entry.world,), {})
    env = elbert.envs.WorldEnv(kind(**entry.settings))
    twin = gymnasium.make(entry.id)
    assert np.array_equal(env.reset(seed=0)[0], twin.reset(seed=0)[0])
    action = env.action_space.sample()
    assert np.array_equal(env.step(action)[0], twin.step(action)[0])


@by_name
def test_worlds_are_frozen(name):
    world = make_world(name)
    with pytest.raises(AttributeError):
        world.horizon = jnp.asarray(5)
    with pytest.raises(AttributeError, match="make a new"):
        jax.tree.map(lambda leaf: leaf, world).horizon = jnp.asarray(5)
    for leaf in jax.tree.leaves(world):
        with pytest.raises(ValueError, match="read-only"):
            leaf[...] = 0


def test_a_world_keeps_its_own_copy_of_what_it_is_given():
    rates = np.ones(3, np.float32)
    world = Attention(initial_rates=rates)
    rates[:] = 9
    assert np.asarray(world.initial_rates).tolist() == [1, 1, 1]


@pytest.mark.slow
def test_asynchronous_vector_environments_do_not_hang():
    """They fork after a world was made, and JAX must not have started its threads by then."""
    code = (
        "import gymnasium, elbert\n"
        "env = gymnasium.make_vec('elbert/Lending-v0', num_envs=2, vectorization_mode='async')\n"
        "env.reset(seed=0); print(env.step(env.action_space.sample())[4]['supply'].shape); env.close()\n"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "(2, 2)", done.stderr


def keeps_mass_and_cash(world, states, steps):
    assert states.mass.sum(axis=-1) == pytest.approx(1, abs=1e-4)
    assert (states.mass >= 0).all()
    assert np.cumsum(steps.reward) + 10_000 == pytest.approx(states.cash)
    assert (steps.demand.sum(axis=(1, 2)) <= 1).all()


def keeps_people(world, states, steps):
    assert np.isin(states.health, [0, 1, 2]).all()
    assert (steps.observation.reshape(2000, 34, 3).sum(axis=-1) == 1).all()
    assert (steps.supply.sum(axis=(1, 2)) <= 1).all()
    assert 1 - (states.health == 1).mean(axis=1) == pytest.approx(steps.reward)


def keeps_units(world, states, steps):
    units = steps.observation.reshape(2000, 8, 4, 5)[:, -1, 2]
    assert (units.sum(axis=-1) == int(world.units)).all()
    assert (units == np.round(units)).all()
    assert (states.rates >= 0).all()
    assert steps.supply[:, 0] == pytest.approx(np.minimum(units, steps.demand[:, 0]))


def keeps_everybody(world, states, steps):
    assert (states.mass >= 0).all()
    assert (states.mass == np.round(states.mass)).all()
    assert (states.mass.sum(axis=-1) == np.asarray(world.sizes)).all()
    assert np.cumsum(steps.reward) == pytest.approx(states.cash)


def keeps_organs_and_people(world, states, steps):
    assert (states.given[:, FITS == 0] == 0).all()
    assert (states.given.sum(axis=2) <= states.organs).all()
    assert np.array_equal(steps.supply[:, 0], states.given.sum(axis=1))
    left = (states.deaths + states.withdrawals).cumsum(axis=0)
    assert np.array_equal(states.listed, states.transplants + left + states.waiting)
    assert np.array_equal(states.listed, steps.demand[:, 0].cumsum(axis=0))
    assert (states.waiting >= 0).all()
    assert np.array_equal(steps.reward, -states.deaths.sum(axis=1))


LAWS = {
    Lending: keeps_mass_and_cash,
    Credit: keeps_everybody,
    Infectious: keeps_people,
    Attention: keeps_units,
    WaitingList: keeps_organs_and_people,
}
"""What holds in every step of a world, beyond the contract of all worlds."""


@by_name
def test_what_is_kept_is_kept(name):
    """Supply and demand are amounts, spaces are true, no tracer leaks, and the world's own laws hold."""
    world = make_world(name, horizon=10_000)
    with jax.checking_leaks():
        compiled = jax.jit(scanned, static_argnums=2)(world, jax.random.key(1), 2000)
    states, steps = jax.tree.map(np.asarray, compiled)
    space = world.observation_space
    assert all(space.contains(observation) for observation in steps.observation)
    assert steps.supply.shape == steps.demand.shape == (2000, len(world.benefit.criteria), world.groups)
    assert (steps.supply >= 0).all()
    assert (steps.demand >= 0).all()
    if world.benefit.bounded:
        assert (steps.supply <= steps.demand).all()
    LAWS.get(type(world), lambda *_: None)(world, states, steps)


@by_id
@pytest.mark.filterwarnings("ignore:.*we recommend using a symmetric and normalized space")  # logits go from -3 to 3
@pytest.mark.filterwarnings("ignore:.*maximum value is infinity")  # incidents have no upper bound
def test_gymnasium_check_env(identifier):
    gymnasium_check_env(gymnasium.make(identifier).unwrapped, skip_render_check=True)
    gymnasium_check_env(gymnasium.make(identifier, render_mode="rgb_array").unwrapped)


@by_id
def test_our_own_check_env(identifier):
    report = elbert.check_env(gymnasium.make(identifier, horizon=10), steps=60)
    assert report.groups == make_world(identifier).groups
    assert report.episodes == 6
    vector = elbert.check_env(gymnasium.make_vec(identifier, num_envs=COPIES, horizon=10), steps=60)
    assert vector.copies == COPIES
    assert vector.episodes == 15  # of 60 steps every eleventh only resets
    assert vector.steps == COPIES * 55


@by_id
@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_the_vector_environment_does_what_gymnasiums_own_does(identifier, mode):
    """Against SyncVectorEnv over single copies: observations, rewards, flags and infos, over several episodes."""
    ours = gymnasium.make_vec(identifier, num_envs=COPIES, horizon=4, autoreset_mode=mode)
    sync = {"vectorization_mode": "sync", "vector_kwargs": {"autoreset_mode": mode}}
    theirs = gymnasium.make_vec(identifier, num_envs=COPIES, horizon=4, **sync)
    assert isinstance(ours, WorldVectorEnv)
    assert ours.observation_space == theirs.observation_space
    assert ours.action_space == theirs.action_space
    assert ours.metadata["autoreset_mode"] is mode
    ours.action_space.seed(0)
    assert_infos(ours.reset(seed=10), theirs.reset(seed=10))
    for time in range(1, 12):
        actions = ours.action_space.sample()
        mine, other = ours.step(actions), theirs.step(actions)
        assert_infos(mine, other)
        assert ours.observation_space.contains(mine[0])
        if mode is AutoresetMode.DISABLED and time % 4 == 0:
            mask = np.asarray([True, True, False])
            with pytest.raises(elbert.envs.ResetNeededError, match="copy 0 has ended"):
                ours.step(actions)
            assert_infos(ours.reset(options={"reset_mask": mask}), theirs.reset(options={"reset_mask": mask}))
            with pytest.raises(elbert.envs.ResetNeededError, match="copy 2 has ended"):
                ours.step(actions)
            assert_infos(ours.reset(options={"reset_mask": ~mask}), theirs.reset(options={"reset_mask": ~mask}))
    ours.close()
    theirs.close()


def assert_infos(one, other):
    """Results of reset or step: the same keys, shapes, kinds and numbers."""
    assert type(one) is type(other)
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        for key in one:
            assert_infos(one[key], other[key])
    elif isinstance(one, tuple):
        assert len(one) == len(other)
        for a, b in zip(one, other, strict=True):
            assert_infos(a, b)
    elif isinstance(one, np.ndarray) and one.dtype == object:
        for a, b in zip(one, other, strict=True):
            assert_infos(a, b)
    elif one is not None:
        assert one.dtype == other.dtype
        assert one.shape == other.shape
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


@by_id
def test_the_same_seed_gives_the_same_course(identifier):
    def play(env, seed):
        env.action_space.seed(0)
        seen = [env.reset(seed=seed)[0]]
        for _ in range(30):
            observation, reward, _, truncated, info = env.step(env.action_space.sample())
            seen.append(np.concatenate([observation, [reward], info["supply"].ravel(), info["demand"].ravel()]))
            if truncated:
                seen.append(env.reset()[0])
        return np.concatenate(seen)

    env = gymnasium.make(identifier, horizon=10)
    first, other = play(env, 1), play(env, 2)
    assert np.array_equal(first, play(env, 1))
    assert np.array_equal(first, play(gymnasium.make(identifier, horizon=10), 1))
    assert not np.array_equal(first, other)


@by_id
def test_without_a_seed_courses_differ_and_go_on(identifier):
    def start():
        env = gymnasium.make(identifier, horizon=30)
        env.action_space.seed(0)
        env.reset()
        return np.concatenate([env.step(env.action_space.sample())[0] for _ in range(29)])

    assert not np.array_equal(start(), start())
    vector = gymnasium.make_vec(identifier, num_envs=COPIES)
    vector.reset()
    seen = np.stack([vector.step(np.zeros_like(vector.action_space.sample()))[0] for _ in range(15)])
    assert not np.array_equal(seen[:, 0], seen[:, 1])


@by_id
def test_the_horizon_truncates_and_does_not_terminate(identifier):
    env = gymnasium.make(identifier, horizon=5)
    env.reset(seed=0)
    flags = [env.step(env.action_space.sample())[2:4] for _ in range(5)]
    assert flags == [(False, False)] * 4 + [(False, True)]
    with pytest.raises(elbert.envs.ResetNeededError, match="has ended"):
        env.step(env.action_space.sample())
    env.reset()
    env.step(env.action_space.sample())


@by_id
def test_returned_arrays_are_the_callers_own(identifier):
    """They can be written to, and writing changes nothing inside."""
    env = gymnasium.make_vec(identifier, num_envs=COPIES)
    twin = gymnasium.make_vec(identifier, num_envs=COPIES)
    action = np.zeros_like(env.action_space.sample())
    env.reset(seed=0)[0][:] = 9
    twin.reset(seed=0)
    observation, reward, _, _, info = env.step(action)
    expected = twin.step(action)[0]
    assert np.array_equal(observation, expected)
    for array in (observation, reward, info["supply"], info["demand"]):
        array[:] = 7
    assert np.array_equal(env.step(action)[0], twin.step(action)[0])


@by_id
def test_pictures(identifier):
    """Another state gives another picture, the same state the same one."""
    env = gymnasium.make(identifier, render_mode="rgb_array")
    env.reset(seed=0)
    start = env.render()
    assert isinstance(start, np.ndarray)
    assert start.dtype == np.uint8
    assert start.shape == (360, 640, 3)
    assert np.array_equal(start, np.asarray(env.render()))
    env.step(env.action_space.sample())
    assert not np.array_equal(start, np.asarray(env.render()))


@by_typical_id
def test_pictures_of_several_copies(identifier):
    env = gymnasium.make(identifier, render_mode="rgb_array")
    env.reset(seed=0)
    vector = gymnasium.make_vec(identifier, num_envs=COPIES, render_mode="rgb_array")
    vector.reset(seed=0)
    frames = vector.render()
    assert frames is not None
    assert np.array_equal(frames[0], np.asarray(env.render()))
    vector.step(vector.action_space.sample())
    assert len(vector.render() or ()) == COPIES
    assert gymnasium.make_vec(identifier, num_envs=COPIES).render() is None


@by_id
def test_copies_and_pickles_go_on_alike(identifier):
    for env in (gymnasium.make(identifier), gymnasium.make_vec(identifier, num_envs=COPIES)):
        env.reset(seed=0)
        for twin in (copy.deepcopy(env), pickle.loads(pickle.dumps(env))):  # noqa: S301  (our own bytes)
            action = env.action_space.sample()
            assert np.array_equal(copy.deepcopy(env).step(action)[0], twin.step(action)[0])


def test_seeds_of_any_size_and_seeds_one_by_one():
    env = gymnasium.make("elbert/Lending-v0")

    def starts(seed):
        return np.concatenate([env.reset(seed=seed)[0]] + [env.reset()[0] for _ in range(20)])

    assert np.array_equal(starts(2**70 + 1), starts(2**70 + 1))
    assert not np.array_equal(starts(2**70 + 1), starts(1))
    vector = gymnasium.make_vec("elbert/Lending-v0", num_envs=3)
    mixed = vector.reset(seed=[4, 4, 5])[0]  # pyright: ignore[reportArgumentType]
    assert np.array_equal(mixed[0], mixed[1])
    assert np.array_equal(mixed[2], env.reset(seed=5)[0])
    with pytest.raises(elbert.InvalidInputError, match="2 entries for 3 copies"):
        vector.reset(seed=[1, 2])  # pyright: ignore[reportArgumentType]
