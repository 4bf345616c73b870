"""Parameters have effects, and those that make no sense are refused in words, before anything runs."""

import json
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import networkx
import numpy as np
import pytest

import elbert
from elbert.envs import Attention, Infectious, Lending, WorldEnv, get_entry, karate_club, make_world
from elbert.envs.graphs import as_network
from elbert.errors import InvalidInputError
from elbert.fairness import Criterion, Notion

KEY = jax.random.key(0)
worlds: Any = elbert.envs  # a type checker would refuse much of what follows before it runs


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: make_world("lending", horizn=3), r"lending has no parameter 'horizn'. Did you mean 'horizon'\?"),
        (lambda: make_world("lendin"), r"No environment is called 'lendin'. Did you mean 'lending'\?"),
        (lambda: gymnasium.make("elbert/Lending-v0", unit=3), "lending has no parameter 'unit'"),
        (lambda: gymnasium.make_vec("elbert/Attention-v0", num_envs=2, unit=3), "attention has no parameter 'unit'"),
        (lambda: gymnasium.make("elbert/Lending-v0", render_mode="human"), "'rgb_array', or None"),
        (lambda: gymnasium.make_vec("elbert/Lending-v0", num_envs=0), "num_envs is 0"),
        (
            lambda: gymnasium.make_vec("elbert/Lending-v0", num_envs=1, autoreset_mode="now"),
            "No autoreset mode is called 'now'",
        ),
        (lambda: WorldEnv(Lending(), render_mode="rgb_array"), "no draw="),
        (lambda: worlds.Lending(horizon=0), "horizon is 0. Give a whole number of steps, from 1 to"),
        (lambda: worlds.Lending(horizon=2.5), "horizon is 2.5"),
        (lambda: worlds.Lending(horizon=True), "horizon is True"),
        (lambda: worlds.Lending(horizon="many"), "horizon is 'many'"),
        (lambda: worlds.Lending(horizon=[3]), r"horizon is \[3\]"),
        (lambda: worlds.Lending(horizon=None), "horizon is None"),
        (lambda: worlds.Lending(horizon="5"), "horizon is '5'"),
        (lambda: worlds.Lending(horizon=np.True_), "Give "),
        (lambda: worlds.Lending(horizon=2**31), "from 1 to 2147483647"),
        (lambda: worlds.Lending(observe_rates="False"), "observe_rates is 'False'. Give True or False"),
        (lambda: worlds.Lending(interest=1e300), r"interest is 1e\+300. Give"),
        (lambda: worlds.Lending(initial_cash=0.5), "initial_cash is 0.5 and a loan 1"),
        (lambda: worlds.Lending(initial_cash=1e12), "cash for 1 to 16777216 loans"),
        (lambda: worlds.Lending(loan=0), "a loan 0"),
        (lambda: worlds.Lending(shift=1.5), "shift is 1.5. Give a share, from 0 to 1"),
        (lambda: worlds.Lending(shift=float("nan")), "shift is nan"),
        (lambda: worlds.Lending(shift=[0.1]), r"shift is \[0.1\]. Give a share"),
        (lambda: worlds.Lending(interest=-1), "interest is -1"),
        (lambda: worlds.Lending(initial_scores=((0.5, 0.5), (0.5, 0.4))), "initial_scores row 1 sums to 0.9, not to 1"),
        (lambda: worlds.Lending(initial_scores=(0.5, 0.5)), r"initial_scores has shape \(2,\)"),
        (lambda: worlds.Lending(initial_scores=((0.5, 0.5), (1.0,))), "Give "),
        (lambda: worlds.Lending(initial_scores=((1.2, -0.2), (0.5, 0.5))), r"initial_scores is 1.2 at index \(0, 0\)"),
        (lambda: worlds.Lending(group_shares=(0.5, 0.3, 0.2)), "group_shares is for 3 groups, initial_scores for 2"),
        (lambda: worlds.Lending(group_shares=(0.5, 0.3)), "group_shares sums to 0.8"),
        (lambda: worlds.Lending(repayment=(0.1, 0.2)), "one probability from 0 to 1 per score, 7 here"),
        (lambda: worlds.Lending(repayment=(0.1, 0.2, 0.45, 0.6, 0.65, 0.7, 1.7)), r"repayment is 1.7 at index \(6,\)"),
        (lambda: worlds.Lending(notion="equal-oportunity"), "Did you mean 'equal-opportunity'"),
        (lambda: worlds.Lending(labels="some"), "No way to see labels is called 'some'.*Known: all, selective"),
        (lambda: worlds.Credit(groups=["White", "blak"]), "No group is called 'blak'. Did you mean 'Black'"),
        (lambda: worlds.Credit(groups=["White", "White"]), "each once"),
        (lambda: worlds.Credit(groups=[]), r"groups is \[\]. Give at least one of White"),
        (lambda: worlds.Credit(groups=7), "groups is 7. Give names of groups"),
        (lambda: worlds.Credit(group_shares=[0.5, 0.5]), "for each of the 4 groups"),
        (lambda: worlds.Credit(people=0), "people is 0. Give a whole number of people"),
        (lambda: worlds.Credit(loss=-1), "loss is -1"),
        (lambda: worlds.Credit(bin_width=2), "bin_width is 2. Give 0, or points from 5 to 275"),
        (lambda: worlds.Credit(bin_width=500), "bin_width is 500"),
        (lambda: worlds.Infectious(infection=1.5), "infection is 1.5. Give a probability, from 0 to 1"),
        (lambda: worlds.Infectious(waning=-0.1), "waning is -0.1"),
        (
            lambda: worlds.Infectious(supply="real"),
            "No way to count supply is called 'real'. .*Known: published, effective",
        ),
        (lambda: worlds.Infectious(first_case=34), "people are numbered 0 to 33"),
        (lambda: worlds.Infectious(first_case=-1), "first_case is -1"),
        (lambda: worlds.Infectious(first_cases=35), "first_cases is 35. Give a number of people from 1 to 34"),
        (lambda: worlds.Infectious(burn_in=-1), "burn_in is -1"),
        (lambda: worlds.Infectious(doses=0), "doses is 0"),
        (lambda: worlds.Infectious(graph=[(0, 1)]), "has no groups"),
        (lambda: worlds.Infectious(graph=[(0, 1)], groups=[0, 2]), "Number them 0, 1, 2, ... without gaps"),
        (lambda: worlds.Infectious(graph=[(0, 1)], groups=[0, -1]), "The groups in use are -1, 0"),
        (lambda: worlds.Infectious(graph=[(0, 1)], groups=[0, None]), "groups holds None"),
        (lambda: worlds.Infectious(graph=[(0, 1)], groups=[0, "b"]), "groups holds 'b'"),
        (lambda: worlds.Infectious(graph=[(0, 1)], groups=[0, 0.5]), "groups holds 0.5"),
        (lambda: worlds.Infectious(graph=[(0, 1)], groups=[]), "groups holds"),
        (lambda: worlds.Infectious(graph=[(0, 5)], groups=[0, 1]), "people from 0 to 5, but groups has 2 entries"),
        (lambda: worlds.Infectious(graph=[(1, 1)], groups=[0, 1]), "joined to themselves"),
        (lambda: worlds.Infectious(graph=[(0, 1, 2)], groups=[0, 1]), r"shape \(1, 3\)"),
        (lambda: worlds.Infectious(graph=[(0.0, 1.0)], groups=[0, 1]), "pairs of whole numbers"),
        (lambda: worlds.Infectious(graph=7, groups=[0, 1]), "neither a networkx graph nor pairs"),
        (lambda: worlds.Infectious(graph=[(0, 1)], groups="club"), "those of a list of edges never do"),
        (lambda: worlds.Infectious(graph=[(0, 1)], groups=3), "groups is not a list of group numbers"),
        (lambda: worlds.Infectious(graph=[(0, 1)], groups=[0, [1]]), "groups is not a list of group numbers"),
        (
            lambda: worlds.Infectious(graph=[("a", "b")], groups={"a": 0, "b": 1}),
            "no entry for 0; 2 people .* numbered 0, 1, 2",
        ),
        (lambda: worlds.Infectious(graph=networkx.path_graph(3), groups="club"), "The nodes have no attributes"),
        (lambda: worlds.Infectious(graph=networkx.karate_club_graph(), groups="side"), "The nodes have 'club'"),
        (lambda: worlds.Infectious(graph=networkx.karate_club_graph(), groups="club"), "groups holds 'Mr. Hi'"),
        (lambda: worlds.Infectious(graph=networkx.path_graph(3), groups={0: 0, 1: 1}), "1 people have no group"),
        (lambda: worlds.Infectious(graph=networkx.path_graph(3), groups=[0, 1]), "2 entries for 3 people"),
        (lambda: worlds.Infectious(graph=networkx.DiGraph([(0, 1)]), groups=[0, 1]), "The graph is directed"),
        (lambda: worlds.Attention(units=0), "units is 0"),
        (lambda: worlds.Attention(initial_rates=(1, -1)), r"initial_rates is -1 at index \(1,\)"),
        (lambda: worlds.Attention(initial_rates=5.0), r"initial_rates has shape \(\)"),
        (lambda: worlds.Attention(fall=(0.1, 0.2)), "one for each of the 5 sites"),
        (lambda: worlds.Attention(history=0), "history is 0"),
        (lambda: worlds.Attention(units=100_000), "from 1 to 65536"),
        (lambda: worlds.Attention(initial_rates=[1e9]), r"could reach the rate 1e\+09"),
        (lambda: worlds.Attention(growth=2.0, horizon=10**8), r"could reach the rate 2e\+08"),
        (lambda: gymnasium.make_vec("elbert/Lending-v0", num_envs=2, max_episode_steps=9), "Did you mean 'horizon'"),
        (lambda: worlds.Attention(cost_missed="x"), "cost_missed is 'x'"),
        (lambda: worlds.WaitingList(arrivals=(1, 2)), "one for each of O, A, B, AB, 0 or more"),
        (lambda: worlds.WaitingList(deaths=-1), "deaths is -1"),
        (lambda: worlds.WaitingList(donors=(0.5, 0.5)), "donors has 2 entries. Give one share for each of O, A, B, AB"),
        (lambda: worlds.WaitingList(donors=(0.5, 0.5, 0.5, 0.5)), "donors sums to 2"),
        (lambda: worlds.WaitingList(initial_list=1.5), "initial_list is .*Give whole numbers of people"),
        (lambda: worlds.WaitingList(organs=-3), "organs is -3. Give organs per year"),
        (lambda: worlds.WaitingList(demand="persons"), "No demand is called 'persons'. .*Known: people, person-years"),
        (lambda: worlds.WaitingList(arrivals=1e9), r"1e\+10 people or organs would come"),
    ],
)
def test_what_makes_no_sense_is_refused(make, message):
    with pytest.raises(InvalidInputError, match=message):
        make()


