"""Environments of a user's own: wrappers that add supply and demand, and a checker that explains."""

import copy
from typing import Any, ClassVar

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import elbert
from elbert.envs import EnvCheckError, NotionWrapper, SupplyDemandWrapper, TimeStep, Transition, World, check_env
from elbert.envs.infos import step_benefits, vector_benefits
from elbert.errors import InvalidInputError
from elbert.report.worlds import draw_world


class Clinic(gymnasium.Env):
    """Each step some patients of three groups arrive; the action says which group is served, up to two of them."""

    observation_space = gymnasium.spaces.Box(0, np.inf, (3,), np.float32)
    action_space = gymnasium.spaces.Discrete(3)

    def __init__(self, length=6, **flaws):
        self.length, self.flaws = length, flaws

    def reset(self, *, seed=None, options=None) -> Any:
        super().reset(seed=seed)
        self.time = 0
        self.waiting = self.np_random.integers(0, 4, 3)
        return self._seen(), {"waiting": self.waiting.copy()}

    def step(self, action) -> Any:
        served = np.zeros(3)
        served[action] = min(2, self.waiting[action])
        arrived = self.waiting.copy()
        self.waiting = self.np_random.integers(0, 4, 3)
        self.time += 1
        info = {"served": served, "arrived": arrived}
        return self._seen(), float(served.sum()), False, self.time >= self.length, info

    def _seen(self) -> Any:
        return self.waiting.astype(np.float32)


def clinic(**kwargs):
    return SupplyDemandWrapper(Clinic(**kwargs), supply=lambda t: t.info["served"], demand=lambda t: t.info["arrived"])


class Counter(gymnasium.Env):
    """Decides on one person a step; info says who it was."""

    observation_space = gymnasium.spaces.Box(0, 1, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)
    people = ((0, 1), (1, 1), (1, 0), (0, 0))

    def reset(self, *, seed=None, options=None) -> Any:
        super().reset(seed=seed)
        self.time = 0
        return np.zeros(2, np.float32), {}

    def step(self, action) -> Any:
        group, qualified = self.people[self.time]
        self.time += 1
        info = {"group": group, "qualified": qualified}
        return np.zeros(2, np.float32), 0.0, False, self.time == 4, info


def test_the_wrapper_adds_what_the_functions_say():
    env = clinic()
    _, info = env.reset(seed=3)
    assert "supply" not in info  # nothing has been given or due yet
    waiting = info["waiting"]
    _, reward, _, _, info = env.step(1)
    assert info["demand"].tolist() == waiting.tolist()
    assert info["supply"].tolist() == [0, min(2, waiting[1]), 0]
    assert reward == info["supply"].sum()
    assert set(info) == {"served", "arrived", "supply", "demand"}


def test_the_functions_see_the_whole_transition():
    seen = []
    env = SupplyDemandWrapper(Clinic(), supply=lambda t: seen.append(t) or [0, 0, 0], demand=lambda t: [1, 1, 1])
    first, start = env.reset(seed=0)
    second, reward, _, _, _ = env.step(2)
    (transition,) = seen
    assert isinstance(transition, Transition)
    assert transition.observation is first
    assert transition.next_observation is second
    assert transition.action == 2
    assert transition.reward == reward
    assert transition.previous_info is start
    env.step(0)
    assert seen[1].previous_info["demand"].tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    ("supply", "demand", "message"),
    [
        (lambda t: [1, 2], lambda t: [1, 2, 3], r"supply has shape \(2,\) but demand has shape \(3,\)"),
        (lambda t: [-1, 0, 0], lambda t: [1, 2, 3], "supply is negative"),
        (lambda t: [1, 0, 0], lambda t: [np.nan, 2, 3], "demand is not finite"),
        (lambda t: 1.0, lambda t: 2.0, "single numbers"),
        ("served", lambda t: 2.0, "supply is 'served'. Give a function"),
    ],
)
def test_amounts_that_make_no_sense_are_refused_at_the_step(supply, demand, message):
    def use():
        env = SupplyDemandWrapper(Clinic(), supply=supply, demand=demand)
        env.reset(seed=0)
        env.step(0)

    with pytest.raises(InvalidInputError, match=message):
        use()


