"""What each number of the controller of `--max-bias` is worth: training without it, everything else as it is.

    python benchmarks/ablations.py [--out FOLDER] [--seeds 10 11 12] [--part 0.5] [--env ENV ...] [VARIANT ...]

Each variant takes one number away (no memory, no bound, no average, the last policy instead of a choice) or, where a
number has no zero, halves and doubles it. All train with a part of the preset's steps, on seeds that no setting was
found on. docs/learning.md has the table. What is finished is not run again.
"""

import argparse
import math
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import ClassVar

import jax
import jax.numpy as jnp

import elbert
from elbert.experiments.resolve import resolve
from elbert.files import read_json, write_json
from elbert.learning.methods.bias_limit import BiasLimit, Controller, LimitState
from elbert.learning.methods.limited import Choice
from elbert.learning.methods.weighing import filled_rates
from elbert.learning.rollouts import Window
from elbert.tables import Column, Table, number

PLANS: Mapping[str, tuple[float, int]] = {
    "lending": (0.02, 1000),
    "attention-harder": (0.02, 400),
    "infectious": (0.05, 5000),
    "infectious-harder": (0.02, 5000),
}
"""The limit in each environment, and the episodes of the evaluation."""


class WithoutMoved(BiasLimit):
    """What one iteration changes neither softens the slopes nor is tolerated."""

    def _moved(self, state: LimitState, done: Window) -> jax.Array:
        del done
        return jnp.zeros_like(state.moved)


class WithoutForesight(BiasLimit):
    """Rollouts are all that is known of the policy's changes."""

    foresees: ClassVar[bool] = False


class HardSlopes(BiasLimit):
    """The slopes of the plain bias."""

    def slopes(self, state: LimitState) -> jax.Array:
        """1 for the group ahead, -1 for the group behind.   [criteria, groups]"""
        rates = filled_rates(state.recent.supply, state.recent.demand)
        groups = jnp.arange(rates.shape[-1])
        ahead, behind = jnp.argmax(rates, axis=-1)[:, None], jnp.argmin(rates, axis=-1)[:, None]
        slope = (groups == ahead).astype(jnp.float32) - (groups == behind)
        return jnp.where(state.recent.demand > 0, slope, 0.0)


@dataclass(frozen=True)
class Variant:
    """A method with one number taken away."""

    controller: Controller = field(default_factory=Controller)
    choice: Choice = field(default_factory=Choice)
    method: type[BiasLimit] = BiasLimit


VARIANTS: Mapping[str, Variant] = {
    "as it is": Variant(),
    "no foresight": Variant(method=WithoutForesight),
    "short memory": Variant(Controller(keep=(0.8, 0.8), keep_recent=(0.5, 0.5))),
    "long memory": Variant(Controller(keep=(0.95, 0.95), keep_recent=(0.9, 0.9))),
    "keep_recent = keep": Variant(Controller(keep_recent=(0.8, 0.95))),
    "keep_belief 0.5": Variant(Controller(keep_belief=0.5)),
    "margin 0": Variant(Controller(margin=0.0)),
    "last_part 0.2": Variant(Controller(last_part=0.2)),
    "integral 7.5": Variant(Controller(integral=7.5)),
    "integral 30": Variant(Controller(integral=30.0)),
    "integral_most 1e9": Variant(Controller(integral_most=1e9)),
    "integral_least 1": Variant(Controller(integral_least=1.0)),
    "integral_ends 1e9": Variant(Controller(integral_ends=(-1e9, 1e9))),
    "proportional 0": Variant(Controller(proportional=0.0)),
    "smooth 1.5": Variant(Controller(smooth=1.5)),
    "smooth 6": Variant(Controller(smooth=6.0)),
    "hard slopes": Variant(method=HardSlopes),
    "no moved": Variant(method=WithoutMoved),
    "keep_moved 0": Variant(Controller(keep_moved=0.0)),
    "last policy": Variant(choice=Choice(last_part=0.0)),
    "candidates 3": Variant(choice=Choice(candidates=3)),
    "no lines": Variant(choice=Choice(least_gain=math.inf)),
}


@dataclass(frozen=True)
class Outcome:
    """What the seeds of a variant reached in one environment."""

    rewards: list[float]  # per step
    biases: list[float]  # debiased
    verdicts: list[str]
    seconds: float

    def row(self, name: str) -> tuple[str, ...]:
        """One line of the table."""
        return (
            name,
            number(sum(self.rewards) / len(self.rewards)),
            ", ".join(number(reward) for reward in self.rewards),
            ", ".join(number(bias) for bias in self.biases),
            ", ".join(self.verdicts),
        )


COLUMNS = (
    Column("variant"),
    Column("reward", right=True),
    Column("per seed"),
    Column("debiased bias per seed"),
    Column("verdicts"),
)


def outcome(env: str, variant: Variant, seeds: list[int], part: float) -> Outcome:
    """Train and evaluate."""
    max_bias, episodes = PLANS[env]
    method = variant.method(max_bias=max_bias, controller=variant.controller, choice=variant.choice)
    steps = int(part * resolve(env, "elbert-po", settings={"max_bias": max_bias}).settings.steps)
    begun = time.monotonic()
    agents = elbert.train_many(env, method=method, seeds=seeds, steps=steps)
    results = [agent.evaluate(episodes=episodes, seed=5) for agent in agents]
    return Outcome(
        rewards=[result.reward.mean for result in results],
        biases=[result.worst.bias.debiased or 0.0 for result in results],
        verdicts=[result.limit.verdict for result in results if result.limit is not None],
        seconds=time.monotonic() - begun,
    )


def main() -> None:
    """Train, evaluate, print a table for each environment."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("variant", nargs="*", default=list(VARIANTS))
    parser.add_argument("--out", type=Path, default=Path("runs/ablations"))
    parser.add_argument("--seeds", type=int, nargs="+", default=[10, 11, 12])
    parser.add_argument("--part", type=float, default=0.5)
    parser.add_argument("--env", nargs="+", default=list(PLANS), choices=list(PLANS))
    options = parser.parse_args()
    for env in options.env:
        rows = []
        for name in options.variant:
            path = options.out / f"{env}-{options.part:g}" / f"{name.replace(' ', '-')}.json"
            if not path.exists():
                print(f"{env}, {name} ...", file=sys.stderr, flush=True)
                path.parent.mkdir(parents=True, exist_ok=True)
                write_json(path, asdict(outcome(env, VARIANTS[name], options.seeds, options.part)))
            rows.append(Outcome(**read_json(path)).row(name))
        print(f"{env}, limit {PLANS[env][0]:g}, {options.part:g} of the preset's steps\n")
        print(Table(COLUMNS, tuple(rows)).to_markdown())


if __name__ == "__main__":
    main()
