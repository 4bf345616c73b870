"""Environments for trainings that are hit in the middle.

Whoever imports this module, as every process does that trains in one of these, trains slowly and saves often. Neither
makes a difference to the numbers.
"""

import os
import signal
import time
from typing import Any

from elbert.envs import SupplyDemandWrapper
from elbert.experiments import run_session
from tests.envs.own import Clinic, Coin

PAUSE = "ELBERT_TEST_PAUSE"
"""Name of the variable with the seconds that an iteration takes longer."""

if PAUSE in os.environ:
    run_session.CHECKPOINT_SECONDS = 0.5
    told = run_session.RunSession._tell

    def _tell(self, iteration) -> bool:
        time.sleep(float(os.environ[PAUSE]))
        return told(self, iteration)

    run_session.RunSession._tell = _tell


class SlowCoin(Coin, static=("sides",)):
    """A coin of this module, so that whoever unpacks it imports the module."""


coin = SlowCoin()
"""A compiled world: what is stored and put back goes on to the same bits."""


class Broken(Clinic):
    """A clinic that fails on its third day."""

    def step(self, action) -> Any:
        if self.time == 2:
            raise OSError("the roof fell in")
        return super().step(action)


class Deadly(Clinic):
    """A clinic that takes its process with it."""

    def step(self, action) -> Any:
        os.kill(os.getpid(), signal.SIGKILL)


def _wrapped(clinic):
    return SupplyDemandWrapper(clinic, supply=lambda t: t.info["served"], demand=lambda t: t.info["arrived"])


def sound():
    return _wrapped(Clinic())


def broken():
    return _wrapped(Broken())


def deadly():
    return _wrapped(Deadly())
