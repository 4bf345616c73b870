"""Policies that score parts with shared weights: laws of symmetry, whole trainings, and what does not fit."""
# pyright: reportArgumentType=false, reportCallIssue=false, reportAttributeAccessIssue=false, reportOptionalIterable=false

import dataclasses
import pickle
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import elbert
from elbert.envs import Attention, Infectious, Parts, make_world
from elbert.errors import ElbertError, InvalidInputError
from elbert.files import FileError, read_tensors, write_tensors
from elbert.learning import Settings, Trainer, neighbours, networks, part_networks
from elbert.learning.distributions import distribution_for
from elbert.learning.networks import Model, Moments, Scale, Shape
from elbert.learning.part_actions import part_actions
from elbert.learning.simulators import CompiledSimulator
from elbert.learning.subsets import Subset
from elbert.learning.traces import trace_agent
from tests.envs.own import Clinic
from tests.learning.tiny import Probe, configured, trainer_of
from tests.parameters import slow_after

TINY: dict[str, Any] = {"copies": 4, "rollout": 20, "minibatch": 40, "epochs": 2, "hidden": [6], "alpha": 1.0}
TINY |= {"steps": 4 * 20 * 3, "policy": "parts", "progress": None}
SMALL = {"copies": 16, "rollout": 32, "minibatch": 128, "hidden": [8], "epochs": 5, "steps": 16 * 32 * 40}
RATES = np.asarray([8.0, 6.0, 4.0, 3.0])
DOSES = {"doses": 3}


def model_of(world, **settings):
    settings = Settings.of({"policy": "parts", "hidden": [5, 6], **settings})
    return Model(settings, CompiledSimulator(world, "world", world).shape)


def loud(model, key=3):
    """Weights with an actor whose head is as large as its other layers: what it says depends on what it sees."""
    weights = model.init(jax.random.key(key))
    return jax.tree.map(lambda x: x + 0.3 * jax.random.normal(jax.random.key(x.size), x.shape), weights)


def moments_of(size, key=5):
    mean, squares = jax.random.uniform(jax.random.key(key), (2, size))
    return Moments(jnp.float32(10), mean, 10 * squares)


def said(model, weights, moments, observation):
    """Compiled as a whole and anew each time, because tests change constants that are compiled in."""

    @jax.jit
    def both(weights, moments, observation):
        seen = model.normalised(moments, observation[None])
        return model.policy(weights, seen)[0], model.scaled_values(weights, seen)[0]

    return tuple(map(np.asarray, both(weights, moments, observation)))


def moved(moments, order):
    return Moments(moments.seen, moments.mean[order], moments.squares[order])


@pytest.mark.slow
def test_permuting_sites_permutes_what_is_said_of_them():
    order, history = np.asarray([2, 0, 3, 1]), 3
    growth = np.asarray([0.1, 0.2, 0.3, 0.4])
    first = model_of(Attention(initial_rates=RATES, growth=growth, history=history))
    second = model_of(Attention(initial_rates=RATES[order], growth=growth[order], history=history))
    weights, moments = loud(first), moments_of(first.shape.observation)
    critic = weights.critic  # its scales belong to signals: they are permuted with the groups
    signals = np.concatenate([[0], 1 + order, 5 + order])
    permuted = weights._replace(
        critic=dataclasses.replace(critic, gain=critic.gain[signals], shift=critic.shift[signals])
    )
    places = np.arange(first.shape.observation).reshape(-1, 4)[:, order].reshape(-1)
    observation = jax.random.uniform(jax.random.key(1), (first.shape.observation,))
    numbers, values = said(first, weights, moments, observation)
    numbers_moved, values_moved = said(second, permuted, moved(moments, places), observation[places])
    assert np.ptp(numbers[:4]) > 0.05, "the sites must be told apart"
    assert np.allclose(numbers_moved[:4], numbers[order], atol=1e-5)
    assert np.allclose(values_moved, values[signals], atol=1e-5)


