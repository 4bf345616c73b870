"""Replays: what the page is given to play, for every world and for environments of one's own."""

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import elbert
from elbert.envs import ENTRIES, Entry, Infectious, make_world
from elbert.exact.rules import rules_of
from elbert.learning import ForeignPolicy
from elbert.learning.simulators.traces import Trace, trace_world
from elbert.learning.traces import trace_foreign
from elbert.report.web.document import Document, Replays
from elbert.report.web.replays import MOST_FRAMES, comparison_replay, frame_steps, replay_of
from elbert.report.web.subjects import comparison_document
from elbert.report.world_scenes import MOST_BARS, infectious_scene
from tests.envs.own import clinic
from tests.experiments.small_runs import TINY
from tests.learning.tiny import Probe, ProbeEnv
from tests.parameters import slow_after

NAMES = sorted(ENTRIES, key=lambda name: name in ("infectious", "attention"))  # the same code as harder ones

ROWS = {"bars": ("notes",), "network": ("notes", "states", "rings")}  # of each kind of scene, one for every frame


def made_up(steps, *, seed=0, groups=2, ended=True):
    rng = np.random.default_rng(seed)
    demand = rng.integers(0, 3, (steps, 1, groups)).astype(float)
    return Trace(
        name="made up",
        env="nowhere",
        criteria=("share",),
        groups=tuple(str(g) for g in range(groups)),
        reward=rng.normal(size=steps),
        supply=np.floor(demand * rng.uniform(size=demand.shape)),
        demand=demand,
        actions=np.zeros(steps, int),
        ended=ended,
    )


