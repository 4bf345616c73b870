"""`elbert.train`: from an environment and a method to an agent, with or without a run folder."""

import json
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from elbert.checks import as_whole
from elbert.envs import World, find_world
from elbert.errors import InvalidInputError
from elbert.experiments.brought_names import refuse_many
from elbert.experiments.jit_cache import keep_compiled
from elbert.experiments.presets import OWN
from elbert.experiments.resolve import resolve
from elbert.experiments.run_folder import RunFolder
from elbert.experiments.run_metrics import TensorBoard
from elbert.experiments.run_session import RunSession
from elbert.fairness.episode_totals import as_names
from elbert.files import FileError, as_path
from elbert.learning import Agent, Callback, Environment, MethodLike, Trainer, open_simulator
from elbert.progress import Watch, watched


def train(
    env: Environment,
    *,
    method: MethodLike = "elbert-po",
    preset: str = "fast",
    seed: int = 0,
    world: Mapping[str, Any] | None = None,
    group_names: Sequence[str] | None = None,
    start: Agent | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    callbacks: Sequence[Callback] = (),
    progress: Watch = "auto",
    tensorboard: str | Path | bool = False,
    **settings: Any,
) -> Agent:
    """Train a policy and return it as an agent.

        agent = elbert.train("lending", method="elbert-po", alpha=30_000, seed=0)

    Args:
        env: the name of a world ("lending"), a `World`, a Gymnasium environment that reports supply and demand
            (`elbert.check_env` says whether it does), its id, a function that makes one, or a vector environment.
        method: "elbert-po", "g-ppo" (plain PPO), "r-ppo", "a-ppo", a `Method`, or a function from estimates to an
            advantage.
        preset: "fast", "paper", or the path of a TOML file: the settings that are not given here.
        seed: seed of all randomness. The same seed gives the same agent on the same machine.
        world: parameters of the named world in training.
        group_names: what the groups are called in results; by default as the environment says, else by number.
        start: an agent whose weights the training starts from instead of fresh ones, with the same networks. A policy
            by parts may have been trained among other parts, fewer for example; a critic of other groups is left out.
        out: folder of the run: configuration, metrics, checkpoints, agent. Without it nothing is written.
        resume: whether to go on with the run in `out`; if there is none, it is started.
        callbacks: functions that are called after every iteration with the iteration's number, metrics and trainer.
            One that returns False stops the training. `elbert.callbacks` has ready-made ones.
        progress: "auto" shows a display in terminals and notebooks and nothing elsewhere; True shows lines elsewhere
            too, None or False nothing. A function is told how far the work is, as an `elbert.progress.Progress`: first
            the iterations, then, under a limit on the bias, the policies among which it chooses.
        tensorboard: folder for TensorBoard's files; True for the folder `tensorboard` in `out`. It needs tensorboardX.
        settings: settings of the method and of the learner in place of the preset's: max_bias, alpha, steps, ...
            (docs/learning.md lists them all).
    """
    refuse_many(settings)
    return train_many(
        env,
        seeds=(seed,),
        method=method,
        preset=preset,
        world=world,
        group_names=group_names,
        start=start,
        out=out,
        resume=resume,
        callbacks=callbacks,
        progress=progress,
        tensorboard=tensorboard,
        **settings,
    )[0]