@pytest.mark.parametrize(
    ("notion", "supply", "demand"),
    [
        ("equal-opportunity", [[1, 0], [0, 1], [0, 0], [0, 0]], [[1, 0], [0, 1], [0, 0], [0, 0]]),
        ("demographic-parity", [[1, 0], [0, 1], [0, 1], [1, 0]], [[1, 0], [0, 1], [0, 1], [1, 0]]),
        ("accuracy-parity", [[1, 0], [0, 1], [0, 0], [0, 0]], [[1, 0], [0, 1], [0, 1], [1, 0]]),
    ],
)
def test_a_notion_and_the_fields_of_the_outcome(notion, supply, demand):
    env = NotionWrapper(Counter(), notion, groups=2, qualified="qualified")
    env.reset(seed=0)
    for given, due in zip(supply, demand, strict=True):
        info = env.step(1)[4]
        assert info["supply"].tolist() == given
        assert info["demand"].tolist() == due


def test_equalized_odds_has_two_criteria():
    env = NotionWrapper(Counter(), "equalized-odds", groups=2, qualified=lambda t: t.info["qualified"])
    env.reset(seed=0)
    env.step(1)
    env.step(0)
    assert env.step(1)[4]["supply"].tolist() == [[0, 0], [0, 1]]
    report = check_env(env, steps=40)
    assert (report.criteria, report.groups) == (2, 2)


def test_several_people_decided_on_in_one_step():
    env = NotionWrapper(
        Clinic(),
        "demographic-parity",
        groups=2,
        group=lambda t: np.asarray([0, 1, 1]),
        decision=lambda t: np.asarray([1, 0, 1]),
    )
    env.reset(seed=0)
    info = env.step(0)[4]
    assert info["supply"].tolist() == [1, 1]
    assert info["demand"].tolist() == [1, 2]


def test_what_a_notion_wrapper_needs():
    with pytest.raises(InvalidInputError, match="needs to know who was qualified"):
        NotionWrapper(Counter(), "equal-opportunity", groups=2)
    env = NotionWrapper(Counter(), "demographic-parity", groups=2, group="gruop")
    env.reset(seed=0)
    with pytest.raises(
        InvalidInputError, match=r"info has no 'gruop', which group= names. It has 'group', 'qualified'"
    ):
        env.step(1)
    env = NotionWrapper(Counter(), "demographic-parity", groups=1)
    env.reset(seed=0)
    env.step(1)
    with pytest.raises(InvalidInputError, match="groups=1 allows 0 to 0"):
        env.step(1)


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_vector_wrappers_agree_with_wrapped_single_environments(mode):
    """The wrapper around the vector environment and the vector environment of wrapped copies say the same."""
    inner = SyncVectorEnv([clinic] * 3, autoreset_mode=mode)
    outer = elbert.SupplyDemandVectorWrapper(
        SyncVectorEnv([Clinic] * 3, autoreset_mode=mode),
        supply=lambda t: t.info["served"],
        demand=lambda t: t.info["arrived"],
    )
    inner.reset(seed=1)
    outer.reset(seed=1)
    before = np.zeros(3, bool)
    for time in range(1, 21):
        actions = np.asarray([0, 1, 2])
        one, other = inner.step(actions), outer.step(actions)
        ended = one[2] | one[3]
        benefits = [vector_benefits(r[4], mode=mode, ended=ended, ended_before=before) for r in (one, other)]
        assert all(np.array_equal(a, b) for a, b in zip(*benefits, strict=True))
        expected = np.ones(3, bool) if mode is not AutoresetMode.NEXT_STEP else ~before
        assert np.array_equal(benefits[0].counted, expected)
        if mode is AutoresetMode.DISABLED and ended.any():
            assert time % 6 == 0
            inner.reset(options={"reset_mask": ended.copy()})
            outer.reset(options={"reset_mask": ended.copy()})
            ended = np.zeros(3, bool)
        before = ended


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_vector_notions_agree_with_wrapped_single_environments(mode):
    inner = SyncVectorEnv(
        [lambda: NotionWrapper(Counter(), "equalized-odds", groups=2, qualified="qualified")] * 2, autoreset_mode=mode
    )
    outer = elbert.NotionVectorWrapper(
        SyncVectorEnv([Counter] * 2, autoreset_mode=mode), "equalized-odds", groups=2, qualified="qualified"
    )
    for env in (inner, outer):
        env.reset(seed=0)
    before = np.zeros(2, bool)
    for _ in range(3 if mode is AutoresetMode.DISABLED else 9):
        one, other = inner.step(np.asarray([0, 1])), outer.step(np.asarray([0, 1]))
        ended = one[2] | one[3]
        benefits = [vector_benefits(r[4], mode=mode, ended=ended, ended_before=before) for r in (one, other)]
        assert all(np.array_equal(a, b) for a, b in zip(*benefits, strict=True))
        before = ended


