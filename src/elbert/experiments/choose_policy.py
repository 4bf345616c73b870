"""Choosing the final policy under a limit on the bias: among the last ones and those between them, by fresh episodes.

The last policies of a training lie on both sides of the limit, hardly ever just within it. Near each other, policies
change smoothly along the line through their weights, and somewhere on a line there is one that is just within the
limit. So in every round of episodes the policy that promises most, if rates and reward change evenly along the lines
between all pairs, joins the others, and has to prove itself as they do.
"""

import dataclasses
import itertools
import logging
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from scipy.stats import norm

from elbert.experiments.evaluate import Protocol, protocol_for, steps_to_tell
from elbert.experiments.presets import OWN
from elbert.experiments.results import VERDICTS
from elbert.fairness.bias_inference import Verdict
from elbert.fairness.rates import ratio
from elbert.files import FileError
from elbert.learning import Agent, Iteration, Trainer
from elbert.learning.evaluation import episodes_to_tell
from elbert.learning.policy import Policy
from elbert.learning.result import Result, judged
from elbert.learning.simulators import Episodes
from elbert.progress import Tell, counting, tell_nobody

SEED = 2**30
"""Seed of the episodes by which candidates are judged: no evaluation meets the same ones."""

PROBABLY = 1.645 + 0.85
"""Deviations below the limit at which four of five evaluations confirm it: 1.645 to confirm, the rest for chance."""
SAFELY = PROBABLY + 0.1
"""The same for a policy that is to be among them."""

PARTS = np.linspace(-1.0, 2.0, 121)
"""Where on the line through two policies, at 0 and 1, a third one is looked for."""

NORMAL_95 = 1.96


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
        budget = int(self._episodes())
        best: list[Agent] = []
        for i in range(len(last)):
            tell = counting(progress, "choosing the policy", "episodes", budget * len(last))
            chosen = self._chosen(
                [self.kept[at][i] for at in sorted(self.kept)],
                budget,
                tell=lambda played, i=i, tell=tell: tell(budget * i + min(played, budget)),
                stop=stop,
            )
            if chosen is None:
                return None
            best.append(chosen.replaced(train_seconds=self.trainer.seconds))
        counting(progress, "choosing the policy", "episodes", budget * len(last))(budget * len(last))
        return best

    def _chosen(
        self, agents: Sequence[Agent], budget: int, *, tell: Callable[[int], None], stop: Callable[[], bool]
    ) -> Agent | None:
        """The policy of one member. In every round those that could still be first play as much again as before."""
        each = max(self.how.fewest_episodes, int(self.how.first_part * budget / len(agents)))
        everyone = alive = [Judged(agent) for agent in agents]

        def play(candidates: Sequence[Judged], chunks: int) -> bool:
            for candidate in candidates:
                if stop():
                    return False
                candidate.play_until(chunks, each, self._protocol().horizon)
                tell(each * sum(other.chunks for other in everyone))
            return True

        for chunks in (2**rounds for rounds in itertools.count()):
            if not play(alive, chunks):
                return None
            joins = self._between(everyone, self._ranked(everyone)[0])
            if not play(joins, chunks):
                return None
            everyone = [*everyone, *joins]
            first, *others = self._ranked(everyone)
            others = sorted((other for other in others if not other.is_behind(first)), key=Judged.promise, reverse=True)
            alive = [first, *others][: self.how.finalists]
            spent = sum(other.chunks for other in everyone)
            settled = len(alive) == 1 and first.verdict == "confirmed" and not joins
            if settled or each * (spent + sum(2 * chunks - c.chunks for c in alive)) > budget:
                return first.agent
        return None

    def _ranked(self, everyone: Sequence["Judged"]) -> list["Judged"]:
        return sorted(everyone, key=lambda each: each.rank(self._told_by(each)))

    def _told_by(self, candidate: "Judged") -> int | None:
        """How many episodes an evaluation of it by the protocol would take; None where there is no protocol."""
        if self.trainer.simulator.parameters is None:
            return None
        simulator = self.trainer.simulator
        most = steps_to_tell(self.trainer.settings.steps, simulator.shape.observation, pure=simulator.pure)
        return episodes_to_tell(candidate.result, at_least=self._protocol().episodes, steps=most)

    def _between(self, everyone: Sequence["Judged"], first: "Judged") -> list["Judged"]:
        """The policy on a line through two others that promises most reward within the limit, if that is more.

        Along a line the rates and the reward are taken to change evenly. It stays as far below the limit as it takes
        to tell so, by as many episodes as the first one has played and by those of an evaluation.
        """
        error, limit = first.error, first.result.limit
        if error is None or limit is None:
            return []
        told = self._told_by(first) or math.inf
        aim = limit.max_bias - SAFELY * error * max(1.0, math.sqrt(first.result.episodes / told))
        levels = [each.compared(first) for each in everyone]
        promised, part, one, other = -math.inf, 0.0, first, first
        for i, j in itertools.combinations(range(len(everyone)), 2):
            line = levels[i].line_to(levels[j])
            rewards = np.where(line.bias <= aim, line.reward, -math.inf)
            if rewards.max() > promised:
                promised, part, one, other = rewards.max(), PARTS[rewards.argmax()], everyone[i], everyone[j]
        reached = first.result.reward.mean if first.verdict == "confirmed" else -math.inf
        if promised <= reached + self.how.least_gain * first.reward_error:
            return []
        return [Judged(mixed(one.agent, other.agent, float(part)))]

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
        numbers = trainer.simulator.shape.observation
        steps = self.how.budget(trainer.settings.steps, pure=trainer.simulator.pure, numbers=numbers)
        seen = trainer.iteration * trainer.settings.batch / max(self.ended_episodes, 1)
        return steps / float(self._protocol().horizon or trainer.simulator.horizon or seen)