def numbers(value):
    """All numbers in what JSON holds."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return [number for each in value for number in numbers(each)]
    return [value] if isinstance(value, int | float) else []


def compared(env, rules, **options):
    return elbert.compare({rule: f"{env}/{rule}" for rule in rules}, env=env, episodes=2, progress=None, **options)


@pytest.mark.parametrize("steps", [1, 7, 239, 240, 1000, 1999])
def test_frames_are_few_and_hold_exact_sums(steps):
    """Red if thinning adds up only the steps that are shown, drops the last step, or repeats one."""
    trace = made_up(steps)
    spec = replay_of({"policy": trace})
    policy, frames = spec["policies"][0], spec["policies"][0]["frames"]
    assert frames["step"] == spec["steps"] == sorted(set(spec["steps"]))
    assert (spec["steps"][0], spec["steps"][-1]) == (0, steps)
    assert len(spec["steps"]) == min(steps + 1, MOST_FRAMES)
    for step, supply, demand, reward in zip(*(frames[x] for x in ("step", "supply", "demand", "reward")), strict=True):
        np.testing.assert_array_equal(supply, trace.supply[:step].sum(axis=0))
        np.testing.assert_array_equal(demand, trace.demand[:step].sum(axis=0))
        assert reward == pytest.approx(trace.reward[:step].sum())
    assert policy["totals"]["supply"] == frames["supply"][-1] == trace.supply.sum(axis=0).tolist()
    assert policy["totals"]["demand"] == frames["demand"][-1] == trace.demand.sum(axis=0).tolist()
    assert policy["totals"]["reward"] == pytest.approx(frames["reward"][-1])


def test_the_shorter_episode_stays_at_its_last_step():
    spec = replay_of({"short": made_up(5), "long": made_up(9)})
    short, long = (policy["frames"] for policy in spec["policies"])
    assert long["step"] == spec["steps"] == list(range(10))
    assert short["step"] == [0, 1, 2, 3, 4, 5, 5, 5, 5, 5]
    assert short["supply"][5:] == [spec["policies"][0]["totals"]["supply"]] * 5


def test_many_groups_have_fewer_frames_and_the_same_totals():
    assert len(frame_steps(2000, amounts=1000)) == 60
    trace = made_up(300, groups=1000)
    policy = replay_of({"policy": trace})["policies"][0]
    assert policy["frames"]["supply"][-1] == trace.supply.sum(axis=0).tolist()


@pytest.mark.parametrize(
    ("name", "policies"),
    slow_after(
        3,
        [
            pytest.param("lending", 2, id="lending, two policies"),
            *(pytest.param(name, 1, id=name) for name in NAMES if name != "lending"),
            *(pytest.param(name, 2, id=f"{name}, two policies") for name in NAMES if name != "lending"),
        ],
    ),
)
def test_every_world_has_a_scene_of_finite_numbers_for_every_frame(name, policies):
    """Red for a scene with NaN, with arrays that JSON cannot hold, or with rows for steps instead of frames."""
    rules = [rule.name for rule in rules_of(name) if not rule.name.startswith("best")][:policies]
    world = make_world(name, horizon=300)
    traces = {rule: rule_in(world, name, rule) for rule in rules}
    spec = json.loads(json.dumps(replay_of(traces), allow_nan=False))
    assert all(math.isfinite(number) for number in numbers(spec))
    for policy in spec["policies"]:
        scene, count = policy["scene"], len(spec["steps"])
        assert all(len(scene[rows]) == count for rows in ROWS[scene["kind"]])
        for series in scene.get("series", []):
            assert np.shape(series["values"]) == (count, len(scene["x"]["names"]))
        if scene["kind"] == "network":
            assert {len(row) for row in scene["states"]} == {len(scene["x"])} == {len(scene["shapes"])}
            assert 0 <= min(scene["x"] + scene["y"]) < max(scene["x"] + scene["y"]) <= 1


def rule_in(world, env, rule):
    act = next(each for each in rules_of(env) if each.name == rule).policy.make(world)
    return trace_world(world, lambda key, state, _: act(key, state), name=rule, env=env)


def test_lending_shows_the_applicant_who_was_decided_about():
    """Red if the pointer runs ahead of the decision, or if a refusal looks like an acceptance."""
    trace = rule_in(make_world("lending", horizon=40), "lending", "thresholds-2-1")
    scene = replay_of({"rule": trace})["policies"][0]["scene"]
    pointer, score, group = scene["pointer"], np.asarray(trace.states.score), np.asarray(trace.states.group)
    assert pointer["bar"] == [score[0], *score[:-1]]
    assert pointer["filled"] == [False, *(score[:-1] >= np.asarray([2, 1])[group[:-1]])]
    assert scene["notes"][0].endswith("waits for a decision.")
    lent, repaid = int(trace.actions.sum()), int(trace.supply.sum())
    assert f"{lent} of 40 accepted so far: {repaid} repaid, {lent - repaid} defaulted" in scene["notes"][-1]
    assert 0 < lent < 40


def test_attention_shows_the_incidents_of_the_step():
    trace = rule_in(make_world("attention", horizon=9), "attention", "proportional")
    series = replay_of({"rule": trace})["policies"][0]["scene"]["series"]
    found, incidents, units, rates = (np.asarray(each["values"]) for each in series)
    np.testing.assert_array_equal(found[1:], trace.supply[:, 0])
    np.testing.assert_array_equal(incidents[1:], trace.demand[:, 0])
    assert set(units[1:].sum(axis=1)) == {6.0}
    np.testing.assert_allclose(rates[0], [8.0, 6.0, 4.0, 3.0, 1.5])


def test_a_network_has_rings_where_doses_went_and_a_large_one_is_counted():
    trace = rule_in(make_world("infectious", horizon=5), "infectious", "degree")
    scene = replay_of({"rule": trace})["policies"][0]["scene"]
    assert scene["rings"] == [[], *([int(i)] if i < 34 else [] for i in trace.actions)]
    ring = [(i, (i + 1) % 1500) for i in range(1500)]
    large = Infectious(graph=ring, groups=[i % 30 for i in range(1500)], horizon=3)
    counted = infectious_scene(large, *states_of(large), np.arange(4))
    people = np.asarray([series["values"] for series in counted["series"]])
    assert counted["kind"] == "bars"
    assert people.shape == (3, 4, MOST_BARS // 3)
    assert (people.sum(axis=0) == 50).all(), "1500 people in 30 groups"
    assert "the first 20 of 30 groups" in counted["x"]["label"]


def states_of(world):
    trace = trace_world(world, lambda key, state, _: np.int32(world.people), name="nobody", env="large")
    return trace.states, trace.actions


def test_environments_without_a_scene_are_played_plainly():
    """A world that nobody registered, and environments on the host."""
    served = trace_world(Probe(horizon=4), lambda key, state, _: np.int32(0), name="first", env="Probe")
    host = trace_foreign(ForeignPolicy(lambda o: 1), env=ProbeEnv)
    named = trace_foreign(ForeignPolicy(lambda o: 1), env=lambda: clinic(group_names=["young", "old", "7"]))
    for trace in (served, host, named):
        spec = json.loads(json.dumps(replay_of({"policy": trace}), allow_nan=False))
        assert spec["policies"][0]["scene"] is None
        assert spec["policies"][0]["totals"]["demand"] == trace.demand.sum(axis=0).tolist()
    assert replay_of({"policy": named})["groups"] == ["young", "old", "group 7"]


def test_a_world_of_ones_own_may_bring_a_scene(monkeypatch):
    """By name or, where a world was made and has no name, by its class."""

    def counted(world, states, actions, steps):
        return {"kind": "bars", "given": np.asarray(states.given)[steps].tolist()}

    monkeypatch.setitem(ENTRIES, "probe", Entry("probe", "mine/Probe-v0", Probe, scene=counted))
    for name in ("probe", "Probe"):
        served = trace_world(Probe(horizon=3), lambda key, state, _: np.int32(0), name="first", env=name)
        scene = replay_of({"policy": served})["policies"][0]["scene"]
        assert scene["given"] == [[0, 0], [1, 0], [2, 0], [3, 0]]


@pytest.mark.slow
def test_rules_of_a_comparison_are_played_on_the_same_chance():
    """Red if a policy acts in another world or horizon than its result, or with a chance of its own."""
    rules = ("thresholds-3-3", "thresholds-0-0")
    comparison = compared("lending", rules, horizon=30)
    spec = comparison_replay(comparison)
    assert spec is not None
    assert [policy["name"] for policy in spec["policies"]] == list(rules)
    assert spec["steps"] == list(range(31))
    demand = [np.asarray(policy["frames"]["demand"]) for policy in spec["policies"]]
    assert [policy["length"] for policy in spec["policies"]] == [30, 30]
    assert (demand[0][:2] == demand[1][:2]).all(), "the first applicant is the same"
    assert "same random numbers" in spec["caption"]
    assert comparison_replay(comparison) == spec
    assert comparison_replay(comparison, seed=2) != spec


def test_a_long_episode_is_cut_and_the_caption_says_so():
    spec = comparison_replay(compared("lending", ("thresholds-2-1",), horizon=50), longest=20)
    assert spec is not None
    assert (spec["steps"][-1], spec["policies"][0]["ended"]) == (20, False)
    assert "first 20 steps" in spec["caption"]


@pytest.mark.slow
def test_of_many_policies_the_fairest_and_the_least_fair_are_played():
    rules = ("thresholds-2-1", "thresholds-0-0", "thresholds-5-1")
    comparison = compared("lending", rules, horizon=200)
    biases = {name: comparison[name].worst.bias.estimate or 0.0 for name in rules}
    spec = comparison_replay(comparison)
    assert spec is not None
    assert {policy["name"] for policy in spec["policies"]} == {
        min(rules, key=biases.__getitem__),
        max(rules, key=biases.__getitem__),
    }
    assert "Of 3 policies" in spec["caption"]


@pytest.mark.slow
def test_agents_of_a_run_are_played_in_their_own_world(tmp_path):
    """Red if the world's parameters are left behind: with other shares, applicants are of group 1 only."""
    world: dict[str, Any] = {"horizon": 16, "group_shares": (0.0, 1.0)}
    settings: dict[str, Any] = TINY | {"steps": 512}
    elbert.train("lending", out=tmp_path / "run", world=world, progress=None, **settings)
    options: dict[str, Any] = {"episodes": 2, "horizon": 16, "progress": None}
    comparison = elbert.compare({"ours": tmp_path / "run", "rule": "lending/thresholds-0-0"}, **options)
    spec = comparison_replay(comparison)
    assert spec is not None
    assert [policy["name"] for policy in spec["policies"]] == ["ours", "rule"]
    for policy in spec["policies"]:
        assert policy["length"] == 16
        assert policy["totals"]["demand"][0][0] == 0 < policy["totals"]["demand"][0][1]