def test_vector_wrapper_on_our_own_environment():
    """Another notion of supply, over a compiled vector environment."""
    env = elbert.SupplyDemandVectorWrapper(
        gymnasium.make_vec("elbert/Attention-v0", num_envs=4, horizon=5),
        supply=lambda t: t.next_observation.reshape(4, 8, 4, 5)[:, -1, 2],
        demand=lambda t: np.ones((4, 5)),
    )
    report = check_env(env, steps=30)
    assert report.supply.sum() == pytest.approx(6 * report.steps)
    assert any("received more than was due" in note for note in report.notes)


def test_wrappers_for_one_and_for_many_point_to_each_other():
    vector = SyncVectorEnv([Clinic])
    made: Any = SupplyDemandWrapper(vector, supply=lambda t: 0, demand=lambda t: 0)
    assert isinstance(made, elbert.SupplyDemandVectorWrapper)
    made = NotionWrapper(vector, "demographic-parity", groups=1)
    assert isinstance(made, elbert.NotionVectorWrapper)

    class Mine(SupplyDemandWrapper):
        pass

    with pytest.raises(InvalidInputError, match="Mine is for one environment"):
        Mine(vector, supply=lambda t: 0, demand=lambda t: 0)
    env = copy.deepcopy(clinic())
    env.reset(seed=0)
    assert "supply" in env.step(0)[4]
    with pytest.raises(InvalidInputError, match="Use SupplyDemandWrapper"):
        elbert.SupplyDemandVectorWrapper(Clinic(), supply=lambda t: 0, demand=lambda t: 0)  # pyright: ignore[reportArgumentType]
    env = elbert.SupplyDemandVectorWrapper(vector, supply=lambda t: [1, 2], demand=lambda t: [1, 2])
    env.reset(seed=0)
    with pytest.raises(InvalidInputError, match=r"give \[1, groups\]"):
        env.step(np.asarray([0]))


def test_a_good_environment_is_told_so():
    report = check_env(clinic())
    assert (report.copies, report.criteria, report.groups, report.steps, report.episodes) == (None, 1, 3, 500, 83)
    assert report.notes == ()
    assert str(report).startswith("Environment, ready: 3 groups; 500 steps with random actions, 83 episodes ended.")
    assert f"group 2: supply {report.supply[0, 2]:g}, demand {report.demand[0, 2]:g}" in str(report)
    for mode in AutoresetMode:
        report = check_env(SyncVectorEnv([clinic] * 2, autoreset_mode=mode), steps=60)
        assert (report.copies, report.groups) == (2, 3)
    assert check_env("lending", steps=30).groups == 2
    assert check_env(elbert.make_world("infectious"), steps=30).groups == 2


class Flawed(Clinic):
    """A clinic that reports its own benefits, with one flaw."""

    def reset(self, *, seed=None, options=None) -> Any:
        observation, info = super().reset(seed=None if self.flaws.get("unseeded") else seed)
        self.box = np.zeros(3)
        return self.flaws.get("reset", lambda o, i: (o, i))(observation, info)

    def step(self, action) -> Any:
        observation, reward, terminated, truncated, info = super().step(action)
        info = {"supply": info["served"], "demand": info["arrived"]}
        self.box[:] = info["supply"]
        if self.flaws.get("shared"):
            info["supply"] = self.box
        info = self.flaws.get("info", lambda i, t: i)(info, self.time)
        return self.flaws.get("step", lambda *r: r)(observation, reward, terminated, truncated, info)


