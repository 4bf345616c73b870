"""How policies are evaluated: protocols, which are data, the functions that follow them, and what is kept in a run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import gymnasium

from elbert.envs import ENTRIES, World, find_world
from elbert.errors import InvalidInputError, unknown_name
from elbert.exact.rules import get_rule, is_rule
from elbert.experiments.jit_cache import keep_compiled
from elbert.experiments.presets import OWN, built_in
from elbert.experiments.results import over_seeds
from elbert.experiments.run_folder import RunFolder
from elbert.files import as_path
from elbert.learning import Agent, Environment, Evaluable, ForeignPolicy
from elbert.learning.methods.limited import USUAL_NUMBERS
from elbert.learning.result import Result
from elbert.progress import Progress, Tell, Watch, tell_nobody, watched

MOST_STEPS = 4_000_000  # of an evaluation in a world that goes on until a limit can be judged
HOST_PART = 0.1  # of the training's steps, in an environment on the host, where steps are dear

Policy: TypeAlias = Evaluable | RunFolder | Sequence[Agent]
"""What is evaluated: one policy, or those of several seeds."""


class Protocol(NamedTuple):
    """How policies are evaluated."""

    episodes: int
    horizon: int | None  # None: the environment's own
    extra_demand: float = 0.0


def protocol_for(name: str, env: str) -> Protocol:
    """The protocol of this name for an environment."""
    content = built_in("protocols")
    if name not in content:
        raise unknown_name("evaluation protocol", name, content)
    section = content[name]
    if env not in section and OWN not in section:
        raise InvalidInputError(f"The protocol {name!r} says nothing about {env}. It knows: {', '.join(section)}.")
    brought = ENTRIES[env].evaluation if env in ENTRIES else {}
    entry = section.get(env, section.get(OWN, {}) | dict(brought))
    return Protocol(entry["episodes"], entry.get("horizon"), entry.get("extra_demand", 0.0))


def steps_to_tell(trained: int, numbers: int, *, pure: bool) -> float:
    """Steps that an evaluation may take to tell whether a limit is kept, after a training of this many.

    In worlds whose observations hold many numbers it is less, because their steps are dear.
    """
    return MOST_STEPS * min(1.0, USUAL_NUMBERS / numbers) if pure else HOST_PART * trained


@dataclass(frozen=True)
class Conditions:
    """Under which conditions a policy is evaluated."""

    protocol: str = "default"
    episodes: int | None = None  # None: the protocol's
    horizon: int | None = None  # None: the protocol's
    seed: int = 1
    deterministic: bool = False
    env: Environment | None = None  # None: where the policy was trained
    max_bias: float | None = None  # limit to be tested; None: the one that the policy was trained for, if any
    world: Mapping[str, Any] = field(default_factory=dict)  # parameters over those that the policy was trained with


USUAL = Conditions()


def evaluate(
    policy: Any,
    *,
    env: Environment | None = None,
    episodes: int | None = None,
    max_bias: float | None = None,
    seed: int = 1,
    deterministic: bool = False,
    protocol: str = "default",
    horizon: int | None = None,
    progress: Watch = "auto",
) -> Result:
    """Let a policy act in fresh episodes: its reward, every group's benefit rate, and the bias, with intervals.

        result = elbert.evaluate(agent)  # where it was trained
        result = elbert.evaluate(model, env=make_env, episodes=100, max_bias=0.05)  # a model of stable-baselines3
        result = elbert.evaluate(lambda observations: observations[:, 0] > 0.5, env="lending", episodes=20)
        print(result)  # also: result.reward, result.worst.bias, result.limit, result.to_dict()

    Args:
        policy: an agent (`elbert.train`, `elbert.load`) or a list of agents, one for each seed; the name of a rule,
            such as "lending/thresholds-2-1"; the path of a run or of an agent's file; an object with
            `predict(observation)`, such as a model of stable-baselines3; or a function from observations to actions.
            The last two may take the observations of all copies at once (the copies in front) or one at a time: a
            first call tells. They see observations as the environment gives them.
        env: where it acts: the name of a world, a Gymnasium id, a Gymnasium environment that reports supply and demand
            (`elbert.check_env` says whether it does), a function that makes one, a vector environment, or a `World`.
            By default, where the agent was trained.
        episodes: number of episodes; by default the protocol's, 200 in an environment of your own, and under a limit
            as many more as it takes to tell whether it is kept, within a budget.
        max_bias: limit on the bias to be tested; `result.limit` then says whether the episodes confirm or refute it.
            By default the limit that the agent was trained for, if any.
        seed: seed of the episodes. A policy from elsewhere that draws its own random numbers has to be seeded there.
        deterministic: take the most probable action instead of sampling one.
        protocol: "default", or "paper": the published number of episodes, horizon, and 1 added to every group's demand.
        horizon: steps of an episode in a named world, in place of the protocol's.
        progress: "auto" shows a display in terminals and notebooks; True, None or a function as in `elbert.train`.
    """
    conditions = Conditions(
        protocol=protocol,
        episodes=episodes,
        horizon=horizon,
        seed=seed,
        deterministic=deterministic,
        env=env,
        max_bias=max_bias,
    )
    subject = as_policy(policy)
    keep_compiled()
    with watched(progress, _title(subject)) as tell:
        return evaluate_policy(subject, conditions, progress=tell)


def _title(policy: Policy) -> str:
    """What a display calls a policy."""
    if isinstance(policy, RunFolder):
        return str(policy.path)
    single = policy if isinstance(policy, Evaluable) else policy[0]
    return single.about.method if isinstance(single, Agent) else str(single)


def as_policy(policy: Any) -> Policy:
    """What can be evaluated, from whatever a user calls a policy; see `evaluate`."""
    if isinstance(policy, Evaluable | RunFolder):
        return policy
    if isinstance(policy, str | Path):
        return _named(policy)
    if isinstance(policy, list | tuple):
        if policy and all(isinstance(each, Agent) for each in policy):
            return policy
        raise InvalidInputError(
            f"A {type(policy).__name__} was given that holds something else than agents, or nothing. Several policies "
            "are evaluated as one if they are agents, one for each seed; others are compared: elbert.compare({...})."
        )
    return ForeignPolicy(policy)


def _named(name: str | Path) -> Policy:
    """A rule, a run or an agent by its name or path."""
    text, path = str(name), as_path(name, "The policy")
    if is_rule(text) or (text.partition("/")[0] in ENTRIES and "/" in text and not path.exists()):
        return get_rule(text)
    if path.suffix == ".safetensors" or path.is_file():
        return Agent.load(path)
    if not path.is_dir():
        raise InvalidInputError(
            f"The policy is {text!r}, and nothing of this name is there. Give the path of a run or of an agent's file, "
            "or a rule such as 'lending/thresholds-2-1'; `elbert runs` lists runs."
        )
    return RunFolder(path)


def evaluate_policy(
    policy: Policy,
    conditions: Conditions = USUAL,
    *,
    agents: Sequence[Agent] | None = None,
    keep: bool | None = None,
    progress: Tell = tell_nobody,
) -> Result:
    """Evaluate one policy, several agents, or all agents of a run, which are read if they are not at hand.

    The run's folder keeps the result if `keep` says so. By default it does if the conditions are the usual ones, but
    for a user's environment, which has to be given.
    """
    if isinstance(policy, Evaluable):
        return _evaluate_all([policy], conditions, progress)[0]
    if not isinstance(policy, RunFolder):
        return over_seeds(_evaluate_all(policy, conditions, progress), [agent.about.seed for agent in policy])
    digest = policy.digest()  # first: a checkpoint that comes in between makes the result old, not wrong
    agents = policy.agents() if agents is None else agents
    if any(agent.about.method_settings != agents[0].about.method_settings for agent in agents):
        raise InvalidInputError(
            f"The agents in {policy.path} were trained with different coefficients: a mean over them says nothing. "
            "`elbert evaluate` and `compare` read them by coefficient; elbert.load(folder, member=...) gives one."
        )
    result = over_seeds(_evaluate_all(agents, conditions, progress), [agent.about.seed for agent in agents])
    if keep is None:
        keep = replace(conditions, env=None) == USUAL
    if keep and (conditions.env is None or policy.world is None):
        policy.keep_evaluation(replace(result, protocol=conditions.protocol, agents=digest))
    return result


def _evaluate_all(policies: Sequence[Evaluable], conditions: Conditions, progress: Tell) -> list[Result]:
    """Each policy in episodes of its own, so that an interval over seeds covers both kinds of chance."""
    env, own = conditions.env, OWN
    where = policies[0].home[0] if env is None else env
    if isinstance(where, str) and (entry := find_world(where)) is not None:
        own = entry.name
    if own == OWN and conditions.horizon is not None:
        raise InvalidInputError("The horizon of an environment of your own is set where it is made, not here.")
    protocol = protocol_for(conditions.protocol, own)
    episodes = protocol.episodes if conditions.episodes is None else conditions.episodes
    horizon = protocol.horizon if conditions.horizon is None else conditions.horizon
    parameters = dict(conditions.world) | ({} if own == OWN or horizon is None else {"horizon": horizon})
    evaluations: list[Result] = []
    for place, policy in enumerate(policies):

        def tell(own: Progress, place: int = place) -> None:
            each = own.total or episodes
            progress(replace(own, done=place * each + own.done, total=len(policies) * each))

        evaluations.append(
            policy.evaluate(
                episodes,
                env=env,
                seed=conditions.seed + place,
                deterministic=conditions.deterministic,
                extra_demand=protocol.extra_demand,
                max_bias=conditions.max_bias,
                most_steps=_most_steps(policy, where, conditions),
                progress=tell,
                **parameters,
            )
        )
    return evaluations


def _most_steps(policy: Evaluable, where: Environment | None, conditions: Conditions) -> float:
    """Steps that an evaluation may take beyond its protocol; none if the number of episodes is given."""
    if conditions.episodes is not None or conditions.protocol != USUAL.protocol:
        return 0.0
    pure = isinstance(where, World) or (isinstance(where, str) and find_world(where) is not None)
    trained, numbers = (policy.about.steps, policy.shape.observation) if isinstance(policy, Agent) else (0, 1)
    if isinstance(where, World):
        numbers = gymnasium.spaces.flatdim(where.observation_space)
    return steps_to_tell(trained, numbers, pure=pure)
