"""Trainings as tasks of a Ray cluster, which starts those again whose worker or node died."""

import contextlib
import pickle
from collections.abc import Generator, Sequence
from typing import Any, Self

import cloudpickle

from elbert.checks import as_whole
from elbert.experiments.cores import take_cores
from elbert.experiments.jobs import SECONDS_BETWEEN_LOOKS, Ended, Task
from elbert.experiments.processes import MOST_TASKS, SECONDS_TO_SAVE, TRIES
from elbert.ray_cluster import connected


class RayTasks:
    """An `Engine` on the cluster at an address; "local" starts one on this machine."""

    def __init__(self, address: str, cores: int = 1) -> None:
        """Every training asks for `cores` of a node's cores."""
        self.cores = as_whole(cores, "cores", "a whole number of at least 1", low=1)
        self._address, self._open = address, contextlib.ExitStack()

    def __enter__(self) -> Self:
        self._ray = self._open.enter_context(connected(self._address))
        return self

    def __exit__(self, *error: object) -> None:
        self._open.close()

    def run(self, tasks: Sequence[Task]) -> Generator[Ended | None]:
        """Do them; yields each that ended, and None now and then. Closed early, it ends what runs, which saves."""
        ray = self._ray
        perform = ray.remote(num_cpus=self.cores, max_retries=TRIES - 1, max_calls=MOST_TASKS)(_perform)
        names: dict[Any, str] = {
            perform.options(name=task.name).remote(cloudpickle.dumps(task), self.cores): task.name for task in tasks
        }
        try:
            while names:
                # All that end within one look at a time: a look goes through every task that is left.
                done, _ = ray.wait(list(names), num_returns=len(names), timeout=SECONDS_BETWEEN_LOOKS)
                for reference in done:
                    yield Ended(names.pop(reference), self._reason(reference))
                if not done:
                    yield None
        finally:
            for reference in names:
                ray.cancel(reference)  # a KeyboardInterrupt over there: it saves and ends
            if names:
                ray.wait(list(names), num_returns=len(names), timeout=SECONDS_TO_SAVE)

    def _reason(self, reference: Any) -> str | None:
        """Why a task failed, or None."""
        errors = self._ray.exceptions
        try:
            return self._ray.get(reference)
        except errors.RayTaskError as error:  # it raised, and is not tried again: the package is missing there
            return f"a node could not begin it ({_short(error.cause or error)}). Install this version on every node"
        except errors.TaskCancelledError:
            return "somebody cancelled it"
        except errors.RayError as error:
            return f"its worker or node died {TRIES} times ({_short(error)})"


def _short(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"


def _perform(content: bytes, cores: int) -> str | None:
    """In a worker of the cluster."""
    take_cores(cores)  # before the task is unpacked: a world's arrays would let JAX count the cores
    try:
        task = pickle.loads(content)  # noqa: S301 - from the driver, as everything that Ray runs
    except Exception as error:  # a module that only the driver can import
        return (
            f"a node could not unpack it ({_short(error)}). Install what it imports on every node, or write the "
            "environment into one file and name it: file.py:function"
        )
    return task()
