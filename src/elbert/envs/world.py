"""The contract of a Supply-Demand MDP: pure functions that also say who received a benefit and who was due one.

A world is a frozen pytree of parameters with two pure functions:

    state, observation = world.reset(key)
    state, step = world.step(key, state, action)

Both can be jitted, vmapped over keys, states and actions, and vmapped over the world itself, because its parameters
are its leaves. A step past the end of an episode is not guarded against here: the caller resets.
"""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, ClassVar, NamedTuple

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np

from elbert.envs.parts import Parts
from elbert.errors import InvalidInputError
from elbert.fairness.notions import Notion


class TimeStep(NamedTuple):
    """What one step shows. `terminated` is an end of the world's own making; `truncated` is the horizon."""

    observation: jax.Array  # [...] of the observation space, after the step
    reward: jax.Array  # []
    supply: jax.Array  # [criteria, groups] benefit given in this step
    demand: jax.Array  # [criteria, groups] benefit due in this step
    terminated: jax.Array  # [] bool
    truncated: jax.Array  # [] bool


class Means(NamedTuple):
    """What a step brings on average, given where it starts and what is done."""

    reward: jax.Array  # []
    supply: jax.Array  # [criteria, groups]
    demand: jax.Array  # [criteria, groups]


class World(ABC):
    """A Supply-Demand MDP: annotated attributes are its parameters, set once in `__init__`.

    They are the leaves of a pytree, except those that a subclass names as static: what is not an array, or decides
    about shapes.

        class Queue(World, static=("notion",)):
            horizon: jax.Array
            notion: Notion
            def __init__(self, horizon=100, notion="demographic-parity"): ...

    Two worlds are equal only if they are the same object: `jax.jit(world.step)` compiles once for each, with its
    parameters as constants, and a jitted function of (world, ...) once for all worlds of these shapes.
    """

    horizon: jax.Array  # [] steps after which an episode is truncated
    group_names: ClassVar[Sequence[str] | None] = None  # what the groups are called in results; numbered if None
    _static: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls, *, static: tuple[str, ...] = (), **others: Any) -> None:
        """Make the subclass a frozen pytree of its annotated attributes."""
        super().__init_subclass__(**others)
        names = {
            name: None
            for base in reversed(cls.__mro__)
            for name, kind in inspect.get_annotations(base).items()
            if "ClassVar" not in str(kind)
        }
        unknown = [name for name in static if name not in names]
        if unknown:
            raise TypeError(
                f"{cls.__name__} names {unknown[0]!r} as static, but has no annotated attribute of this name."
            )
        cls._static = (*cls._static, *static)
        _register(cls, tuple(name for name in names if name not in cls._static), cls._static)
        if "__init__" in cls.__dict__:
            cls.__init__ = _freezing(cls.__init__)

    def __setattr__(self, name: str, value: Any) -> None:
        if vars(self).get("_frozen"):
            raise AttributeError(f"A world cannot be changed: make a new {type(self).__name__} with another {name}.")
        super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"A world cannot be changed: make a new {type(self).__name__} without {name}.")

    def __repr__(self) -> str:
        simple = (str, int, float, np.ndarray, jax.Array, type(None))
        shown = {k: v for k, v in vars(self).items() if not k.startswith("_") and isinstance(v, simple)}
        short = (f"{k}={f'<{shape}>' if (shape := getattr(v, 'shape', ())) else v}" for k, v in shown.items())
        return f"{type(self).__name__}({', '.join(short)})"

    @abstractmethod
    def reset(self, key: jax.Array) -> tuple[Any, jax.Array]:
        """The state at the start of an episode, and its observation."""

    @abstractmethod
    def step(self, key: jax.Array, state: Any, action: jax.Array) -> tuple[Any, TimeStep]:
        """The state after an action, and what the step showed."""

    @property
    @abstractmethod
    def groups(self) -> int:
        """How many groups the benefits are counted for."""

    @property
    @abstractmethod
    def benefit(self) -> Notion:
        """The notion that says what supply and demand are."""

    @property
    @abstractmethod
    def observation_space(self) -> gymnasium.spaces.Box:
        """What observations can be."""

    @property
    @abstractmethod
    def action_space(self) -> gymnasium.Space[Any]:
        """What actions can be."""

    @property
    def parts(self) -> Parts | None:
        """The like parts that the problem is made of, if any: policies can score them with shared weights."""
        return None

    def for_critic(self, state: Any) -> jax.Array | None:
        """Numbers of the state that a critic may see in training, where a policy sees the observation.   [n] float32

        They have to say all that the future depends on, the time among them: the critic sees nothing else. None, as by
        default: the critic sees the observation.
        """
        del state
        return None

    def means(self, state: Any, action: jax.Array) -> Means | None:
        """E[reward], E[supply] and E[demand] of `step`, given the action and what it may depend on of the state.

        Training can learn from these in place of what chance made of them: the gradient has the same mean and less
        noise. Averaging over what the policy cannot see, such as the outcome of a decision to come, is allowed. None,
        as by default: the world does not know them.
        """
        del state, action
        return None

    def is_truncated(self, time: jax.Array, terminated: jax.Array | bool = False) -> jax.Array:
        """time >= horizon, for an episode that did not end by itself."""
        return (time >= self.horizon) & ~jnp.asarray(terminated)


def _register(cls: type[World], leaves: tuple[str, ...], static: tuple[str, ...]) -> None:
    """A pytree whose unflattening does not go through `__init__`, because leaves may be anything while JAX traces."""

    def flatten(world: World) -> tuple[list[tuple[Any, Any]], tuple[Any, ...]]:
        children = [(jax.tree_util.GetAttrKey(name), getattr(world, name)) for name in leaves]
        return children, tuple(getattr(world, name) for name in static)

    def unflatten(fixed: tuple[Any, ...], children: Any) -> World:
        world = object.__new__(cls)
        vars(world).update(zip(leaves, children, strict=True))
        vars(world).update(zip(static, fixed, strict=True), _frozen=True)
        return world

    jax.tree_util.register_pytree_with_keys(cls, flatten, unflatten)


def _freezing(init: Callable[..., None]) -> Callable[..., None]:
    """The same `__init__`, after which nothing can be set any more (unless it was called by a subclass's own)."""

    @wraps(init)
    def wrapped(self: World, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)
        if type(self).__init__ is wrapped:
            _check_leaves(self)
            vars(self)["_frozen"] = True

    return wrapped


def _check_leaves(world: World) -> None:
    """Refuse parameters that JAX cannot trace: it would say so later, and not of which class."""
    for path, leaf in jax.tree_util.tree_flatten_with_path(world)[0]:
        if not hasattr(leaf, "dtype") and not isinstance(leaf, bool | int | float | complex):
            name = getattr(path[0], "name", path[0])
            raise InvalidInputError(
                f"The attribute {name} of {type(world).__name__} is annotated, so it is a parameter, but it is no "
                f"number or array ({type(leaf).__name__}). Name it as static: class {type(world).__name__}(World, "
                f'static=("{name}",)).'
            )
