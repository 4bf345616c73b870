"""Wrappers that make any environment a Supply-Demand MDP: they add `supply` and `demand` to `info`.

Either by two functions of a transition,

    env = SupplyDemandWrapper(env, supply=lambda t: t.info["served"], demand=lambda t: t.info["arrived"])

or, where a step decides on people, by a notion of fairness and the fields that describe the outcome:

    env = NotionWrapper(env, "equal-opportunity", groups=3, group="group", qualified="qualified")

For a vector environment there are `SupplyDemandVectorWrapper` and `NotionVectorWrapper`, whose functions see all copies
at once.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import gymnasium
import numpy as np

from elbert.checks import as_whole
from elbert.envs.gym_infos import autoreset_mode, before_reset, ended_after, merged_infos, stepping, with_benefits
from elbert.envs.gym_returns import KEYS, benefit_rows, check_entries, returned
from elbert.errors import InvalidInputError
from elbert.fairness.arrays import as_pair
from elbert.fairness.episode_totals import as_names
from elbert.fairness.notions import Notion, get_notion


class Transition(NamedTuple):
    """What is known after a step. In a vector environment every entry has the copies in front."""

    observation: Any  # before the step
    action: Any
    next_observation: Any  # after it; of an ended episode the last one, not the next episode's first
    reward: Any
    terminated: Any
    truncated: Any
    info: dict[str, Any]  # of this step
    previous_info: dict[str, Any]  # of the step before, or of the reset


Amounts: TypeAlias = Callable[[Transition], Any]
"""What each group received, or was due, in a step: [groups] or [criteria, groups], with the copies in front if many."""

Field: TypeAlias = str | Callable[[Transition], Any]
"""An entry of the step's `info` by name, or a function of the transition."""

Benefit: TypeAlias = Callable[[Transition, np.ndarray[Any, Any] | None], tuple[Any, Any]]
"""(transition, which copies made a step or None for one environment) -> supply and demand."""


class _ByFunctions:
    """What the two wrappers by functions share."""

    notion = None  # not even that of an environment within: it is not known what the two functions count

    def __init__(
        self,
        env: Any,
        *,
        supply: Amounts,
        demand: Amounts,
        group_names: Sequence[str] | None = None,
        criteria: Sequence[str] | None = None,
    ) -> None:
        """The environment, and what each group received (`supply`) and was due (`demand`) in a step.

        Args:
            env: any Gymnasium environment (a vector environment for `SupplyDemandVectorWrapper`).
            supply: function of the `Transition` that gives [groups] or [criteria, groups]. In a vector environment it
                sees all copies at once and gives the copies in front.
            demand: likewise.
            group_names: what the groups are called in results, for example ["north", "south"].
            criteria: what the rates are called, for example ["share served"]; "benefit rate" if not given.
        """
        for name, function in (("supply", supply), ("demand", demand)):
            if not callable(function):
                example = 'lambda t: t.info["served"]'
                raise InvalidInputError(f"{name} is {function!r}. Give a function of the transition, say {example}.")
        super().__init__(env, lambda transition, _: (supply(transition), demand(transition)))  # pyright: ignore
        self.criteria = criteria
        if group_names is not None:
            self.group_names = group_names


class _ByNotion:
    """What the two wrappers by a notion share."""

    def __init__(
        self,
        env: Any,
        notion: str | Notion,
        *,
        groups: int | None = None,
        group_names: Sequence[str] | None = None,
        group: Field = "group",
        decision: Field | None = None,
        qualified: Field | None = None,
    ) -> None:
        """The environment, and where to find the outcome of a decision. A field may hold one person or an array.

        Args:
            env: any Gymnasium environment (a vector environment for `NotionVectorWrapper`).
            notion: for example "equal-opportunity"; `elbert.fairness.NOTIONS` lists them.
            groups: how many groups there are; as many as `group_names` has, if not given.
            group_names: what the groups are called in results, for example ["north", "south"].
            group: of the person decided on, 0 .. groups - 1.
            decision: 1 accepted, 0 rejected; the action, if not given.
            qualified: 1 if the benefit was due; not needed for demographic parity.
        """
        rule = get_notion(notion)
        if groups is None and group_names is not None:
            groups = len(group_names)
        count = as_whole(groups, "groups", "the number of groups, at least 1, or group_names", low=1)
        if group_names is not None:
            self.group_names = as_names(group_names, count, "group_names")
        if rule.needs_qualified and qualified is None:
            raise InvalidInputError(
                f"The notion {rule.name!r} needs to know who was qualified. Give qualified=, the name of an entry of "
                "info or a function of the transition."
            )

        def benefit(transition: Transition, made_step: np.ndarray[Any, Any] | None) -> tuple[Any, Any]:
            who = np.asarray(_field(transition, group, "group", made_step))
            what = np.asarray(
                transition.action if decision is None else _field(transition, decision, "decision", made_step)
            )
            due = None if qualified is None else np.asarray(_field(transition, qualified, "qualified", made_step))
            each = rule.per_outcome(who, what, due, groups=count)
            people = tuple(range(0 if made_step is None else 1, who.ndim))
            supply, demand = np.sum(each.supply, axis=people), np.sum(each.demand, axis=people)
            single = len(rule.criteria) == 1
            return (supply[..., 0, :], demand[..., 0, :]) if single else (supply, demand)

        super().__init__(env, benefit)  # pyright: ignore
        self.notion = rule


