"""From a user's own environment to a Supply-Demand MDP: wrappers that add `supply` and `demand` to `info`.

Either by two functions of a transition,

    env = SupplyDemandWrapper(env, supply=lambda t: t.info["served"], demand=lambda t: t.info["arrived"])

or, where a step decides on people, by a notion of fairness and the fields that describe the outcome:

    env = NotionWrapper(env, "equal-opportunity", groups=3, group="group", qualified="qualified")

Given a vector environment, each makes its vector form (`SupplyDemandVectorWrapper`, `NotionVectorWrapper`), whose
functions see all copies at once.
"""

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, TypeAlias

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import concatenate, create_empty_array, iterate

from elbert.checks import as_whole
from elbert.envs.gym_infos import rows_only
from elbert.errors import InvalidInputError
from elbert.fairness.arrays import as_pair
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


class _Wrapper(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Adds what a function of the transition gives."""

    vector_form: ClassVar[type[Any] | None] = None

    def __new__(cls, env: Any = None, *args: Any, **kwargs: Any) -> Any:
        """Of a vector environment, the wrapper's vector form."""
        vector_form = cls.__dict__.get("vector_form")
        if vector_form is not None and isinstance(env, gymnasium.vector.VectorEnv):
            return vector_form(env, *args, **kwargs)
        return super().__new__(cls)

    def __init__(self, env: gymnasium.Env[Any, Any], benefit: Callable[[Transition], tuple[Any, Any]]) -> None:
        if isinstance(env, gymnasium.vector.VectorEnv):
            raise InvalidInputError(
                f"{type(self).__name__} is for one environment, but this is a VectorEnv. Use SupplyDemandVectorWrapper "
                "or NotionVectorWrapper, whose functions see all copies at once."
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
        observation, reward, terminated, truncated, info = self.env.step(action)
        transition = Transition(before, action, observation, reward, terminated, truncated, info, previous)
        supply, demand = as_pair(*self._benefit(transition))
        self._observation, self._info = observation, {**info, "supply": supply, "demand": demand}
        return observation, reward, terminated, truncated, self._info


class SupplyDemandWrapper(_Wrapper):
    """Adds `info["supply"]` and `info["demand"]` to an environment, by two functions of the transition."""

    def __init__(self, env: gymnasium.Env[Any, Any], *, supply: Amounts, demand: Amounts) -> None:
        """The environment, and what each group received and was due in a step.

        Args:
            env: any Gymnasium environment; of a vector environment `SupplyDemandVectorWrapper` is made.
            supply: Transition -> [groups] or [criteria, groups], amounts of benefit given.
            demand: Transition -> the same shape, amounts due.
        """
        super().__init__(env, _by_functions(supply, demand))


class NotionWrapper(_Wrapper):
    """Adds `info["supply"]` and `info["demand"]` to an environment that decides on people, by a notion of fairness."""

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        notion: str | Notion,
        *,
        groups: int,
        group: Field = "group",
        decision: Field | None = None,
        qualified: Field | None = None,
    ) -> None:
        """The environment, and where to find the outcome of a decision. A field may hold one person or an array.

        Args:
            env: any Gymnasium environment; of a vector environment `NotionVectorWrapper` is made.
            notion: for example "equal-opportunity"; `elbert.fairness.NOTIONS` lists them.
            groups: how many groups there are.
            group: of the person decided on, 0 .. groups - 1.
            decision: 1 accepted, 0 rejected; the action, if not given.
            qualified: 1 if the benefit was due; not needed for demographic parity.
        """
        benefit = _by_notion(get_notion(notion), groups, group, decision, qualified)
        super().__init__(env, lambda transition: benefit(transition, None))


class _VectorWrapper(gymnasium.vector.VectorWrapper):
    """Adds what a function of the transitions gives, where Gymnasium's conventions want it."""

    def __init__(
        self,
        env: gymnasium.vector.VectorEnv[Any, Any, Any],
        benefit: Callable[[Transition, np.ndarray[Any, Any]], tuple[Any, Any]],
    ) -> None:
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
        self._infos = infos if rows.all() else _merged(self._infos, infos, rows)
        self._ended = self._ended & ~rows
        return self._observations, infos

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """As the environment's own, with the benefits of this step in `info` (or in its `final_info`)."""
        before, previous, ended_before = self._observations, self._infos, self._ended
        observations, rewards, terminated, truncated, infos = self.env.step(actions)
        ended = np.asarray(terminated) | np.asarray(truncated)
        same = self._mode is AutoresetMode.SAME_STEP
        last, shown = observations, infos
        if same and ended.any():
            last = _with_rows(self.env, observations, infos["final_obs"], ended)
            shown = _merged(infos, infos.get("final_info", {}), ended)
        made_step = ~ended_before if self._mode is AutoresetMode.NEXT_STEP else np.ones_like(ended)
        self._observations, self._infos, self._ended = observations, infos, ended & (not same)
        if not made_step.any():
            return observations, rewards, terminated, truncated, infos
        transition = Transition(before, actions, last, rewards, terminated, truncated, shown, previous)
        supply, demand = as_pair(*(rows_only(amounts, made_step) for amounts in self._benefit(transition, made_step)))
        if supply.ndim < 2 or supply.shape[0] != self.num_envs:
            raise InvalidInputError(
                f"supply has shape {supply.shape} for {self.num_envs} copies. The functions see all copies at once: "
                f"give [{self.num_envs}, groups]."
            )
        infos = {**infos, **_masked(supply, demand, made_step & ~ended if same else made_step)}
        if same and ended.any():
            infos["final_info"] = {**infos.get("final_info", {}), **_masked(supply, demand, ended)}
            infos["_final_info"] = ended.copy()
        self._infos = infos
        return observations, rewards, terminated, truncated, infos


class SupplyDemandVectorWrapper(_VectorWrapper):
    """Adds `info["supply"]` and `info["demand"]` to a vector environment, by two functions of the transitions."""

    def __init__(self, env: gymnasium.vector.VectorEnv[Any, Any, Any], *, supply: Amounts, demand: Amounts) -> None:
        """The environment, and what each group received and was due in a step of every copy.

        Args:
            env: any Gymnasium vector environment.
            supply: Transition -> [copies, groups] or [copies, criteria, groups].
            demand: Transition -> the same shape.
        """
        benefit = _by_functions(supply, demand)
        super().__init__(env, lambda transition, _: benefit(transition))


class NotionVectorWrapper(_VectorWrapper):
    """Adds `info["supply"]` and `info["demand"]` to a vector environment that decides on people, by a notion."""

    def __init__(
        self,
        env: gymnasium.vector.VectorEnv[Any, Any, Any],
        notion: str | Notion,
        *,
        groups: int,
        group: Field = "group",
        decision: Field | None = None,
        qualified: Field | None = None,
    ) -> None:
        """As `NotionWrapper`, with the copies in front of every field."""
        super().__init__(env, _by_notion(get_notion(notion), groups, group, decision, qualified))


SupplyDemandWrapper.vector_form = SupplyDemandVectorWrapper
NotionWrapper.vector_form = NotionVectorWrapper


def autoreset_mode(env: gymnasium.vector.VectorEnv[Any, Any, Any]) -> AutoresetMode:
    """How a vector environment resets ended episodes; one that does not say is refused."""
    mode = (env.metadata or {}).get("autoreset_mode")
    if not isinstance(mode, AutoresetMode):
        raise InvalidInputError(
            f'The vector environment\'s metadata["autoreset_mode"] is {mode!r}. Set it to one of gymnasium.vector.'
            "AutoresetMode, so that the last step of an episode can be told from the reset after it."
        )
    return mode


def _by_functions(supply: Amounts, demand: Amounts) -> Callable[[Transition], tuple[Any, Any]]:
    for name, function in (("supply", supply), ("demand", demand)):
        if not callable(function):
            raise InvalidInputError(
                f'{name} is {function!r}. Give a function of the transition, for example lambda t: t.info["served"].'
            )
    return lambda transition: (supply(transition), demand(transition))


def _by_notion(
    notion: Notion, groups: int, group: Field, decision: Field | None, qualified: Field | None
) -> Callable[[Transition, np.ndarray[Any, Any] | None], tuple[Any, Any]]:
    """Supply and demand of a transition by a notion; [criteria, groups], without criteria if there is one.

    The function's second argument says which copies made a step, and is None where there is only one.
    """
    as_whole(groups, "groups", "the number of groups, at least 1", low=1)
    if notion.needs_qualified and qualified is None:
        raise InvalidInputError(
            f"The notion {notion.name!r} needs to know who was qualified. Give qualified=, the name of an entry of "
            "info or a function of the transition."
        )

    def benefit(transition: Transition, made_step: np.ndarray[Any, Any] | None) -> tuple[Any, Any]:
        who = np.asarray(_field(transition, group, "group", made_step))
        what = np.asarray(
            transition.action if decision is None else _field(transition, decision, "decision", made_step)
        )
        due = None if qualified is None else np.asarray(_field(transition, qualified, "qualified", made_step))
        each = notion.per_outcome(who, what, due, groups=groups)
        people = tuple(range(0 if made_step is None else 1, who.ndim))
        supply, demand = np.sum(each.supply, axis=people), np.sum(each.demand, axis=people)
        one = len(notion.criteria) == 1
        return (supply[..., 0, :], demand[..., 0, :]) if one else (supply, demand)

    return benefit


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
    mask = transition.info.get(f"_{field}")
    if made_step is not None and mask is not None and (made_step & ~np.asarray(mask)).any():
        row = int(np.flatnonzero(made_step & ~np.asarray(mask))[0])
        raise InvalidInputError(f"info has no {field!r} for copy {row}, although it made a step. Add it to each.")
    return transition.info[field]


def _masked(supply: Any, demand: Any, mask: np.ndarray[Any, Any]) -> dict[str, Any]:
    rows = mask.reshape(-1, *(1,) * (supply.ndim - 1))
    return {"supply": supply * rows, "_supply": mask.copy(), "demand": demand * rows, "_demand": mask.copy()}


def _with_rows(env: gymnasium.vector.VectorEnv[Any, Any, Any], observations: Any, final: Any, ended: Any) -> Any:
    """The observations, of any space, with the last ones of ended episodes in their places."""
    rows = [final[i] if ended[i] else row for i, row in enumerate(iterate(env.observation_space, observations))]
    space = env.single_observation_space
    return concatenate(space, rows, create_empty_array(space, len(rows)))


def _merged(infos: dict[str, Any], final: dict[str, Any], ended: np.ndarray[Any, Any]) -> dict[str, Any]:
    """The infos with some rows from others: of ended episodes the last ones, of copies that were reset the new ones.

    The masks `_key` follow: a row has an entry if the info that it comes from has it.
    """
    merged = dict(infos)
    for key in {
        name for name in (*infos, *final) if not name.startswith("_") and name not in ("final_obs", "final_info")
    }:
        here, there = infos.get(key), final.get(key)
        if not all(part is None or isinstance(part, np.ndarray) for part in (here, there)):
            continue
        shape = next(part for part in (here, there) if part is not None)
        here, there = (np.zeros_like(shape) if part is None else part for part in (here, there))
        rows = ended.reshape(-1, *(1,) * (shape.ndim - 1))
        merged[key] = np.where(rows, there, here)
        masks = (source.get(f"_{key}", np.full(len(ended), key in source)) for source in (final, infos))
        merged[f"_{key}"] = np.where(ended, *masks)
    return merged
