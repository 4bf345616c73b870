"""How fast the learner is: beside the published code, beside stable-baselines3, and beside the machine's own rate.

    python benchmarks/throughput.py [--short] [--only paper|worlds|users|arithmetic]

1. Preset `paper` on one core: environment steps per second of training, against the rates of the published code that
   were measured on the same kind of machine (one core, without evaluations): 246 in lending, 125 in attention-harder,
   139 in infectious-harder.
2. The same network, rollout, minibatch and epochs in stable-baselines3's PPO, over its own DummyVecEnv of our Gymnasium
   environment, reward only, in turn with ours: a ratio from one run. Needs the extra `bench`.
3. The same for environments that a user brings, which are stepped on the host, under two methods. Both learners step
   the same environment, wrapper included, and the time of its steps is part of both rates.
4. The arithmetic rate of the update as a share of the machine's rate at multiplying large matrices.
"""

import argparse
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

os.environ["OMP_NUM_THREADS"] = "1"  # one core, said before any numerical library starts its threads
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

sys.path.insert(0, str(Path(__file__).parents[1]))

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from examples.own_environment import make as make_nurse

import elbert
from elbert.experiments.presets import OWN
from elbert.experiments.resolve import resolve
from elbert.learning import Trainer, open_simulator

PUBLISHED = {"lending": 246, "attention-harder": 125, "infectious-harder": 139}
SIZES: dict[str, Any] = {"copies": 8, "rollout": 512, "minibatch": 512, "epochs": 4, "hidden": [64, 64]}
METHODS: dict[str, dict[str, Any]] = {"g-ppo": {}, "elbert-po": {"max_bias": 0.1}}


def make_cartpole() -> gymnasium.Env[Any, Any]:
    """CartPole, which serves the side to which it is pushed; each side is due one push in two."""
    return elbert.SupplyDemandWrapper(
        gymnasium.make("CartPole-v1"),
        supply=lambda t: np.asarray([t.action == 0, t.action == 1], float),
        demand=lambda t: np.full(2, 0.5),
    )


