"""The command line in this process or in one of its own, and what its JSON holds."""

import contextlib
import io
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

from elbert.cli import main

ENVIRONMENT = os.environ | {"ELBERT_COMPILATION_CACHE": ""}
SCHEMA = {"env", "method", "episodes", "horizon", "reward", "bias", "groups", "train_seconds"}


def command(*arguments):
    return [sys.executable, "-m", "elbert", *arguments]


def cli_apart(*arguments, cwd=None):
    """In a process of its own, as users run it."""
    return subprocess.run(command(*arguments), capture_output=True, text=True, cwd=cwd, env=ENVIRONMENT)


def cli(*arguments, cwd=None):
    """The same in this process, which saves the imports and what is compiled already."""
    out, error, code = io.StringIO(), io.StringIO(), 0
    with (
        contextlib.chdir(cwd or Path.cwd()),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(error),
        mock.patch.object(sys, "argv", ["elbert", *map(str, arguments)]),
        mock.patch.dict(os.environ, {"ELBERT_COMPILATION_CACHE": ""}),
        mock.patch.object(sys, "path", list(sys.path)),
    ):
        try:
            main()
        except SystemExit as end:
            code = end.code or 0
    return SimpleNamespace(returncode=code, stdout=out.getvalue(), stderr=error.getvalue())
