"""`elbert.train`: from an environment and a method to an agent, with or without a run folder."""

import importlib
import importlib.util
import itertools
import json
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from elbert.envs import ENTRIES, get_entry
from elbert.errors import ElbertError, InvalidInputError
from elbert.exact.rules import Rule
from elbert.experiments.limits import Candidates
from elbert.experiments.presets import OWN, preset_for, protocol_for
from elbert.experiments.runs import Clock, RunFolder, only_writer
from elbert.fairness.penalties import Penalty
from elbert.files import FileError
from elbert.learning import (
    Agent,
    Callback,
    DivergedError,
    Environment,
    Evaluation,
    HostProblem,
    Member,
    Method,
    Settings,
    Trainer,
    WorldProblem,
    opened,
)
from elbert.learning.advantages import METHODS, get_method
from elbert.learning.agent import agents_of, plain_parameters
from elbert.learning.trainer import COEFFICIENTS

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
    method: str | Method | Callable[..., Any] = "elbert-po",
    preset: str = "fast",
    seed: int = 0,
    world: Mapping[str, Any] | None = None,
    penalty: Penalty | None = None,
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
        settings: what `elbert.learning.Settings` lists, over the preset: alpha, steps, learning_rate, ...
    """
    arguments: dict[str, Any] = {"method": method, "preset": preset, "world": world, "penalty": penalty, "out": out}
    return train_many(env, seeds=(seed,), resume=resume, callbacks=callbacks, **arguments, **settings)[0]


def train_many(
    env: Environment,
    *,
    seeds: int | Sequence[int] = 3,
    grid: Mapping[str, Sequence[Any]] | None = None,
    method: str | Method | Callable[..., Any] = "elbert-po",
    preset: str = "fast",
    world: Mapping[str, Any] | None = None,
    penalty: Penalty | None = None,
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
    resolved, parameters = _resolved(name, method, preset, world, settings, penalty, grid or {})
    members = _members(_seeds(seeds), grid or {})
    with opened(env, resolved.copies, parameters or None) as problem:
        soft = resolved.bias_kind in ("soft", "centred") or (resolved.bias_kind == "auto" and problem.shape.groups > 2)
        if not soft and ("beta" in settings or "beta" in (grid or {})):
            raise InvalidInputError(
                f"beta has no effect on the hard bias, which {problem.shape.groups} groups have unless bias_kind is "
                "soft. Leave it out, or set bias_kind."
            )
        if "initial_deviation" in settings and not problem.shape.actions.learns_deviation:
            raise InvalidInputError("initial_deviation has no effect on choices, only on real-valued actions.")
        if "copies" in settings and isinstance(problem, HostProblem) and problem.env.num_envs != resolved.copies:
            raise InvalidInputError(
                f"copies is {resolved.copies}, but the environment that was given has {problem.env.num_envs}. Give a "
                "function that makes an environment, or leave copies out."
            )
        limited = resolved.max_bias is not None
        if limited and resolved.reset_each_rollout and isinstance(problem, WorldProblem):
            longest = int(problem.world.horizon)
            if resolved.rollout < longest:
                raise InvalidInputError(
                    f"max_bias needs whole episodes, and with reset_each_rollout none of {longest} steps ends in a "
                    f"rollout of {resolved.rollout}. Give rollout={longest} or more, or reset_each_rollout=False."
                )
        trainer = Trainer(problem, resolved, method, members=members, penalty=penalty)
        stored = plain_parameters(parameters) if isinstance(env, str) else None
        candidates = Candidates(trainer, stored, None if out is None else Path(out)) if limited else None
        if candidates is not None:
            callbacks = (candidates, *callbacks)
        if out is None:
            trainer.fit(callbacks)
            if candidates is not None:
                return candidates.chosen()
            return agents_of(trainer, parameters=stored, seconds=trainer.seconds)
        config = {
            "format": 1,
            "env": problem.name,
            "parameters": stored,
            "method": trainer.method.name,
            "preset": preset,
            "penalty": None if penalty is None else getattr(penalty, "__name__", repr(penalty)),
            "seeds": [member.seed for member in members],
            "coefficients": [dict(member.coefficients) for member in members],
            "iterations": trainer.iterations,
            "settings": trainer.settings.to_dict(),
        }
        chosen = _run(Path(out), config, trainer, resume, callbacks, candidates)
        return chosen or agents_of(trainer, parameters=stored, seconds=trainer.seconds)


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
            _same(run.config, config, out)
            for passed in run.restore(trainer):
                logging.getLogger("elbert").warning("%s The checkpoint before it is used.", passed)
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
    with asked_to_stop() as asked:
        try:
            for progress in trainer:
                run.record(progress)
                stop = any([callback(progress) is False for callback in callbacks])  # noqa: C419 - all are told
                if asked:
                    run.checkpoint(trainer, config, "interrupted", reason=f"signal {asked[0]}")
                    raise InterruptedRunError(
                        f"Stopped after iteration {trainer.iteration} of {trainer.iterations}; everything is saved in "
                        f"{out}. Go on with the same command and --resume (resume=True in Python).",
                        asked[0],
                    )
                if stop:
                    chosen = None if candidates is None else candidates.chosen()
                    run.checkpoint(trainer, config, "finished", chosen, reason="a callback ended it")
                    return chosen
                if save.due():
                    run.checkpoint(trainer, config)
                elif write.due():
                    run.write_metrics()
            chosen = None if candidates is None else candidates.chosen()
            run.checkpoint(trainer, config, "finished", chosen)
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


def evaluate(
    agent: Agent | Rule,
    *,
    protocol: str = "default",
    episodes: int | None = None,
    horizon: int | None = None,
    seed: int = 1,
    deterministic: bool = False,
    env: Environment | None = None,
    tick: Callable[[int], None] | None = None,
) -> Evaluation:
    """Evaluate an agent or a rule by a protocol.

    "default", or "paper": the published number of episodes, horizon, and 1 added to every group's demand.
    """
    if isinstance(env, str):
        name = env = get_entry(env).name
    else:
        name = agent.about.env if agent.about.parameters is not None and env is None else OWN
    if name == OWN and horizon is not None:
        raise InvalidInputError("The horizon of an environment of your own is set where it is made, not here.")
    plan = protocol_for(protocol, name)
    steps = plan.horizon if horizon is None else horizon
    changed = {} if name == OWN or steps is None else {"horizon": steps}
    return agent.evaluate(
        plan.episodes if episodes is None else episodes,
        env=env,
        seed=seed,
        deterministic=deterministic,
        extra_demand=plan.extra_demand,
        tick=tick,
        **changed,
    )


def environment_from(text: str) -> Environment:
    """What a person types for an environment: the name of a world, or `module:function` or `file.py:function`.

    The function makes a Gymnasium environment that reports supply and demand. Naming it runs that module's code.
    """
    if ":" not in text:
        return get_entry(text).name
    where, _, name = text.rpartition(":")
    try:
        if where.endswith(".py"):
            spec = importlib.util.spec_from_file_location(Path(where).stem, where)
            assert spec is not None
            assert spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            sys.modules.setdefault(spec.name, module)
            sys.path.insert(0, str(Path(where).resolve().parent))
            spec.loader.exec_module(module)
        else:
            sys.path.insert(0, str(Path.cwd()))
            module = importlib.import_module(where)
        return getattr(module, name)
    except Exception as error:  # whatever the user's code raises
        raise InvalidInputError(
            f"{text!r} names no function that makes an environment ({type(error).__name__}: {error}). Give "
            "module:function or file.py:function."
        ) from error


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
    chosen = [agents[member]] if member is not None and 0 <= member < len(agents) else agents
    chosen = [agent for agent in chosen if seed is None or agent.about.seed == seed]
    if len(chosen) != 1:
        known = ", ".join(str(agent.about.seed) for agent in agents)
        raise InvalidInputError(f"{path} holds agents of the seeds {known}. Say which one: seed=... or member=...")
    return chosen[0]


def _resolved(
    name: str,
    method: Any,
    preset: str,
    world: Mapping[str, Any] | None,
    settings: dict[str, Any],
    penalty: Penalty | None,
    grid: Mapping[str, Sequence[Any]],
) -> tuple[Settings, dict[str, Any]]:
    """The settings and the world's parameters; what would have no effect is refused."""
    rules = get_method(method, Settings())
    base = preset_for(preset, name, rules.name)
    resolved = Settings.of(settings, base.settings)
    if isinstance(method, str):
        only = {setting for other in METHODS for setting in get_method(other, resolved).uses} - set(rules.uses)
        for given in (*settings, *grid):
            if given in only:
                raise InvalidInputError(
                    f"{given} has no effect with {method}, which uses {', '.join(rules.uses) or 'no such setting'}. "
                    "Leave it out, or choose another method."
                )
    for given in ("bias_kind", "beta"):
        if penalty is not None and (given in settings or given in grid):
            raise InvalidInputError(f"{given} has no effect beside a penalty of your own. Leave one of them out.")
    if penalty is not None and method != "elbert-po":
        raise InvalidInputError(f"A penalty of your own has no effect with {rules.name}. Use elbert-po.")
    limited = resolved.max_bias is not None or "max_bias" in grid
    if limited:
        limits = grid.get("max_bias", [resolved.max_bias])
        if rules.name != "elbert-po":
            raise InvalidInputError(f"max_bias has no effect with {rules.name}. Use elbert-po.")
        if "max_bias" in grid and "max_bias" in settings:
            raise InvalidInputError("max_bias is given twice, for all and in the grid. Leave one of them out.")
        if not isinstance(limits, Sequence) or not limits or any(limit is None for limit in limits):
            raise InvalidInputError(f"The grid's max_bias is {limits!r}. Give a list of limits, each a number above 0.")
        if "per-signal" in (settings.get("standardise"), *grid.get("standardise", ())):
            raise InvalidInputError(
                "standardise is per-signal, which has no effect beside max_bias: a limit weighs the signals by itself. "
                "Leave it out."
            )
        for given in ("alpha", "bias_kind", "beta"):
            if given in settings or given in grid or penalty is not None:
                name = given if given in settings or given in grid else "a penalty of your own"
                raise InvalidInputError(f"{name} has no effect beside max_bias, the limit. Leave one of them out.")
        combined = {"standardise": "combined"} if resolved.standardise == "per-signal" else {}
        resolved = Settings.of({"alpha": 0.0, "max_bias": limits[0]} | combined, resolved)
    if method == "elbert-po" and not (limited or base.sets_alpha or "alpha" in settings or "alpha" in grid):
        raise InvalidInputError(
            "elbert-po needs max_bias here, the largest bias to be allowed; or alpha, the reward of an episode that "
            "one unit of squared bias is worth: 100 times the reward of an episode makes a bias of 0.1 weigh as much "
            "as all reward."
        )
    for given, values in grid.items():
        if given not in COEFFICIENTS:
            raise InvalidInputError(
                f"The grid names {given!r}. Only coefficients can differ: {', '.join(COEFFICIENTS)}."
            )
        if isinstance(values, str) or not isinstance(values, Sequence) or not values:
            raise InvalidInputError(f"The grid's {given} is {values!r}. Give a list of values.")
    return resolved, base.world | dict(world or {}) if name in ENTRIES else dict(world or {})