@pytest.mark.parametrize("doses", [1, 3])
@pytest.mark.parametrize("dense", slow_after(1, [256, 0]))
def test_permuting_people_permutes_their_probabilities(doses, dense, monkeypatch):
    monkeypatch.setattr(neighbours, "DENSE_PARTS", dense)
    rng = np.random.default_rng(0)
    order, group = rng.permutation(12), np.arange(12) % 3
    place = np.argsort(order)  # person order[i] is now number i
    pairs = np.asarray([(i, j) for i in range(12) for j in range(i) if rng.random() < 0.3])
    first = model_of(Infectious(graph=pairs, groups=group, doses=doses))
    second = model_of(Infectious(graph=place[pairs], groups=group[order], doses=doses))
    weights, moments = loud(first), moments_of(36)
    health = rng.integers(0, 3, 12)
    observed, after = (np.eye(3, dtype=np.float32)[x].reshape(-1) for x in (health, health[order]))
    places = (3 * order[:, None] + np.arange(3)[None]).reshape(-1)
    numbers, values = said(first, weights, moments, jnp.asarray(observed))
    numbers_moved, values_moved = said(second, weights, moved(moments, places), jnp.asarray(after))
    assert np.ptp(numbers[:12]) > 0.05
    assert np.allclose(numbers_moved, numbers[[*order, 12]], atol=1e-5)
    assert np.allclose(values_moved, values, atol=1e-5), "groups stay the same"
    assert isinstance(first.distribution, Subset) == (doses > 1)


def test_matrix_products_and_sums_over_edges_agree(monkeypatch):
    parts = Infectious().parts
    x = jax.random.normal(jax.random.key(0), (34, 5))
    dense = neighbours.neighbour_mean(parts, x), part_networks.group_mean(parts.group, 2, x)
    monkeypatch.setattr(neighbours, "DENSE_PARTS", 0)
    monkeypatch.setattr(part_networks, "DENSE_SHARES", 0)
    sparse = neighbours.neighbour_mean(parts, x), part_networks.group_mean(parts.group, 2, x)
    for one, other in zip(dense, sparse, strict=True):
        assert np.allclose(one, other, atol=1e-5)
    friends = [j for pair in parts.edges for i, j in (pair, pair[::-1]) if i == 3]
    assert np.allclose(dense[0][3], np.asarray(x)[friends].mean(axis=0), atol=1e-5)
    assert np.allclose(dense[1][1], np.asarray(x)[parts.group == 1].mean(axis=0), atol=1e-5)


def test_sums_of_gathered_rows_have_the_slopes_of_sums_over_edges(monkeypatch):
    rng = np.random.default_rng(0)
    pairs = np.asarray([(i, j) for i in range(40) for j in range(i) if rng.random() < 0.2 and i > 1] + [(39, 38)])
    star = np.stack([np.zeros(39, int), np.arange(1, 40)], axis=1)  # person 0 has more neighbours than are gathered
    parts = Parts(np.arange(42).reshape(-1, 1), edges=np.concatenate([pairs, star]))  # persons 40 and 41 have none
    x, weight = jax.random.normal(jax.random.key(0), (2, 3, 42, 5))
    monkeypatch.setattr(neighbours, "MOST", 20)
    neighbours.gathered.cache_clear()

    def by_edges(x):
        of_whom, neighbour, _ = parts.neighbours
        return jax.ops.segment_sum(x[neighbour], of_whom, parts.count)

    def gathered(x):
        return neighbours.neighbour_sum(parts, x)

    found = neighbours.gathered(parts)
    neighbours.gathered.cache_clear()
    assert len(found.tables) > 2
    assert found.many.size >= 39
    both: list[Any] = [jax.vmap(f)(x) for f in (gathered, by_edges)]

    def slope(f):
        return jax.jit(jax.grad(lambda x: jnp.sum(weight * jnp.square(jax.vmap(f)(x)))))(x)

    assert np.allclose(*both, atol=1e-5)
    assert np.allclose(slope(gathered), slope(by_edges), atol=1e-4)
    assert not both[0][:, 40:].any()


