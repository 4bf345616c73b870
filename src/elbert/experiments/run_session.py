"""One training from its first iteration to its last word: who is told, where it is kept, which policy it ends with."""

import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

from elbert.errors import ElbertError
from elbert.experiments.choose_policy import Candidates
from elbert.experiments.resolve import check_same_run
from elbert.experiments.run_folder import RunFolder, only_writer
from elbert.experiments.run_metrics import history_of, read_history, read_metrics, rows_of
from elbert.files import FileError
from elbert.learning import Agent, Callback, DivergedError, Iteration, Metrics, Trainer
from elbert.progress import Progress, Tell

CHECKPOINT_SECONDS = 10.0
METRICS_SECONDS = 2.0
GROUPS_SHOWN = 8


class InterruptedRunError(ElbertError):
    """The run was asked to stop; its state is saved."""

    def __init__(self, message: str, signal_number: int) -> None:
        super().__init__(message)
        self.signal_number = signal_number


class RunSession:
    """A training under way, in memory or in a run's folder."""

    def __init__(self, trainer: Trainer, *, callbacks: Sequence[Callback], progress: Tell, folder: Path | None) -> None:
        self.trainer, self.callbacks, self.progress = trainer, callbacks, progress
        self.candidates = None if trainer.method.policy_choice is None else Candidates(trainer, folder)
        self._signals: list[int] = []  # that asked to stop

    def train(self) -> list[Agent]:
        """Do all iterations, or those until a callback stops them, and choose the policies. Nothing is written."""
        rows: list[list[dict[str, Any]]] = []  # of every iteration, one per member
        for iteration in self.trainer:
            rows.append(rows_of(iteration))
            if self._tell(iteration):
                break
        agents = self._choose()
        assert agents is not None, "nobody listens to signals here"
        return [replace(agent, recorded=history_of(row[i] for row in rows)) for i, agent in enumerate(agents)]

    def train_in_folder(self, run: RunFolder, config: dict[str, Any], *, resume: bool) -> list[Agent]:
        """Do the same in a run's folder, from where it stands if it is resumed; the manifest says how it ended."""
        with only_writer(run.path):
            if resume and (run.path / "config.json").exists():
                agents = self._resume(run, config)
                if agents is not None:
                    return agents
            else:
                run.create(config)
                run.checkpoint(self.trainer)
            try:
                with asked_to_stop() as self._signals:
                    return self._iterate_and_keep(run)
            except DivergedError as error:
                run.checkpoint(self.trainer, status="failed", reason=str(error))
                path = run.checkpoint_path(self.trainer.iteration)
                raise DivergedError(f"{error} The last good state is in {path}.") from error
            except FileError as error:
                raise FileError(
                    f"{error} The run stands at iteration {self.trainer.iteration}; its last checkpoint in {run.path} "
                    "is whole. Make room if that is the cause, then go on with --resume (resume=True in Python)."
                ) from error
            except InterruptedRunError:
                raise
            except BaseException as error:
                run.note(status="failed", reason=f"{type(error).__name__}: {error}")
                raise

    def _resume(self, run: RunFolder, config: dict[str, Any]) -> list[Agent] | None:
        """Put the latest state back; the agents of a run that is finished."""
        check_same_run(run.config, config, run.path)
        manifest = run.manifest
        if manifest["status"] == "finished" and manifest["iteration"] == self.trainer.iterations:
            agents, trained = run.agents(), self.trainer.agents()
            if len(agents) != len(trained):
                raise FileError(
                    f"{run.path} holds {len(agents)} agents, but {len(trained)} were trained. Put the missing files "
                    "back, or train again in another folder."
                )
            return [agent.replaced(env=like.env) for agent, like in zip(agents, trained, strict=True)]
        for damage in run.restore(self.trainer):
            logging.getLogger("elbert").warning("%s The checkpoint before it is used.", damage)
        if self.candidates is not None and (columns := read_metrics(run.path)):
            self.candidates.ended_episodes = int(columns["episodes"][:, 0].sum())
        run.note(status="running", reason="", process=os.getpid(), host=socket.gethostname())
        return None

    def _iterate_and_keep(self, run: RunFolder) -> list[Agent]:
        """Do the iterations and the choice, and write on the way what a killed run needs to go on."""
        saved = written = time.monotonic()
        for iteration in self.trainer:
            run.metrics.record(iteration)
            if self._tell(iteration) or self._signals:
                break
            now = time.monotonic()
            if now - saved >= CHECKPOINT_SECONDS:
                saved = written = now
                run.checkpoint(self.trainer)
            elif now - written >= METRICS_SECONDS:
                written = now
                run.metrics.write()
        return self._end(run)

    def _end(self, run: RunFolder) -> list[Agent]:
        """Choose the policies and write them, unless a signal comes before they are chosen."""
        out, done, total = run.path, self.trainer.iteration, self.trainer.iterations
        if self.candidates is not None and not self._signals:
            run.checkpoint(self.trainer)  # choosing takes a while, in which the process may be killed
        agents = None if self._signals else self._choose()
        if agents is None:
            name = signal.Signals(self._signals[0]).name
            run.checkpoint(self.trainer, status="interrupted", reason=f"signal {name}")
            before = ", before its policy was chosen" if done == total and self.candidates is not None else ""
            raise InterruptedRunError(
                f"Stopped by {name} after iteration {done} of {total}{before}; everything is saved in {out}. Go on "
                "with the same command and --resume (resume=True in Python).",
                self._signals[0],
            )
        stopped = f"a callback stopped it after iteration {done} of {total}" if done < total else ""
        run.checkpoint(self.trainer, agents, status="stopped" if stopped else "finished", reason=stopped)
        if self._signals:  # it came too late to stop anything, but whatever follows the training must not begin
            raise InterruptedRunError(
                f"Stopped after the training had ended. Its policy is in {out}; `elbert evaluate` evaluates it.",
                self._signals[0],
            )
        return [replace(agent, recorded=partial(read_history, out, i)) for i, agent in enumerate(agents)]

    def _tell(self, iteration: Iteration) -> bool:
        """Tell everybody about an iteration; returns whether a callback wants to stop."""
        if self.candidates is not None:
            self.candidates.collect(iteration)
        facts = _facts(iteration.metrics)
        self.progress(Progress("training", iteration.iteration, iteration.iterations, "iterations", facts))
        return any([callback(iteration) is False for callback in self.callbacks])  # noqa: C419 - all are called

    def _choose(self) -> list[Agent] | None:
        """The policies that the training ends with; None if a signal came first."""
        if self.candidates is None:
            return self.trainer.agents()
        return self.candidates.choose(self.progress, stop=lambda: bool(self._signals))


@contextmanager
def asked_to_stop() -> Iterator[list[int]]:
    """Collect the first SIGINT or SIGTERM, so that the iteration under way can end; a second one acts at once."""
    signals: list[int] = []
    if threading.current_thread() is not threading.main_thread():  # only the main thread may handle signals
        yield signals
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def note(number: int, frame: FrameType | None) -> None:
        del frame
        signals.append(number)
        restore()

    for number in before:
        signal.signal(number, note)
    try:
        yield signals
    finally:
        restore()


def _facts(metrics: Metrics) -> str:
    """Reward, bias and rates of the last rollout in words, means over seeds."""
    rates = np.mean(metrics.rates, axis=0)  # [criteria, groups]
    shown = " | ".join(" ".join("?" if np.isnan(x) else f"{x:.3f}" for x in row[:GROUPS_SHOWN]) for row in rates)
    return f"reward {metrics.reward.mean():.4f}  bias {metrics.bias.mean():.4f}  rates {shown}"