class Town(gymnasium.Env[Any, Any]):
    """A town of 128 households, half of them in each of two districts; one of 16 streets is repaired a day."""

    observation_space = gymnasium.spaces.Box(0.0, np.inf, (128,), np.float32)
    action_space = gymnasium.spaces.Discrete(16)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Every household has waited for some time."""
        super().reset(seed=seed, options=options)
        self.day, self.waited = 0, self.np_random.random(128, np.float32)
        return self.waited.copy(), {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """The households of the street wait no longer; all others wait longer."""
        street = slice(8 * action, 8 * action + 8)
        repaired = np.zeros(2)
        repaired[action // 8] = self.waited[street].sum()
        self.waited[street] = 0
        self.waited += 0.1 * self.np_random.random(128, np.float32)
        self.day += 1
        info = {"supply": repaired, "demand": np.full(2, 3.2)}
        return self.waited.copy(), float(repaired.sum()), False, self.day == 100, info


USERS = {"nurse, 3 numbers": make_nurse, "CartPole-v1, 4 numbers": make_cartpole, "town, 128 numbers": Town}
"""Environments that are stepped on the host, with the size of an observation."""


def trainer_of(env: str, method: str = "elbert-po", *, preset: str = "fast", **settings: Any) -> Trainer:
    """A training in a named world."""
    request = resolve(env, method, preset=preset, settings=settings)
    with open_simulator(env, request.settings.copies) as simulator:
        return Trainer(simulator, request.settings, request.method)


def steps_per_second(trainer: Trainer, iterations: int) -> float:
    """After the first iteration, which compiles."""
    trainer.step()
    begun = time.perf_counter()
    for _ in range(iterations):
        trainer.step()
    return iterations * trainer.settings.batch / (time.perf_counter() - begun)


def paper_preset(iterations: int) -> None:
    """Steps per second with the published settings."""
    print("preset paper, one core")
    for env, theirs in PUBLISHED.items():
        rate = steps_per_second(trainer_of(env, preset="paper"), iterations)
        print(f"  {env:18s} {rate:8.0f} steps/s, published code {theirs}: {rate / theirs:.1f} times", flush=True)


class Rates(NamedTuple):
    """Steps per second of both learners, round by round."""

    ours: list[float]
    theirs: list[float]

    def __str__(self) -> str:
        ratios = np.asarray(self.ours) / np.asarray(self.theirs)
        spread = f" ({ratios.min():.1f} to {ratios.max():.1f})" if len(ratios) > 1 else ""
        return (
            f"{np.median(self.ours):8.0f} steps/s, stable-baselines3 {np.median(self.theirs):6.0f}: "
            f"{np.median(ratios):.1f} times{spread}"
        )


def in_turn(ours: Trainer, theirs: Any, rounds: int, iterations: int) -> Rates:
    """Both learners in turn, so that a busy machine slows both; of ours this many iterations to one of theirs."""
    rates, batch = Rates([], []), ours.settings.batch
    for _ in range(rounds):
        begun = time.perf_counter()
        for _ in range(iterations):
            ours.step()
        middle = time.perf_counter()
        theirs.learn(batch, reset_num_timesteps=False)
        rates.ours.append(iterations * batch / (middle - begun))
        rates.theirs.append(batch / (time.perf_counter() - middle))
    return rates


def stable_baselines(make: Any) -> Any:
    """PPO of stable-baselines3 over copies of what the function makes, after a first iteration."""
    sb3: Any = import_module("stable_baselines3")
    vec: Any = import_module("stable_baselines3.common.vec_env")
    import_module("torch").set_num_threads(1)
    learner = sb3.PPO(
        "MlpPolicy",
        vec.DummyVecEnv([make] * SIZES["copies"]),
        n_steps=SIZES["rollout"],
        batch_size=SIZES["minibatch"],
        n_epochs=SIZES["epochs"],
        policy_kwargs={"net_arch": SIZES["hidden"]},
        device="cpu",
    )
    return learner.learn(SIZES["copies"] * SIZES["rollout"])


def in_worlds(rounds: int) -> None:
    """Both learners in turn, same sizes, reward only."""
    print(f"PPO in worlds, {described()}")
    for env, name in (("lending", "Lending"), ("attention-harder", "AttentionHarder")):
        ours = trainer_of(env, "g-ppo", **SIZES)
        ours.step()
        theirs = stable_baselines(partial(gymnasium.make, f"elbert/{name}-v0"))
        rates, signals = in_turn(ours, theirs, rounds, 20), ours.learner.shape.signals
        print(f"  {env:22s} {'g-ppo':9s} {signals:2d} values {rates}", flush=True)


def in_users_environments(rounds: int) -> None:
    """Both learners in turn, same sizes, in environments that are stepped on the host."""
    print(f"PPO in users' environments, {described()}")
    for name, make in USERS.items():
        theirs = stable_baselines(make)
        for method, settings in METHODS.items():
            with open_simulator(make, SIZES["copies"]) as simulator:
                request = resolve(OWN, method, settings=SIZES | settings)
                ours = Trainer(simulator, request.settings, request.method)
                ours.step()
                rates, signals = in_turn(ours, theirs, rounds, 1), ours.learner.shape.signals
            print(f"  {name:22s} {method:9s} {signals:2d} values {rates}", flush=True)


def described() -> str:
    """The sizes that both learners have."""
    sizes = "{copies} copies x {rollout} steps, {epochs} epochs, minibatch {minibatch}, layers {hidden}, one core"
    return sizes.format(**SIZES)


def arithmetic_share(repeats: int) -> None:
    """Multiplications and additions of the update per second, over those of a large matrix product."""
    size = 1024
    matrix = jnp.ones((size, size), jnp.float32)
    product = jax.jit(lambda a, b: a @ b)
    product(matrix, matrix).block_until_ready()
    print("arithmetic of the update (layers, forward and backward), one core")
    for env in PUBLISHED:
        trainer = trainer_of(env)
        learner, method = trainer.learner, jax.tree.map(lambda x: x[0], trainer._prepared)
        shown = jax.tree.map(lambda x: x[0], _one_rollout(trainer))
        state = jax.tree.map(lambda x: x[0], trainer.state)
        update = jax.jit(learner.update)
        jax.block_until_ready(update(state, shown, method))
        shares = []
        for _ in range(repeats):
            begun = time.perf_counter()
            for _ in range(5):
                product(matrix, matrix).block_until_ready()
            middle = time.perf_counter()
            jax.block_until_ready(update(state, shown, method))
            rate = _operations(learner) / (time.perf_counter() - middle)
            shares.append((rate, 5 * 2 * size**3 / (middle - begun)))
        ours, machine = np.median(np.asarray(shares), axis=0)
        print(f"  {env:18s} {ours / 1e9:6.1f} of {machine / 1e9:.0f} Gflop/s: {100 * ours / machine:.0f} %", flush=True)


def _one_rollout(trainer: Trainer) -> Any:
    collect = jax.jit(partial(trainer.simulator.collect, trainer.learner, seed=0))
    return collect(trainer.state)[1]


def _operations(learner: Any) -> float:
    """2 per weight and sample forward, 4 backward (2 in the first layer), and two forward passes of the critic."""
    s, model = learner.settings, learner.model
    sizes = [model.observation, *s.hidden]
    trunk = sum(a * b for a, b in pairwise(sizes))
    actor, critic = trunk + sizes[-1] * model.distribution.size, trunk + sizes[-1] * model.signals
    first = model.observation * s.hidden[0]
    learned = (6 * (actor + critic) - 2 * 2 * first) * s.minibatches * s.minibatch * s.epochs
    return learned + 2 * 2 * critic * s.batch


PARTS: dict[str, tuple[Callable[[int], None], int, int]] = {  # what to measure, how often with --short, and without
    "paper": (paper_preset, 1, 4),
    "worlds": (in_worlds, 1, 5),
    "users": (in_users_environments, 1, 15),
    "arithmetic": (arithmetic_share, 2, 9),
}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--only", choices=list(PARTS), help="one part")
    chosen = parser.parse_args()
    for part, (measure, briefly, often) in PARTS.items():
        if chosen.only not in (None, part):
            continue
        if part in ("worlds", "users") and find_spec("stable_baselines3") is None:
            print("stable-baselines3 is not installed: pip install 'elbert[bench]'")
        else:
            measure(briefly if chosen.short else often)