@pytest.mark.parametrize(
    ("name", "action", "message"),
    [
        ("lending", 2, r"The action is 2. Give whole numbers of shape \(\), as Discrete\(2\) says"),
        ("lending", -1, "Give whole numbers"),
        ("lending", 0.5, "Give whole numbers"),
        ("lending", [1], r"The action is \[1\]. Give whole numbers of shape \(\)"),
        ("lending", None, "Give whole numbers"),
        ("infectious", 35, "Give whole numbers"),
        ("attention", [0, 0, 0], r"Give finite numbers of shape \(5,\)"),
        ("attention", [0, 0, 0, 0, np.nan], "Give finite numbers"),
        ("attention", ["a"] * 5, "Give finite numbers"),
        ("attention", [[0], 1, 2, 3, 4], "The action is .*Give finite numbers"),
    ],
)
def test_actions_are_checked(name, action, message):
    env = gymnasium.make(get_entry(name).id, disable_env_checker=True)
    env.reset(seed=0)
    with pytest.raises(InvalidInputError, match=message):
        env.step(action)
    vector = gymnasium.make_vec(get_entry(name).id, num_envs=2)
    vector.reset(seed=0)
    with pytest.raises(InvalidInputError):
        vector.step([action, action])
    with pytest.raises(InvalidInputError, match="shape"):
        vector.step(np.zeros(3))


