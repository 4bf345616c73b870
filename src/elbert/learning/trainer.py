"""Training, iteration by iteration: many members (seeds, coefficients) side by side in one compiled function."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from elbert.envs.gym_returns import NotFiniteError
from elbert.errors import ElbertError, InvalidInputError
from elbert.learning.agent import About, Agent
from elbert.learning.methods import Method
from elbert.learning.metrics import CAUSES, GIVEN_CAUSES, Metrics
from elbert.learning.policy import Policy
from elbert.learning.ppo import Learner, TrainState
from elbert.learning.rollouts import Rollout
from elbert.learning.settings import Settings
from elbert.learning.simulators import Simulator
from elbert.learning.trees import from_arrays, to_arrays

NETWORK = ("policy", "memory", "hidden", "activation", "critic", "critic_sees", "normalise_observations")
"""Settings that make networks others, so that the weights of one are none for the other."""


class DivergedError(ElbertError):
    """A loss or a weight became infinite or NaN."""


class Member(NamedTuple):
    """One of the runs that are trained together."""

    seed: int
    coefficients: Mapping[str, Any]  # settings of the method in which it differs from the others


class Iteration(NamedTuple):
    """What a callback is told after every iteration."""

    iteration: int  # that has just ended, from 1
    iterations: int
    steps: int  # of the environment so far, per member
    seconds: float  # of training so far
    metrics: Metrics  # NumPy arrays with the members in front
    trainer: "Trainer"


Callback: TypeAlias = Callable[[Iteration], bool | None]
"""What is called after every iteration; returning False stops the training there."""


class Trainer:
    """Trains in a simulator. Iterate over it; the state can be stored and put back at any iteration."""

    def __init__(
        self,
        simulator: Simulator,
        settings: Settings,
        method: Method,
        *,
        members: Sequence[Member] = (Member(0, {}),),
        start: Agent | None = None,
    ) -> None:
        """A training that has not begun, of all members side by side: from fresh weights, or from those of an agent."""
        if len(members) > 1 and not simulator.pure:
            raise InvalidInputError(
                f"{len(members)} seeds or coefficients were given for an environment of your own, whose copies live on "
                "the host. Train them one after the other."
            )
        if simulator.copies is not None:
            settings = replace(settings, copies=simulator.copies)
        settings = replace(settings, signals=_signals(settings, simulator, method))
        self.simulator, self.settings, self.members = simulator, settings, tuple(members)
        self.methods = [method.with_settings(member.coefficients) for member in self.members]
        self.method = self.methods[0]  # with the coefficients of the first member
        self.learner, self.iterations = Learner(settings, simulator.shape.seen_by(settings)), settings.iterations
        self._prepared = _stacked([each.prepared(*simulator.shape.benefits) for each in self.methods])
        given = None if start is None else self._given(start)
        self.state: TrainState = _stacked([self._init(jax.random.key(member.seed), given) for member in self.members])
        self.iteration, self.seconds = 0, 0.0

    def _given(self, start: Agent) -> Agent:
        """The agent whose weights the training starts from, as it acts here; refused if the networks are others."""
        fitted = start.fitted(self.simulator)
        if fitted.model != self.learner.model:
            apart = [name for name in NETWORK if getattr(start.settings, name) != getattr(self.settings, name)]
            raise InvalidInputError(
                f"The training cannot start from the weights of {start}: its networks are others"
                f"{' (' + ', '.join(apart) + ')' if apart else ''}. Train with the settings that it was trained with."
            )
        return fitted

    def _init(self, key: jax.Array, given: Agent | None) -> TrainState:
        # Not compiled as a whole: orthogonal weights need LAPACK, and a compiled function with several calls of it was
        # seen to wait for ever on a machine with two cores.
        key_copies, key_learner = jax.random.split(key)
        copies = self.simulator.start(key_copies, self.settings.copies, self.learner.shape.carried)
        state = self.learner.init(key_learner, self.method, copies)
        if given is None:
            return state
        (weights, moments), scale = given.policy, given.scale
        if scale.mean.shape != state.scale.mean.shape:  # of other groups, whose values its critic does not know
            weights, scale = weights._replace(critic=state.weights.critic), state.scale
        optimiser = self.learner.optimiser.init(weights)
        return state._replace(weights=weights, optimiser=optimiser, moments=moments, gathered=moments, scale=scale)

    def step(self) -> Iteration:
        """One iteration. Where something becomes infinite or NaN the state stays as it was before."""
        begun = time.monotonic()
        try:
            iterate = _compiled_iteration if self.simulator.pure else _iteration
            state, metrics = iterate(self.simulator, self.learner, self.state, self._prepared, self.members[0].seed)
        except NotFiniteError as error:
            raise DivergedError(f"{self._at()}: {error} The state before it is kept.") from error
        metrics = jax.tree.map(np.asarray, metrics)
        if not metrics.finite.all():
            self._refuse(metrics)
        self.state = state
        self.iteration += 1
        self.seconds += time.monotonic() - begun
        steps = self.iteration * self.settings.batch
        return Iteration(self.iteration, self.iterations, steps, self.seconds, metrics, self)

    def __iter__(self) -> Iterator[Iteration]:
        while self.iteration < self.iterations:
            yield self.step()

    def agents(self) -> list[Agent]:
        """The members as agents, with the policies that the method keeps."""
        return [self._agent(i) for i in range(len(self.members))]

    def _agent(self, i: int) -> Agent:
        state = jax.tree.map(lambda x: x[i], self.state)
        method, simulator, settings = self.methods[i], self.simulator, self.methods[i].to_dict()
        about = About(
            env=simulator.name,
            parameters=simulator.parameters,
            method=method.name,
            method_settings=settings,
            max_bias=settings.get("max_bias"),
            seed=self.members[i].seed,
            steps=self.iteration * self.settings.batch,
            train_seconds=self.seconds,
            observation_shape=simulator.observation_shape,
            group_names=simulator.group_names,
            notion=None if simulator.notion is None else simulator.notion.name,
        )
        policy = Policy(state.weights, state.moments)
        return Agent(about, self.settings, self.learner.shape, policy, state.scale, simulator.source)

    def warning(self) -> str:
        """What a user should be told after the training; empty if nothing."""
        return self.method.warning(self.state.method) if self.iteration else ""

    def stored(self) -> dict[str, np.ndarray[Any, Any]]:
        """The state as named arrays. Copies of an environment on the host are not in it."""
        return to_arrays(self.state)

    def restore(self, arrays: Mapping[str, np.ndarray[Any, Any]], iteration: int, seconds: float) -> None:
        """Go on from a stored state. Copies on the host start new episodes."""
        self.state = from_arrays(self.state, arrays)
        self.iteration, self.seconds = iteration, seconds
        self.simulator.forget()

    def _refuse(self, metrics: Metrics) -> None:
        """Say which member diverged, and by what."""
        member, place = np.argwhere(~metrics.finite)[0]
        cause, who = CAUSES[place], f" (seed {self.members[member].seed})" if len(self.members) > 1 else ""
        advice = "A lower learning_rate or gradient_clip, or scale_values, may help."
        if cause in GIVEN_CAUSES:
            advice = "The environment gave them so: look there."
        raise DivergedError(
            f"{self._at()}{who}: the {cause} became infinite or NaN, before anything else did. {advice} The state "
            "before it is kept."
        )

    def _at(self) -> str:
        return f"Iteration {self.iteration + 1} of {self.iterations}"


def _signals(settings: Settings, simulator: Simulator, method: Method) -> str:
    """What is learned from here: "sampled" or "means"; refused where means were asked for and are not to be had."""
    running = getattr(method, "extra_demand", None) is not None
    if settings.signals == "means" and (running or not simulator.knows_means):
        raise InvalidInputError(
            f'signals is "means", but {method.name} weighs the bias of the running episode, which is made of what '
            'happened. Give signals = "sampled".'
            if running
            else f'signals is "means", but {simulator.name} does not say what a step brings on average. Give signals = '
            '"sampled", or write the method `means` of the world.'
        )
    means = settings.signals == "means" or (settings.signals == "auto" and simulator.knows_means and not running)
    return "means" if means else "sampled"


def _iteration(
    simulator: Simulator, learner: Learner, states: TrainState, methods: Method, seed: int
) -> tuple[TrainState, Metrics]:
    """Rollout and update of all members."""
    return _updated(learner, *simulator.collect(learner, states, seed), methods)


@partial(jax.jit, static_argnums=0)
def _updated(learner: Learner, states: TrainState, rollouts: Rollout, methods: Method) -> tuple[TrainState, Metrics]:
    return jax.vmap(learner.update)(states, rollouts, methods)


# Rollout and update in one program. Equal simulators and learners share it: it is compiled once per process.
_compiled_iteration = jax.jit(_iteration, static_argnums=(0, 1))


def _stacked(trees: Sequence[Any]) -> Any:
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)
