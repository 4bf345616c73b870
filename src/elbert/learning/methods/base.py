"""What a method is: how reward is weighed against fairness, and everything that belongs to that.

A method is a frozen pytree. Its settings are its fields: numbers are leaves, so that members with different numbers are
trained side by side in one compiled function; everything else is static and decides what is compiled. The learner asks
for one advantage and does not know which method it talks to:

    method.reward      what is learned from in place of the reward
    method.start       its state before the first iteration
    method.advance     its state after a rollout
    method.advantage   one advantage from the estimates of all signals
    method.metrics     what it has to show

A new method is one class in one file:

    class Cautious(Method):
        name: ClassVar[str] = "cautious"
        kappa: Annotated[float, Setting("weight of group 1's supply", low=0)] = 1.0

        def advantage(self, estimates, state):
            return estimates.reward + self.kappa * estimates.supply[..., 0, 1]

    elbert.register(Cautious)
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import Annotated, Any, ClassVar, NamedTuple, Self, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from elbert.errors import InvalidInputError
from elbert.fairness.rates import DEFAULT_BETA, Totals, ratio
from elbert.learning.estimates import Estimates, Window
from elbert.learning.settings import Setting, Settings, checked_settings, plain_settings, settings_of

DemandWeight: TypeAlias = Annotated[
    tuple[float, ...],
    Setting("reward for each unit of demand, one number per group (demand regularisation); empty for none"),
]
RunningBiasDemand: TypeAlias = Annotated[
    float, Setting("demand added to every group's in the bias of the running episode", low=0)
]


class Clock(NamedTuple):
    """Where the training stands."""

    iteration: jax.Array  # [] from 0
    iterations: int
    left: Any  # 1 at the start, falling to 0 where the learning rate does


class Method(eqx.Module):
    """How reward is weighed against fairness. Subclasses add their settings as fields and define `advantage`."""

    name: ClassVar[str] = ""
    uses: ClassVar[tuple[str, ...]] = ()  # settings of the learner that have no effect without this method
    variants: ClassVar["tuple[type[Method], ...]"] = ()  # other forms of the method, which other settings call for
    standardises_sum: ClassVar[bool] = False  # whether its sum is standardised although its signals were

    @classmethod
    def settings(cls) -> Mapping[str, Any]:
        """The settings that the method declares, by name."""
        return settings_of(cls)

    @classmethod
    def coefficients(cls) -> tuple[str, ...]:
        """The settings in which members that are trained together may differ."""
        static = {field.name for field in fields(cls) if field.metadata.get("static")}
        return tuple(name for name in cls.settings() if name not in static)

    @classmethod
    def of(cls, values: Mapping[str, Any], **others: Any) -> Self:
        """The method with these settings and other fields; unknown names and values without sense are refused."""
        return cls(**others, **checked_settings(cls.settings(), values))

    @classmethod
    def variant(cls, names: Mapping[str, Any]) -> "type[Method]":
        """The form that serves these settings: one that has a setting which the method itself lacks."""
        for form in cls.variants:
            if any(name in form.settings() and name not in cls.settings() for name in names):
                return form
        return cls

    @classmethod
    def check_given(cls, given: Mapping[str, Any], preset: Mapping[str, Any]) -> None:
        """Refuse settings that contradict each other or are missing from both what was given and the preset."""

    def check_fit(self, settings: Settings, given: Mapping[str, Any], *, groups: int, horizon: int | None) -> None:
        """Refuse what was given and could have no effect in this environment (`horizon` None: not known)."""

    def adapted(self, settings: Settings) -> Settings:
        """The learner's settings as this method needs them."""
        return settings

    def to_dict(self) -> dict[str, Any]:
        """The settings as plain values, ready for JSON."""
        return plain_settings({name: getattr(self, name) for name in self.settings()})

    def with_settings(self, changes: Mapping[str, Any]) -> Self:
        """The same method with other values of some settings."""
        return replace(self, **checked_settings(self.settings(), changes))

    @property
    def policy_choice(self) -> Any:
        """How the final policy is chosen among the last ones (`Choice`); None takes the last."""
        return None

    @property
    def running_bias_demand(self) -> float | None:
        """What is added to every group's demand in the bias of the running episode: the setting `extra_demand`.

        Without that setting, `bias_before` and `bias_after` are zeros.
        """
        return getattr(self, "extra_demand", None)

    @property
    def metric_beta(self) -> Any:
        """The temperature of the soft bias in the metrics."""
        return DEFAULT_BETA

    def averaging(self, iterations: int) -> float | None:
        """What the average of the weights keeps from one iteration to the next; None where the last weights count."""

    def prepared(self, criteria: int, groups: int) -> Self:
        """The coefficients as arrays: numbers as [], one number per group as [criteria, groups]."""
        arrays: dict[str, Any] = {}
        for name in self.coefficients():
            value = getattr(self, name)
            per_group = isinstance(value, tuple)
            arrays[name] = _per_group(name, value, criteria, groups) if per_group else jnp.asarray(value, jnp.float32)
        return replace(self, **arrays)

    def start(self, criteria: int, groups: int) -> Any:
        """The state before the first iteration, a pytree of arrays."""

    def reward(self, reward: jax.Array, bias_after: jax.Array) -> jax.Array:
        """What is learned from in place of the reward. [T, N], [T, N] -> [T, N]"""
        del bias_after
        return reward

    def advance(self, state: Any, estimates: Estimates, done: Window, clock: Clock) -> Any:
        """The state after a rollout in which the episodes `done` ended."""
        del estimates, done, clock
        return state

    @abstractmethod
    def advantage(self, estimates: Estimates, state: Any) -> jax.Array:
        """One advantage from the estimates of all signals. [...] as `estimates.reward`"""

    def metrics(self, state: Any) -> dict[str, jax.Array]:
        """What the method has to show after an iteration: names and arrays, [criteria] each.

        A method that knows what reward of an episode one unit of bias is worth shows it as "price".
        """
        del state
        return {}

    def warning(self, state: Any) -> str:
        """What a user should be told after the training; empty if nothing. The state has the members in front."""
        del state
        return ""


