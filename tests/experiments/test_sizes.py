"""Sizes that fit: whole episodes, rollouts that grow with the training, and whatever is given beside them."""
# pyright: reportArgumentType=false

import pytest

import elbert
from elbert.errors import InvalidInputError
from elbert.experiments.resolve import resolve
from elbert.experiments.sizes import SIZES, sizes
from tests.learning.tiny import Probe


def of(steps, horizon=None, **given):
    return sizes(SIZES, given, steps, horizon)


def test_larger_trainings_have_larger_rollouts_and_more_of_them():
    assert of(100_000) == {"copies": 8, "rollout": 256, "minibatch": 256, "gamma": 0.99}
    assert of(1_000_000) == {"copies": 8, "rollout": 1024, "minibatch": 256, "gamma": 0.99}
    assert of(100_000_000)["minibatch"] == 4096, "an epoch has 32 gradient steps at the most"


def test_rollouts_hold_whole_episodes_where_their_length_is_known():
    assert of(1_000_000, 20) | {"gamma": 0} == {"copies": 32, "rollout": 260, "minibatch": 256, "gamma": 0}
    assert of(20_000_000, 10_000) == {"copies": 8, "rollout": 10_000, "minibatch": 2048, "gamma": 0.9995}
    assert of(100_000, 10_000)["rollout"] == 256, "unless they are as long as many rollouts"


@pytest.mark.parametrize("horizon", [None, 1, 7, 20, 1000, 10**6])
@pytest.mark.parametrize("steps", [1, 50, 5000, 10**6, 10**9])
def test_every_training_has_sizes_that_work(steps, horizon):
    every = ({}, {"copies": 3}, {"rollout": 50}, {"copies": 1, "rollout": 1}, {"minibatch": 700})
    for given in (*every, {"minibatch": 700, "copies": 3}, {"minibatch": 700, "rollout": 50}):
        fitting = {**of(steps, horizon, **given), **given}
        batch = fitting["copies"] * fitting["rollout"]
        assert 1 <= fitting["minibatch"] <= batch
        assert 0.99 <= fitting["gamma"] < 1


def test_what_is_given_stays():
    assert of(100_000, None, copies=4)["rollout"] == 512
    assert of(100_000, 20, copies=4)["rollout"] == 520
    assert of(100_000, None, rollout=64)["copies"] == 32
    request = resolve("own", "g-ppo", settings={"steps": 100_000, "copies": 4, "gamma": 0.5}, horizon=20)
    assert (request.settings.copies, request.settings.rollout, request.settings.gamma) == (4, 520, 0.5)


def test_a_world_of_ones_own_is_asked_how_long_its_episodes_are():
    agent = elbert.train(Probe(horizon=24), method="g-ppo", steps=600, hidden=[4], epochs=1, progress=None)
    assert (agent.settings.copies, agent.settings.rollout) == (8, 24)


def test_a_preset_of_ones_own_may_leave_sizes_open(tmp_path):
    mine = tmp_path / "mine.toml"
    mine.write_text('[lending]\nsteps = 1_000_000\nrollout = "auto"\ncopies = 2\nworld = { horizon = 50 }\n')
    settings = resolve("lending", "g-ppo", preset=str(mine)).settings
    assert (settings.copies, settings.rollout, settings.minibatch) == (2, 4100, 1024)
    mine.write_text('[lending]\nlearning_rate = "auto"\n')
    with pytest.raises(InvalidInputError, match="learning_rate is 'auto'"):
        resolve("lending", "g-ppo", preset=str(mine))
