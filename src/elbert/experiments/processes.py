"""Trainings in processes of this machine, each on cores of its own.

A worker lives for many trainings, so that it starts and compiles once. It ends with the process that started it. One
that dies is replaced, and its training goes on from its checkpoint.
"""

import contextlib
import logging
import os
import pickle
import queue
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Generator, Sequence
from typing import IO, Any, Self

import cloudpickle

from elbert.checks import as_whole
from elbert.experiments.cores import take_cores, usable_cores
from elbert.experiments.jobs import SECONDS_BETWEEN_LOOKS, Ended, Task
from elbert.experiments.run_session import InterruptedRunError

MOST_WORKERS = 8
SECONDS_TO_SAVE = 60.0
"""How long a training that is told to end may take to save: as long as a step of its environment may last."""
TRIES = 3
"""How often a training is begun or gone on with whose process dies."""
MOST_TASKS = 50
"""Tasks of one worker: what JAX compiled for them stays in its memory until it ends."""
LENGTH = struct.Struct("!Q")  # of a message, in front of it


class Processes:
    """An `Engine` of worker processes, started when they are needed and ended by `close`."""

    def __init__(self, workers: int | None = None, cores: int = 1) -> None:
        """`workers` trainings at a time, on `cores` cores each; by default as many as there are cores, at most 8."""
        self.cores = as_whole(cores, "cores", "a whole number of at least 1", low=1)
        most = max(1, min(MOST_WORKERS, usable_cores() // self.cores))
        self.workers = most if workers is None else as_whole(workers, "workers", "a whole number of at least 1", low=1)
        self._idle: list[_Worker] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """End the workers."""
        while self._idle:
            self._idle.pop().end()

    def run(self, tasks: Sequence[Task]) -> Generator[Ended | None]:
        """Do them; yields each that ended, and None now and then. Closed early, it ends what runs, which saves."""
        waiting: queue.SimpleQueue[Task] = queue.SimpleQueue()
        for task in tasks:
            waiting.put(task)
        ended: queue.SimpleQueue[Ended] = queue.SimpleQueue()
        busy: set[_Worker] = set()
        stopped, lock = threading.Event(), threading.Lock()

        def attend() -> None:
            """Hand one task after the other to a worker."""
            worker: _Worker | None = None
            while not stopped.is_set():
                try:
                    task = waiting.get_nowait()
                except queue.Empty:
                    break
                reason: str | None = None
                for left in reversed(range(TRIES)):
                    if worker is not None and worker.tasks >= MOST_TASKS:
                        worker.end()
                        worker = None
                    with lock:
                        if stopped.is_set():
                            return
                        worker = worker or (self._idle.pop() if self._idle else _Worker(self.cores))
                        busy.add(worker)
                    try:
                        reason = worker.do(task)
                        break
                    except (OSError, EOFError):
                        code = worker.wait()
                        with lock:
                            busy.discard(worker)
                        worker = None
                        if not left:
                            reason = f"its process ended {TRIES} times, the last time with code {code}"
                    except Exception as error:  # what only this process can hold
                        reason = f"it could not be handed to another process ({type(error).__name__}: {error})"
                        break
                if stopped.is_set():
                    return
                ended.put(Ended(task.name, reason))
            if worker is not None:
                with lock:
                    busy.discard(worker)
                    self._idle.append(worker)

        threads = [threading.Thread(target=attend, daemon=True) for _ in range(min(self.workers, len(tasks)))]
        for thread in threads:
            thread.start()
        left = len(tasks)
        try:
            while left:
                try:
                    event = ended.get(timeout=SECONDS_BETWEEN_LOOKS)
                except queue.Empty:
                    yield None
                else:
                    left -= 1
                    yield event
        finally:
            if left:
                with lock:
                    stopped.set()
                    running = list(busy)
                for worker in running:
                    worker.terminate()  # which saves and ends
                until = time.monotonic() + SECONDS_TO_SAVE
                for worker in running:
                    worker.end_by(until)
            for thread in threads:
                thread.join()


class _Worker:
    """A process that does tasks one after the other, and the pipes to it."""

    def __init__(self, cores: int) -> None:
        command = [sys.executable, "-c", "from elbert.experiments.processes import serve; serve()", str(cores)]
        path = os.pathsep.join(entry for entry in sys.path if entry)
        self._process = subprocess.Popen(  # noqa: S603 - ourselves
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": path},
            start_new_session=True,  # Ctrl-C reaches every process of a terminal; the one that started these decides
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._to, self._from = self._process.stdin, self._process.stdout
        self.tasks = 0  # that it was given

    def do(self, task: Task) -> str | None:
        """Why the task failed, or None; an EOFError or OSError if the process died."""
        self.tasks += 1
        _send(self._to, task)
        return _receive(self._from)

    def terminate(self) -> None:
        self._process.terminate()

    def end_by(self, until: float) -> None:
        """Wait until it has saved and ended, but no longer than this; then it is killed."""
        try:
            self._process.wait(max(0.0, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._process.wait()

    def wait(self) -> int:
        """Its exit code, when it has ended."""
        code = self._process.wait()
        for pipe in (self._to, self._from):
            with contextlib.suppress(OSError):
                pipe.close()
        return code

    def end(self) -> None:
        """Let it end: it has nothing to do."""
        with contextlib.suppress(OSError):
            self._to.close()
        self.wait()


def serve() -> None:
    """A worker: do the tasks that come in, and end when nobody can send any more."""
    take_cores(int(sys.argv[1]))
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a user's environment prints is no answer
    logging.basicConfig(level=logging.WARNING)
    requests = os.fdopen(os.dup(0), "rb")  # not sys.stdin, which Python closes at the end while a thread reads it
    with open(os.devnull, "rb") as nothing:  # noqa: PTH123
        os.dup2(nothing.fileno(), 0)  # what a user's environment reads is no request
    tasks: queue.SimpleQueue[Any] = queue.SimpleQueue()
    idle = threading.Event()

    def listen() -> None:
        with contextlib.suppress(EOFError):
            while True:
                tasks.put(_receive(requests, raw=True))
        tasks.put(None)
        if not idle.is_set():
            os.kill(os.getpid(), signal.SIGTERM)  # whoever started this has died: save and end

    idle.set()
    threading.Thread(target=listen, daemon=True).start()
    while (content := tasks.get()) is not None:
        idle.clear()
        try:
            answer = _done(content)
        except InterruptedRunError:
            return
        idle.set()
        try:
            _send(answers, answer)
        except BrokenPipeError:
            return


def _done(content: bytes) -> str | None:
    """Unpack a task and do it."""
    try:
        task = pickle.loads(content)  # noqa: S301 - from the process that started this one
    except Exception as error:  # a module that only the other process can import
        return f"it could not be handed to another process ({type(error).__name__}: {error})"
    return task()


def _send(pipe: IO[bytes], thing: Any) -> None:
    content = cloudpickle.dumps(thing)
    pipe.write(LENGTH.pack(len(content)) + content)
    pipe.flush()


def _receive(pipe: IO[bytes], *, raw: bool = False) -> Any:
    head = pipe.read(LENGTH.size)
    if len(head) < LENGTH.size:
        raise EOFError
    content = pipe.read(LENGTH.unpack(head)[0])
    return content if raw else pickle.loads(content)  # noqa: S301 - from a process of ours
