"""A trained policy: it acts, is saved and loaded without running code, and is evaluated."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np

from elbert.errors import InvalidInputError
from elbert.fairness.notions import Notion
from elbert.files import FileError, read_tensors, write_tensors
from elbert.learning.distributions import Categorical, Distribution, Gaussian, MultiCategorical
from elbert.learning.evaluation import Evaluation, checked_episodes, checked_seed, judged, simulate, simulate_on_host
from elbert.learning.host import HostCopies
from elbert.learning.networks import Model, Moments, Scale, Weights
from elbert.learning.problem import Environment, HostProblem, Shape, WorldProblem, opened
from elbert.learning.settings import Settings
from elbert.learning.trees import MismatchError, from_arrays, to_arrays

FORMAT = 1
DISTRIBUTIONS: dict[str, type[Distribution]] = {
    kind.__name__: kind for kind in (Categorical, MultiCategorical, Gaussian)
}


@dataclasses.dataclass(frozen=True)
class About:
    """Where an agent comes from."""

    env: str
    parameters: dict[str, Any] | None  # of the named world; None for an environment of the user's own
    method: str
    seed: int
    steps: int
    train_seconds: float
    observation_shape: tuple[int, ...] | None  # of a Box; None for other spaces, whose observations come flattened
    price: float | None = None  # reward of an episode per unit of the limit it was trained for, all criteria together
    length: float | None = None  # steps of such an episode; None if only the user's environment knows


class Agent:
    """A policy with the networks behind it."""

    def __init__(
        self,
        about: About,
        settings: Settings,
        shape: Shape,
        weights: Weights,
        moments: Moments,
        scale: Scale,
        *,
        problem: WorldProblem | HostProblem | None = None,
    ) -> None:
        """Made by `elbert.train` and `elbert.load`."""
        self.about, self.settings, self.shape = about, settings, shape
        self.weights, self.moments, self.scale = weights, moments, scale
        self.model = _model(settings, shape)
        self._problem = problem
        self._numbers = jax.jit(lambda w, m, o: self.model.policy(w, self.model.normalised(m, o)))
        self._key = jax.random.key(about.seed)

    def __repr__(self) -> str:
        a = self.about
        return f"Agent({a.method} on {a.env}, seed {a.seed}, {a.steps:,} steps, {a.train_seconds:.1f} s)"

    def predict(self, observation: Any, *, deterministic: bool = False) -> Any:
        """The action for an observation, or actions for a batch of them (the copies in front).

        Args:
            observation: as the environment gives it; flattened if its space is not a Box.
            deterministic: the most probable action instead of a sampled one. The policy that was trained and
                evaluated samples: the most probable action can have quite another bias.
        """
        given = np.asarray(observation, np.float32)
        single = self.about.observation_shape or (self.shape.observation,)
        if given.shape not in (single, (*given.shape[:1], *single)):
            raise InvalidInputError(
                f"The observation has shape {given.shape}. Give one of shape {single}, or a batch of them with the "
                "batch in front."
            )
        batch = given.reshape(-1, self.shape.observation)
        numbers = self._numbers(self.weights, self.moments, batch)
        if deterministic:
            action = self.model.distribution.mode(numbers)
        else:
            self._key, key = jax.random.split(self._key)
            action = self.model.distribution.sample(numbers, self.model.distribution.noise(key, (len(batch),)))
        actions = np.asarray(self.model.distribution.to_env(np.asarray(action)))
        return actions[0] if given.shape == single else actions

    def seed(self, seed: int) -> None:
        """Start the randomness of `predict` anew."""
        self._key = jax.random.key(seed)

    def evaluate(
        self,
        episodes: int = 256,
        *,
        env: Environment | None = None,
        seed: int = 1,
        deterministic: bool = False,
        extra_demand: float = 0.0,
        confidence: float = 0.95,
        tick: Callable[[int], None] | None = None,
        **parameters: Any,
    ) -> Evaluation:
        """Reward per step and benefit rates over fresh episodes, with intervals.

        Args:
            episodes: how many.
            env: where; the environment of training by default.
            seed: of the episodes.
            deterministic: act by the most probable action.
            extra_demand: added to every group's demand in every episode (the published evaluation adds 1).
            confidence: of the intervals.
            tick: is told how many episodes are done.
            parameters: of the named world, for example `horizon=10_000`, over those of training.
        """
        checked_episodes(episodes)
        checked_seed(seed)
        common: dict[str, Any] = {"episodes": episodes, "seed": seed, "deterministic": deterministic, "tick": tick}
        with opened(*self._where(env, parameters)) as problem:
            if (problem.shape.observation, problem.shape.actions) != (self.shape.observation, self.shape.actions):
                raise InvalidInputError(
                    f"The agent was trained with {self.shape.observation} numbers observed and actions "
                    f"{self.shape.actions}; {problem.name} has {problem.shape.observation} and {problem.shape.actions}."
                )
            if isinstance(problem, WorldProblem):
                sums = simulate(problem.world, self.model, self.weights, self.moments, **common)
            else:
                sums = simulate_on_host(HostCopies(problem, self.model), self.weights, self.moments, **common)
            return judged(
                sums,
                env=self.about.env if env is None else problem.name,
                method=self.about.method,
                criteria=problem.shape.criteria,
                extra_demand=extra_demand,
                deterministic=deterministic,
                train_seconds=self.about.train_seconds,
                confidence=confidence,
                max_bias=self.settings.max_bias,
                price=self.about.price,
                length=self.about.length,
            )

    def _where(self, env: Environment | None, parameters: dict[str, Any]) -> tuple[Any, ...]:
        if env is not None:
            return env, self.settings.copies, parameters
        if self.about.parameters is not None:
            return self.about.env, self.settings.copies, self.about.parameters | parameters
        if isinstance(self._problem, WorldProblem):
            return self._problem.world, self.settings.copies, parameters
        if self._problem is not None and not getattr(self._problem.env, "closed", False):
            return self._problem.env, self.settings.copies, parameters
        raise InvalidInputError(
            f"The agent was trained on {self.about.env}, an environment of your own that is not stored with it. Say "
            "where to evaluate it: agent.evaluate(env=...), or --env file.py:function on the command line."
        )

    def placed(self, like: "Agent") -> "Agent":
        """The same policy where another agent was trained: an environment of one's own is not stored in files."""
        return Agent(
            self.about, self.settings, self.shape, self.weights, self.moments, self.scale, problem=like._problem
        )

    def timed(self, seconds: float) -> "Agent":
        """The same policy, with the time of the training that it came from."""
        about = dataclasses.replace(self.about, train_seconds=seconds)
        return Agent(about, self.settings, self.shape, self.weights, self.moments, self.scale, problem=self._problem)

    def save(self, path: str | Path) -> Path:
        """Everything that `elbert.load` needs, in one file that holds arrays and text and no code."""
        path = Path(path)
        path = path if path.suffix == ".safetensors" else path.with_name(path.name + ".safetensors")
        about = {
            "format": FORMAT,
            "about": dataclasses.asdict(self.about),
            "settings": self.settings.to_dict(),
            "shape": _shape_to_dict(self.shape),
        }
        write_tensors(path, to_arrays((self.weights, self.moments, self.scale)), about)
        return path

    @classmethod
    def load(cls, path: str | Path) -> "Agent":
        """The agent from a file; a damaged one is refused by name. Loading runs no code from the file."""
        path = Path(path)
        arrays, content = read_tensors(path)
        try:
            if content["format"] != FORMAT:
                raise FileError(f"{path} has format {content['format']}; this version of elbert reads {FORMAT}.")
            about = content["about"]
            if about["observation_shape"] is not None:
                about["observation_shape"] = tuple(about["observation_shape"])
            settings, shape = Settings.of(content["settings"]), _shape_from_dict(content["shape"])
            template = jax.eval_shape(lambda: _template(_model(settings, shape)))
            return cls(About(**about), settings, shape, *from_arrays(template, arrays))
        except (KeyError, TypeError, MismatchError, InvalidInputError) as error:
            raise FileError(f"{path} is not an agent that this version of elbert can read: {error}.") from error