def test_a_refused_action_changes_nothing():
    env, twin = gymnasium.make("elbert/Lending-v0"), gymnasium.make("elbert/Lending-v0")
    env.reset(seed=1)
    twin.reset(seed=1)
    with pytest.raises(InvalidInputError):
        env.step(9)
    assert np.array_equal(env.step(1)[0], twin.step(1)[0])


def test_logits_outside_the_limits_are_clipped():
    world = Attention()
    assert (
        world.allocate(jnp.asarray([100.0, 0, 0, 0, -100])).tolist()
        == world.allocate(jnp.asarray([3.0, 0, 0, 0, -3])).tolist()
    )


def test_huge_numbers_as_actions_are_clipped_too():
    env = gymnasium.make("elbert/Attention-v0", disable_env_checker=True)
    env.reset(seed=0)
    observation = env.step(np.asarray([1e300, 0, 0, 0, 0]))[0]
    assert observation.reshape(8, 4, 5)[-1, 2].tolist() == [5, 1, 0, 0, 0]


@pytest.mark.parametrize("seed", [1.5, [1, "a"], [-1, 2], -1, True, "7"])
def test_vector_seeds_are_checked(seed):
    vector = gymnasium.make_vec("elbert/Lending-v0", num_envs=2)
    with pytest.raises(InvalidInputError, match="The seed is"):
        vector.reset(seed=seed)
    vector.reset(seed=np.int64(3))  # pyright: ignore[reportArgumentType]