class Levels(NamedTuple):
    """What a policy reached."""

    reward: Any  # [...] per step
    rates: Any  # [..., criteria, groups]

    @property
    def bias(self) -> Any:
        """The largest difference of known rates, of the worst criterion.   [...]"""
        return np.max(np.nanmax(self.rates, axis=-1) - np.nanmin(self.rates, axis=-1), axis=-1)

    def line_to(self, other: "Levels") -> "Levels":
        """Those on the line through this one and another, if all change evenly along it.   [parts, ...]"""
        return Levels(
            self.reward + PARTS * (other.reward - self.reward),
            self.rates + PARTS[:, None, None] * (other.rates - self.rates),
        )


class Judged:
    """A candidate with all episodes that it has played."""

    result: Result

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self._sums: list[Episodes] = []

    @property
    def chunks(self) -> int:
        """How many times it has played."""
        return len(self._sums)

    def play_until(self, chunks: int, episodes: int, horizon: int | None) -> None:
        """Play until it has played this many times as many episodes, always as many at once, and judge by all."""
        parameters = {} if horizon is None or self.agent.about.parameters is None else {"horizon": horizon}
        about: dict[str, Any] = {}
        for number in range(self.chunks, chunks):
            sums, about = self.agent.played(episodes, seed=SEED + number, **parameters)
            self._sums.append(sums)
        if about:
            every = Episodes(*(np.concatenate(each) for each in zip(*self._sums, strict=True)))
            self.result = judged(every, **about)

    @property
    def verdict(self) -> Verdict:
        """On the limit, by all episodes so far."""
        assert self.result.limit is not None
        return self.result.limit.verdict

    def compared(self, first: "Judged") -> "Levels":
        """Its levels if it had played as much as another one: the other's, and the difference in common episodes.

        Much of the noise of the same episodes is the same for policies that are near each other.
        """
        common = min(self.chunks, first.chunks)
        return Levels(
            *(
                whole + mine - theirs
                for whole, mine, theirs in zip(
                    first.levels(first.chunks), self.levels(common), first.levels(common), strict=True
                )
            )
        )

    def levels(self, chunks: int) -> "Levels":
        """What it reached in the first chunks."""
        sums = Episodes(*(sum(each.sum(axis=0) for each in parts[:chunks]) for parts in zip(*self._sums, strict=True)))
        return Levels(sums.reward / sums.length, ratio(sums.supply, sums.demand, otherwise=np.nan))

    @property
    def reward_error(self) -> float:
        """Standard error of the reward."""
        high = self.result.reward.high
        return 0.0 if high is None else (high - self.result.reward.mean) / NORMAL_95

    @property
    def error(self) -> float | None:
        """Standard error of the bias, roughly."""
        worst = max(self.result.criteria, key=lambda part: part.bias.debiased or 0.0).bias
        return None if worst.ci is None or worst.debiased is None else (worst.ci[1] - worst.debiased) / NORMAL_95

    def rank(self, usual: int | None = None) -> tuple[float, float]:
        """The smaller, the better: the verdict, then the reward, or the bias where the limit is not confirmed.

        In front are those that an evaluation of the `usual` number of episodes would probably confirm too.
        """
        limit, place = self.result.limit, float(VERDICTS.index(self.verdict))
        if place == 0 and usual is not None and limit is not None and limit.p_confirm is not None:
            deviations = norm.isf(max(limit.p_confirm, 1e-300)) * math.sqrt(min(usual / self.result.episodes, 1.0))
            place = 0.0 if deviations > PROBABLY else 0.5
        biases = [part.bias.estimate for part in self.result.criteria if part.bias.estimate is not None]
        return place, -self.result.reward.mean if place < 1 or not biases else max(biases)

    def promise(self) -> tuple[bool, float]:
        """The larger, the more is to be hoped of more episodes: whether it seems to keep the limit, then the reward."""
        biases = [part.bias.debiased for part in self.result.criteria if part.bias.debiased is not None]
        limit = self.result.limit
        return limit is not None and max(biases, default=math.inf) <= limit.max_bias, self.result.reward.mean

    def is_behind(self, first: "Judged") -> bool:
        """Whether more episodes will hardly put it first: it is refuted, or surely earns less than a confirmed one."""
        if first.verdict != "confirmed":
            return self.verdict == "refuted" and first.verdict == "not refuted"
        mine, theirs = self.result.reward.high, first.result.reward.low
        return self.verdict == "refuted" or (mine is not None and theirs is not None and mine < theirs)


def mixed(first: Agent, second: Agent, part: float) -> Agent:
    """The policy that lies this part of the way from one to another, both of the same training.

    Beyond the two, only the weights go on: what counts what was seen stays that of the nearer one.
    """
    later = max(first, second, key=lambda agent: agent.about.steps)

    def between(one: Any, other: Any, part: float) -> Any:
        return jax.tree.map(lambda x, y: (1 - part) * x + part * y, one, other)

    inside = min(max(part, 0.0), 1.0)
    weights = between(first.policy.weights, second.policy.weights, part)
    moments, scale = between((first.policy.moments, first.scale), (second.policy.moments, second.scale), inside)
    return dataclasses.replace(later, policy=Policy(weights, moments), scale=scale)