def agents_of(trainer: Any, *, parameters: dict[str, Any] | None, seconds: float) -> list[Agent]:
    """The members of a training as agents."""
    problem = trainer.problem
    space = (
        problem.world.observation_space if isinstance(problem, WorldProblem) else problem.env.single_observation_space
    )
    shape = tuple(space.shape) if isinstance(space, gymnasium.spaces.Box) else None
    agents = []
    weights = trainer.state.weights if trainer.state.average is None else trainer.state.average
    for i, member in enumerate(trainer.members):
        parts = jax.tree.map(lambda x, i=i: x[i], (weights, trainer.state.moments, trainer.state.scale))
        steps = trainer.iteration * trainer.settings.batch
        settings = Settings.of(dict(member.coefficients), trainer.settings)
        price = None if settings.max_bias is None else float(np.sum(trainer.state.dual.price[i]))
        length = float(problem.world.horizon) if price is not None and isinstance(problem, WorldProblem) else None
        about = About(problem.name, parameters, trainer.method.name, member.seed, steps, seconds, shape, price, length)
        agents.append(Agent(about, settings, problem.shape, *parts, problem=problem))
    return agents


def plain_parameters(parameters: dict[str, Any]) -> dict[str, Any]:
    """A world's parameters as JSON can hold them: arrays as lists, notions by name."""

    def plain(value: Any) -> Any:
        if isinstance(value, Notion):
            return value.name
        if isinstance(value, np.ndarray | np.generic | jax.Array):
            return np.asarray(value).tolist()
        return [plain(one) for one in value] if isinstance(value, list | tuple) else value

    return {name: plain(value) for name, value in parameters.items()}


def _model(settings: Settings, shape: Shape) -> Model:
    return Model(settings, shape.observation, 1 + 2 * len(shape.criteria) * shape.groups, shape.actions)


def _template(model: Model) -> tuple[Weights, Moments, Scale]:
    numbers, signals = jnp.zeros(model.observation, jnp.float32), jnp.zeros(model.signals, jnp.float32)
    return model.init(jax.random.key(0)), Moments(jnp.zeros((), jnp.float32), numbers, numbers), Scale(signals, signals)


def _shape_to_dict(shape: Shape) -> dict[str, Any]:
    def plain(value: Any) -> Any:
        if isinstance(value, tuple):
            return [plain(one) for one in value]
        return None if isinstance(value, float) and not np.isfinite(value) else value

    assert dataclasses.is_dataclass(shape.actions)
    fields = {name: plain(value) for name, value in dataclasses.asdict(shape.actions).items()}
    return {
        "observation": shape.observation,
        "actions": {"kind": type(shape.actions).__name__, **fields},
        "criteria": list(shape.criteria),
        "groups": shape.groups,
    }


def _shape_from_dict(content: dict[str, Any]) -> Shape:
    actions = dict(content["actions"])
    kind = DISTRIBUTIONS[actions.pop("kind")]
    for name, unlimited in (("low", -np.inf), ("high", np.inf)):
        if name in actions:
            actions[name] = [unlimited if one is None else one for one in actions[name]]
    fields = {name: tuple(value) if isinstance(value, list) else value for name, value in actions.items()}
    return Shape(int(content["observation"]), kind(**fields), tuple(content["criteria"]), int(content["groups"]))
