"""An environment of one's own with three groups: wrapped, checked, judged, and learned from.

One nurse visits one of three districts a day and treats up to six patients there. Of those who are left waiting, half
give up. Treated patients are the benefit given (supply), new patients the benefit due (demand).
"""

from typing import Any

import gymnasium
import numpy as np

import elbert


class Nurse(gymnasium.Env):
    """Where to go today? Nothing here knows of fairness."""

    new_patients = np.asarray([4.0, 2.0, 1.0])  # mean per day and district
    observation_space = gymnasium.spaces.Box(0.0, np.inf, (3,), np.float32)
    action_space = gymnasium.spaces.Discrete(3)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """A first day without patients from the day before."""
        super().reset(seed=seed, options=options)
        self.day, self.new = 0, self.np_random.poisson(self.new_patients)
        self.waiting = self.new
        return self.waiting.astype(np.float32), {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Treat; then half of the rest stay, and the new patients of the next day come."""
        treated = np.zeros(3)
        treated[action] = min(6, self.waiting[action])
        info = {"treated": treated, "new": self.new}
        self.day, self.new = self.day + 1, self.np_random.poisson(self.new_patients)
        self.waiting = self.np_random.binomial(self.waiting - treated.astype(int), 0.5) + self.new
        return self.waiting.astype(np.float32), float(treated.sum()), False, self.day == 60, info


def make() -> gymnasium.Env[Any, Any]:
    """The same environment, which now says who received a benefit and who was due one."""
    return elbert.SupplyDemandWrapper(Nurse(), supply=lambda t: t.info["treated"], demand=lambda t: t.info["new"])


if __name__ == "__main__":
    env = make()
    print(elbert.check_env(env))
    supply, demand = np.zeros((100, 3)), np.zeros((100, 3))
    for episode in range(100):
        waiting, _ = env.reset(seed=episode)
        ended = False
        while not ended:  # always the longest queue
            waiting, _, terminated, truncated, info = env.step(int(np.argmax(waiting)))
            supply[episode] += info["supply"]
            demand[episode] += info["demand"]
            ended = terminated or truncated
    print(elbert.benefit_report(supply, demand))
    runs: dict[str, Any] = {"g-ppo": {}, "elbert-po": {"max_bias": 0.05}}
    for method, options in runs.items():
        judged = elbert.train(make, method=method, steps=40_000, **options).evaluate(200, env=make)
        print(f"{method}: reward {judged.reward.mean:.2f}, bias {judged.worst.bias.estimate:.3f}")
