"""Worlds of many people and many sites: what a step costs, and whether policies by parts learn there.

    python benchmarks/large_worlds.py [--only epidemic attention train] [--people N ...] [--sites N ...]
                                      [--train-people N] [--iterations N] [--max-bias LIMIT] [--seed SEED]
                                      [--act-among N ...] [--episodes N] [--save FILE]

`epidemic` and `attention` time one step of one copy, compiled, over a course of steps with random actions, and fit the
exponent of the time over the size. `train` trains a policy by parts under a limit in an epidemic, and compares it with
rules in the same episodes: in a network of the size of training, and in larger ones that the policy has never seen.
Times are the best of several runs: note what else the machine does.
"""

import argparse
import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import elbert
from elbert.envs import Attention, Infectious, World
from elbert.exact.rules import get_rule

COMMUNITIES = (0.6, 0.3, 0.1)  # shares of the people
DEGREE = 8.0  # mean number of acquaintances
WITHIN = 0.9  # of the acquaintances that are drawn from one's own community
STEPS, RUNS = 20, 5


def network(people: int, seed: int = 0) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """A random network with communities: pairs, mostly within a community, and the community of each person."""
    rng = np.random.default_rng(seed)
    ends = np.cumsum((np.asarray(COMMUNITIES) * people).astype(int))
    ends[-1] = people
    starts = np.concatenate([[0], ends[:-1]])
    group = np.searchsorted(ends, np.arange(people), side="right")
    first = rng.integers(0, people, int(DEGREE * people / 2))
    near = starts[group[first]] + (rng.random(len(first)) * (ends - starts)[group[first]]).astype(int)
    second = np.where(rng.random(len(first)) < WITHIN, near, rng.integers(0, people, len(first)))
    pairs = np.stack([first, second], axis=1)
    return pairs[first != second], group


def epidemic(people: int, seed: int = 0) -> Infectious:
    """A disease that 1 % of the people have at first, and doses for 0.5 % of them in every step."""
    edges, group = network(people, seed)
    return Infectious(
        graph=edges,
        groups=group,
        infection=0.1,
        recovery=0.1,
        supply="effective",
        first_case=None,
        first_cases=people // 100,
        burn_in=0,
        doses=people // 200,
        horizon=STEPS,
    )


def allocation(sites: int, seed: int = 0) -> Attention:
    """Sites whose rates differ, and 1.2 units for each, as in the published world."""
    rates = np.random.default_rng(seed).uniform(1.0, 8.0, sites)
    return Attention(initial_rates=rates, units=int(1.2 * sites), horizon=STEPS)


def seconds_per_step(world: World) -> float:
    """Of one copy, over a compiled course of steps with random actions; the best of several runs."""
    space = world.action_space
    space.seed(0)
    actions = jnp.asarray(np.stack([space.sample() for _ in range(STEPS)]))

    @jax.jit
    def course(world: World, key: jax.Array) -> Any:
        def step(state: Any, now: Any) -> Any:
            state, shown = world.step(now[0], state, now[1])
            return state, (shown.reward, shown.supply, shown.observation.sum())

        key_reset, key_steps = jax.random.split(key)
        return jax.lax.scan(step, world.reset(key_reset)[0], (jax.random.split(key_steps, STEPS), actions))[1]

    jax.block_until_ready(course(world, jax.random.key(0)))
    times = []
    for run in range(RUNS):
        begun = time.perf_counter()
        jax.block_until_ready(course(world, jax.random.key(run)))
        times.append(time.perf_counter() - begun)
    return min(times) / STEPS


def time_steps(name: str, make: Callable[[int], World], sizes: Sequence[int]) -> None:
    """Print the time of a step for each size, and the exponent."""
    times = []
    for size in sizes:
        times.append(seconds_per_step(make(size)))
        print(f"{name}: {size:>9,}   {1e3 * times[-1]:9.3f} ms per step", flush=True)
    if len(sizes) > 1:
        slope = np.polyfit(np.log(sizes), np.log(times), 1)[0]
        print(f"{name}: time grows with the size to the power of {slope:.2f}", flush=True)


def train(
    people: int, iterations: int, max_bias: float, seed: int, act_among: Sequence[int], episodes: int, save: str | None
) -> None:
    """Train by parts under a limit, and print how policy and rules do in the same fresh episodes."""
    settings = {"copies": 64, "rollout": STEPS, "minibatch": 320, "epochs": 4, "hidden": [16, 16], "gamma": 0.97}
    steps = iterations * 64 * STEPS
    begun = time.perf_counter()
    agent = elbert.train(
        epidemic(people),
        max_bias=max_bias,
        policy="parts",
        signals="auto",
        steps=steps,
        seed=seed,
        learning_rate=3e-3,
        progress=None,
        **settings,
    )
    print(f"train: {people:,} people, {steps:,} steps: {time.perf_counter() - begun:.0f} s", flush=True)
    if save is not None:
        agent.save(save)
    for size in (people, *act_among):
        world = epidemic(size, seed=1)  # another network, of which training saw nothing
        rules = [get_rule(f"rule:infectious/{name}") for name in ("nobody", "degree", "exposed")]
        for who in (*rules, agent):
            result = who.evaluate(episodes, seed=1, env=world, max_bias=max_bias, progress=None)
            reward, bias, limit = result.reward, result.worst.bias, result.limit
            assert limit is not None
            print(
                f"{size:>9,} people {result.method:20} reward {reward.mean:.4f} ({reward.low:.4f} .. {reward.high:.4f})"
                f"  debiased bias {bias.debiased:.4f}  {limit.verdict}",
                flush=True,
            )


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    kinds = ("epidemic", "attention", "train")
    parser.add_argument("--only", nargs="+", choices=kinds, default=kinds)
    parser.add_argument("--people", nargs="+", type=int, default=[1_000, 10_000, 100_000])
    parser.add_argument("--sites", nargs="+", type=int, default=[10, 100, 1_000, 10_000])
    parser.add_argument("--train-people", type=int, default=500)
    parser.add_argument("--act-among", nargs="*", type=int, default=[10_000, 100_000])
    parser.add_argument("--episodes", type=int, default=64)
    parser.add_argument("--iterations", type=int, default=200)
    parser.add_argument("--max-bias", type=float, default=0.02)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--save", help="file for the trained agent")
    given = parser.parse_args()
    if "epidemic" in given.only:
        time_steps("epidemic", epidemic, given.people)
    if "attention" in given.only:
        time_steps("attention", allocation, given.sites)
    if "train" in given.only:
        train(
            given.train_people,
            given.iterations,
            given.max_bias,
            given.seed,
            given.act_among,
            given.episodes,
            given.save,
        )


if __name__ == "__main__":
    main()
