"""What a training run can be told: type, default, limits and meaning of every setting on one line."""

import difflib
import math
import numbers
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Annotated, Any, NamedTuple, Self, get_type_hints

from elbert.errors import InvalidInputError


class Rule(NamedTuple):
    """What a setting means and which values make sense."""

    meaning: str
    low: float = -math.inf
    high: float = math.inf
    open_low: bool = False  # the limit itself makes no sense
    choices: tuple[str, ...] = ()


@dataclass(frozen=True)
class Settings:
    """The settings of a run. Unknown names and values without sense are refused by `Settings.of`."""

    # what is optimised
    alpha: Annotated[float, Rule("weight of the penalty against the episode's reward (elbert-po)", low=0)] = 0.0
    max_bias: Annotated[
        float | None,
        Rule("largest bias to be allowed, in place of alpha (elbert-po); none: no limit", low=0, open_low=True),
    ] = None
    bias_kind: Annotated[
        str,
        Rule(
            "which bias is squared; auto: hard for 2 groups, soft for more",
            choices=("auto", "hard", "soft", "centred"),
        ),
    ] = "auto"
    beta: Annotated[float, Rule("temperature of the soft bias", low=0, open_low=True)] = 20.0
    demand_weight: Annotated[
        tuple[float, ...], Rule("reward for each unit of demand, one per group (demand regularisation); empty: none")
    ] = ()
    zeta: Annotated[float, Rule("weight of the penalty in the reward (r-ppo)", low=0)] = 1.0
    omega: Annotated[float, Rule("bias of the running episode that goes unpunished (r-ppo, a-ppo)", low=0)] = 0.05
    penalty_form: Annotated[
        str,
        Rule(
            "r-ppo takes off zeta * Delta from omega on (threshold) or zeta * (Delta - omega) above it (excess); "
            "as-printed: the paper's formula, which adds zeta * Delta",
            choices=("threshold", "excess", "as-printed"),
        ),
    ] = "threshold"
    beta_1: Annotated[float, Rule("weight of the bias above omega (a-ppo)", low=0)] = 0.1
    beta_2: Annotated[float, Rule("weight of an increase of the bias (a-ppo)", low=0)] = 0.1
    term_scaling: Annotated[
        str, Rule("a-ppo: scale its three terms to [0, 1] before adding them, or not", choices=("min-max", "none"))
    ] = "min-max"
    extra_demand: Annotated[float, Rule("added to every group's demand in the running bias (r-ppo, a-ppo)", low=0)] = (
        1.0
    )
    # how long, on how much
    steps: Annotated[int, Rule("environment steps in all", low=1)] = 1_000_000
    copies: Annotated[int, Rule("copies of the environment that are stepped together", low=1)] = 16
    rollout: Annotated[int, Rule("steps of every copy between two updates", low=1)] = 1024
    reset_each_rollout: Annotated[bool, Rule("start new episodes with every rollout")] = False
    # the update
    epochs: Annotated[int, Rule("passes over a rollout", low=1)] = 5
    minibatch: Annotated[int, Rule("samples per gradient step", low=1)] = 1024
    learning_rate: Annotated[float, Rule("of Adam", low=0, open_low=True)] = 5e-4
    anneal: Annotated[
        str, Rule("how learning rate and entropy weight go on: to 0 along a line, or not", choices=("linear", "none"))
    ] = "linear"
    gamma: Annotated[float, Rule("discount of the advantages", low=0, high=1)] = 0.99
    gae_lambda: Annotated[float, Rule("trace of generalised advantage estimation", low=0, high=1)] = 0.95
    eta_discount: Annotated[
        float, Rule("discount of the episode totals that make the rates", low=0, high=1, open_low=True)
    ] = 1.0
    clip: Annotated[float, Rule("how far the probability ratio may move", low=0, open_low=True)] = 0.2
    value_weight: Annotated[float, Rule("weight of the value loss", low=0)] = 0.5
    entropy_weight: Annotated[float, Rule("weight of the policy's entropy", low=0)] = 0.0
    gradient_clip: Annotated[
        float, Rule("largest norm of a gradient, actor and critics together", low=0, open_low=True)
    ] = 0.5
    adam_epsilon: Annotated[float, Rule("of Adam", low=0, open_low=True)] = 1e-5
    standardise: Annotated[
        str,
        Rule(
            "mean 0 and deviation 1: of the combined advantage, of each signal before combining, or of nothing",
            choices=("combined", "per-signal", "none"),
        ),
    ] = "combined"
    standardise_over: Annotated[
        str, Rule("what the mean and deviation are taken over", choices=("rollout", "minibatch"))
    ] = "rollout"
    bootstrap_at_truncation: Annotated[bool, Rule("an episode that the horizon cuts off has a value beyond it")] = True
    # the networks
    hidden: Annotated[tuple[int, ...], Rule("widths of the hidden layers", low=1)] = (64, 64)
    activation: Annotated[str, Rule("between layers", choices=("tanh", "relu"))] = "tanh"
    critic: Annotated[
        str, Rule("one trunk with a head per signal, or a network for each", choices=("shared", "separate"))
    ] = "shared"
    scale_values: Annotated[bool, Rule("heads predict values scaled to each signal's mean and deviation")] = True
    initial_deviation: Annotated[
        float, Rule("of real-valued actions at the start of training (Box actions only)", low=0, open_low=True)
    ] = 1.0
    normalise_observations: Annotated[bool, Rule("observations with running mean 0 and deviation 1")] = True

    @classmethod
    def of(cls, given: Mapping[str, Any], base: "Settings | None" = None) -> Self:
        """Settings from names and values, over a base; what is unknown or makes no sense is refused by name."""
        rules = cls.rules()
        checked = {name: _checked(name, value, *_known(rules, name)) for name, value in given.items()}
        settings = replace(cls() if base is None else base, **checked)
        batch = settings.copies * settings.rollout
        if settings.minibatch > batch:
            raise InvalidInputError(
                f"minibatch is {settings.minibatch}, but a rollout has {settings.copies} copies x {settings.rollout} "
                f"steps = {batch} samples. Give a minibatch of at most that, or a longer rollout."
            )
        return settings  # pyright: ignore[reportReturnType]

    @classmethod
    def check_names(cls, given: Iterable[str]) -> None:
        """Refuse names that are no settings."""
        for name in given:
            _known(cls.rules(), name)

    @classmethod
    def rules(cls) -> dict[str, tuple[Any, Rule]]:
        """Type and rule of every setting, by name."""
        hints = get_type_hints(cls, include_extras=True)
        return {f.name: (hints[f.name].__origin__, hints[f.name].__metadata__[0]) for f in fields(cls)}

    def to_dict(self) -> dict[str, Any]:
        """As plain values, ready for JSON."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}

    @property
    def batch(self) -> int:
        """Samples of one rollout."""
        return self.copies * self.rollout

    @property
    def iterations(self) -> int:
        """Rollouts that make up `steps`, rounded up."""
        return -(-self.steps // self.batch)


def _known(rules: dict[str, tuple[Any, Rule]], name: str) -> tuple[Any, Rule]:
    if name in rules:
        return rules[name]
    near = difflib.get_close_matches(name, rules, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise InvalidInputError(f"No setting is called {name!r}.{hint} Known: {', '.join(rules)}.")


def _checked(name: str, value: Any, kind: Any, rule: Rule) -> Any:
    """The value as the setting's type, or a refusal that says what is needed."""
    if kind is bool:
        if isinstance(value, bool):
            return value
        raise InvalidInputError(f"{name} is {value!r}. Give true or false: {rule.meaning}.")
    if kind is str:
        if value in rule.choices:
            return value
        raise InvalidInputError(f"{name} is {value!r}. Give one of {', '.join(rule.choices)}: {rule.meaning}.")
    if kind in (int, float):
        return _number(name, value, kind, rule)
    if kind == float | None:
        return None if value is None else _number(name, value, float, rule)
    entry = kind.__args__[0]
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise InvalidInputError(f"{name} is {value!r}. Give a list of numbers: {rule.meaning}.")
    return tuple(_number(name, one, entry, rule) for one in value)


def _number(name: str, given: Any, kind: type, rule: Rule) -> Any:
    need = f"a{' whole' if kind is int else ''} number"
    if rule.low > -math.inf:
        need += f" {'above' if rule.open_low else 'of at least'} {rule.low:g}"
    if rule.high < math.inf:
        need += f"{' and' if rule.low > -math.inf else ''} at most {rule.high:g}"
    real = isinstance(given, numbers.Real) and not isinstance(given, bool) and math.isfinite(given)
    value = float(given) if real else math.nan
    if not real or (kind is int and value != int(value)):
        raise InvalidInputError(f"{name} is {given!r}. Give {need}: {rule.meaning}.")
    if value < rule.low or value > rule.high or (rule.open_low and value == rule.low):
        raise InvalidInputError(f"{name} is {value:g}. Give {need}: {rule.meaning}.")
    return kind(value)
