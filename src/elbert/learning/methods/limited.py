"""What methods with a limit share: they maximise reward subject to bias <= max_bias, each in its own way."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar

import equinox as eqx

from elbert.errors import InvalidInputError
from elbert.learning.methods.base import Method
from elbert.learning.settings import Setting, Settings

USUAL_NUMBERS = 200
"""Numbers in an observation, beyond which a step of a world counts as dearer in proportion when steps are budgeted."""


@dataclass(frozen=True)
class Choice:
    """How the final policy is chosen among the last ones: each is judged in fresh episodes by the test of the limit."""

    candidates: int = 8  # number of policies, at equal distances, the final one among them
    last_part: float = 0.3  # the last part of the training that they come from
    first_part: float = 0.25  # of the budget, that the first round may take
    finalists: int = 2  # that play on after each round, besides a policy between two others
    least_gain: float = 0.5  # standard errors of the reward that a policy between two others must promise to gain
    steps: int = 4_000_000  # in worlds, that all of them together are judged by at the most; or, if that is more, ...
    steps_part: float = 0.6  # ... this part of the training's steps; but no more than ...
    steps_most: float = 30.0  # ... this many times the training's steps
    host_part: float = 0.3  # of the training's steps in environments on the host, where steps are dear
    fewest_episodes: int = 10  # of each, whatever it takes

    def budget(self, steps: int, *, pure: bool, numbers: int = 1) -> float:
        """Steps that all candidates together may take after a training of this many, with so many numbers observed."""
        if not pure:
            return self.host_part * steps
        usual = self.steps * min(1.0, USUAL_NUMBERS / numbers)
        return min(max(usual, self.steps_part * steps), self.steps_most * steps)


class Limited(Method):
    """Maximise reward subject to bias <= max_bias. The final policy is chosen among the last ones by the test of it."""

    uses: ClassVar[tuple[str, ...]] = ("eta_discount",)

    max_bias: Annotated[float, Setting("largest bias to be allowed", low=0, open_low=True)]
    choice: Choice = eqx.field(static=True, kw_only=True, default=Choice())

    @classmethod
    def check_given(cls, given: Mapping[str, Any], preset: Mapping[str, Any]) -> None:
        """There is a limit, and it weighs the signals by itself."""
        if "max_bias" not in given and "max_bias" not in preset:
            raise InvalidInputError(f"{cls.name} needs max_bias, the largest bias to be allowed.")
        if given.get("standardise") == "per-signal":
            raise InvalidInputError(
                "standardise is per-signal, which has no effect beside max_bias: a limit weighs the signals by itself. "
                "Leave it out."
            )

    def check_fit(self, settings: Settings, given: Mapping[str, Any], *, groups: int, horizon: int | None) -> None:
        """Whole episodes must end, or there are no rates to control."""
        del given, groups
        if horizon is None:
            return
        if settings.rollout * settings.iterations < horizon:
            raise InvalidInputError(
                f"max_bias needs whole episodes, and none of {horizon} steps ends in {settings.iterations} rollouts of "
                f"{settings.rollout}. Give more steps, or fewer copies, or a world with a shorter horizon."
            )
        if settings.reset_each_rollout and settings.rollout < horizon:
            raise InvalidInputError(
                f"max_bias needs whole episodes, and with reset_each_rollout none of {horizon} steps ends in a "
                f"rollout of {settings.rollout}. Give rollout={horizon} or more, or reset_each_rollout=False."
            )

    @classmethod
    def adapted(cls, settings: Settings) -> Settings:
        """A preset may standardise signal by signal; here the sum is standardised."""
        return replace(settings, standardise="combined") if settings.standardise == "per-signal" else settings

    @property
    def policy_choice(self) -> Choice:
        """Which policy is kept is decided by the test of the limit."""
        return self.choice