def test_doses_and_groups_cost_no_more_than_people():
    """Many doses and many groups, counted against plain Python."""
    rng = np.random.default_rng(3)
    people, doses, groups = 600, 50, 100
    edges = np.stack([np.arange(people - 1), np.arange(1, people)], axis=1)
    member = np.concatenate([np.arange(groups), rng.integers(0, groups, people - groups)])
    world = Infectious(graph=edges, groups=member, doses=doses, infection=1.0, recovery=0.0, burn_in=0)
    state, _ = world.reset(KEY)
    action = rng.integers(0, people + 1, doses)
    _, step = jax.jit(world.step)(KEY, state, jnp.asarray(action))
    given = [float(sum(1 for i in action if i < people and member[i] == g)) for g in range(groups)]
    assert step.supply[0].tolist() == given
    demand = [0.0] * groups
    demand[member[1]] += 0 if 1 in action else 1
    assert step.demand[0].tolist() == demand
    jaxpr = jax.make_jaxpr(world.step)(KEY, state, jnp.asarray(action)).jaxpr
    sizes = [int(np.prod(var.aval.shape)) for equation in jaxpr.eqns for var in equation.outvars]
    assert max(sizes) <= 4 * people


def test_a_long_head_start_compiles_like_a_short_one():
    def size(burn_in):
        world = Infectious(burn_in=burn_in)
        return len(str(jax.make_jaxpr(world.reset)(KEY)))

    assert size(200) < 1.2 * size(2)


def test_stepping_before_a_reset_is_refused():
    for env in (gymnasium.make("elbert/Lending-v0").unwrapped, gymnasium.make_vec("elbert/Lending-v0", num_envs=2)):
        with pytest.raises(gymnasium.error.ResetNeeded, match=r"before reset\(\)"):
            env.step(np.ones(2, int) if isinstance(env, gymnasium.vector.VectorEnv) else 1)
    for env in (
        gymnasium.make("elbert/Lending-v0", render_mode="rgb_array").unwrapped,
        gymnasium.make_vec("elbert/Lending-v0", num_envs=2, render_mode="rgb_array"),
    ):
        with pytest.raises(elbert.ElbertError, match=r"render\(\) was called before reset\(\)"):
            env.render()


def test_reset_options_are_not_ignored():
    env, vector = gymnasium.make("elbert/Lending-v0"), gymnasium.make_vec("elbert/Lending-v0", num_envs=2)
    with pytest.raises(InvalidInputError, match="'horizon'"):
        env.reset(options={"horizon": 3})
    with pytest.raises(InvalidInputError, match="'horizon'"):
        vector.reset(options={"horizon": 3})
    with pytest.raises(gymnasium.error.ResetNeeded, match="first reset"):
        vector.reset(options={"reset_mask": np.asarray([True, False])})
    vector.reset()
    for mask in (np.asarray([True]), np.asarray([1, 0]), np.asarray([False, False])):
        with pytest.raises(InvalidInputError, match="reset_mask"):
            vector.reset(options={"reset_mask": mask})


def test_any_number_of_groups_and_scores():
    world = Lending(
        group_shares=(0.2, 0.3, 0.5),
        initial_scores=np.full((3, 4), 0.25),
        repayment=(0.1, 0.4, 0.6, 0.9),
        notion="equalized-odds",
    )
    assert world.observation_space.shape == (4 + 3 + 2 * 3,)
    env = WorldEnv(world)
    report = elbert.check_env(env, steps=600)
    assert (report.criteria, report.groups) == (2, 3)
    assert report.demand.sum() == 600
    assert report.demand.sum(axis=0) / 600 == pytest.approx([0.2, 0.3, 0.5], abs=0.08)
    _, _, _, _, info = (env.reset(seed=0), env.step(1))[1]
    assert info["supply"].shape == (2, 3)


