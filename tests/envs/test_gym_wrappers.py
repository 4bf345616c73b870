"""Wrappers that add supply and demand to an environment of a user's own, single or vectorised."""

import copy
import dataclasses
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import elbert
from elbert.envs import NotionWrapper, SupplyDemandWrapper, Transition, check_env
from elbert.envs.gym_infos import before_reset
from elbert.envs.gym_returns import benefit_rows
from elbert.errors import InvalidInputError
from elbert.fairness import Criterion, Notion

from .own import Clinic, Counter, clinic


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


def assert_same_benefits(one, other, ended, before):
    next_step = one[0].metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
    stepped = ~before if next_step else np.ones_like(ended)
    for _, (*_, info) in (one, other):
        shown = info.get("_supply", np.zeros_like(ended)) | info.get("final_info", {}).get("_supply", False)
        assert np.array_equal(shown, stepped)
    if stepped.any():
        infos = [before_reset(env, result[0], result[4], ended)[1] for env, result in (one, other)]
        assert np.array_equal(benefit_rows(infos[0], stepped), benefit_rows(infos[1], stepped))


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
        assert_same_benefits((inner, one), (outer, other), ended, before)
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
        assert_same_benefits((inner, one), (outer, other), ended, before)
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
    with pytest.raises(InvalidInputError, match=r"is for one environment.* Use SupplyDemandVectorWrapper"):
        SupplyDemandWrapper(vector, supply=lambda t: 0, demand=lambda t: 0)
    with pytest.raises(InvalidInputError, match=r"is for one environment.* Use NotionVectorWrapper"):
        NotionWrapper(vector, "demographic-parity", groups=1)
    env = copy.deepcopy(clinic())
    env.reset(seed=0)
    assert "supply" in env.step(0)[4]
    with pytest.raises(InvalidInputError, match="Use SupplyDemandWrapper"):
        elbert.SupplyDemandVectorWrapper(Clinic(), supply=lambda t: 0, demand=lambda t: 0)
    env = elbert.SupplyDemandVectorWrapper(vector, supply=lambda t: [1, 2], demand=lambda t: [1, 2])
    env.reset(seed=0)
    with pytest.raises(InvalidInputError, match=r"supply has shape \(2,\) for 1 copies. Give .* here \[1, groups\]"):
        env.step(np.asarray([0]))


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
    with pytest.raises(InvalidInputError, match='info has no "group" for copy 1, although it made a step'):
        env.step(np.asarray([1, 1]))


def test_a_notion_that_forbids_more_supply_than_demand_is_heeded():
    twice = Criterion("helped", supply=lambda d, q: 2 * d, demand=lambda d, q: d)
    env = NotionWrapper(Counter(), Notion("twice", twice), groups=2)
    env.reset(seed=0)
    with pytest.raises(InvalidInputError, match="supply exceeds demand"):
        env.step(1)
    env = NotionWrapper(Counter(), Notion("twice", dataclasses.replace(twice, bounded=False)), groups=2)
    env.reset(seed=0)
    assert env.step(1)[4]["supply"].tolist() == [2, 0]


@pytest.mark.parametrize("groups", [0, 2.0, "2"])
def test_the_number_of_groups_is_checked_before_anything_runs(groups):
    with pytest.raises(InvalidInputError, match="groups is"):
        NotionWrapper(Counter(), "demographic-parity", groups=groups)
