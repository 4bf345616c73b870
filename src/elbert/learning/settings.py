"""What a training can be told: type, default, limits and meaning of every setting on one line.

`Settings` holds those of the learner. What weighs reward against fairness belongs to the methods, which declare their
settings in the same way (`elbert.learning.methods`).
"""

import math
import numbers
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache, partial
from typing import Annotated, Any, NamedTuple, Self, get_type_hints

from elbert.errors import InvalidInputError, unknown_name
from elbert.learning.schedules import SCHEDULES, Schedule

LONGEST_SEGMENT = 64  # steps that gradients flow through, where a memory is learned
SHUFFLED = 2**15  # rollouts with more samples than this are shuffled in blocks


class Setting(NamedTuple):
    """What a setting means and which values make sense."""

    meaning: str
    low: float = -math.inf
    high: float = math.inf
    open_low: bool = False  # the lower limit itself makes no sense
    choices: tuple[str, ...] = ()
    kind: Any = None  # type and default, as the field has them
    default: Any = None


Positive = partial(Setting, low=0, open_low=True)
Share = partial(Setting, low=0, high=1)


def settings_of(kind: type[Any]) -> dict[str, Setting]:
    """The settings that a dataclass declares: its fields annotated with a `Setting`, by name."""
    return dict(_declared(kind))


@lru_cache(maxsize=256)  # annotations are slow to read, and a plan of many trainings reads them for each
def _declared(kind: type[Any]) -> dict[str, Setting]:
    hints = get_type_hints(kind, include_extras=True)
    declared = {field.name: (hints[field.name], field.default) for field in fields(kind)}
    return {
        name: hint.__metadata__[0]._replace(kind=hint.__origin__, default=default)
        for name, (hint, default) in declared.items()
        if hasattr(hint, "__metadata__")
    }


def checked_settings(settings: Mapping[str, Setting], values: Mapping[str, Any]) -> dict[str, Any]:
    """The values as the types of their settings; unknown names and values without sense are refused."""
    for name in values:
        if name not in settings:
            raise unknown_name("setting", name, settings)
    return {name: _checked(name, value, settings[name]) for name, value in values.items()}


def plain_settings(values: Mapping[str, Any]) -> dict[str, Any]:
    """Settings ready for JSON: tuples as lists, functions by name."""

    def plain(value: Any) -> Any:
        if callable(value):
            return getattr(value, "__name__", repr(value))
        return list(value) if isinstance(value, tuple) else value

    return {name: plain(value) for name, value in values.items()}


class Declared:
    """What has settings: a dataclass whose fields declare them."""

    @classmethod
    def settings(cls) -> Mapping[str, Setting]:
        """The settings, by name."""
        return settings_of(cls)

    @classmethod
    def of(cls, values: Mapping[str, Any], **others: Any) -> Self:
        """With these settings and other fields; unknown names and values without sense are refused."""
        return cls(**others, **checked_settings(cls.settings(), values))

    def with_settings(self, changes: Mapping[str, Any]) -> Self:
        """The same with other values of some settings."""
        this: Any = self
        return replace(this, **checked_settings(self.settings(), changes))

    def to_dict(self) -> dict[str, Any]:
        """The settings as plain values, ready for JSON."""
        return plain_settings({name: getattr(self, name) for name in self.settings()})