def test_a_notion_of_ones_own_in_lending():
    harm = Notion("loans-lost", Criterion("default rate", supply=lambda d, q: d * (1 - q), demand=lambda d, q: d))
    world = Lending(notion=harm)
    state, _ = world.reset(KEY)
    state = state._replace(group=jnp.asarray(1), repays=jnp.asarray(False))
    _, step = world.step(KEY, state, jnp.asarray(1))
    assert step.supply.tolist() == step.demand.tolist() == [[0, 1]]


def test_the_published_and_the_written_settings_differ_where_they_should():
    assert float(get_entry("infectious").make().infection) == 0.5  # pyright: ignore[reportAttributeAccessIssue]
    text = Infectious(infection=0.1, first_case=None, burn_in=0)
    health = jax.vmap(lambda key: text.reset(key)[0].health)(jax.random.split(KEY, 50))
    assert (np.asarray(health).sum(axis=1) == 1).all()


def test_a_network_of_ones_own():
    graph = networkx.Graph()
    graph.add_node("ann", side=0)
    graph.add_node("bob", side=1)
    graph.add_node("cyd", side=1)
    graph.add_edge("cyd", "ann", weight=3)
    network = as_network(graph, "side")
    assert network.edges.tolist() == [[0, 2]]
    assert network.group.tolist() == [0, 1, 1]
    by_node = as_network(graph, {"bob": 1, "ann": 0, "cyd": 1})
    by_pairs = as_network(np.asarray([[2, 0], [0, 2]]), [0, 1, 1])
    for other in (by_node, by_pairs):
        assert other.edges.tolist() == network.edges.tolist()
        assert other.group.tolist() == network.group.tolist()


def test_the_karate_club():
    club = karate_club()
    assert club.edges.shape == (78, 2)
    assert np.bincount(club.group).tolist() == [15, 19]
    theirs = sorted(tuple(sorted(edge)) for edge in networkx.karate_club_graph().edges())
    assert [tuple(edge) for edge in club.edges.tolist()] == theirs  # our copy of the data is right
    split = next(networkx.community.girvan_newman(networkx.karate_club_graph()))
    assert sorted(np.flatnonzero(club.group == 0).tolist()) == sorted(min(split, key=len))
    other = Infectious(groups=[0] * 17 + [1] * 17)  # other groups on the same network
    assert np.bincount(np.asarray(other.group)).tolist() == [17, 17]
    assert other.edges().tolist() == club.edges.tolist()


@pytest.mark.slow
def test_few_and_many_people_are_counted_alike(monkeypatch):
    """The matrix and the list of edges give the same neighbours and the same course."""
    rng = np.random.default_rng(0)
    edges = rng.integers(0, 50, (120, 2))
    edges = edges[edges[:, 0] != edges[:, 1]]
    groups = rng.integers(0, 3, 50)
    dense = Infectious(graph=edges, groups=groups, waning=0.2)
    monkeypatch.setattr("elbert.envs.infectious.DENSE_PEOPLE", 0)
    listed = Infectious(graph=edges, groups=groups, waning=0.2)
    assert dense.contacts is None
    assert listed.adjacency is None
    assert dense.edges().tolist() == listed.edges().tolist() == np.unique(np.sort(edges, axis=1), axis=0).tolist()
    one, _ = dense.reset(KEY)
    other, _ = listed.reset(KEY)
    for i in range(20):
        counted = [int((np.asarray(one.health)[e] == 1).sum()) for e in _neighbours(edges, 50)]
        assert dense.infected_neighbours(one.health).tolist() == counted
        assert listed.infected_neighbours(other.health).tolist() == counted
        key = jax.random.fold_in(KEY, i)
        one, other = dense.step(key, one, jnp.asarray(i))[0], listed.step(key, other, jnp.asarray(i))[0]
        assert one.health.tolist() == other.health.tolist()


def _neighbours(edges, people):
    known = [set() for _ in range(people)]
    for a, b in edges.tolist():
        known[a].add(b)
        known[b].add(a)
    return [sorted(neighbours) for neighbours in known]