@pytest.mark.slow
def test_many_parts_in_several_goes_are_the_same(monkeypatch):
    model = model_of(Infectious(doses=2))
    weights, seen = loud(model), jax.random.uniform(jax.random.key(1), (7, 102))

    def slopes():
        def loss(weights):
            return jnp.sum(model.policy(weights, seen) ** 2) + jnp.sum(model.scaled_values(weights, seen) ** 2)

        return jax.tree.leaves(jax.jit(jax.grad(loss))(weights))

    at_once = slopes()
    monkeypatch.setattr(networks, "PARTS_AT_ONCE", 100)
    monkeypatch.setattr(networks, "PARTS_TOGETHER", 100)
    for one, other in zip(at_once, slopes(), strict=True):
        assert np.allclose(one, other, rtol=1e-4, atol=1e-4)


def test_values_stay_the_same_when_their_scale_moves():
    model = model_of(Attention(initial_rates=RATES))
    weights, seen = loud(model), jax.random.uniform(jax.random.key(1), (1, 2, model.shape.observation))
    old, new = Scale(jnp.arange(9.0), jnp.full(9, 2.0)), Scale(jnp.full(9, -1.0), jnp.arange(1.0, 10.0))
    values = jax.jit(model.values)
    before, after = (values(w, scale, seen) for w, scale in ((weights, old), (model.rescaled(weights, old, new), new)))
    assert np.allclose(before, after, atol=1e-3)


def test_numbers_of_parts_share_their_moments():
    places = np.asarray([[0, 1], [2, 3]])
    rows = np.random.default_rng(0).normal(size=(50, 5)).astype(np.float32) * [1, 2, 3, 4, 5]
    pooled = Moments.unseen(5).moved(jnp.asarray(rows, jnp.float32)).pooled(places)
    column = rows[:, [0, 2]].reshape(-1)
    assert np.allclose(pooled.mean[jnp.asarray([0, 2])], column.mean(), atol=1e-5)
    assert np.allclose(1 / pooled.factors()[jnp.asarray([0, 2])], column.std(), atol=1e-4)
    assert float(pooled.mean[4]) == pytest.approx(rows[:, 4].mean(), abs=1e-5), "what belongs to no part stays"


@pytest.mark.slow
def test_one_network_for_everything_does_not_know_of_parts():
    """Two networks of the same sizes share one compiled program, whatever their worlds say of parts."""
    shapes = [CompiledSimulator(w, "w", w).shape for w in (Attention(growth=0.1), Attention(growth=0.2))]
    assert shapes[0].parts != shapes[1].parts
    one, other = (Model(Settings(), shape) for shape in shapes)
    assert one == other
    assert one.parts is None
    by_parts = [Model(Settings.of({"policy": "parts"}), shape) for shape in shapes]
    assert by_parts[0] != by_parts[1]
    assert trainer_of(Attention(), copies=2).learner.shape.parts is None


@pytest.fixture(scope="module")
def agent():
    """One that has not learned anything yet."""
    simulator = CompiledSimulator(make_world("infectious", **DOSES), "infectious", "infectious", DOSES)
    settings, method = configured(**{name: value for name, value in TINY.items() if name != "progress"})
    return Trainer(simulator, settings, method).agents()[0]


@pytest.mark.slow
def test_several_doses_are_learned_by_parts_under_a_limit():
    settings = {name: value for name, value in TINY.items() if name != "alpha"}
    trained = elbert.train("infectious", world=DOSES, max_bias=0.5, **settings)
    assert trained.shape.parts == Infectious().parts
    limit = trained.evaluate(8).limit
    assert limit is not None
    assert limit.max_bias == 0.5


@pytest.mark.slow
def test_an_agent_is_saved_and_loaded_with_its_parts(agent, tmp_path):
    path = agent.save(tmp_path / "agent")
    again = elbert.load(path)
    assert again.shape == agent.shape
    assert again.shape.parts == Infectious().parts
    assert again.model == agent.model
    assert again.checksum() == agent.checksum()
    seen = np.eye(3, dtype=np.float32)[np.arange(34) % 3].reshape(-1)
    for one in (again, pickle.loads(pickle.dumps(agent))):  # noqa: S301 - it was dumped just now
        agent.seed(3)
        one.seed(3)
        assert np.array_equal(one.predict([seen] * 20), agent.predict([seen] * 20))
        assert np.array_equal(one.action_probabilities(seen), agent.action_probabilities(seen))
    assert agent.predict(seen).shape == (3,)
    assert agent.action_probabilities(seen).shape == (35,)
    assert agent.evaluate(8) == again.evaluate(8)