def train_many(
    env: Environment,
    *,
    seeds: int | Sequence[int] = 3,
    grid: Mapping[str, Sequence[Any]] | None = None,
    method: MethodLike = "elbert-po",
    preset: str = "fast",
    world: Mapping[str, Any] | None = None,
    group_names: Sequence[str] | None = None,
    start: Agent | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    callbacks: Sequence[Callback] = (),
    progress: Watch = "auto",
    tensorboard: str | Path | bool = False,
    **settings: Any,
) -> list[Agent]:
    """Train many seeds and coefficients side by side, in one compiled function, and return all agents.

    `seeds` is a list of them, or a number n for 0 .. n - 1. `grid` holds values of coefficients, such as
    {"alpha": [1e3, 1e4]}: every combination is trained with every seed, and the agents come in this order, for each
    combination those of all seeds. The other arguments are those of `train`.
    """
    folder = None if out is None else as_path(out, "out")
    if start is not None and not isinstance(start, Agent):
        raise InvalidInputError(f"start is {start!r}. Give an agent, as elbert.train and elbert.load return it.")
    entry = find_world(env) if isinstance(env, str) else None
    env, name = (env, OWN) if entry is None else (entry.name, entry.name)
    try:
        request = resolve(
            name,
            method,
            preset=preset,
            world=world,
            settings=settings,
            grid=grid,
            seeds=seeds,
            horizon=int(env.horizon) if isinstance(env, World) else None,
        )
    except InvalidInputError:
        if entry is None:  # what the environment lacks is said first
            with open_simulator(env, 1):
                pass
        raise
    if board := _tensorboard_folder(tensorboard, folder):
        callbacks = [*callbacks, TensorBoard(board)]
    keep_compiled()
    with (
        open_simulator(
            env, request.settings.copies, request.world or None, memory=request.settings.memory
        ) as simulator,
        watched(progress, f"{request.method.name} on {simulator.name}") as tell,
    ):
        request.check_fit(simulator)
        if group_names is not None:
            simulator.group_names = as_names(group_names, simulator.shape.groups, "group_names")
        for notice in () if resume else request.notices():  # one that goes on was told when it began
            logging.getLogger("elbert.steps").warning(notice)
        trainer = Trainer(simulator, request.settings, request.method, members=request.members, start=start)
        session = RunSession(trainer, callbacks=callbacks, progress=tell, folder=folder)
        if folder is None:
            agents = session.train()
        else:
            config = {
                "env": simulator.name,
                "parameters": simulator.parameters,
                "method": trainer.method.name,
                "preset": str(preset),
                "seeds": [member.seed for member in request.members],
                "coefficients": [dict(member.coefficients) for member in request.members],
                "iterations": trainer.iterations,
                "settings": trainer.settings.to_dict() | trainer.method.to_dict(),
            }
            if start is not None:
                config["start"] = {"agent": repr(start), "checksum": start.checksum()}
            agents = session.train_in_folder(RunFolder(folder), json.loads(json.dumps(config)), resume=resume)
        if warning := trainer.warning():
            logging.getLogger("elbert").warning(warning)
        return agents


def _tensorboard_folder(tensorboard: str | Path | bool, out: Path | None) -> Path | None:
    """Where TensorBoard's files go; None for nowhere."""
    if not isinstance(tensorboard, bool):
        return as_path(tensorboard, "tensorboard")
    if tensorboard and out is None:
        raise InvalidInputError("tensorboard=True writes into the run's folder: give out=..., or tensorboard=FOLDER.")
    return out / "tensorboard" if tensorboard and out is not None else None


def load(path: str | Path, *, seed: int | None = None, member: int | None = None) -> Agent:
    """Read an agent from its file or from a run's folder. Loading runs no code; a damaged file is refused by name.

    Of several seeds that were trained together, say which `seed`; of several coefficients, which `member`, from 0.
    """
    path = as_path(path)
    if not path.is_dir():
        named = path.exists() or path.suffix == ".safetensors"
        return Agent.load(path if named else path.with_name(path.name + ".safetensors"))
    agents = chosen = RunFolder(path).agents()
    if member is not None:
        last = len(agents) - 1
        chosen = [agents[as_whole(member, "member", f"a place from 0 to {last} in {path}", low=0, high=last)]]
    chosen = [agent for agent in chosen if seed is None or agent.about.seed == seed]
    if len(chosen) != 1:
        try:
            labels = list(RunFolder(path).parts())
        except FileError:  # the agents of an older version, or agents alone
            labels = [""]
        several = f" for each of {'; '.join(labels)}, in this order" if len(labels) > 1 else ""
        seeds = ", ".join(str(agent.about.seed) for agent in agents[: len(agents) // len(labels)])
        raise InvalidInputError(
            f"{path} holds agents of the seeds {seeds}{several}. Say which one: seed=... or member=..."
        )
    return chosen[0]
