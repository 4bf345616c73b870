"""Metrics for TensorBoard, as a callback. Needs the extra: pip install elbert[tensorboard]."""

from pathlib import Path

import jax
import numpy as np

from elbert.errors import ElbertError
from elbert.experiments.run_folder import metric_row
from elbert.learning import Iteration


class TensorBoard:
    """Writes every iteration's metrics into a folder that TensorBoard reads."""

    def __init__(self, folder: Path) -> None:
        """The folder, made if it is not there."""
        try:
            from tensorboardX import SummaryWriter
        except ImportError as error:
            raise ElbertError(
                "TensorBoard output needs tensorboardX. Install it: pip install elbert[tensorboard]."
            ) from error
        self._folder, self._make = folder, SummaryWriter
        self._writers: dict[int, SummaryWriter] = {}

    def __call__(self, progress: Iteration) -> None:
        """Add one iteration."""
        for i, member in enumerate(progress.trainer.members):
            if i not in self._writers:
                several = len(progress.trainer.members) > 1
                self._writers[i] = self._make(
                    str(self._folder / f"seed-{member.seed}-{i}" if several else self._folder)
                )
            row = metric_row(jax.tree.map(lambda part, i=i: np.asarray(part)[i], progress.metrics))
            for name, value in row.items():
                if value != "":
                    self._writers[i].add_scalar(name, value, progress.steps)
            self._writers[i].flush()