def test_a_file_with_other_parts_is_noticed(agent, tmp_path):
    arrays, content = read_tensors(agent.save(tmp_path / "agent"))
    other = dataclasses.replace(agent, shape=dataclasses.replace(agent.shape, parts=Infectious(waning=0.1).parts))
    assert other.checksum() == agent.checksum(), "what parts are does not depend on the disease"
    edges = arrays["parts/edges"].copy()
    edges[0] = 99
    write_tensors(tmp_path / "broken.safetensors", arrays | {"parts/edges": edges}, content)
    with pytest.raises(FileError, match="edges names part 99, but parts are numbered 0 to 33"):
        elbert.load(tmp_path / "broken.safetensors")


def crowd(people, communities=2, **chosen):
    """A ring in which everybody knows the next two, with communities of half each."""
    edges = [[i, (i + k) % people] for i in range(people) for k in (1, 2)]
    chosen = {"first_case": None, "first_cases": max(people // 20, 1), "doses": 3, **chosen}
    return Infectious(graph=edges, groups=np.arange(people) * communities // people, **chosen)


@pytest.mark.slow
def test_it_acts_among_more_people_and_gives_more_doses(agent):
    """What it says of a person is what networks of that size say with the same weights and moments."""
    assert agent.evaluate(4, infection=0.9).worst.bias is not None
    assert agent.evaluate(4, doses=2).episodes == 4
    large = crowd(60, doses=5)
    simulator = CompiledSimulator(large, "crowd", large)
    fitted = agent.fitted(simulator)
    assert fitted.shape.parts == large.parts
    assert fitted.predict(np.zeros(180)).shape == (5,)
    assert agent.evaluate(4, env=large).worst.bias is not None
    assert trace_agent(agent, env=large).actions.shape == (20, 5)
    assert agent.evaluate(4, env=crowd(40, doses=1)).episodes == 4, "one choice among people instead of several"
    same = crowd(34, doses=3)
    assert agent.fitted(CompiledSimulator(same, "same", same)).shape.parts == same.parts, "those of where it acts"


def test_a_training_starts_from_the_weights_of_an_agent_of_other_parts(agent):
    large, hidden = crowd(60, doses=5), list(agent.settings.hidden)
    how = {"policy": "parts", "hidden": hidden, "copies": 2, "rollout": 20, "minibatch": 40, "epochs": 1, "steps": 40}
    how |= {"method": "g-ppo", "progress": None}
    still = elbert.train(large, start=agent, learning_rate=1e-12, **how)
    seen = np.eye(3, dtype=np.float32)[np.arange(60) % 3].reshape(-1)
    fitted = agent.fitted(CompiledSimulator(large, "crowd", large))
    assert np.allclose(still.action_probabilities(seen), fitted.action_probabilities(seen), atol=1e-5)
    fresh = elbert.train(large, seed=1, learning_rate=1e-12, **how)
    assert not np.allclose(still.action_probabilities(seen), fresh.action_probabilities(seen), atol=1e-5)
    with pytest.raises(InvalidInputError, match=r"its networks are others \(hidden\)"):
        elbert.train(large, start=agent, **how | {"hidden": [9, 9, 9]})
    wrong: Any = "runs/agent"
    with pytest.raises(InvalidInputError, match=r"start is 'runs/agent'\. Give an agent, as elbert\.train"):
        elbert.train(large, start=wrong, **how)


@pytest.mark.slow
def test_a_critic_of_other_groups_is_not_taken_over():
    """In attention every site is a group."""
    how = {"policy": "parts", "hidden": [4], "copies": 2, "rollout": 8, "minibatch": 8, "epochs": 1, "steps": 16}
    how |= {"max_bias": 0.5, "progress": None, "learning_rate": 1e-12}
    few = elbert.train(Attention(initial_rates=[3.0, 2.0, 1.0], horizon=8), **how)
    many = elbert.train(Attention(initial_rates=[3.0, 2.0, 1.0, 1.0], horizon=8), start=few, seed=1, **how)
    assert np.allclose(many.weights.actor.head.weight, few.weights.actor.head.weight, atol=1e-9)
    assert many.weights.critic.gain.shape == (9,)


def test_moments_move_to_other_parts():
    """Numbers of parts have what all old parts had together; those of no part keep their own."""
    old, new = Parts([[1, 3], [2, 4]]), Parts([[0, 3], [1, 4], [2, 5]])
    moments = Moments(jnp.float32(4), jnp.asarray([9.0, 1.0, 3.0, 5.0, 5.0]), jnp.asarray([8.0, 4.0, 8.0, 2.0, 2.0]))
    moved = moments.for_parts(old, new, 7)
    assert moved.mean.tolist() == [2.0, 2.0, 2.0, 5.0, 5.0, 5.0, 9.0]
    assert moved.squares.tolist() == [10.0, 10.0, 10.0, 2.0, 2.0, 2.0, 8.0], "(4 + 8) / 2 and 4 (1 + 1) / 2"
    pooled = moments.pooled(old.observed)
    assert np.array_equal(moments.for_parts(old, old, 5).factors(), pooled.factors())


@pytest.mark.parametrize(
    ("env", "says"),
    [
        (lambda: crowd(34, communities=3), "numbers known of each part"),
        (lambda: make_world("attention"), "numbers observed of each part"),
    ],
)
def test_it_acts_in_no_world_of_other_parts(agent, env, says):
    with pytest.raises(InvalidInputError, match=f"are not like those that it was trained with:.*{says}"):
        agent.evaluate(4, env=env())


def test_an_onnx_model_is_refused(agent, tmp_path):
    with pytest.raises(ElbertError, match="no ONNX model yet"):
        agent.to_onnx(tmp_path / "policy")


@pytest.mark.slow
def test_resumed_to_the_same_bits():
    world = Attention(initial_rates=RATES, horizon=20, history=2)
    settings = {name: value for name, value in TINY.items() if name != "progress"}
    whole, half = trainer_of(world, **settings), trainer_of(world, **settings)
    list(whole)
    half.step()
    again = trainer_of(world, **settings)
    again.restore(half.stored(), 1, 0.0)
    list(again)
    for one, other in zip(jax.tree.leaves(whole.state.weights), jax.tree.leaves(again.state.weights), strict=True):
        assert np.array_equal(one, other)


class Wards(Clinic):
    """A clinic that says which number belongs to which group of patients, and shows the time to all."""

    observation_space = gymnasium.spaces.Box(0, np.inf, (4,), np.float32)
    parts: Any = Parts([[1], [2], [3]], features=[[0.0], [1.0], [2.0]], group=[0, 1, 2])

    def step(self, action) -> Any:
        seen, reward, terminated, truncated, info = super().step(action)
        return seen, reward, terminated, truncated, {"supply": info["served"], "demand": info["arrived"]}

    def _seen(self) -> Any:
        return np.asarray([self.time, *self.waiting], np.float32)


@pytest.mark.slow
@pytest.mark.parametrize("group", [[0, 1, 2], None])
def test_an_environment_of_the_users_own_with_parts_is_learned(group, tmp_path):
    def make():
        env = gymnasium.wrappers.TimeLimit(Wards(), 5)
        env.parts = Parts(Wards.parts.observed, group=group)
        return env

    trained = elbert.train(make, **TINY)
    assert trained.shape.parts == Parts([[1], [2], [3]], group=group), "that of the outermost wrapper"
    assert trained.evaluate(4, env=make).worst.bias is not None
    assert trained.action_probabilities([2.0, 1.0, 3.0, 3.0]).shape == (3,)
    assert trained.values([2.0, 1.0, 3.0, 3.0]).supply.shape == (1, 3)


def with_parts(parts):
    def make():
        env = Wards()
        env.parts = parts
        return env

    return make


@pytest.mark.parametrize(
    ("env", "settings", "says"),
    [
        ("lending", {}, 'policy is "parts", but the environment declares none. Give it the attribute `parts`'),
        (with_parts(["a", "b", "c"]), {}, "the environment declares none"),
        (with_parts(Parts([[1], [2], [9]])), {}, "name place 9 of the observation, which has 4 numbers"),
        (with_parts(Parts([[0], [1], [2], [3]])), {}, r"1 choices among 3 does not fit 4 parts"),
        (with_parts(Parts([[1], [2], [3]], group=[0, 1, 1])), {}, "belong to the groups 0, 1, but .* have 3 groups"),
        (with_parts(Parts([[1], [2], [3]], chosen=False)), {}, "does not fit 3 parts"),
        ("attention", {"critic": "separate"}, 'critic is "separate", but policy = "parts" shares weights'),
        ("attention", {"hidden": []}, "hidden is empty"),
    ],
)
def test_what_does_not_fit_is_refused_with_what_to_do(env, settings, says):
    with pytest.raises(InvalidInputError, match=says):
        elbert.train(env, **(TINY | settings))


@pytest.mark.slow
def test_one_network_learns_where_parts_do_not_fit():
    trained = elbert.train(with_parts(Parts([[1], [2], [9]])), **(TINY | {"policy": "mlp"}))
    assert trained.shape.parts is None


SPACES = gymnasium.spaces


@pytest.mark.parametrize(
    ("space", "chosen", "expected"),
    [
        (SPACES.Box(-1, 1, (3,), np.float32), None, (1, 0)),
        (SPACES.Box(-1, 1, (3, 2), np.float32), None, (2, 0)),
        (SPACES.Box(-1, 1, (2, 3), np.float32), None, None),
        (SPACES.MultiDiscrete([5, 5, 5]), None, (5, 0)),
        (SPACES.MultiDiscrete([5, 5, 4]), None, None),
        (SPACES.MultiBinary(3), None, (2, 0)),
        (SPACES.Discrete(3), None, (1, 0)),
        (SPACES.Discrete(4), None, (1, 1)),
        (SPACES.Discrete(5), None, None),
        (SPACES.MultiDiscrete([4, 4]), None, (1, 1)),
        (SPACES.MultiDiscrete([3, 3]), None, (1, 0)),
        (SPACES.MultiDiscrete([3, 3, 3, 3]), None, None),  # four different parts out of three
        (SPACES.MultiDiscrete([4, 4, 4]), True, (1, 1)),
        (SPACES.MultiDiscrete([4, 4, 4]), False, (4, 0)),
    ],
)
def test_how_parts_make_up_actions(space, chosen, expected):
    parts = Parts([[0], [1], [2]], chosen=chosen)
    fitted = part_actions(parts, distribution_for(space))
    assert (None if fitted is None else fitted[1:]) == expected
    if fitted is None:
        return
    assert part_actions(parts, fitted.distribution) == fitted, "fitting twice changes nothing"
    model = Model(Settings.of({"policy": "parts"}), Shape(3, distribution_for(space), ("rate",), 2, parts))
    d = model.distribution

    @jax.jit
    def drawn(weights, key):
        numbers = model.policy(weights, jnp.ones((2, 3)))
        action = d.sample(numbers, d.noise(key, (2,)))
        return action, d.log_prob(numbers, action)

    action, log_prob = drawn(model.init(jax.random.key(0)), jax.random.key(1))
    assert log_prob.shape == (2,)
    assert all(space.contains(np.asarray(one, space.dtype)) for one in np.asarray(d.to_env(action)))


def test_what_could_be_meant_in_two_ways_is_asked():
    with pytest.raises(InvalidInputError, match="could name some of the 3 parts, or hold a choice for each"):
        part_actions(Parts([[0], [1], [2]]), distribution_for(SPACES.MultiDiscrete([4, 4, 4])))
    assert isinstance(model_of(Infectious(doses=34)).distribution, Subset), "a world says what it means"


class Shared(Probe):
    """The probe with a part for each group; which is which shows in a feature alone."""

    @property
    def parts(self) -> Any:
        return Parts([[0], [1]], features=[[0.0], [1.0]], group=[0, 1])


@pytest.mark.slow
def test_the_probe_is_learned_by_parts():
    settings = TINY | SMALL | {"alpha": 1600.0, "learning_rate": 5e-3}
    settings.pop("progress")
    last = [iteration.metrics for iteration in trainer_of(Shared(), seeds=(0, 1), **settings)][-1]
    assert np.all(last.bias < 0.05)
    assert np.all(np.abs(last.reward - 0.9) < 0.02)
