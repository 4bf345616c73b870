"""Choosing the final policy under a limit on the bias: among the last ones, by the test of the fairness room."""

import logging
from collections.abc import Callable, Sequence
from pathlib import Path

from elbert.experiments.evaluate import evaluate, protocol_for
from elbert.experiments.presets import OWN
from elbert.experiments.results import VERDICTS
from elbert.files import FileError
from elbert.learning import Agent, Iteration, Trainer
from elbert.learning.result import Result
from elbert.progress import Tell, counting, tell_nobody

SEED = 2**30
"""Seed of the episodes by which candidates are judged: no evaluation meets the same ones."""


class Candidates:
    """Policies of the last part of a training, kept in memory or in the run's folder, and the choice among them."""

    def __init__(self, trainer: Trainer, folder: Path | None) -> None:
        """No candidates yet; `choose` finds those that an earlier part of the run left in the folder."""
        self.trainer, self.folder, self.how = trainer, folder, trainer.method.policy_choice
        total, count = trainer.iterations, self.how.candidates
        first = max(1, round(total * (1 - self.how.last_part)))
        self.iterations = sorted({round(first + (total - first) * i / (count - 1)) for i in range(count)})
        self.kept: dict[int, list[Agent]] = {}  # by iteration, one agent per member
        self.ended_episodes = 0  # of the first member; a run that goes on starts from those before

    def collect(self, iteration: Iteration) -> None:
        """Keep the policy after an iteration if it is to be a candidate."""
        self.ended_episodes += int(iteration.metrics.episodes[0])
        if iteration.iteration in self.iterations:
            agents = self.kept[iteration.iteration] = self.trainer.agents()
            if self.folder is not None:
                for agent, path in zip(agents, self._paths(self.folder, iteration.iteration), strict=True):
                    agent.save(path)

    def choose(self, progress: Tell = tell_nobody, stop: Callable[[], bool] = lambda: False) -> list[Agent] | None:
        """Judge all candidates and choose one for each member; None if `stop` said so before one of them.

        Of those whose limit is confirmed it is the one with most reward. Where none is confirmed, it is one that is
        not refuted, and of these the one with the smallest bias: the reward would choose the largest bias that chance
        allows.
        """
        last = self.trainer.agents()
        for iteration in self.iterations:
            if iteration not in self.kept and self.folder is not None and iteration <= self.trainer.iteration:
                self._read(self._paths(self.folder, iteration), iteration, last)
        self.kept.setdefault(self.trainer.iteration, last)  # a callback may have stopped the training before its end
        by_member = [[self.kept[at][i] for at in sorted(self.kept)] for i in range(len(last))]
        tell, done = counting(progress, "choosing the policy", "policies", len(self.kept) * len(last)), 0
        best: list[Agent] = []
        for agents in by_member:
            judged: list[tuple[Agent, Result]] = []
            for agent in agents:
                if stop():
                    return None
                tell(done)
                judged.append((agent, evaluate(agent, episodes=self._episodes(), seed=SEED, progress=None)))
                done += 1
            best.append(_best(judged).replaced(train_seconds=self.trainer.seconds))
        tell(done)
        return best

    def _read(self, paths: Sequence[Path], iteration: int, like: Sequence[Agent]) -> None:
        if not all(path.exists() for path in paths):
            return  # the run was stopped before they were all there
        try:
            agents = [Agent.load(path) for path in paths]
        except FileError as error:
            logging.getLogger("elbert").warning("%s The final policy is chosen without it.", error)
            return
        self.kept[iteration] = [agent.replaced(env=other.env) for agent, other in zip(agents, like, strict=True)]

    def _paths(self, folder: Path, iteration: int) -> list[Path]:
        members = range(len(self.trainer.members))
        return [folder / "candidates" / f"{iteration:08d}-{i}.safetensors" for i in members]

    def _episodes(self) -> int:
        simulator, how = self.trainer.simulator, self.how
        protocol = protocol_for("default", simulator.name if simulator.parameters is not None else OWN)
        usual, steps = int(protocol.episodes * how.episodes_part), self.trainer.settings.steps
        if protocol.horizon:
            return max(usual, int(how.steps_part * steps / protocol.horizon))
        length = self.trainer.iteration * self.trainer.settings.batch / max(self.ended_episodes, 1)
        return max(how.fewest_episodes, min(usual, int(steps / (len(self.kept) * length))))


def _best(judged: Sequence[tuple[Agent, Result]]) -> Agent:
    """The candidate to be kept."""

    def rank(candidate: tuple[Agent, Result]) -> tuple[int, float]:
        evaluation = candidate[1]
        assert evaluation.limit is not None
        place = VERDICTS.index(evaluation.limit.verdict)
        biases = [part.bias.estimate for part in evaluation.criteria if part.bias.estimate is not None]
        return place, -evaluation.reward.mean if place == 0 or not biases else max(biases)

    return min(judged, key=rank)[0]