@pytest.mark.slow
def test_what_is_not_at_hand_is_not_played(tmp_path):
    """A function that was compared is gone; a user's environment is not stored with a run."""
    comparison = elbert.compare({"f": lambda o: np.ones(len(o))}, env="lending", episodes=2, horizon=8, progress=None)
    assert comparison_replay(comparison) is None
    settings: dict[str, Any] = TINY | {"steps": 256, "alpha": 0.0}
    elbert.train(ProbeEnv, out=tmp_path / "own", **settings, progress=None)
    own = elbert.compare({"own": tmp_path / "own"}, env=ProbeEnv, episodes=2, progress=None)
    assert comparison_replay(own) is None
    document = comparison_document(own, replay=True)
    assert not any(isinstance(block, Replays) for block in document.blocks)


@pytest.mark.slow
def test_a_page_has_a_replay_only_if_asked(tmp_path):
    comparison = compared("attention", ("index", "proportional"), horizon=8)
    replayed = comparison_document(comparison, replay=True)
    assert sum(isinstance(block, Replays) for block in replayed.blocks) == 1
    assert not any(isinstance(block, Replays) for block in comparison_document(comparison).blocks)
    text = replayed.to_html()
    assert 'id="replay-0"' in text
    assert "Plays the replays" in text


def test_hostile_names_stay_text():
    """Names go into JSON, from which the script makes text: nothing in them can end the script element."""
    trace = replace(made_up(3), groups=("</script><script>alert(1)</script>", "\u202eright"))
    page = Document("t", "a", blocks=[Replays(replay_of({"<img src=x onerror=alert(1)>": trace}))]).to_html()
    assert "<script>alert" not in page
    assert "<img" not in page
