"""Four groups with names: train under a limit, evaluate, compare with a rule of thumb, draw.

A clinic has five beds a day and patients from four districts. Each day it says which district goes first. A patient who
is turned away comes back the next day with probability one half. Treated patients are the benefit given (supply), new
patients the benefit due (demand).

    python examples/four_groups.py [--steps 60000] [--out comparison.png]
"""

import argparse
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

import elbert

DISTRICTS = ["north", "east", "south", "west"]


class Clinic(gymnasium.Env):
    """Which district goes first today? Nothing here knows of fairness."""

    new_patients = np.asarray([3.0, 2.0, 1.0, 0.5])  # mean per day and district
    observation_space = gymnasium.spaces.Box(0.0, np.inf, (4,), np.float32)
    action_space = gymnasium.spaces.Discrete(4)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """A first day without patients from the day before."""
        super().reset(seed=seed, options=options)
        self.day, self.new = 0, self.np_random.poisson(self.new_patients)
        self.waiting = self.new
        return self.waiting.astype(np.float32), {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """The chosen district first, then the others by the length of their queue, five beds in all."""
        order = [int(action), *(d for d in np.argsort(-self.waiting) if d != action)]
        treated, beds = np.zeros(4), 5
        for district in order:
            treated[district] = min(beds, self.waiting[district])
            beds -= int(treated[district])
        info = {"treated": treated, "new": self.new}
        self.day, self.new = self.day + 1, self.np_random.poisson(self.new_patients)
        self.waiting = self.np_random.binomial(self.waiting - treated.astype(int), 0.5) + self.new
        return self.waiting.astype(np.float32), float(treated.sum()), False, self.day == 40, info


def make() -> gymnasium.Env[Any, Any]:
    """The same environment, which now says who received a benefit and who was due one, by name."""
    return elbert.SupplyDemandWrapper(
        Clinic(), supply=lambda t: t.info["treated"], demand=lambda t: t.info["new"], group_names=DISTRICTS
    )


def longest_queue(observations: Any) -> Any:
    """A rule of thumb: the district with the most patients goes first."""
    return np.argmax(observations, axis=1)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=60_000)
    parser.add_argument("--episodes", type=int, default=200)
    parser.add_argument("--out", type=Path, default=Path("four-groups.png"))
    options = parser.parse_args()
    agent = elbert.train(make, max_bias=0.05, steps=options.steps)
    print(agent.evaluate(options.episodes))
    comparison = elbert.compare(
        {"limit 0.05": agent, "longest queue": longest_queue}, env=make, episodes=options.episodes
    )
    print(comparison)
    comparison.plot().savefig(options.out)