class FunctionMethod(Method):
    """A user's function (estimates) -> advantage as a method."""

    function: Callable[[Estimates], Any] = eqx.field(static=True)
    extra_demand: RunningBiasDemand = eqx.field(static=True, default=1.0)

    @property
    def name(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The function's own name."""
        return getattr(self.function, "__name__", "own")

    def advantage(self, estimates: Estimates, state: Any) -> jax.Array:
        """Whatever the function says."""
        del state
        return self.function(estimates)


def weighed(method: Method, estimates: Estimates, state: Any, standardise: str) -> jax.Array:
    """The method's advantage, standardised over the samples that count. [...] as `estimates.reward`"""
    counted = estimates.counted
    if standardise == "per-signal":
        estimates = estimates._replace(
            reward=standardised(estimates.reward, counted),
            supply=standardised(estimates.supply, counted),
            demand=standardised(estimates.demand, counted),
        )
    combined = method.advantage(estimates, state)
    if np.shape(combined) != estimates.reward.shape:
        raise InvalidInputError(
            f"The method {method.name} gives an advantage of shape {np.shape(combined)}. Give one number per sample, "
            f"as estimates.reward has: {estimates.reward.shape}."
        )
    if standardise == "combined" or (standardise == "per-signal" and method.standardises_sum):
        combined = standardised(combined, counted)
    return combined


def standardised(x: jax.Array, counted: jax.Array) -> jax.Array:
    """(x - mean) / deviation over the samples that count. [..., signals of any shape], [...] -> as x"""
    mean, deviation = _moments(x, counted)
    return (x - mean) / deviation


def deviation_of(x: jax.Array, counted: jax.Array) -> jax.Array:
    """The deviation over the samples that count. [..., signals of any shape], [...] -> signals"""
    return _moments(x, counted)[1].reshape(x.shape[counted.ndim :])


def _moments(x: jax.Array, counted: jax.Array) -> tuple[jax.Array, jax.Array]:
    axes = tuple(range(counted.ndim))
    weight = (counted / jnp.maximum(jnp.sum(counted), 1.0)).reshape(*counted.shape, *(1,) * (x.ndim - counted.ndim))
    mean = jnp.sum(weight * x, axis=axes, keepdims=True)
    variance = jnp.sum(weight * (x - mean) ** 2, axis=axes, keepdims=True)
    return mean, jnp.sqrt(variance) + 1e-8


def linearised(eta: Totals, slope: jax.Array) -> Totals:
    """slope_g / eta_D,g and slope_g eta_S,g / eta_D,g**2; 0 for a group without demand, which has no rate.

    A unit of supply's advantage weighs the one, a unit of demand's takes off the other: dz_g = dS_g / eta_D,g -
    eta_S,g dD_g / eta_D,g**2.
    """
    has_demand = eta.demand > 0
    demand = jnp.where(has_demand, eta.demand, 1.0)
    return Totals(
        jnp.where(has_demand, slope / demand, 0.0),
        jnp.where(has_demand, slope * eta.supply / demand**2, 0.0),
    )


def filled_rates(supply: Any, demand: Any) -> jax.Array:
    """z = S / D; a group without demand takes the mean of the others, so that it moves no bias. [C, M] each"""
    has_demand = demand > 0
    rates = ratio(supply, demand, otherwise=0.0)
    mean = jnp.sum(rates, axis=-1, keepdims=True) / jnp.maximum(jnp.sum(has_demand, axis=-1, keepdims=True), 1)
    return jnp.where(has_demand, rates, mean)


def demand_advantage(estimates: Estimates, weight: Any) -> jax.Array:
    """sum_g w_g A_D,g: demand regularisation.   [criteria, groups] -> [...]"""
    return jnp.tensordot(estimates.demand, weight, ((-2, -1), (0, 1)))


def _per_group(name: str, values: tuple[float, ...], criteria: int, groups: int) -> jax.Array:
    """One number per group, or per criterion and group; none stands for zeros. -> [criteria, groups]"""
    values = values or (0.0,) * groups
    if len(values) not in (groups, criteria * groups):
        raise InvalidInputError(
            f"{name} has {len(values)} numbers. Give one for each of the {groups} groups"
            + (f", or {criteria} x {groups} for every criterion's." if criteria > 1 else ".")
        )
    return jnp.broadcast_to(jnp.asarray(values, jnp.float32).reshape(-1, groups), (criteria, groups))
