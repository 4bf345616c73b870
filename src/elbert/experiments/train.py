"""`elbert.train`: from an environment and a method to an agent, with or without a run folder."""

import json
import logging
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from elbert.envs import get_entry
from elbert.errors import ElbertError, InvalidInputError
from elbert.experiments.choose_policy import Candidates
from elbert.experiments.presets import OWN
from elbert.experiments.resolve import check_same_run, resolve
from elbert.experiments.run_folder import Clock, RunFolder, only_writer
from elbert.files import FileError
from elbert.learning import (
    Agent,
    Callback,
    DivergedError,
    Environment,
    MethodLike,
    Trainer,
    open_simulator,
)

CHECKPOINT_SECONDS = 10.0
METRICS_SECONDS = 2.0


class InterruptedRunError(ElbertError):
    """The run was asked to stop; its state is saved."""

    def __init__(self, message: str, signal_number: int) -> None:
        """The message, and the signal that asked."""
        super().__init__(message)
        self.signal_number = signal_number


def train(
    env: Environment,
    *,
    method: MethodLike = "elbert-po",
    preset: str = "fast",
    seed: int = 0,
    world: Mapping[str, Any] | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    callbacks: Sequence[Callback] = (),
    **settings: Any,
) -> Agent:
    """Train a policy and return it as an agent.

        agent = elbert.train("lending", method="elbert-po", alpha=30_000, seed=0)

    Args:
        env: the name of a world ("lending"), a `World`, a Gymnasium environment that reports supply and demand
            (`elbert.check_env` says whether it does), a function that makes one, or a vector environment.
        method: "elbert-po", "g-ppo", "r-ppo", "a-ppo", or a function (estimates, coefficients) -> advantage.
        preset: "fast", "paper", or the path of a TOML file: the settings that are not given here.
        seed: of everything random. The same seed gives the same agent on the same machine.
        world: parameters of the named world in training.
        penalty: h, a function of the rates written with `jax.numpy`, in place of the squared bias (elbert-po).
        out: folder of the run: configuration, metrics, checkpoints, agent. Without it nothing is written.
        resume: go on with the run in `out`; one that is not there is started.
        callbacks: each is called after every iteration with a `Progress`; one that returns False stops the training.
            One with a method `tell` is told in words what happens afterwards.
        settings: what `elbert.learning.Settings` lists, over the preset: alpha, steps, learning_rate, ...
    """
    arguments: dict[str, Any] = {"method": method, "preset": preset, "world": world, "out": out}
    return train_many(env, seeds=(seed,), resume=resume, callbacks=callbacks, **arguments, **settings)[0]


def train_many(
    env: Environment,
    *,
    seeds: int | Sequence[int] = 3,
    grid: Mapping[str, Sequence[Any]] | None = None,
    method: MethodLike = "elbert-po",
    preset: str = "fast",
    world: Mapping[str, Any] | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    callbacks: Sequence[Callback] = (),
    **settings: Any,
) -> list[Agent]:
    """Train many seeds and coefficients side by side, in one compiled function; arguments as in `train`.

    Args:
        env: see `train`.
        seeds: a list of them, or a number n for 0 .. n - 1.
        grid: values of coefficients, such as {"alpha": [1e3, 1e4]}; every combination is trained with every seed.
        method: see `train`.
        preset: see `train`.
        world: see `train`.
        penalty: see `train`.
        out: see `train`.
        resume: see `train`.
        callbacks: see `train`.
        settings: see `train`.

    Returns:
        The agents: for each combination of the grid in order, those of all seeds.
    """
    env = get_entry(env).name if isinstance(env, str) else env
    name = env if isinstance(env, str) else OWN
    request = resolve(name, method, preset=preset, world=world, settings=settings, grid=grid, seeds=seeds)
    members = request.members
    with open_simulator(env, request.settings.copies, request.world or None) as simulator:
        request.check_fit(simulator)
        trainer = Trainer(simulator, request.settings, request.method, members=members)
        candidates = Candidates(trainer, None if out is None else Path(out)) if request.method.limit else None
        if candidates is not None:
            callbacks = (candidates, *callbacks)
        if out is None:
            trainer.fit(callbacks)
            chosen = None if candidates is None else candidates.chosen(_teller(callbacks))
            _check_felt(trainer)
            return chosen or trainer.agents()
        config = {
            "format": 1,
            "env": simulator.name,
            "parameters": simulator.parameters,
            "method": trainer.method.name,
            "preset": preset,
            "seeds": [member.seed for member in members],
            "coefficients": [dict(member.coefficients) for member in members],
            "iterations": trainer.iterations,
            "settings": trainer.settings.to_dict() | trainer.method.to_dict(),
        }
        chosen = _run(Path(out), config, trainer, resume, callbacks, candidates)
        _check_felt(trainer)
        return chosen or trainer.agents()


