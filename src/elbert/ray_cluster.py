"""The connection to Ray, which spreads work over several machines. Ray is an extra: it is imported when it is needed.

with connected("local") as ray:
    results = ray.get([ray.remote(function).remote(part) for part in parts])

"local" starts a Ray on this machine; everything else is the address of one that runs.
"""

import logging
import os
import re
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from elbert.errors import ElbertError, InvalidInputError

LOCAL = "local"
"""The address that stands for a Ray of our own on this machine."""
SECONDS = 10.0
"""How long an address may take to answer."""
_QUIET = {"RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0", "RAY_DEDUP_LOGS": "0", "RAY_USAGE_STATS_ENABLED": "0"}
"""Ray reads these when it is imported: without them it warns about its own defaults, and reports to its makers."""


class ClusterError(ElbertError):
    """Ray cannot be started, reached or used."""


@contextmanager
def connected(address: str) -> Iterator[Any]:
    """The module `ray`, connected. What is started here is shut down at the end, and nothing else is.

    A process has one connection. If it has one already, that one is used and left open.

    Args:
        address: "local" starts a Ray on this machine, with a worker for every core. "auto" joins the cluster that runs
            on this machine, and "host:port" (or "ray://host:port") one elsewhere.
    """
    place = re.fullmatch(r"(?:ray://)?([^/\s]+):(\d{1,5})", address) if isinstance(address, str) else None
    if place is None and address not in (LOCAL, "auto"):
        raise InvalidInputError(
            f"ray is {address!r}. Give 'local' (a Ray on this machine), 'auto' (the cluster that this machine is part "
            "of) or the address of a cluster, such as head-node:6379."
        )
    with _interrupts_held():
        ray = _imported()
    if ray.is_initialized():
        yield ray
        return
    try:
        if place is not None:  # Ray itself would try for many minutes
            socket.create_connection((place[1].strip("[]"), int(place[2])), timeout=SECONDS).close()
        with _interrupts_held():
            _join(ray, address)
    except (OSError, OverflowError, RuntimeError, ValueError) as error:  # which of them depends on the address
        ray.shutdown()
        raise ClusterError(_failure(address, error)) from error
    except KeyboardInterrupt:  # that was held
        ray.shutdown()
        raise
    try:
        yield ray
    finally:
        with _interrupts_held():
            ray.shutdown()


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Ctrl-C takes effect after the block: in the middle of Ray's start it was seen to end the process by a fault."""
    ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN  # as for a command in the background
    if ignored or threading.current_thread() is not threading.main_thread():
        yield
        return
    arrived: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: arrived.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if arrived:
        raise KeyboardInterrupt


def _join(ray: Any, address: str) -> None:
    """Start a Ray on this machine, or join one. Nothing is printed, and no dashboard is served."""
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if address == LOCAL:
        ray.init(address="local", include_dashboard=False, **options)
    else:
        ray.init(address=address, **options)


def _imported() -> Any:
    for name, value in _QUIET.items():
        os.environ.setdefault(name, value)
    try:
        return import_module("ray")
    except ImportError as error:
        raise ClusterError(
            "Ray is not installed, and ray= (--ray) needs it. Install it with: pip install 'elbert[ray]'"
        ) from error


def _failure(address: str, error: Exception) -> str:
    reason = " ".join(str(error).split())[:300]
    if address == LOCAL:
        return f"Ray could not be started on this machine ({reason})."
    return (
        f"No Ray cluster can be reached at {address!r} ({reason}). Start one with `ray start --head` and give the "
        "address that it prints; or give 'local', which starts one on this machine."
    )
