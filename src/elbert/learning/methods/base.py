"""What a method is: how reward is weighed against fairness, and everything that belongs to that.

A method is a frozen pytree. Its settings are its fields: numbers are leaves, so that members with different numbers are
trained side by side in one compiled function; everything else is static and decides what is compiled. The learner asks
for one advantage and does not know which method it talks to. A new method is one class in one file:

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
from typing import Any, ClassVar, NamedTuple, Self

import equinox as eqx
import jax
import jax.numpy as jnp

from elbert.errors import InvalidInputError
from elbert.fairness.rates import Totals
from elbert.learning.estimates import Estimates, Window
from elbert.learning.methods.weighing import RunningBiasDemand
from elbert.learning.settings import Declared, Settings


class Clock(NamedTuple):
    """Where the training stands."""

    iteration: jax.Array  # [] from 0
    iterations: int
    left: Any  # the factor on the learning rate: 1 at the start, falling to 0, unless `anneal` says otherwise


class Compared(NamedTuple):
    """How a new policy differs from the one that acted, sample by sample.   [...] each"""

    ratio: jax.Array  # pi / pi_old of the action
    divergence: jax.Array  # KL(pi || pi_old) in the state; zeros unless the method `needs_divergence`


class Method(Declared, eqx.Module):
    """How reward is weighed against fairness. Subclasses add their settings as fields and define `advantage`.

    Two settings have a meaning for the learner: `extra_demand`, without which the bias of the running episode is not
    computed and `bias_before` and `bias_after` are zeros, and `beta`, the temperature of the soft bias in the metrics.
    """

    name: ClassVar[str] = ""
    uses: ClassVar[tuple[str, ...]] = ()  # settings of the learner that have no effect without this method
    ignores: ClassVar[tuple[str, ...]] = ()  # settings of the learner that have no effect with this method
    variants: ClassVar["tuple[type[Method], ...]"] = ()  # other forms of the method, which other settings call for
    foresees: ClassVar[bool] = False  # whether its weights follow the policy from epoch to epoch: `foreseen`
    standardises_sum: ClassVar[bool] = False  # whether its sum is standardised although its signals were
    needs_divergence: ClassVar[bool] = False  # whether its loss looks at `Compared.divergence`
    takes_steps: ClassVar[bool] = False  # whether it moves the policy itself once a rollout: `stepped`

    # What training asks in every iteration

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

    def foreseen(self, state: Any, change: Totals) -> Any:
        """The state as it would be if the policy changed supply and demand by this much, per unit of demand.

        It is asked before every epoch and after the last one, if `foresees` is set.
        """
        del change
        return state

    @abstractmethod
    def advantage(self, estimates: Estimates, state: Any) -> jax.Array:
        """One advantage from the estimates of all signals. [...] as `estimates.reward`"""

    def loss(self, new: Compared, advantage: jax.Array, clip: float) -> jax.Array:
        """What gradient steps minimise of each sample: PPO's -min(r A, clip(r) A).   [...] each"""
        return -jnp.minimum(new.ratio * advantage, jnp.clip(new.ratio, 1 - clip, 1 + clip) * advantage)

    def stepped(
        self,
        policy: Any,
        state: Any,
        estimates: Estimates,
        log_prob: Callable[[Any], jax.Array],
        change: Callable[[Any], Totals],
    ) -> tuple[Any, Any]:
        """A better policy, and the state after it; asked once before the gradient steps, if `takes_steps` is set.

        `policy` is a pytree of weights. `log_prob` gives, for any such weights, what the rollout's actions have under
        them, [T, N], and `change` what they change of supply and demand, per unit of demand and to first order.
        """
        del estimates, log_prob, change
        return policy, state

    def metrics(self, state: Any) -> dict[str, jax.Array]:
        """What the method has to show after an iteration: names and arrays, [criteria] each."""
        del state
        return {}

    # What is asked before and after the training

    @classmethod
    def coefficients(cls) -> tuple[str, ...]:
        """The settings in which members that are trained together may differ."""
        static = {field.name for field in fields(cls) if field.metadata.get("static")}
        return tuple(name for name in cls.settings() if name not in static)

    @classmethod
    def variant(cls, names: Mapping[str, Any]) -> "type[Method]":
        """The form that serves these settings: one that has a setting which the method itself lacks."""
        lacking = set(names) - set(cls.settings())
        return next((form for form in cls.variants if lacking & set(form.settings())), cls)

    @classmethod
    def check_given(cls, given: Mapping[str, Any], preset: Mapping[str, Any]) -> None:
        """Refuse settings that contradict each other or are missing from both what was given and the preset."""

    def check_fit(self, settings: Settings, given: Mapping[str, Any], *, groups: int, horizon: int | None) -> None:
        """Refuse what was given and could have no effect in this environment (`horizon` None: not known)."""

    @classmethod
    def adapted(cls, settings: Settings) -> Settings:
        """The learner's settings as this method needs them."""
        return settings

    def prepared(self, criteria: int, groups: int) -> Self:
        """The coefficients as arrays: numbers as [], one number per group as [criteria, groups]."""

        def array(name: str, value: Any) -> jax.Array:
            if not isinstance(value, tuple):
                return jnp.asarray(value, jnp.float32)
            values = value or (0.0,) * groups
            if len(values) not in (groups, criteria * groups):
                raise InvalidInputError(
                    f"{name} has {len(values)} numbers. Give one for each of the {groups} groups"
                    + (f", or {criteria} x {groups} for every criterion's." if criteria > 1 else ".")
                )
            return jnp.broadcast_to(jnp.asarray(values, jnp.float32).reshape(-1, groups), (criteria, groups))

        return replace(self, **{name: array(name, getattr(self, name)) for name in self.coefficients()})

    @property
    def policy_choice(self) -> Any:
        """How the final policy is chosen among the last ones (`Choice`); None takes the last."""
        return None

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