@pytest.mark.slow
def test_a_hundred_thousand_people():
    """No array of people squared is made (it would take 40 GB), and a step is a step."""
    rng = np.random.default_rng(1)
    people = 100_000
    edges = np.stack([np.arange(people - 1), np.arange(1, people)], axis=1)
    far = rng.integers(0, people, (200_000, 2))
    edges = np.concatenate([edges, far[far[:, 0] != far[:, 1]]])
    env = gymnasium.make(
        "elbert/Infectious-v0", graph=edges, groups=rng.integers(0, 4, people), burn_in=6, render_mode="rgb_array"
    )
    observation, _ = env.reset(seed=0)
    assert observation.shape == (300_000,)
    total, reward = np.zeros(4), 0.0
    infected = observation.reshape(people, 3)[:, 1].sum()
    for _ in range(5):
        observation, reward, _, _, info = env.step(people)
        total += info["demand"]
    after = observation.reshape(people, 3)[:, 1].sum()
    assert reward == pytest.approx(1 - after / people, abs=1e-5)
    assert after > infected
    assert 0 <= infected + total.sum() - after < 0.1 * after  # those who recovered meanwhile
    frame = env.render()
    assert isinstance(frame, np.ndarray)


@pytest.mark.slow
def test_largest_remainders_for_many_sites():
    """Against the rule in plain Python, with ties and without."""
    rng = np.random.default_rng(2)
    for sites, units in ((1, 3), (2, 1), (7, 7), (40, 13), (128, 90), (129, 90), (300, 200), (12, 1000)):
        world = Attention(initial_rates=np.ones(sites), units=units)
        for logits in (np.zeros(sites), rng.uniform(-3, 3, sites), rng.integers(-1, 2, sites)):
            exact = np.exp(np.asarray(logits, float))
            share = exact / exact.sum() * units
            whole = np.floor(share + 1e-5)
            order = sorted(range(sites), key=lambda i: (-round(float(share[i] - whole[i]), 4), i))
            for i in order[: int(units - whole.sum())]:
                whole[i] += 1
            assert world.allocate(jnp.asarray(logits)).tolist() == whole.tolist()
            assert float(world.allocate(jnp.asarray(logits)).sum()) == units


def test_every_parameter_is_explained():
    for name in elbert.envs.ENTRIES:
        for parameter in get_entry(name).parameters():
            assert len(parameter.meaning) > 8, (name, parameter)
        assert get_entry(get_entry(name).id).name == name
    assert get_entry("attention-harder").make().units == 30  # pyright: ignore[reportAttributeAccessIssue]


STORED: list[tuple[str, dict[str, Any]]] = [
    ("lending", {"notion": elbert.fairness.NOTIONS["demographic-parity"], "horizon": np.int64(7)}),
    ("attention", {"initial_rates": jnp.ones(3), "fall": np.float32(0.1), "growth": (0.1, 0.2, 0.3)}),
    (
        "infectious",
        {"graph": networkx.Graph([("ann", "bob"), ("bob", "cyd")]), "groups": {"ann": 0, "cyd": 1, "bob": 1}},
    ),
    ("infectious", {"graph": [(0, 2), (1, 2)], "groups": {2: 0, 0: 1, 1: 1}}),
    ("infectious", {"groups": {person: person % 2 for person in range(34)}}),
    ("infectious", {"first_case": None}),
    ("credit", {"groups": ("White", "Black"), "labels": "selective", "group_shares": np.asarray([0.5, 0.5])}),
]


@pytest.mark.parametrize(("name", "parameters"), STORED)
def test_parameters_that_went_through_a_file_make_the_same_world(name, parameters):
    plain = json.loads(json.dumps(elbert.envs.plain_parameters(parameters)))
    one, other = make_world(name, **parameters), make_world(name, **plain)
    assert jax.tree.structure(one) == jax.tree.structure(other)  # the notion is part of it
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        assert np.array_equal(a, b)


def test_what_a_file_cannot_hold_is_refused():
    """A notion that is stored by its name alone would come back as another one, or not at all."""
    mine = Notion("mine", *elbert.fairness.NOTIONS["demographic-parity"].criteria)
    assert make_world("lending", notion=mine).benefit is mine
    with pytest.raises(InvalidInputError, match=r"'mine'.* is not known. Register it.*elbert.register\(notion\)"):
        elbert.envs.plain_parameters({"notion": mine})
    other = Notion("equal-opportunity", *mine.criteria)
    with pytest.raises(InvalidInputError, match=r"'equal-opportunity'.* is another one"):
        elbert.envs.plain_parameters({"notion": other})
    for value in (object(), {1: 2}, [lambda: 0]):
        with pytest.raises(InvalidInputError, match=r"rate is .* which a file cannot hold"):
            elbert.envs.plain_parameters({"rate": value})