def _run(
    out: Path,
    config: dict[str, Any],
    trainer: Trainer,
    resume: bool,
    callbacks: Sequence[Callback],
    candidates: Candidates | None,
) -> list[Agent] | None:
    """Train in a folder: metrics and checkpoints on the way, a word in the manifest about how it ended.

    Returns the agents that were chosen among candidates, where there are some.
    """
    config = json.loads(json.dumps(config))
    with only_writer(out):
        if resume and (out / "config.json").exists():
            run = RunFolder(out)
            check_same_run(run.config, config, out)
            run.ensure_manifest()
            if run.manifest.get("status") == "finished" and run.manifest["iteration"] == trainer.iterations:
                likes = trainer.agents()
                agents = run.agents()
                if len(agents) != len(likes):
                    raise FileError(
                        f"{out} holds {len(agents)} agents, but {len(likes)} were trained: the others were taken away. "
                        "Put them back, or start the run anew elsewhere."
                    )
                return [agent.replaced(env=like.env) for agent, like in zip(agents, likes, strict=True)]
            for passed in run.restore(trainer):
                logging.getLogger("elbert").warning("%s The checkpoint before it is used.", passed)
            if candidates is not None:
                candidates.ended = run.episodes()
            run.note(status="running", reason="", process=os.getpid(), host=socket.gethostname())
        else:
            run = RunFolder.create(out, config)
            run.checkpoint(trainer, config)
        try:
            return _iterate(run, config, trainer, callbacks, candidates)
        except (InterruptedRunError, DivergedError, FileError):
            raise  # these have said how it ended, or cannot write it
        except BaseException as error:
            run.note(status="failed", reason=f"{type(error).__name__}: {error}")
            raise


def _iterate(
    run: RunFolder,
    config: dict[str, Any],
    trainer: Trainer,
    callbacks: Sequence[Callback],
    candidates: Candidates | None,
) -> list[Agent] | None:
    """The iterations of a run, with everything that is written on the way."""
    out = run.path
    write, save = Clock(METRICS_SECONDS), Clock(CHECKPOINT_SECONDS)
    ended = ""
    with asked_to_stop() as asked:
        try:
            for progress in trainer:
                run.record(progress)
                stop = any([callback(progress) is False for callback in callbacks])  # noqa: C419 - all are told
                if asked:
                    break
                if stop:
                    ended = "a callback ended it"
                    break
                if save.due():
                    run.checkpoint(trainer, config)
                elif write.due():
                    run.write_metrics()
            chosen = None
            if candidates is not None and not asked:
                run.checkpoint(trainer, config)
                chosen = candidates.chosen(_teller(callbacks), stop=lambda: asked)
            if asked and chosen is None:
                run.checkpoint(trainer, config, "interrupted", reason=f"signal {asked[0]}")
                raise InterruptedRunError(
                    f"Stopped after iteration {trainer.iteration} of {trainer.iterations}; everything is saved in "
                    f"{out}. Go on with the same command and --resume (resume=True in Python).",
                    asked[0],
                )
            run.checkpoint(trainer, config, "finished", chosen, **({"reason": ended} if ended else {}))
            if asked:
                raise InterruptedRunError(
                    f"Stopped when the training had ended: its policy is in {out}. `elbert evaluate` evaluates it.",
                    asked[0],
                )
            return chosen
        except DivergedError as error:
            run.checkpoint(trainer, config, "failed", reason=str(error))
            path = out / "checkpoints" / f"{trainer.iteration:08d}.safetensors"
            raise DivergedError(f"{error} The last good state is in {path}.") from error
        except FileError as error:
            raise FileError(
                f"{error} The run stands at iteration {trainer.iteration}; its last checkpoint in {out} is whole. Make "
                "room if that is the cause, then go on with --resume (resume=True in Python)."
            ) from error


def _check_felt(trainer: Trainer) -> None:
    """Say so if a limit could have no effect: episodes of a user's environment may be longer than the training."""
    if trainer.warning():
        logging.getLogger("elbert").warning(trainer.warning())


def _teller(callbacks: Sequence[Callback]) -> Callable[[str], None]:
    """Passes words on to the callbacks that have a method `tell`."""
    tellers = [tell for callback in callbacks if (tell := getattr(callback, "tell", None)) is not None]

    def tell_all(text: str) -> None:
        for tell in tellers:
            tell(text)

    return tell_all


def load(path: str | Path, *, seed: int | None = None, member: int | None = None) -> Agent:
    """An agent from its file or from a run folder. Loading runs no code; a damaged file is refused by name.

    Args:
        path: of the file or the folder.
        seed: which one, where several seeds were trained together.
        member: which one by its place, where coefficients were trained together.
    """
    path = Path(path)
    if not path.is_dir():
        found = path if path.exists() or path.suffix == ".safetensors" else path.with_name(path.name + ".safetensors")
        return Agent.load(found)
    agents = RunFolder(path).agents()
    if member is not None and not 0 <= member < len(agents):
        raise InvalidInputError(f"{path} holds {len(agents)} agents. Give a member from 0 to {len(agents) - 1}.")
    chosen = agents if member is None else [agents[member]]
    chosen = [agent for agent in chosen if seed is None or agent.about.seed == seed]
    if len(chosen) != 1:
        known = ", ".join(str(agent.about.seed) for agent in agents)
        raise InvalidInputError(f"{path} holds agents of the seeds {known}. Say which one: seed=... or member=...")
    return chosen[0]


@contextmanager
def asked_to_stop() -> Iterator[list[int]]:
    """Collects the first SIGINT or SIGTERM, so that the iteration under way can end; a second one acts at once."""
    asked: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def note(number: int, frame: FrameType | None) -> None:
        del frame
        asked.append(number)
        for one, handler in before.items():
            signal.signal(one, handler)

    for number in before:
        signal.signal(number, note)
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
