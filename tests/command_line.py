"""The command line in a process of its own, and what its JSON holds."""

import os
import subprocess
import sys

ENVIRONMENT = os.environ | {"ELBERT_COMPILATION_CACHE": ""}
SCHEMA = {"env", "method", "episodes", "horizon", "reward", "bias", "groups", "train_seconds"}


def command(*arguments):
    return [sys.executable, "-m", "elbert", *arguments]


def cli(*arguments, cwd=None):
    return subprocess.run(command(*arguments), capture_output=True, text=True, cwd=cwd, env=ENVIRONMENT)
