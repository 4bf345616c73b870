"""Choosing the final policy under a limit on the bias: among the last ones, by the test of the fairness room."""

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import get_args

from elbert.experiments.evaluate import evaluate, protocol_for
from elbert.experiments.presets import OWN
from elbert.fairness.bias_inference import Verdict
from elbert.files import FileError
from elbert.learning import Agent, Evaluation, Trainer
from elbert.learning import Progress as Iteration
from elbert.learning.agent import agents_of
from elbert.progress import Progress, Tell, tell_nobody

CANDIDATES = 6
LAST_PART = 0.2
"""The candidates come from this last part of the training, at equal distances; the final policy is one of them. A short
training has fewer."""

EPISODES_PART = 0.5
"""A candidate is judged on this part of the default protocol's episodes."""

STEPS_PART = 0.1
"""In the worlds here, where steps are cheap, also on this part of the training's steps: short episodes need many."""

FEWEST_EPISODES = 10
"""In a user's environment all candidates together take no more steps than the training did, but each is judged on at
least this number of episodes."""

SEED = 2**30
"""Seed of the episodes by which candidates are judged: no evaluation meets the same ones."""

ORDER: tuple[Verdict, ...] = get_args(Verdict)
"""Verdicts on a limit, from the most favourable to the least: the order in which the fairness room lists them."""


class Candidates:
    """Policies of the last part of a training, kept in memory or in the run's folder, and the choice among them."""

    def __init__(self, trainer: Trainer, parameters: dict[str, object] | None, folder: Path | None) -> None:
        """No candidates yet; `choose` finds those that an earlier part of the run left in the folder."""
        self.trainer, self.parameters, self.folder = trainer, parameters, folder
        total = trainer.iterations
        first = max(1, round(total * (1 - LAST_PART)))
        self.iterations = sorted({round(first + (total - first) * i / (CANDIDATES - 1)) for i in range(CANDIDATES)})
        self.kept: dict[int, list[Agent]] = {}  # by iteration, one agent per member
        self.ended_episodes = 0  # of the first member; a run that goes on starts from those before

    def collect(self, iteration: Iteration) -> None:
        """Keep the policy after an iteration if it is to be a candidate."""
        self.ended_episodes += int(iteration.metrics.episodes[0])
        if iteration.iteration in self.iterations:
            agents = self._current()
            self.kept[iteration.iteration] = agents
            for i, agent in enumerate(agents):
                if self.folder is not None:
                    agent.save(self._path(iteration.iteration, i))

    def choose(self, progress: Tell = tell_nobody, stop: Callable[[], bool] = lambda: False) -> list[Agent] | None:
        """Judge all candidates and choose one for each member.

        Of those whose limit is confirmed it is the one with most reward. Where none is confirmed, it is one that is
        not refuted, and of these the one with the smallest bias: the reward would choose the largest bias that chance
        allows.

        Args:
            progress: is told how many policies are judged.
            stop: is asked before every candidate whether to give up.

        Returns:
            The agents, or None if it was stopped.
        """
        last = self._current()
        for iteration in self.iterations:
            if iteration not in self.kept and self.folder is not None and iteration <= self.trainer.iteration:
                self._read(iteration, last)
        self.kept.setdefault(self.trainer.iteration, last)  # a callback may have stopped the training before its end
        by_member = [[self.kept[at][i] for at in sorted(self.kept)] for i in range(len(last))]
        total, done = sum(len(agents) for agents in by_member), 0
        best: list[Agent] = []
        for agents in by_member:
            judged: list[tuple[Agent, Evaluation]] = []
            for agent in agents:
                if stop():
                    return None
                progress(Progress(activity="choosing the policy", done=done, total=total, unit="policies"))
                judged.append((agent, evaluate(agent, episodes=self._episodes(), seed=SEED)))
                done += 1
            best.append(_best(judged).timed(self.trainer.seconds))
        progress(Progress(activity="choosing the policy", done=done, total=total, unit="policies"))
        return best

    def _current(self) -> list[Agent]:
        return agents_of(self.trainer, parameters=self.parameters, seconds=self.trainer.seconds)

    def _read(self, iteration: int, like: Sequence[Agent]) -> None:
        paths = [self._path(iteration, i) for i in range(len(like))]
        if not all(path.exists() for path in paths):
            return  # the run was stopped before they were all there
        try:
            agents = [Agent.load(path) for path in paths]
        except FileError as error:
            logging.getLogger("elbert").warning("%s The final policy is chosen without it.", error)
            return
        self.kept[iteration] = [agent.placed(other) for agent, other in zip(agents, like, strict=True)]

    def _path(self, iteration: int, member: int) -> Path:
        assert self.folder is not None
        return self.folder / "candidates" / f"{iteration:08d}-{member}.safetensors"

    def _episodes(self) -> int:
        name = self.trainer.problem.name if self.parameters is not None else OWN
        protocol = protocol_for("default", name)
        usual, steps = int(protocol.episodes * EPISODES_PART), self.trainer.settings.steps
        if protocol.horizon:
            return max(usual, int(STEPS_PART * steps / protocol.horizon))
        length = self.trainer.iteration * self.trainer.settings.batch / max(self.ended_episodes, 1)
        return max(FEWEST_EPISODES, min(usual, int(steps / (len(self.kept) * length))))


def _best(judged: Sequence[tuple[Agent, Evaluation]]) -> Agent:
    """The candidate to be kept."""

    def rank(candidate: tuple[Agent, Evaluation]) -> tuple[int, float]:
        evaluation = candidate[1]
        assert evaluation.limit is not None
        place = ORDER.index(evaluation.limit.verdict)
        biases = [part.bias.estimate for part in evaluation.report.criteria if part.bias.estimate is not None]
        return place, -evaluation.reward.mean if place == 0 or not biases else max(biases)

    return min(judged, key=rank)[0]