class _Wrapper(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Adds what a function of the transition gives."""

    def __init__(self, env: gymnasium.Env[Any, Any], benefit: Benefit) -> None:
        if isinstance(env, gymnasium.vector.VectorEnv):
            raise InvalidInputError(
                f"{type(self).__name__} is for one environment, but this is a VectorEnv. Use "
                f"{type(self).__name__.replace('Wrapper', 'VectorWrapper')}, whose functions see all copies at once."
            )
        super().__init__(env)
        self._benefit = benefit
        self._observation: Any = None
        self._info: dict[str, Any] = {}

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """As the environment's own; nothing has been given or due yet, so nothing is added."""
        self._observation, self._info = self.env.reset(seed=seed, options=options)
        return self._observation, self._info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """As the environment's own, with the benefits of this step in `info`."""
        before, previous = self._observation, self._info
        observation, reward, terminated, truncated, info = returned(lambda: self.env.step(action), "step")
        transition = Transition(before, action, observation, reward, terminated, truncated, dict(info), previous)
        supply, demand = as_pair(*self._benefit(transition, None))
        self._observation, self._info = observation, {**info, "supply": supply, "demand": demand}
        return observation, reward, terminated, truncated, self._info


class SupplyDemandWrapper(_ByFunctions, _Wrapper):
    """Adds `info["supply"]` and `info["demand"]` to an environment, by two functions of the transition."""


class NotionWrapper(_ByNotion, _Wrapper):
    """Adds `info["supply"]` and `info["demand"]` to an environment that decides on people, by a notion of fairness."""


class _VectorWrapper(gymnasium.vector.VectorWrapper):
    """Adds what a function of the transitions gives, where Gymnasium's conventions want it."""

    def __init__(self, env: gymnasium.vector.VectorEnv[Any, Any, Any], benefit: Benefit) -> None:
        if not isinstance(env, gymnasium.vector.VectorEnv):
            raise InvalidInputError(
                f"{type(self).__name__} is for a VectorEnv, but this is {type(env).__name__}. Use "
                f"{type(self).__name__.replace('VectorWrapper', 'Wrapper')} for one environment."
            )
        super().__init__(env)
        self._mode = autoreset_mode(env)
        self._benefit = benefit
        self._observations: Any = None
        self._infos: dict[str, Any] = {}
        self._ended = np.zeros(env.num_envs, bool)

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """As the environment's own."""
        mask = (options or {}).get("reset_mask")
        rows = np.ones_like(self._ended) if mask is None else np.array(mask, bool)
        self._observations, infos = self.env.reset(seed=seed, options=options)
        self._infos = infos if rows.all() else merged_infos(self._infos, infos, rows)
        self._ended = self._ended & ~rows
        return self._observations, infos

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """As the environment's own, with the benefits of this step in `info` (or in its `final_info`)."""
        before, previous, stepped = self._observations, self._infos, stepping(self._mode, self._ended)
        observations, rewards, terminated, truncated, infos = returned(lambda: self.env.step(actions), "step")
        ended = np.asarray(terminated) | np.asarray(truncated)
        if stepped.any():
            last, shown = before_reset(self.env, observations, infos, ended)
            transition = Transition(before, actions, last, rewards, terminated, truncated, dict(shown), previous)
            amounts = zip(KEYS, self._benefit(transition, stepped), strict=True)
            supply, demand = benefit_rows(dict(amounts), stepped)
            infos = with_benefits(infos, self._mode, supply, demand, ended=ended, stepped=stepped)
        infos = dict(infos)
        self._observations, self._infos, self._ended = observations, infos, ended_after(self._mode, ended)
        return observations, rewards, terminated, truncated, infos


class SupplyDemandVectorWrapper(_ByFunctions, _VectorWrapper):
    """Adds `info["supply"]` and `info["demand"]` to a vector environment, by two functions of the transitions."""


class NotionVectorWrapper(_ByNotion, _VectorWrapper):
    """Adds `info["supply"]` and `info["demand"]` to a vector environment that decides on people, by a notion."""


def _field(transition: Transition, field: Field, name: str, made_step: np.ndarray[Any, Any] | None) -> Any:
    """What a field says; every copy that made a step must say it."""
    if callable(field):
        return field(transition)
    if field not in transition.info:
        known = ", ".join(repr(key) for key in transition.info if not str(key).startswith("_")) or "nothing"
        raise InvalidInputError(
            f"info has no {field!r}, which {name}= names. It has {known}. Name another entry, or give a function of "
            "the transition."
        )
    if made_step is not None:
        check_entries(transition.info, field, made_step)
    return transition.info[field]