@dataclass(frozen=True)
class Settings(Declared):
    """The settings of the learner."""

    # how long, on how much
    steps: Annotated[int, Setting("number of environment steps, rounded up to whole rollouts", low=1)] = 1_000_000
    copies: Annotated[int, Setting("number of copies of the environment that are stepped together", low=1)] = 16
    rollout: Annotated[int, Setting("number of steps of every copy between two updates", low=1)] = 1024
    reset_each_rollout: Annotated[bool, Setting("whether every rollout starts new episodes")] = False
    # the update
    epochs: Annotated[int, Setting("number of passes over a rollout", low=1)] = 5
    minibatch: Annotated[int, Setting("number of samples per gradient step", low=1)] = 1024
    learning_rate: Annotated[float, Positive("Adam's step size")] = 5e-4
    divergence: Annotated[
        float,
        Setting(
            "how far one update should move the policy, a mean divergence that falls with the square of the learning "
            "rate: the actor's steps are lengthened or shortened to get there; 0: they are Adam's",
            low=0,
        ),
    ] = 0.0
    anneal: Annotated[
        Schedule,
        Setting(
            "how learning rate and entropy weight fall to 0, or a function from the part that is done to a factor",
            choices=tuple(SCHEDULES),
        ),
    ] = "linear"
    gamma: Annotated[float, Share("discount of the advantages")] = 0.99
    gae_lambda: Annotated[float, Share("trace of generalised advantage estimation")] = 0.95
    eta_discount: Annotated[float, Share("discount of the episode totals that make up the rates", open_low=True)] = 1.0
    clip: Annotated[float, Positive("how far the probability ratio may move from 1")] = 0.2
    value_weight: Annotated[float, Setting("weight of the value loss", low=0)] = 0.5
    entropy_weight: Annotated[float, Setting("weight of the policy's entropy", low=0)] = 0.0
    gradient_clip: Annotated[float, Positive("largest norm of a gradient, actor and critics together")] = 0.5
    adam_epsilon: Annotated[float, Positive("Adam's epsilon")] = 1e-5
    standardise: Annotated[
        str,
        Setting(
            "what is brought to mean 0 and deviation 1: the combined advantage, each signal before that, or nothing",
            choices=("combined", "per-signal", "none"),
        ),
    ] = "combined"
    standardise_over: Annotated[
        str, Setting("what that mean and deviation are taken over", choices=("rollout", "minibatch"))
    ] = "rollout"
    bootstrap_at_truncation: Annotated[
        bool,
        Setting(
            "whether an episode that the horizon cuts off has a value beyond it; a critic of the state, which sees the "
            "horizon coming, gives it none"
        ),
    ] = True
    signals: Annotated[
        str,
        Setting(
            "whether reward, supply and demand are what happened, or their means given state and action; auto takes "
            "means where a world knows them and the method can use them",
            choices=("auto", "sampled", "means"),
        ),
    ] = "sampled"
    # the networks
    policy: Annotated[
        str,
        Setting(
            "whether one network sees everything, shared weights score each part of the problem, or a network with a "
            "gated memory learns what to keep of what it saw",
            choices=("mlp", "parts", "gru"),
        ),
    ] = "mlp"
    memory: Annotated[
        tuple[float, ...],
        Setting(
            "spans of steps over which averages of earlier observations reach, which the policy sees too; none: the "
            "present observation alone",
            low=1,
            open_low=True,
        ),
    ] = ()
    hidden: Annotated[tuple[int, ...], Setting("widths of the hidden layers", low=1)] = (64, 64)
    activation: Annotated[str, Setting("function between layers", choices=("tanh", "relu"))] = "tanh"
    critic: Annotated[
        str, Setting("one trunk with a head per signal, or a network for each signal", choices=("shared", "separate"))
    ] = "shared"
    critic_sees: Annotated[
        str,
        Setting(
            "what values are learned from: the observation, or the simulator's state; auto takes the state in worlds",
            choices=("auto", "observation", "state"),
        ),
    ] = "observation"
    scale_values: Annotated[
        bool, Setting("whether the heads predict values scaled by each signal's mean and deviation")
    ] = True
    initial_deviation: Annotated[
        float, Positive("deviation of real-valued actions at the start (Box actions only)")
    ] = 1.0
    deviation_kept: Annotated[
        float,
        Setting(
            "factor that this deviation has fallen by at the end of the training, besides what is learned",
            low=0,
            high=1,
            open_low=True,
        ),
    ] = 1.0
    normalise_observations: Annotated[
        bool, Setting("whether observations are brought to running mean 0 and deviation 1")
    ] = True

    def __post_init__(self) -> None:
        if self.minibatch > self.batch:
            raise InvalidInputError(
                f"minibatch is {self.minibatch}, but a rollout has {self.copies} copies x {self.rollout} steps = "
                f"{self.batch} samples. Give a minibatch of at most that, or a longer rollout."
            )

    @property
    def batch(self) -> int:
        """Samples of one rollout."""
        return self.copies * self.rollout

    @property
    def iterations(self) -> int:
        """Rollouts that make up `steps`, rounded up."""
        return -(-self.steps // self.batch)

    @property
    def minibatches(self) -> int:
        """Gradient steps per epoch. Samples that do not fill one more are left out, others in every epoch."""
        return self.batch // self.minibatch

    @property
    def segment(self) -> int:
        """Steps of one copy that gradients flow through: 1, or with a memory that is learned the most that fit."""
        if self.policy != "gru":
            return 1
        common = math.gcd(self.rollout, self.minibatch)
        return next(steps for steps in range(LONGEST_SEGMENT, 0, -1) if common % steps == 0)

    @property
    def block(self) -> int:
        """How many samples stay together when a rollout is shuffled: copies side by side at one time, independent.

        One, unless a rollout is so large that sorting random numbers for it would cost more than learning from it.
        With a memory that is learned it is the steps of a segment.
        """
        if self.segment > 1:
            return self.segment
        block = 1
        while self.batch // block > SHUFFLED and self.copies % (2 * block) == 0 and self.minibatch % (2 * block) == 0:
            block *= 2
        return block


def _checked(name: str, value: Any, setting: Setting) -> Any:
    """The value as the setting's type, or a refusal that says what is needed."""
    kind = setting.kind
    if getattr(kind, "__origin__", None) is tuple:
        if isinstance(value, Sequence) and not isinstance(value, str):
            return tuple(_checked(name, entry, setting._replace(kind=kind.__args__[0])) for entry in value)
        need = "a list of numbers"
    elif kind in (int, float):
        real = isinstance(value, numbers.Real) and not isinstance(value, bool) and math.isfinite(value)
        number = float(value) if real else math.nan
        above = number > setting.low if setting.open_low else number >= setting.low
        if above and number <= setting.high and (kind is float or number.is_integer()):
            return kind(number)
        limits = [f"{'above' if setting.open_low else 'of at least'} {setting.low:g}"] * (setting.low > -math.inf)
        limits += [f"at most {setting.high:g}"] * (setting.high < math.inf)
        need = f"a{' whole' if kind is int else ''} number {' and '.join(limits)}".rstrip()
    else:
        needs = {bool: "true or false", str: f"one of {', '.join(setting.choices)}"}
        named = isinstance(value, str) and value in setting.choices
        fits = {bool: isinstance(value, bool), str: named}
        if fits.get(kind, named or callable(value) or (value is None and setting.default is None)):
            return value
        need = needs.get(kind, f"{needs[str]}, or a function" if setting.choices else "a function")
    shown = f"{value:g}" if isinstance(value, float) else repr(value)
    raise InvalidInputError(f"{name} is {shown}. Give {need}: {setting.meaning}.")
