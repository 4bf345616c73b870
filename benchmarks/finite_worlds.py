"""How close learning comes to the exact optimum in worlds that nobody tuned on: random finite SD-MDPs.

    python benchmarks/finite_worlds.py [--worlds 8] [--first 100] [--steps 100000 1000000] [--seed 0]

Each world has 9 to 15 states, 2 to 4 groups, 20 steps, and an action for serving each group or none. Serving some
groups costs more than it earns, so that a limit on the bias binds. `elbert.train(world, max_bias=0.05, steps=...)` is
told nothing else. The policy is not simulated: its reward, its rates and the optimum (`elbert.exact`) are computed. The
share is (reward - uniform) / (optimum - uniform): 0 for acting at random, 1 for the best possible, which may depend
on the time, as the policy may not. Worlds 0 to 7 were used in development; the others were not.
"""

import argparse
import sys
import time
from typing import Any, NamedTuple

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from cold import machine

import elbert
from elbert.envs.world import TimeStep, World
from elbert.exact import FiniteSDMDP, best_policy
from elbert.fairness.notions import Criterion, Notion
from elbert.tables import Column, Table

MAX_BIAS = 0.05
HORIZON = 20
SERVED = Notion(
    "served",
    Criterion("served", supply=lambda served, _: served, demand=lambda _, due: due),
    needs_qualified=True,
)


class Place(NamedTuple):
    """Where an episode stands."""

    state: jax.Array  # []
    time: jax.Array  # []


class FiniteWorld(World, static=("count",)):
    """A random finite SD-MDP. The observation is the state, one-hot; action g serves group g, the last one nobody."""

    move: Any  # [states, actions, states]
    reward: Any  # [states, actions]
    supply: Any  # [states, actions, groups]
    demand: Any  # [states, actions, groups]
    horizon: Any
    count: int

    def __init__(self, seed: int) -> None:
        """Draw everything from the seed."""
        rng = np.random.default_rng([seed, 20])
        states, self.count = int(rng.integers(9, 16)), int(rng.integers(2, 5))
        actions = self.count + 1
        self.move = rng.dirichlet(np.full(states, 0.3), (states, actions)).astype(np.float32)
        demand = rng.gamma(1.0, 1.0, (states, self.count)) + 0.05  # people who are due something, by state and group
        served = np.eye(actions, self.count) * rng.uniform(0.4, 1.0, (states, 1, self.count))  # what an action reaches
        earned = np.concatenate([rng.uniform(0.3, 1.0, 1), rng.uniform(-0.8, 0.2, self.count - 1)])
        noise = rng.normal(0.0, 0.2, (states, actions))
        self.demand = np.broadcast_to(demand[:, None], (states, actions, self.count)).astype(np.float32)
        self.supply = (served * demand[:, None]).astype(np.float32)
        self.reward = (self.supply @ earned + noise).astype(np.float32)
        self.horizon = np.int32(HORIZON)

    @property
    def groups(self) -> int:
        """How many groups there are."""
        return self.count

    @property
    def benefit(self) -> Notion:
        """People served over people due."""
        return SERVED

    @property
    def observation_space(self) -> gymnasium.spaces.Box:
        """The state, one-hot."""
        return gymnasium.spaces.Box(0.0, 1.0, (self.move.shape[0],), np.float32)

    @property
    def action_space(self) -> gymnasium.spaces.Discrete:
        """Whom to serve."""
        return gymnasium.spaces.Discrete(self.move.shape[1])

    def observe(self, state: jax.Array) -> jax.Array:
        """[states]"""
        return (jnp.arange(self.move.shape[0]) == state).astype(jnp.float32)

    def reset(self, key: jax.Array) -> tuple[Place, jax.Array]:
        """State 0."""
        del key
        place = Place(jnp.zeros((), jnp.int32), jnp.zeros((), jnp.int32))
        return place, self.observe(place.state)

    def step(self, key: jax.Array, state: Place, action: jax.Array) -> tuple[Place, TimeStep]:
        """Serve somebody, and move on."""
        at = (state.state, action)
        following = jax.random.categorical(key, jnp.log(jnp.asarray(self.move)[at])).astype(jnp.int32)
        after, never = Place(following, state.time + 1), jnp.zeros((), bool)
        reward, supply, demand = (jnp.asarray(part)[at] for part in (self.reward, self.supply, self.demand))
        truncated = self.is_truncated(after.time)
        return after, TimeStep(self.observe(following), reward, supply[None], demand[None], never, truncated)

    def as_arrays(self) -> FiniteSDMDP:
        """The same for the exact room."""
        move = np.asarray(self.move, float)
        return FiniteSDMDP(
            move / move.sum(axis=-1, keepdims=True),
            self.reward,
            self.supply,
            self.demand,
            start=np.eye(len(move))[0],
            horizon=HORIZON,
        )


class Outcome(NamedTuple):
    """What a training reached, exactly."""

    world: int
    states: int
    groups: int
    share: float  # of the way from acting at random to the optimum within the limit
    bias: float
    seconds: float  # of the whole call

    def row(self) -> tuple[str, ...]:
        """One line of the table."""
        kept = "yes" if self.bias <= MAX_BIAS else "NO"
        sizes = (str(self.world), str(self.states), str(self.groups))
        return (*sizes, f"{self.share:.3f}", f"{self.bias:.4f}", kept, f"{self.seconds:.0f}")


COLUMNS = (
    *(Column(name, right=True) for name in ("world", "states", "groups", "share", "bias")),
    Column("limit kept"),
    Column("seconds", right=True),
)


def outcome(number: int, best: float, steps: int, seed: int) -> Outcome:
    """Train in a world and compute what the policy reaches."""
    world = FiniteWorld(number)
    mdp = world.as_arrays()
    begun = time.monotonic()
    agent = elbert.train(world, max_bias=MAX_BIAS, steps=steps, seed=seed, progress=None)
    seconds = time.monotonic() - begun
    chances = np.asarray(agent.action_probabilities(np.eye(mdp.states, dtype=np.float32)), float)
    reached = mdp.totals(chances / chances.sum(axis=-1, keepdims=True))
    uniform = mdp.totals(np.full((mdp.states, mdp.actions), 1 / mdp.actions)).reward
    share = (reached.reward - uniform) / (best - uniform)
    return Outcome(number, mdp.states, mdp.groups, share, reached.bias, seconds)


def main() -> None:
    """Train in every world, print a table for each number of steps."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worlds", type=int, default=8)
    parser.add_argument("--first", type=int, default=100)
    parser.add_argument("--steps", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    numbers = range(options.first, options.first + options.worlds)
    best = {number: best_policy(FiniteWorld(number).as_arrays(), MAX_BIAS, tolerance=1e-4).reward for number in numbers}
    print(machine())
    for steps in options.steps:
        outcomes = []
        for number in numbers:
            outcomes.append(outcome(number, best[number], steps, options.seed))
            print(*outcomes[-1].row(), file=sys.stderr, flush=True)
        shares = [each.share for each in outcomes]
        kept = sum(each.bias <= MAX_BIAS for each in outcomes)
        print(f"{steps:,} steps: share {np.mean(shares):.3f} on average, {min(shares):.3f} at worst; ", end="")
        print(f"{kept} of {len(outcomes)} limits kept")
        print(Table(COLUMNS, tuple(each.row() for each in outcomes)).to_markdown())


if __name__ == "__main__":
    main()
