"""Worlds of many people and many sites: what a step costs, and whether policies by parts learn there.

    python benchmarks/large_worlds.py [--only epidemic attention vaccinate inspect] [--people N ...] [--sites N ...]
                                      [--few N] [--many N] [--few-iterations N] [--many-iterations N] [--many-copies N]
                                      [--act-among N ...] [--max-bias LIMIT] [--inspect-few N] [--inspect-many N]
                                      [--inspect-bias LIMIT] [--episodes N] [--seed SEED] [--save FILE]

`epidemic` and `attention` time one step of one copy, compiled, over a course of steps with random actions, and a step
of a training by parts; they fit the exponent of the time over the size. `vaccinate` trains a policy by parts under a
limit in an epidemic, first among few people and from there among many, and compares it with rules in the same episodes,
in networks that it has never seen. `inspect` does so in attention, and compares with an untrained policy and a rule.
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
from elbert.learning import Agent
from elbert.learning.evaluation import Evaluable

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


def seconds_per_learned_step(world: World) -> float:
    """Of a training by parts: one step of one copy, and what is learned from it in two epochs; the best iteration."""
    seconds: list[float] = []
    elbert.train(
        world,
        method="g-ppo",
        policy="parts",
        hidden=[16, 16],
        signals="auto",
        steps=RUNS * 4 * STEPS,
        copies=4,
        rollout=STEPS,
        minibatch=2 * STEPS,
        epochs=2,
        callbacks=[lambda iteration: seconds.append(iteration.seconds)],
        progress=None,
    )
    return float(np.diff(seconds).min()) / (4 * STEPS)


def time_steps(
    name: str, time_of: Callable[[World], float], make: Callable[[int], World], sizes: Sequence[int]
) -> None:
    """Print the time of a step for each size, and the exponent."""
    times = []
    for size in sizes:
        times.append(time_of(make(size)))
        print(f"{name}: {size:>9,}   {1e3 * times[-1]:9.3f} ms per step", flush=True)
    if len(sizes) > 1:
        slope = np.polyfit(np.log(sizes), np.log(times), 1)[0]
        print(f"{name}: time grows with the size to the power of {slope:.2f}", flush=True)


def compare(world: World, policies: Sequence[Evaluable], episodes: int, max_bias: float, names: Sequence[str]) -> None:
    """Print how policies do in the same fresh episodes."""
    for who, name in zip(policies, names, strict=True):
        begun = time.perf_counter()
        result = who.evaluate(episodes, seed=1, env=world, max_bias=max_bias, progress=None)
        reward, bias, limit = result.reward, result.worst.bias, result.limit
        assert limit is not None
        print(
            f"  {name:24} reward {reward.mean:.4f} ({reward.low:.4f} .. {reward.high:.4f})  debiased bias "
            f"{bias.debiased:.4f}  {limit.verdict}  {episodes} episodes, {time.perf_counter() - begun:.0f} s",
            flush=True,
        )


def learned(what: str, world: World, iterations: int, copies: int, **settings: Any) -> Agent:
    """Train by parts, and print how long it took, the choice of the policy included."""
    steps, begun = iterations * copies * STEPS, time.perf_counter()
    agent = elbert.train(
        world,
        policy="parts",
        hidden=[16, 16],
        signals="auto",
        steps=steps,
        copies=copies,
        rollout=STEPS,
        progress=None,
        **settings,
    )
    print(f"{what}: {steps:,} steps in {time.perf_counter() - begun:.0f} s", flush=True)
    return agent


def vaccinate(given: argparse.Namespace) -> None:
    """Train by parts under a limit among few people, then among many, and compare with rules."""
    common = {"seed": given.seed, "max_bias": given.max_bias, "gae_lambda": 0.95}
    few = learned(
        f"vaccinate: among {given.few:,} people",
        epidemic(given.few),
        given.few_iterations,
        copies=64,
        minibatch=320,
        epochs=4,
        gamma=0.6,
        learning_rate=1e-2,
        **common,
    )
    many = learned(
        f"vaccinate: from there among {given.many:,}",
        epidemic(given.many),
        given.many_iterations,
        start=few,
        copies=given.many_copies,
        minibatch=given.many_copies * STEPS // 4,
        epochs=2,
        gamma=0.4,
        learning_rate=3e-3,
        **common,
    )
    if given.save is not None:
        many.save(given.save)
    rules = [get_rule(f"rule:infectious/{name}") for name in ("nobody", "degree", "exposed")]
    names = [*(rule.name for rule in rules), f"among {given.few:,}", f"then among {given.many:,}"]
    for size in (given.many, *given.act_among):
        print(f"vaccinate: in another network of {size:,} people", flush=True)
        episodes = max(min(given.episodes, given.episodes * given.many // size), 4)
        compare(epidemic(size, seed=1), (*rules, few, many), episodes, given.max_bias, names)


def inspect(given: argparse.Namespace) -> None:
    """The same in attention: among few sites, then among many, and compare with an untrained policy and a rule."""
    common = {"seed": given.seed, "max_bias": given.inspect_bias, "initial_deviation": 0.5}
    many = allocation(given.inspect_many)
    untrained = learned("inspect: untrained", many, 1, copies=16, minibatch=80, epochs=1, learning_rate=1e-12, **common)
    few = learned(
        f"inspect: among {given.inspect_few:,} sites",
        allocation(given.inspect_few),
        200,
        copies=64,
        minibatch=320,
        epochs=4,
        gamma=0.5,
        learning_rate=1e-2,
        deviation_kept=0.2,
        **common,
    )
    then = learned(
        f"inspect: from there among {given.inspect_many:,}",
        many,
        30,
        start=few,
        copies=16,
        minibatch=80,
        epochs=2,
        gamma=0.0,
        learning_rate=2e-3,
        **common,
    )
    policies = (untrained, get_rule("rule:attention/proportional"), few, then)
    names = ("untrained", "proportional", f"among {given.inspect_few:,}", f"then among {given.inspect_many:,}")
    compare(many, policies, 4 * given.episodes, given.inspect_bias, names)


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    kinds = ("epidemic", "attention", "vaccinate", "inspect")
    parser.add_argument("--only", nargs="+", choices=kinds, default=kinds)
    parser.add_argument("--people", nargs="+", type=int, default=[1_000, 10_000, 100_000])
    parser.add_argument("--sites", nargs="+", type=int, default=[10, 100, 1_000, 10_000])
    parser.add_argument("--few", type=int, default=200, help="people of the first training")
    parser.add_argument("--many", type=int, default=10_000, help="people of the second one, which starts from it")
    parser.add_argument("--many-copies", type=int, default=8)
    parser.add_argument("--few-iterations", type=int, default=250)
    parser.add_argument("--many-iterations", type=int, default=30)
    parser.add_argument("--act-among", nargs="*", type=int, default=[100_000])
    parser.add_argument("--max-bias", type=float, default=0.02)
    parser.add_argument("--inspect-few", type=int, default=20, help="sites of the first training")
    parser.add_argument("--inspect-many", type=int, default=1_000, help="sites of the second one, which starts from it")
    parser.add_argument("--inspect-bias", type=float, default=0.1)
    parser.add_argument("--episodes", type=int, default=64)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--save", help="file for the agent trained among many")
    given = parser.parse_args()
    if "epidemic" in given.only:
        time_steps("epidemic", seconds_per_step, epidemic, given.people)
        time_steps("epidemic, learned from", seconds_per_learned_step, epidemic, given.people)
    if "attention" in given.only:
        time_steps("attention", seconds_per_step, allocation, given.sites)
        time_steps("attention, learned from", seconds_per_learned_step, allocation, given.sites)
    if "vaccinate" in given.only:
        vaccinate(given)
    if "inspect" in given.only:
        inspect(given)


if __name__ == "__main__":
    main()
