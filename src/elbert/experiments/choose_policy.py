"""Choosing the final policy under a limit on the bias: among the last ones, by the test of the fairness room."""

import logging
from collections.abc import Callable, Sequence
from pathlib import Path

from elbert.experiments.evaluate import evaluate, protocol_for
from elbert.experiments.presets import OWN
from elbert.files import FileError
from elbert.learning import Agent, Evaluation, Iteration, Trainer

COUNT = 6
LAST = 0.2
"""So many candidates from the last part of the training, the final policy among them; fewer of a short training."""

HALF = 2
"""A candidate is judged on half the episodes of the default protocol."""

PART = 0.1
"""In the worlds here, where steps are cheap, also on this part of the training's steps: short episodes need many."""

FEWEST = 10
"""In an environment of one's own all candidates together take no more steps than the training did, but each is judged
on so many episodes."""

SEED = 2**30
"""Of the episodes by which candidates are judged: not those of any evaluation."""

ORDER = ("confirmed", "not refuted", "refuted", "not estimable")


class Candidates:
    """A callback that keeps policies of the last part of a training, in memory or in the run's folder."""

    def __init__(self, trainer: Trainer, folder: Path | None) -> None:
        """Those that an earlier part of the run left in the folder are found there."""
        self.trainer, self.folder = trainer, folder
        total = trainer.iterations
        first = max(1, round(total * (1 - LAST)))
        self.iterations = sorted({round(first + (total - first) * i / (COUNT - 1)) for i in range(COUNT)})
        self.kept: dict[int, list[Agent]] = {}
        self.ended = 0  # episodes of the first member; a run that goes on is told of those before

    def __call__(self, progress: Iteration) -> None:
        """Keep the policy if its time has come."""
        self.ended += int(progress.metrics.episodes[0])
        if progress.iteration in self.iterations:
            agents = self.trainer.agents()
            self.kept[progress.iteration] = agents
            for i, agent in enumerate(agents):
                if self.folder is not None:
                    agent.save(self._path(progress.iteration, i))

    def chosen(
        self, tell: Callable[[str], None] = lambda text: None, stop: Callable[[], object] = lambda: False
    ) -> list[Agent] | None:
        """One for each member: of those with a confirmed "bias <= limit" the one with most reward.

        Where none is confirmed, one that is not refuted, and of these the one with the smallest bias: the reward would
        choose the largest that chance allows.

        Args:
            tell: is told in words how far it is.
            stop: is asked before every candidate; what was found so far is then forgotten, and None returned.
        """
        last = self.trainer.agents()
        for iteration in self.iterations:
            if iteration not in self.kept and self.folder is not None and iteration <= self.trainer.iteration:
                self._find(iteration, last)
        self.kept.setdefault(self.trainer.iteration, last)  # a callback may have ended the training before its time
        groups = [[self.kept[at][i] for at in sorted(self.kept)] for i in range(len(last))]
        total = sum(len(agents) for agents in groups)
        best: list[Agent] = []
        done = 0
        for agents in groups:
            judged: list[tuple[Agent, Evaluation]] = []
            for agent in agents:
                if stop():
                    return None
                tell(f"judging the last policies, {done + 1} of {total}")
                judged.append((agent, evaluate(agent, episodes=self._episodes(), seed=SEED)))
                done += 1
            best.append(_best(judged).replaced(train_seconds=self.trainer.seconds))
        return best

    def _find(self, iteration: int, like: Sequence[Agent]) -> None:
        paths = [self._path(iteration, i) for i in range(len(like))]
        if not all(path.exists() for path in paths):
            return  # the run was stopped before they were all there
        try:
            found = [Agent.load(path) for path in paths]
        except FileError as error:
            logging.getLogger("elbert").warning("%s The final policy is chosen without it.", error)
            return
        self.kept[iteration] = [agent.replaced(env=other.env) for agent, other in zip(found, like, strict=True)]

    def _path(self, iteration: int, member: int) -> Path:
        assert self.folder is not None
        return self.folder / "candidates" / f"{iteration:08d}-{member}.safetensors"

    def _episodes(self) -> int:
        name = self.trainer.simulator.name if self.trainer.simulator.parameters is not None else OWN
        protocol = protocol_for("default", name)
        half, steps = protocol.episodes // HALF, self.trainer.settings.steps
        if protocol.horizon:
            return max(half, int(PART * steps / protocol.horizon))
        length = self.trainer.iteration * self.trainer.settings.batch / max(self.ended, 1)
        return max(FEWEST, min(half, int(steps / (len(self.kept) * length))))


def _best(judged: Sequence[tuple[Agent, Evaluation]]) -> Agent:
    """The candidate to be kept."""

    def rank(one: tuple[Agent, Evaluation]) -> tuple[int, float]:
        evaluation = one[1]
        assert evaluation.limit is not None
        place = ORDER.index(evaluation.limit.verdict)
        biases = [part.bias.estimate for part in evaluation.report.criteria if part.bias.estimate is not None]
        return place, -evaluation.reward.mean if place == 0 or not biases else max(biases)

    return min(judged, key=rank)[0]