@pytest.mark.parametrize(
    ("flaws", "message"),
    [
        ({"info": lambda i, t: {}}, 'info has no "supply"'),
        ({"info": lambda i, t: {"Suply": i["supply"], "demand": i["demand"]}}, "Is it the one called 'Suply'"),
        ({"info": lambda i, t: {"supply": i["supply"]}}, 'info has no "demand"'),
        (
            {"info": lambda i, t: {**i, "demand": i["demand"][:2]}},
            r"supply has shape \(3,\) but demand has shape \(2,\)",
        ),
        ({"info": lambda i, t: {**i, "supply": -i["demand"] - 1}}, "supply is negative"),
        ({"info": lambda i, t: {**i, "demand": i["demand"] * np.nan}}, "demand is not finite"),
        ({"info": lambda i, t: {**i, "demand": ["a", "b", "c"]}}, "demand has dtype"),
        ({"info": lambda i, t: {k: np.ones((2, 2, 2)) for k in i}}, r"shape \(2, 2, 2\)"),
        ({"info": lambda i, t: {k: v[: 3 - t // 3] for k, v in i.items()}}, "had 3 groups .* and then 2"),
        ({"step": lambda o, r, a, b, i: (o, r, a or b, i)}, "returned 4 things. It must return five"),
        ({"step": lambda o, r, a, b, i: None}, r"step\(\) returned nothing. Is a return missing\?"),
        ({"step": lambda o, r, a, b, i: (o, r, a, b, None)}, "returned five things, but the last is NoneType"),
        ({"step": lambda o, r, a, b, i: (o, r, a, np.zeros(2, bool), i)}, r"truncated has dtype bool and shape \(2,\)"),
        ({"step": lambda o, r, a, b, i: (o, r, int(a), b, i)}, "terminated has dtype int64"),
        ({"step": lambda o, r, a, b, i: (o, None, a, b, i)}, "The reward is None"),
        ({"step": lambda o, r, a, b, i: (o, float("inf"), a, b, i)}, "The reward is inf"),
        ({"step": lambda o, r, a, b, i: (o.astype(float), r, a, b, i)}, "does not lie in observation_space"),
        ({"step": lambda o, r, a, b, i: 1 / 0}, r"step\(\) failed with ZeroDivisionError"),
        ({"reset": lambda o, i: o}, "must return two things"),
        ({"reset": lambda o, i: (-o - 1, i)}, r"The observation of reset\(\) does not lie"),
        ({"unseeded": True}, "Two runs with reset.* differ"),
    ],
)
def test_flaws_are_explained(flaws, message):
    with pytest.raises(EnvCheckError, match=message) as caught:
        check_env(Flawed(**flaws))
    assert "in the way of using this environment" in str(caught.value)
    assert caught.value.problems


@pytest.mark.parametrize(
    ("flaws", "note"),
    [
        ({"shared": True}, "one array in every step, changed in place"),
        ({"info": lambda i, t: {**i, "demand": i["demand"] * [1, 0, 1]}}, "group 1 never had any demand"),
        ({"info": lambda i, t: {**i, "supply": i["demand"] + 1}}, "group 0, 1, 2 received more than was due"),
        ({"info": lambda i, t: {**i, "supply": 0 * i["supply"]}}, "supply was 0 in every step"),
        ({"info": lambda i, t: {k: v[:1] for k, v in i.items()}}, "only one group"),
        ({"length": 10**6}, "no episode ended within 500 steps"),
    ],
)
def test_what_may_not_be_meant_is_noted(flaws, note):
    report = check_env(Flawed(**flaws))
    assert any(note in line for line in report.notes), report.notes
    assert note in str(report)


def test_several_problems_are_told_at_once():
    def step(observation, reward, terminated, truncated, info):
        return observation.astype(float), None, 0, truncated, info

    with pytest.raises(EnvCheckError, match="3 things stand in the way") as caught:
        check_env(Flawed(step=step))
    assert len(caught.value.problems) == 3


def test_what_is_no_environment():
    with pytest.raises(EnvCheckError, match=r"This is int, not a gymnasium.Env"):
        check_env(3)
    with pytest.raises(InvalidInputError, match="No environment is called 'lend'"):
        check_env("lend")

    class Bare(gymnasium.Env):
        pass

    with pytest.raises(EnvCheckError, match="no observation_space and no action_space"):
        check_env(Bare())


def test_the_checker_is_asked_in_whole_numbers():
    wrong: list[Any] = [0, -1, 1.5, "5"]
    for steps in wrong:
        with pytest.raises(InvalidInputError, match="steps is"):
            check_env(clinic(), steps=steps)
    with pytest.raises(InvalidInputError, match="seed is -1"):
        check_env(clinic(), seed=-1)
    assert check_env(clinic(), steps=np.int64(7), seed=np.int64(2)).steps == 7  # pyright: ignore[reportArgumentType]


def test_repetition_is_checked_on_copies():
    """Unseeded noise in an observation buffer that is used again and again."""

    class Buffered(Flawed):
        def __init__(self):
            super().__init__()
            self.buffer, self.noise = np.zeros(3, np.float32), np.random.default_rng()

        def _seen(self) -> Any:
            self.buffer[:] = self.noise.random(3)
            return self.buffer

    with pytest.raises(EnvCheckError, match=r"Two runs with reset.* differ"):
        check_env(Buffered())


def test_a_constant_array_is_not_called_changed():
    due = np.ones(3)
    report = check_env(Flawed(info=lambda i, t: {"supply": np.minimum(i["supply"], 1), "demand": due}))
    assert report.notes == ()


def test_supply_without_any_demand_is_noted_once():
    report = check_env(Flawed(info=lambda i, t: {"supply": i["demand"], "demand": i["demand"] * [1, 0, 1]}))
    assert len(report.notes) == 1
    assert "group 1 never had any demand" in report.notes[0]


def test_dictionaries_and_tuples_as_observations():
    """In every autoreset mode the transition has the last observation of an ended episode."""

    class Nested(Clinic):
        observation_space = gymnasium.spaces.Dict(
            waiting=Clinic.observation_space, pair=gymnasium.spaces.Tuple([Clinic.observation_space] * 2)
        )

        def _seen(self) -> Any:
            seen = self.waiting.astype(np.float32)
            return {"waiting": seen, "pair": (seen + self.time, seen)}

    for mode in AutoresetMode:
        env = elbert.SupplyDemandVectorWrapper(
            SyncVectorEnv([Nested] * 2, autoreset_mode=mode),
            supply=lambda t: t.next_observation["pair"][0] - t.next_observation["waiting"],
            demand=lambda t: np.full((2, 3), 6.0),
        )
        report = check_env(env, steps=12)
        days = 21 + 15 if mode is AutoresetMode.NEXT_STEP else 2 * 21  # days 1 .. 6, and of the second episode
        assert report.supply.tolist() == [[2 * days] * 3]


def test_after_a_partial_reset_the_others_keep_their_previous_info():
    class Dated(Clinic):
        def reset(self, *, seed=None, options=None) -> Any:
            observation, _ = super().reset(seed=seed)
            return observation, {"day": 0}

        def step(self, action) -> Any:
            *rest, info = super().step(action)
            return (*rest, {**info, "day": self.time})

    seen = []
    env = elbert.SupplyDemandVectorWrapper(
        SyncVectorEnv([Dated] * 2, autoreset_mode=AutoresetMode.DISABLED),
        supply=lambda t: seen.append(t.previous_info["day"].tolist()) or np.zeros((2, 3)),
        demand=lambda t: np.ones((2, 3)),
    )
    env.reset(seed=0)
    env.step(np.asarray([0, 0]))
    env.step(np.asarray([0, 0]))
    env.reset(options={"reset_mask": np.asarray([True, False])})
    env.step(np.asarray([0, 0]))
    env.step(np.asarray([0, 0]))
    assert seen == [[0, 0], [1, 1], [0, 2], [1, 3]]


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_a_copy_that_does_not_name_its_group_is_not_taken_for_group_0(mode):
    class Silent(Counter):
        def step(self, action) -> Any:
            *rest, info = super().step(action)
            return (*rest, {"qualified": info["qualified"]} if self.time >= 3 else info)

    env = elbert.NotionVectorWrapper(
        SyncVectorEnv([Counter, Silent], autoreset_mode=mode), "equal-opportunity", groups=2, qualified="qualified"
    )
    env.reset(seed=0)
    env.step(np.asarray([1, 1]))
    env.step(np.asarray([1, 1]))
    with pytest.raises(InvalidInputError, match="info has no 'group' for copy 1, although it made a step"):
        env.step(np.asarray([1, 1]))


@pytest.mark.parametrize("groups", [0, 2.0, "2"])
def test_the_number_of_groups_is_checked_before_anything_runs(groups):
    with pytest.raises(InvalidInputError, match="groups is"):
        NotionWrapper(Counter(), "demographic-parity", groups=groups)


class FlawedVector(gymnasium.vector.VectorEnv):
    """Two copies that report what they are told to."""

    num_envs = 2
    single_observation_space = gymnasium.spaces.Box(0, 1, (1,), np.float32)
    single_action_space = gymnasium.spaces.Discrete(2)
    observation_space = gymnasium.spaces.Box(0, 1, (2, 1), np.float32)
    action_space = gymnasium.spaces.MultiDiscrete([2, 2])

    def __init__(self, info, mode: AutoresetMode | None = AutoresetMode.NEXT_STEP, ends=False):
        self.info, self.ends, self.metadata = info, ends, {"autoreset_mode": mode} if mode else {}

    def reset(self, *, seed=None, options=None) -> Any:
        super().reset(seed=seed)
        return np.zeros((2, 1), np.float32), {}

    def step(self, actions):
        ended = np.asarray([self.ends, False])
        return np.zeros((2, 1), np.float32), np.zeros(2), ended, np.zeros(2, bool), dict(self.info)


PAIR = {"supply": np.ones((2, 3)), "demand": np.ones((2, 3))}


@pytest.mark.parametrize(
    ("env", "message"),
    [
        (FlawedVector(PAIR, mode=None), 'metadata\\["autoreset_mode"\\] is None'),
        (FlawedVector({}), 'info has no "supply"'),
        (FlawedVector({"supply": np.ones(3), "demand": np.ones(3)}), r"shape \(3,\) for 2 copies"),
        (
            FlawedVector({**PAIR, "_supply": np.asarray([True, False])}),
            'no "supply" for copy 1, although it made a step',
        ),
        (FlawedVector({**PAIR, "_supply": np.asarray([True])}), r'info\["_supply"\] has shape \(1,\)'),
        (
            FlawedVector({**PAIR, "final_info": np.asarray([None, None])}, AutoresetMode.SAME_STEP, ends=True),
            "is ndarray",
        ),
        (FlawedVector(PAIR, AutoresetMode.SAME_STEP, ends=True), 'info\\["final_info"\\] has no "supply"'),
    ],
)
def test_flaws_of_vector_environments_are_explained(env, message):
    with pytest.raises(EnvCheckError, match=message):
        check_env(env)


def test_lists_in_infos_are_welcome_in_vector_environments_too():
    class Lists(Flawed):
        def step(self, action) -> Any:
            *rest, info = super().step(action)
            return (*rest, {key: value.tolist() for key, value in info.items()})

    for mode in AutoresetMode:
        listed = check_env(SyncVectorEnv([Lists] * 2, autoreset_mode=mode), steps=40)
        arrays = check_env(SyncVectorEnv([Flawed] * 2, autoreset_mode=mode), steps=40)
        assert np.array_equal(listed.supply, arrays.supply)
        assert np.array_equal(listed.demand, arrays.demand)
    ragged = np.asarray([[1.0, 2], None], dtype=object)
    ragged[1] = [1.0]
    info = {"supply": ragged, "demand": ragged}
    nobody = np.zeros(2, bool)
    with pytest.raises(InvalidInputError, match="Give all the same"):
        vector_benefits(info, mode=AutoresetMode.DISABLED, ended=nobody, ended_before=nobody)


class Coin(World, static=("sides",)):
    """A world of one's own, as pure functions: a coin decides which group is due, the action whom to serve."""

    chance: jax.Array
    sides: int

    def __init__(self, chance=0.5, sides=2):
        self.chance, self.sides, self.horizon = jnp.asarray(chance), sides, jnp.asarray(5)

    @property
    def groups(self):
        return self.sides

    @property
    def benefit(self):
        return elbert.fairness.NOTIONS["discovery-probability"]

    @property
    def observation_space(self):
        return gymnasium.spaces.Box(0, 1, (1,), np.float32)

    @property
    def action_space(self):
        return gymnasium.spaces.Discrete(self.sides)

    def reset(self, key):
        return jnp.zeros((), int), jnp.zeros(1)

    def step(self, key, state, action):
        due = jax.nn.one_hot(jax.random.bernoulli(key, self.chance).astype(int), self.sides)
        served = due * jax.nn.one_hot(action, self.sides)
        observation, no = jnp.zeros(1), jnp.zeros((), bool)
        return state + 1, TimeStep(observation, served.sum(), served[None], due[None], no, self.is_truncated(state + 1))


def test_a_world_of_ones_own():
    report = check_env(Coin(chance=0.25))
    assert (report.groups, report.episodes) == (2, 100)
    assert report.demand.sum() == 500
    assert report.demand[0, 1] == pytest.approx(125, abs=40)
    vector = elbert.envs.WorldVectorEnv(Coin(), 4)
    assert check_env(vector).copies == 4
    env = elbert.envs.WorldEnv(Coin(), render_mode="rgb_array", draw=lambda *_: np.zeros((2, 2, 3), np.uint8))
    env.reset()
    assert np.asarray(env.render()).shape == (2, 2, 3)
    with pytest.raises(InvalidInputError, match="no picture of Coin"):
        draw_world(Coin(), 0)

    class Heavy(Coin):
        def __init__(self):
            super().__init__(chance=0.9)
            self.chance = self.chance + 0.05  # not frozen before the outermost __init__ is done

    assert float(Heavy().chance) == pytest.approx(0.95)
    with pytest.raises(AttributeError):
        Heavy().chance = jnp.asarray(1)
    with pytest.raises(AttributeError):
        del Heavy().chance
    assert check_env(Heavy(), steps=20).groups == 2  # what is static in Coin is static in its subclass

    class ThreeGroups(Coin):
        def step(self, key, state, action):
            state, step = super().step(key, state, action)
            return state, step._replace(supply=jnp.zeros((1, 3)))

    with pytest.raises(EnvCheckError, match=r"ThreeGroups.step gives supply of shape \(1, 3\). Give \(1, 2\)"):
        check_env(ThreeGroups())

    class FromOne(Coin):
        label: ClassVar[str] = "not a parameter"

        @property
        def action_space(self):
            return gymnasium.spaces.Discrete(2, start=1)

    two = elbert.envs.WorldVectorEnv(FromOne(), 2)
    two.reset(seed=0)
    two.step(np.asarray([2, 1]))
    with pytest.raises(InvalidInputError, match="not a choice"):
        two.step(np.asarray([0, 1]))

    class Switches(Coin):
        @property
        def action_space(self) -> Any:
            return gymnasium.spaces.MultiBinary(2)

    with pytest.raises(InvalidInputError, match="Make it Discrete, MultiDiscrete or Box"):
        elbert.envs.WorldEnv(Switches())
    with pytest.raises(TypeError, match="names 'side' as static"):
        type("Wrong", (Coin,), {}, static=("side",))


def test_single_infos_may_hold_lists_or_two_criteria():
    assert step_benefits({"supply": [1, 0], "demand": [1, 1]}).supply.tolist() == [[1, 0]]
    two = step_benefits({"supply": [[1, 0], [0, 0]], "demand": [[1, 1], [2, 2]]})
    assert two.demand.tolist() == [[1, 1], [2, 2]]
