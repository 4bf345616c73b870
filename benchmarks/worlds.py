"""How many steps a second the worlds take on one core, beside a plain Python loop over single environments.

python benchmarks/worlds.py

Three ways of taking the same kind of step (random action, new state, reward, supply, demand, observation):
    compiled    1 024 copies inside one compiled loop over steps
    make_vec    1 024 copies through gymnasium.make_vec, one call from Python per step of all copies
    loop        a Python loop over single environments from gymnasium.make
"""

import os

os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # before JAX starts its threads

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np

import elbert
from elbert.envs import ENTRIES, Infectious, World, make_world

COPIES, STEPS, REPEATS = 1024, 256, 10
AT_LEAST = {"lending": 2e6, "infectious": 5e5, "attention": 2e5, "waiting-list": 1e5}


def fastest(work: Callable[[], Any]) -> float:
    """Seconds of the fastest of a few runs, after one that compiles."""
    work()
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def random_actions(world: World, key: jax.Array) -> jax.Array:
    """One random action for every copy."""
    space = world.action_space
    if isinstance(space, gymnasium.spaces.Discrete):
        return jax.random.randint(key, (COPIES,), 0, int(space.n))
    return jax.random.uniform(key, (COPIES, *(space.shape or ())), minval=-3.0, maxval=3.0)


@partial(jax.jit, static_argnums=1)
def rollout(world: World, steps: int, key: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Sums over all that the steps show, so that nothing can be left out; episodes that end start anew."""
    key_reset, key_steps = jax.random.split(key)

    def one_step(carry: Any, key_now: jax.Array) -> tuple[Any, Any]:
        states, _ = carry
        key_action, key_step, key_new = jax.random.split(key_now, 3)
        actions = random_actions(world, key_action)
        states, step = jax.vmap(world.step)(jax.random.split(key_step, COPIES), states, actions)
        ended = step.terminated | step.truncated

        def with_resets() -> Any:
            fresh = jax.vmap(world.reset)(jax.random.split(key_new, COPIES))
            rows = partial(jax.tree.map, lambda a, b: jnp.where(ended.reshape(-1, *(1,) * (a.ndim - 1)), a, b))
            return rows(fresh, (states, step.observation))

        carry = jax.lax.cond(ended.any(), with_resets, lambda: (states, step.observation))
        return carry, (step.reward.sum() + step.supply.sum() + step.demand.sum(), carry[1].sum())

    start = jax.vmap(world.reset)(jax.random.split(key_reset, COPIES))
    return jax.lax.scan(one_step, start, jax.random.split(key_steps, steps))[1]


def compiled_rate(world: World, steps: int = STEPS) -> float:
    """Steps a second inside one compiled loop."""
    return COPIES * steps / fastest(lambda: jax.block_until_ready(rollout(world, steps, jax.random.key(0))))


def vector_rate(identifier: str) -> float:
    """Steps a second through gymnasium.make_vec."""
    env = gymnasium.make_vec(identifier, num_envs=COPIES)
    env.reset(seed=0)
    actions = [env.action_space.sample() for _ in range(50)]
    return COPIES * len(actions) / fastest(lambda: [env.step(action) for action in actions])


def loop_rate(identifier: str) -> float:
    """Steps a second of a Python loop over 8 single environments."""
    envs = [gymnasium.make(identifier, disable_env_checker=True) for _ in range(8)]
    for i, env in enumerate(envs):
        env.reset(seed=i)

    def work() -> None:
        for _ in range(40):
            for env in envs:
                _, _, terminated, truncated, _ = env.step(env.action_space.sample())
                if terminated or truncated:
                    env.reset()

    return 8 * 40 / fastest(work)


def network_seconds(people: int, degree: int) -> float:
    """Seconds of one step in a random network of so many people."""
    rng = np.random.default_rng(0)
    pairs = rng.integers(0, people, (people * degree // 2, 2))
    world = Infectious(graph=pairs[pairs[:, 0] != pairs[:, 1]], groups=rng.integers(0, 2, people))
    state, _ = world.reset(jax.random.key(0))
    step = jax.jit(world.step)
    key, nobody = jax.random.key(1), jnp.asarray(people)
    return fastest(lambda: [jax.block_until_ready(step(key, state, nobody)) for _ in range(10)]) / 10


def main() -> None:
    """Print the rates."""
    print(f"steps a second on one core, {COPIES} copies, random actions (elbert {elbert.__version__})")
    print(f"{'':18}{'compiled':>12}{'make_vec':>12}{'loop':>10}{'compiled / loop':>17}{'compiled at least':>19}")
    for name, entry in ENTRIES.items():
        compiled, vector, loop = compiled_rate(make_world(name)), vector_rate(entry.id), loop_rate(entry.id)
        goal = AT_LEAST[name.removesuffix("-harder")]
        verdict = "met" if compiled >= goal else "NOT met"
        print(f"{name:18}{compiled:12,.0f}{vector:12,.0f}{loop:10,.0f}{compiled / loop:17,.0f}{goal:12,.0f} {verdict}")
    print("\none step of the infectious world in a random network")
    for people, degree in ((1_000, 10), (10_000, 10), (100_000, 10), (100_000, 20)):
        took = network_seconds(people, degree)
        print(f"{people:8,} people, {people * degree // 2:10,} edges {1e3 * took:10.2f} ms", end="")
        print(f" {1e9 * took / (people + people * degree):8.1f} ns per person and contact")


if __name__ == "__main__":
    main()
