"""Cores of this machine, divided among processes that train.

How a sum is divided among threads decides its last bits. So every training of a plan gets the same number of cores,
whatever else the machine has: then it ends with the same bits wherever it runs on the same kind of machine.
"""

import contextlib
import os
import tempfile
from pathlib import Path

from filelock import FileLock, Timeout

MOST_SHARES = 16
"""Trainings that may share a core; more are not counted."""
_held: list[FileLock] = []
"""The cores of this process, until it ends: the system takes a lock back from a process that died."""


def usable_cores() -> int:
    """Number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def take_cores(number: int) -> None:
    """Keep this process to so many cores, if possible to ones that no other training has taken.

    Call it before JAX computes anything, because it counts cores once. Where the system cannot do it (macOS, Windows)
    nothing happens.
    """
    if _held or not hasattr(os, "sched_setaffinity"):
        return
    cores = sorted(os.sched_getaffinity(0))
    if number >= len(cores):
        return
    chosen: list[int] = []
    for share in range(MOST_SHARES):  # where more train than there are cores, they are spread over all of them
        for core in cores:
            if len(chosen) < number and core not in chosen and _taken(core, share):
                chosen.append(core)
    os.sched_setaffinity(0, [*chosen, *(core for core in cores if core not in chosen)][:number])


def _taken(core: int, share: int) -> bool:
    """Whether a share of a core is ours from now on; not if somebody else has it. The first is a core to oneself."""
    folder = Path(tempfile.gettempdir()) / f"elbert-cores-{os.getuid()}"
    with contextlib.suppress(Timeout, OSError):
        folder.mkdir(mode=0o700, exist_ok=True)
        lock = FileLock(folder / (f"{core}.{share}" if share else str(core)))
        lock.acquire(timeout=0)
        _held.append(lock)
        return True
    return False
