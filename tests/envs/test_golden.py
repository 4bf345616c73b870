"""The worlds against the implementation behind the published numbers, and against exact values."""

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from elbert.envs import Attention, make_world

from .simulation import mean_and_error, pooled, pooled_bias, simulate

GOLDEN = json.loads((Path(__file__).parent / "golden.json").read_text())
POLICIES = {
    "always_accept": lambda key, observation: jnp.asarray(1),
    "never": lambda key, observation: jnp.asarray(34),
    "uniform": lambda key, observation: jnp.zeros(5),
}
RANDOM = {
    "lending-2048": lambda key, observation: jax.random.bernoulli(key).astype(int),
    "infectious": lambda key, observation: jax.random.randint(key, (), 0, 35),
}
WORLDS = {
    "lending-10000": ("lending", {"horizon": 10_000}),
    "lending-2048": ("lending", {}),
}
EPISODES = {"lending-10000": 256, "lending-2048": 1024, "infectious": 8192, "infectious-harder": 8192}
CASES = [(setting, policy) for setting in GOLDEN if setting != "about" for policy in GOLDEN[setting]]


def differences(setting, policy):
    """(what, difference in combined standard errors) for every number of one golden entry."""
    golden = GOLDEN[setting][policy]
    name, parameters = WORLDS.get(setting, (setting, {}))
    act = RANDOM[setting] if policy == "random" else POLICIES[policy]
    totals = simulate(make_world(name, **parameters), act, episodes=EPISODES.get(setting, 256))
    ours = {
        "reward_per_step": mean_and_error(totals.reward / totals.steps),
        "supply_per_step": mean_and_error(totals.supply[:, 0] / totals.steps),
        "demand_per_step": mean_and_error(totals.demand[:, 0] / totals.steps),
        "ratio_pooled": tuple(part[0] for part in pooled(totals)),
        "bias_pooled": pooled_bias(totals),
    }
    for what, (estimate, error) in ours.items():
        theirs, their_error = np.asarray(golden[what]), np.asarray(golden[f"{what}_se"])
        combined = np.sqrt(error**2 + their_error**2)
        gap = np.abs(estimate - theirs)
        yield (
            what,
            np.max(np.where(combined > 0, gap / np.where(combined > 0, combined, 1), np.where(gap > 0, np.inf, 0))),
        )


@pytest.mark.slow
@pytest.mark.parametrize(("setting", "policy"), CASES)
def test_within_four_standard_errors_of_the_published_implementation(setting, policy):
    found = dict(differences(setting, policy))
    assert len(found) == 5
    assert max(found.values()) < 4, found


def test_every_golden_entry_is_tried():
    assert len(CASES) == 7


def threshold(low_0, low_1):
    """Accept from these scores on; the observation starts with one-hot score (7) and group (2)."""

    def act(key, observation):
        score, group = jnp.argmax(observation[:7]), jnp.argmax(observation[7:9])
        return (score >= jnp.where(group == 0, low_0, low_1)).astype(int)

    return act


@pytest.mark.slow
@pytest.mark.parametrize(
    ("lows", "episodes", "reward", "bias"),
    [
        ((3, 3), 1024, 0.1468, 0.1645),
        ((2, 2), 512, 0.1856, 0.0922),
        ((1, 1), 512, 0.1861, 0.0620),
        ((2, 1), 512, 0.1860, 0.0244),
    ],
)
def test_thresholds_in_lending_reach_their_exact_values(lows, episodes, reward, bias):
    totals = simulate(make_world("lending", horizon=10_000), threshold(*lows), episodes=episodes)
    rounding = 0.00005  # the exact values are given to four digits
    found, error = mean_and_error(totals.reward / totals.steps)
    assert abs(found - reward) < 4 * error + rounding
    assert error < 0.001
    found, error = pooled_bias(totals)
    assert abs(found - bias) < 4 * error + rounding
    assert error < 0.002


@pytest.mark.parametrize(
    ("logits", "six", "thirty"),
    [
        ((0, 0, 0, 0, 0), (2, 1, 1, 1, 1), (6, 6, 6, 6, 6)),
        ((1, 0.5, 0, -0.5, -1), (3, 1, 1, 1, 0), (13, 8, 4, 3, 2)),
        ((0.25, -0.75, 1.5, 2.25, -2.5), (0, 0, 2, 4, 0), (2, 1, 9, 18, 0)),
        ((1, 1, 0, 0, 0), (2, 2, 1, 1, 0), (10, 10, 4, 3, 3)),
        ((-0.3, 0.7, 1.1, -2.2, 0.05), (1, 2, 2, 0, 1), (3, 9, 13, 0, 5)),
    ],
)
def test_allocations_come_out_exactly(logits, six, thirty):
    for name, units in (("attention", six), ("attention-harder", thirty)):
        world = make_world(name)
        assert isinstance(world, Attention)
        assert tuple(world.allocate(jnp.asarray(logits))) == units
