"""Training, iteration by iteration: many members (seeds, coefficients) side by side in one compiled function."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from elbert.errors import ElbertError, InvalidInputError
from elbert.fairness.penalties import Penalty
from elbert.learning import rollout as acting
from elbert.learning.advantages import Coefficients, Method, get_method
from elbert.learning.host import HostCopies
from elbert.learning.metrics import CAUSES, Metrics
from elbert.learning.ppo import Learner, TrainState
from elbert.learning.problem import HostProblem, WorldProblem
from elbert.learning.settings import Settings
from elbert.learning.trees import from_arrays, to_arrays

COEFFICIENTS = ("alpha", "max_bias", "beta", "demand_weight", "zeta", "omega", "beta_1", "beta_2")
"""Settings in which the members of one training may differ."""


class DivergedError(ElbertError):
    """A loss or a weight became infinite or NaN."""


@dataclass(frozen=True)
class Member:
    """One of the runs that are trained together."""

    seed: int
    coefficients: Mapping[str, Any]  # settings in which it differs from the others


class Progress(NamedTuple):
    """What a callback is told after every iteration."""

    iteration: int  # that has just ended, from 1
    iterations: int
    steps: int  # of the environment so far, per member
    seconds: float  # of training so far
    metrics: Metrics  # NumPy arrays with the members in front
    trainer: "Trainer"


Callback: TypeAlias = Callable[[Progress], bool | None]
"""Called after every iteration; returning False stops the training there."""


class Trainer:
    """Trains on a problem. Iterate over it, or call `fit`; the state can be stored and put back at any iteration."""

    def __init__(
        self,
        problem: WorldProblem | HostProblem,
        settings: Settings,
        method: str | Method | Callable[..., Any] = "elbert-po",
        *,
        members: Sequence[Member] = (Member(0, {}),),
        penalty: Penalty | None = None,
    ) -> None:
        """A training that has not begun.

        Args:
            problem: what is trained on.
            settings: the same for all members but for the coefficients that these name.
            method: a name, or a function from estimates and coefficients to an advantage.
            members: seeds and coefficients of the runs side by side.
            penalty: h of the rates; the squared bias by default.
        """
        host = isinstance(problem, HostProblem)
        if host and len(members) != 1:
            raise InvalidInputError(
                f"{len(members)} seeds or coefficients were given for an environment of your own, whose copies live on "
                "the host. Train them one after the other."
            )
        if host and problem.env.num_envs != settings.copies:
            settings = Settings.of({"copies": problem.env.num_envs}, settings)
        self.problem, self.settings, self.members = problem, settings, tuple(members)
        self.method = get_method(method, settings)
        shape = problem.shape
        self.learner = Learner(
            settings,
            self.method,
            shape.actions,
            observation=shape.observation,
            criteria=len(shape.criteria),
            groups=shape.groups,
            penalty=penalty,
        )
        each = [self.learner.coefficients(Settings.of(member.coefficients, settings)) for member in self.members]
        self.coefficients: Coefficients = jax.tree.map(lambda *parts: jnp.stack(parts), *each)
        self.host = HostCopies(problem, self.learner.model) if isinstance(problem, HostProblem) else None
        self._compiled = jax.jit(jax.vmap(self._iterate if self.host is None else self.learner.update))
        self._fresh = True  # whether the host's copies have to be reset before the next rollout
        states = [self._init(jax.random.key(member.seed)) for member in self.members]
        self.state: TrainState = jax.tree.map(lambda *parts: jnp.stack(parts), *states)
        self.iteration, self.seconds = 0, 0.0

    @property
    def iterations(self) -> int:
        """How many iterations make up the training."""
        return self.settings.iterations

    def _init(self, key: jax.Array) -> TrainState:
        """The state of one member.

        Not compiled as a whole: orthogonal weights need LAPACK, and a compiled function with several such calls was
        seen to wait for ever on a machine with two cores.
        """
        key_worlds, key_learner = jax.random.split(key)
        worlds = None
        if isinstance(self.problem, WorldProblem):
            world, copies = self.problem.world, self.settings.copies
            worlds = jax.block_until_ready(jax.jit(lambda k: acting.start(world, k, copies))(key_worlds))
        return self.learner.init(key_learner, worlds)

    def _iterate(self, state: TrainState, coefficients: Coefficients) -> tuple[TrainState, Metrics]:
        """Rollout and update of one member, in one compiled function."""
        assert isinstance(self.problem, WorldProblem)
        world, s = self.problem.world, self.settings
        key, key_rollout, key_reset = jax.random.split(state.key, 3)
        state = state._replace(key=key)
        if s.reset_each_rollout:
            worlds = acting.start(world, key_reset, s.copies)
            state = state._replace(worlds=worlds, running=acting.restarted(state.running))
        worlds, shown = acting.collect(
            world, self.learner.model, state.weights, state.gathered, state.worlds, key_rollout, s.rollout
        )
        return self.learner.update(state._replace(worlds=worlds), shown, coefficients)

    def _iterate_on_host(self) -> tuple[TrainState, Metrics]:
        assert self.host is not None
        state = self.state
        weights, moments = jax.tree.map(lambda x: x[0], (state.weights, state.gathered))
        if self._fresh or self.settings.reset_each_rollout:
            words = np.random.SeedSequence([self.members[0].seed, self.iteration]).generate_state(1)
            self.host.restart(int(words[0] // 2))
            state = state._replace(running=acting.restarted(state.running))
            self._fresh = False
        key = jax.random.fold_in(state.key[0], 1)
        shown = self.host.collect(weights, moments, key, self.settings.rollout)
        return self._compiled(state, jax.tree.map(lambda x: x[None], shown), self.coefficients)

    def step(self) -> Progress:
        """One iteration. Where something becomes infinite or NaN the state stays as it was before."""
        begun = time.monotonic()
        outcome = self._compiled(self.state, self.coefficients) if self.host is None else self._iterate_on_host()
        state, metrics = outcome
        metrics = jax.tree.map(np.asarray, metrics)
        if not metrics.finite.all():
            self._diverged(metrics)
        self.state = state
        self.iteration += 1
        self.seconds += time.monotonic() - begun
        steps = self.iteration * self.settings.batch
        return Progress(self.iteration, self.iterations, steps, self.seconds, metrics, self)

    def __iter__(self) -> Iterator[Progress]:
        while self.iteration < self.iterations:
            yield self.step()

    def fit(self, callbacks: Sequence[Callback] = ()) -> None:
        """Train to the end, or until a callback returns False."""
        for progress in self:
            if any([callback(progress) is False for callback in callbacks]):  # noqa: C419 - all of them are told
                return

    def stored(self) -> dict[str, np.ndarray[Any, Any]]:
        """The state as named arrays. The copies of an environment on the host are not in it."""
        return to_arrays(self.state)

    def restore(self, arrays: Mapping[str, np.ndarray[Any, Any]], iteration: int, seconds: float) -> None:
        """Go on from a stored state. Copies on the host start new episodes."""
        self.state = from_arrays(self.state, arrays)
        self.iteration, self.seconds, self._fresh = iteration, seconds, True

    def _diverged(self, metrics: Metrics) -> None:
        bad = ~metrics.finite
        member = int(np.flatnonzero(bad.any(axis=-1))[0])
        cause = CAUSES[int(np.flatnonzero(bad[member])[0])]
        who = f" (seed {self.members[member].seed})" if len(self.members) > 1 else ""
        advice = (
            "The environment gave them so: look there."
            if cause in CAUSES[:4]
            else "A lower learning_rate or gradient_clip, or scale_values, may help."
        )
        raise DivergedError(
            f"Iteration {self.iteration + 1} of {self.iterations}{who}: the {cause} became infinite or NaN, the first "
            f"of what follows from one another. {advice} The state before it is kept."
        )
