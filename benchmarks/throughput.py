"""How fast the learner is: beside the published code, beside stable-baselines3, and beside the machine's own rate.

    python benchmarks/throughput.py [--short]

1. Preset `paper` on one core: environment steps per second of training, against the rates of the published code that
   were measured on the same kind of machine (one core, without evaluations): 246 in lending, 125 in attention-harder,
   139 in infectious-harder.
2. The same network, rollout, minibatch and epochs in stable-baselines3's PPO, over its own DummyVecEnv of our Gymnasium
   environment, reward only, in turn with ours: a ratio from one run. Needs the extra `bench`.
3. The arithmetic rate of the update as a share of the machine's rate at multiplying large matrices.
"""

import argparse
import os
import sys
import time
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"  # one core, said before any numerical library starts its threads
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

sys.path.insert(0, str(Path(__file__).parents[1]))

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np

from elbert.experiments.resolve import resolve
from elbert.learning import Trainer, open_simulator

PUBLISHED = {"lending": 246, "attention-harder": 125, "infectious-harder": 139}


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


def beside_stable_baselines(rounds: int) -> None:
    """Both learners in turn, same sizes, reward only."""
    if find_spec("stable_baselines3") is None:
        print("stable-baselines3 is not installed: pip install 'elbert[bench]'")
        return
    sb3: Any = import_module("stable_baselines3")
    vec: Any = import_module("stable_baselines3.common.vec_env")
    torch: Any = import_module("torch")
    torch.set_num_threads(1)
    copies, rollout, minibatch, epochs, width = 8, 512, 512, 4, 64
    sizes = f"{copies} copies x {rollout} steps, {epochs} epochs, minibatch {minibatch}, two layers of {width}"
    print(f"PPO, {sizes}, one core")
    for env, name in (("lending", "Lending"), ("attention-harder", "AttentionHarder")):
        same: dict[str, Any] = {"copies": copies, "rollout": rollout, "minibatch": minibatch, "epochs": epochs}
        ours = trainer_of(env, "g-ppo", hidden=[width, width], **same)
        ours.step()
        envs = vec.DummyVecEnv([lambda name=name: gymnasium.make(f"elbert/{name}-v0")] * copies)
        theirs = sb3.PPO(
            "MlpPolicy",
            envs,
            n_steps=rollout,
            batch_size=minibatch,
            n_epochs=epochs,
            policy_kwargs={"net_arch": [width, width]},
            device="cpu",
        )
        theirs.learn(copies * rollout)
        rates: dict[str, list[float]] = {"ours": [], "theirs": []}
        for _ in range(rounds):
            begun = time.perf_counter()
            for _ in range(20):
                ours.step()
            middle = time.perf_counter()
            theirs.learn(copies * rollout, reset_num_timesteps=False)
            rates["ours"].append(20 * ours.settings.batch / (middle - begun))
            rates["theirs"].append(copies * rollout / (time.perf_counter() - middle))
        ratio = np.median(np.asarray(rates["ours"]) / np.asarray(rates["theirs"]))
        print(
            f"  {env:18s} {np.median(rates['ours']):8.0f} steps/s with a value for each of "
            f"{ours.learner.shape.signals} signals, stable-baselines3 {np.median(rates['theirs']):6.0f} with one: "
            f"{ratio:.0f} times",
            flush=True,
        )


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


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short", action="store_true")
    short = parser.parse_args().short
    paper_preset(1 if short else 4)
    beside_stable_baselines(1 if short else 5)
    arithmetic_share(2 if short else 9)
