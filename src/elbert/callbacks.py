"""Ready-made callbacks: what can be done after every iteration of a training.

    from elbert.callbacks import EvaluateEvery, LogTo, StopWhenConfirmed

    elbert.train("lending", max_bias=0.02, callbacks=[StopWhenConfirmed(every=20)])
    elbert.train("lending", callbacks=[LogTo(wandb.log)])  # or LogTo(mlflow.log_metrics)

A callback is any function of an `elbert.learning.Iteration`; one that returns False stops the training.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from elbert.checks import as_number, as_whole
from elbert.errors import InvalidInputError
from elbert.experiments.evaluate import evaluate
from elbert.experiments.run_metrics import member_name, metric_row
from elbert.frames import Frame
from elbert.learning import Iteration, Result

SEED = 2**29
"""First seed of the episodes that callbacks play: no evaluation after the training meets the same ones."""


class LogTo:
    """Give every iteration's metrics to a function, as plain numbers: `log({"reward": 0.18, ...}, step=20_000)`.

    The names are the columns of `agent.history`. Where several seeds or coefficients are trained together, each name
    begins with its member: "seed-1-0/reward" is seed 1, the member at place 0.

    Args:
        log: function of a dictionary and `step`, the number of environment steps: `wandb.log`, `mlflow.log_metrics`.
        every: number of iterations between two calls. The last iteration is always logged.
    """

    def __init__(self, log: Callable[..., Any], *, every: int = 1) -> None:
        if not callable(log):
            raise InvalidInputError(f"log is {log!r}. Give a function of a dictionary and step, such as wandb.log.")
        self.log, self.every = log, _as_every(every)

    def __call__(self, iteration: Iteration) -> None:
        """Log one iteration."""
        if _is_due(iteration, self.every):
            values: dict[str, float] = {}
            for i in range(len(iteration.trainer.members)):
                name = member_name(iteration.trainer.members, i)
                row = {"seconds": iteration.seconds} | metric_row(iteration.metrics, i)
                values |= {f"{name}/{key}" if name else key: x for key, x in row.items() if x is not None}
            self.log(values, step=iteration.steps)


class Evaluated(NamedTuple):
    """An evaluation in the middle of a training."""

    iteration: int
    steps: int  # of the environment so far
    seed: int  # of the training
    result: Result


class EvaluateEvery:
    """Evaluate the policy every few iterations, and at the end, in episodes of its own.

    Args:
        iterations: number of iterations between two evaluations.
        then: function that is given the evaluations, an `Evaluated` for each member; if it returns False, the training
            stops.
        how: arguments of `elbert.evaluate`, for example `episodes=64`.
    """

    def __init__(
        self, iterations: int, then: Callable[[Sequence[Evaluated]], bool | None] | None = None, **how: Any
    ) -> None:
        self.every, self.then, self.how = _as_every(iterations, "iterations"), then, how
        self.evaluations: list[Evaluated] = []  # all so far

    def __call__(self, iteration: Iteration) -> bool | None:
        """Evaluate, if it is time."""
        if not _is_due(iteration, self.every):
            return None
        trainer = iteration.trainer
        first = self.how.get("seed", SEED) + iteration.iteration * len(trainer.members)
        how: dict[str, Any] = {"progress": None} | self.how
        latest = [
            Evaluated(
                iteration.iteration, iteration.steps, agent.about.seed, evaluate(agent, **how | {"seed": first + i})
            )
            for i, agent in enumerate(trainer.agents())
        ]
        if "env" not in self.how and not callable(trainer.simulator.source):
            trainer.simulator.forget()  # the only copy of a user's environment was used: training begins new episodes
        self.evaluations += latest
        return None if self.then is None else self.then(latest)

    @property
    def history(self) -> Frame:
        """The evaluations as columns: iteration, steps, seed, reward, bias (observed) and debiased. It has `plot()`."""
        kinds = {"iteration": int, "steps": int, "seed": int, "reward": float, "bias": float, "debiased": float}
        rows = [
            (*each[:3], each.result.reward.mean, each.result.worst.bias.estimate, each.result.worst.bias.debiased)
            for each in self.evaluations
        ]
        return Frame.of_rows([dict(zip(kinds, row, strict=True)) for row in rows], kinds)


class StopWhenConfirmed(EvaluateEvery):
    """Stop when the limit on the bias is confirmed and the reward no longer improves.

    Training stops after an evaluation that confirms the limit for every member, if the mean reward of confirmed ones
    has not risen for `patience` evaluations. Asking often finds a lucky answer now and then: evaluate the agent in
    fresh episodes afterwards, as `elbert.evaluate` does.

    Args:
        max_bias: the limit; by default the one that is trained for.
        every: number of iterations between two evaluations.
        patience: number of evaluations without a better reward after which it is enough.
        least: by how much a reward per step has to be better.
        how: arguments of `elbert.evaluate`, for example `episodes=64`.
    """

    def __init__(
        self, max_bias: float | None = None, *, every: int = 10, patience: int = 3, least: float = 0.0, **how: Any
    ) -> None:
        if max_bias is not None:
            as_number(max_bias, "max_bias", "a limit on the bias, 0 or more", low=0.0)
        super().__init__(every, self._decide, max_bias=max_bias, **how)
        self.patience = as_whole(patience, "patience", "a whole number of at least 1", low=1)
        self.least = as_number(least, "least", "a reward per step, 0 or more", low=0.0)
        self.best, self.waited = -math.inf, 0

    def _decide(self, latest: Sequence[Evaluated]) -> bool:
        """Whether to go on."""
        limits = [each.result.limit for each in latest]
        if None in limits:
            raise InvalidInputError("Nothing says which limit is to be confirmed: give max_bias, here or to train.")
        confirmed = all(limit is not None and limit.verdict == "confirmed" for limit in limits)
        reward = sum(each.result.reward.mean for each in latest) / len(latest)
        if confirmed and reward > self.best + self.least:
            self.best, self.waited = reward, 0
        else:
            self.waited += 1
        return not (confirmed and self.waited >= self.patience)


def _as_every(value: int, name: str = "every") -> int:
    return as_whole(value, name, "a whole number of iterations, at least 1", low=1)


def _is_due(iteration: Iteration, every: int) -> bool:
    return iteration.iteration % every == 0 or iteration.iteration == iteration.iterations
