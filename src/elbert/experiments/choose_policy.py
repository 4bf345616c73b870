"""Choosing the final policy under a limit on the bias: among the last ones, by the test of the fairness room."""

import logging
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import norm

from elbert.experiments.evaluate import Protocol, protocol_for
from elbert.experiments.presets import OWN
from elbert.experiments.results import VERDICTS
from elbert.fairness.bias_inference import Verdict
from elbert.files import FileError
from elbert.learning import Agent, Iteration, Trainer
from elbert.learning.result import Result, judged
from elbert.learning.simulators import Episodes
from elbert.progress import Tell, counting, tell_nobody

SEED = 2**30
"""Seed of the episodes by which candidates are judged: no evaluation meets the same ones."""


PROBABLY = 1.645 + 0.85
"""Deviations below the limit at which four of five evaluations confirm it: 1.645 to confirm, the rest for chance."""


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
        rounds = self.how.rounds
        tell = counting(progress, "choosing the policy", "rounds", rounds * len(last))
        best: list[Agent] = []
        for i in range(len(last)):
            alive = [Judged(self.kept[at][i]) for at in sorted(self.kept)]
            each = max(self.how.fewest_episodes, int(self._episodes() / len(alive) / (2**rounds - 1)))
            for number in range(rounds):
                tell(i * rounds + number)
                for candidate in alive:
                    if stop():
                        return None
                    candidate.play(2**number, each, self._protocol().horizon)
                alive = self._left(alive)
                if len(alive) == 1 and alive[0].verdict == "confirmed":
                    break
            best.append(alive[0].agent.replaced(train_seconds=self.trainer.seconds))
        tell(rounds * len(last))
        return best

    def _left(self, alive: Sequence["Judged"]) -> list["Judged"]:
        """The candidates that more episodes could still put first, the one that is first now in front."""
        named = self.trainer.simulator.parameters is not None
        ranked = sorted(alive, key=partial(Judged.rank, usual=self._protocol().episodes if named else None))
        return [ranked[0], *(each for each in ranked[1:] if not each.is_behind(ranked[0]))]

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

    def _protocol(self) -> Protocol:
        simulator = self.trainer.simulator
        return protocol_for("default", simulator.name if simulator.parameters is not None else OWN)

    def _episodes(self) -> float:
        """How many episodes all candidates together are judged by, at the most."""
        trainer = self.trainer
        steps = self.how.budget(trainer.settings.steps, pure=trainer.simulator.pure)
        seen = trainer.iteration * trainer.settings.batch / max(self.ended_episodes, 1)
        return steps / float(self._protocol().horizon or trainer.simulator.horizon or seen)


class Judged:
    """A candidate with all episodes that it has played."""

    result: Result

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self._sums: list[Episodes] = []

    def play(self, times: int, episodes: int, horizon: int | None) -> None:
        """Play this many times as many episodes, always as many at once, and judge by all so far."""
        parameters = {} if horizon is None or self.agent.about.parameters is None else {"horizon": horizon}
        about: dict[str, Any] = {}
        for _ in range(times):
            sums, about = self.agent.played(episodes, seed=SEED + len(self._sums), **parameters)
            self._sums.append(sums)
        every = Episodes(*(np.concatenate(each) for each in zip(*self._sums, strict=True)))
        self.result = judged(every, **about)

    @property
    def verdict(self) -> Verdict:
        """On the limit, by all episodes so far."""
        assert self.result.limit is not None
        return self.result.limit.verdict

    def rank(self, usual: int | None = None) -> tuple[float, float]:
        """The smaller, the better: the verdict, then the reward, or the bias where the limit is not confirmed.

        In front are those that an evaluation of the `usual` number of episodes would probably confirm too.
        """
        limit, place = self.result.limit, float(VERDICTS.index(self.verdict))
        if place == 0 and usual is not None and limit is not None and limit.p_confirm is not None:
            deviations = norm.isf(max(limit.p_confirm, 1e-300)) * np.sqrt(usual / self.result.episodes)
            place = 0.0 if deviations > PROBABLY else 0.5
        biases = [part.bias.estimate for part in self.result.criteria if part.bias.estimate is not None]
        return place, -self.result.reward.mean if place < 1 or not biases else max(biases)

    def is_behind(self, first: "Judged") -> bool:
        """Whether more episodes will hardly put it first: it is refuted, or surely earns less than a confirmed one."""
        if first.verdict != "confirmed":
            return self.verdict == "refuted" and first.verdict == "not refuted"
        mine, theirs = self.result.reward.high, first.result.reward.low
        return self.verdict == "refuted" or (mine is not None and theirs is not None and mine < theirs)
