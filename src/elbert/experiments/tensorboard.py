"""Metrics for TensorBoard, as a callback. It needs an extra: pip install elbert[tensorboard]."""

from pathlib import Path

from elbert.errors import ElbertError
from elbert.experiments.run_metrics import metric_row
from elbert.learning import Iteration


class TensorBoard:
    """Writes every iteration's metrics into a folder that TensorBoard reads."""

    def __init__(self, folder: Path) -> None:
        try:
            from tensorboardX import SummaryWriter
        except ImportError as error:
            raise ElbertError(
                "TensorBoard output needs tensorboardX. Install it: pip install elbert[tensorboard]."
            ) from error
        self._folder, self._make = folder, SummaryWriter
        self._writers: dict[int, SummaryWriter] = {}

    def __call__(self, iteration: Iteration) -> None:
        """Add one iteration."""
        members = iteration.trainer.members
        for i, member in enumerate(members):
            if i not in self._writers:
                folder = self._folder / f"seed-{member.seed}-{i}" if len(members) > 1 else self._folder
                self._writers[i] = self._make(str(folder))
            for name, value in metric_row(iteration.metrics, i).items():
                if value != "":
                    self._writers[i].add_scalar(name, value, iteration.steps)
            self._writers[i].flush()