def _seeds(seeds: int | Sequence[int]) -> list[int]:
    listed = list(range(seeds)) if isinstance(seeds, int) else list(seeds)
    if not listed or any(isinstance(one, bool) or not isinstance(one, int) or not 0 <= one < 2**31 for one in listed):
        raise InvalidInputError(f"The seeds are {seeds!r}. Give whole numbers from 0 to 2**31 - 1, at least one.")
    if len(set(listed)) != len(listed):
        raise InvalidInputError(f"The seeds {listed} name one twice. Give each once.")
    return listed


def _members(seeds: Sequence[int], grid: Mapping[str, Sequence[Any]]) -> list[Member]:
    combinations = [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]
    return [Member(seed, combination) for combination in combinations for seed in seeds]


def _same(stored: dict[str, Any], asked: dict[str, Any], out: Path) -> None:
    """Refuse to go on with a run under other settings."""
    if not isinstance(stored.get("settings"), dict):
        raise FileError(f"{out / 'config.json'} is damaged: it holds no settings.")
    flat = [content | content["settings"] | {"settings": None} for content in (stored, asked)]
    for key in flat[1]:
        if flat[0].get(key) != flat[1][key]:
            raise InvalidInputError(
                f"The run in {out} has {key} = {flat[0].get(key)!r}, but {flat[1][key]!r} is asked for now. Give the "
                "same settings to go on with it, or another folder to start a new one."
            )


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
