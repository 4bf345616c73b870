"""Choosing the final policy under a limit on the bias: among the last ones, by the test of the fairness room."""

from collections.abc import Sequence
from pathlib import Path

from elbert.experiments.presets import OWN, protocol_for
from elbert.files import FileError
from elbert.learning import Agent, Evaluation, Progress, Trainer
from elbert.learning.agent import agents_of

COUNT = 6
LAST = 0.2
"""So many candidates from the last part of the training, the final policy among them."""

PART = 0.1
"""A candidate is judged on at least so many of the training's steps: where episodes are short, chance is large."""

SEED = 2**30
"""Of the episodes by which candidates are judged: not those of any evaluation."""

ORDER = ("confirmed", "not refuted", "refuted", "not estimable")


class Candidates:
    """A callback that keeps policies of the last part of a training, in memory or in the run's folder."""

    def __init__(self, trainer: Trainer, parameters: dict[str, object] | None, folder: Path | None) -> None:
        """Those that an earlier part of the run left in the folder are found there."""
        self.trainer, self.parameters, self.folder = trainer, parameters, folder
        total = trainer.iterations
        first = max(1, round(total * (1 - LAST)))
        self.iterations = sorted({round(first + (total - first) * i / (COUNT - 1)) for i in range(COUNT)})
        self.kept: dict[int, list[Agent]] = {}

    def __call__(self, progress: Progress) -> None:
        """Keep the policy if its time has come."""
        if progress.iteration in self.iterations:
            agents = agents_of(self.trainer, parameters=self.parameters, seconds=self.trainer.seconds)
            self.kept[progress.iteration] = agents
            for i, agent in enumerate(agents):
                if self.folder is not None:
                    agent.save(self._path(progress.iteration, i))

    def chosen(self) -> list[Agent]:
        """One for each member: of those with a confirmed "bias <= limit" the one with most reward.

        Where none is confirmed, the one with the smallest bias: the reward would choose the largest that chance allows.
        """
        last = agents_of(self.trainer, parameters=self.parameters, seconds=self.trainer.seconds)
        for iteration in self.iterations:
            if iteration not in self.kept and self.folder is not None and iteration <= self.trainer.iteration:
                self._find(iteration, last)
        best: list[Agent] = []
        for i, final in enumerate(last):
            agents = [self.kept[iteration][i] for iteration in sorted(self.kept)] or [final]
            best.append(_best(agents, self._episodes(), self.trainer.seconds))
        return best

    def _find(self, iteration: int, like: Sequence[Agent]) -> None:
        try:
            found = [Agent.load(self._path(iteration, i)) for i in range(len(like))]
        except FileError:  # the run was stopped before it was there, or it is damaged: one candidate less
            return
        self.kept[iteration] = [agent.placed(other) for agent, other in zip(found, like, strict=True)]

    def _path(self, iteration: int, member: int) -> Path:
        assert self.folder is not None
        return self.folder / "candidates" / f"{iteration:08d}-{member}.safetensors"

    def _episodes(self) -> int:
        name = self.trainer.problem.name if self.parameters is not None else OWN
        protocol = protocol_for("default", name)
        steps = PART * self.trainer.settings.steps
        return max(50, protocol.episodes // 2, int(steps / protocol.horizon) if protocol.horizon else 0)


def _best(agents: Sequence[Agent], episodes: int, seconds: float) -> Agent:
    """The candidate to be kept; it says how long the whole training took."""

    def rank(judged: tuple[Agent, Evaluation]) -> tuple[int, float]:
        agent, evaluation = judged
        limit = agent.settings.max_bias
        assert limit is not None
        place = ORDER.index(evaluation.report.test(limit).verdict)
        biases = [part.bias.estimate for part in evaluation.report.criteria if part.bias.estimate is not None]
        return place, -evaluation.reward.mean if place == 0 or not biases else max(biases)

    judged = [(agent, agent.evaluate(episodes, seed=SEED)) for agent in agents]
    return min(judged, key=rank)[0].timed(seconds)
