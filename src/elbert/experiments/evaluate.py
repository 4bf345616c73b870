"""How policies are evaluated: protocols, which are data, the functions that follow them, and what is kept in a run."""

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import NamedTuple, TypeAlias

from elbert.envs import ENTRIES, get_entry
from elbert.errors import InvalidInputError, unknown_name
from elbert.exact.rules import Rule
from elbert.experiments.jit_cache import keep_compiled
from elbert.experiments.presets import OWN
from elbert.experiments.results import over_seeds
from elbert.experiments.run_folder import RunFolder
from elbert.learning import Agent, Environment
from elbert.learning.result import Result
from elbert.progress import Progress, Tell, Watch, tell_nobody, watched

Policy: TypeAlias = Rule | RunFolder  # what people name to have it evaluated


class Protocol(NamedTuple):
    """How policies are evaluated."""

    episodes: int
    horizon: int | None  # None: the environment's own
    extra_demand: float = 0.0


def protocol_for(name: str, env: str) -> Protocol:
    """The protocol of this name for an environment."""
    content = tomllib.loads((files("elbert.experiments") / "data" / "protocols.toml").read_text("utf-8"))
    if name not in content:
        raise unknown_name("evaluation protocol", name, content)
    section = content[name]
    if env not in section and OWN not in section:
        raise InvalidInputError(f"The protocol {name!r} says nothing about {env}. It knows: {', '.join(section)}.")
    brought = ENTRIES[env].evaluation if env in ENTRIES else {}
    entry = section.get(env, section.get(OWN, {}) | dict(brought))
    return Protocol(entry["episodes"], entry.get("horizon"), entry.get("extra_demand", 0.0))


@dataclass(frozen=True)
class Conditions:
    """Under which conditions a policy is evaluated."""

    protocol: str = "default"
    episodes: int | None = None  # None: the protocol's
    horizon: int | None = None  # None: the protocol's
    seed: int = 1
    deterministic: bool = False
    env: Environment | None = None  # None: where the policy was trained


USUAL = Conditions()


def evaluate(
    policy: Agent | Rule,
    *,
    protocol: str = "default",
    episodes: int | None = None,
    horizon: int | None = None,
    seed: int = 1,
    deterministic: bool = False,
    env: Environment | None = None,
    progress: Watch = "auto",
) -> Result:
    """Evaluate an agent or a rule by a protocol.

    Args:
        policy: the agent or the rule.
        protocol: "default", or "paper": the published number of episodes, horizon, and 1 added to every group's demand.
        episodes: number of episodes, in place of the protocol's.
        horizon: steps of an episode, in place of the protocol's.
        seed: seed of the episodes.
        deterministic: take the most probable action instead of sampling one.
        env: another environment than that of training.
        progress: "auto" shows a display in terminals and notebooks; True, None or a function as in `train`.
    """
    if not isinstance(policy, Agent | Rule):
        raise InvalidInputError(
            f"A {type(policy).__name__} cannot be evaluated here. Give an agent (elbert.train, elbert.load) or a rule "
            "(elbert.exact.rules.get_rule)."
        )
    conditions = Conditions(
        protocol=protocol, episodes=episodes, horizon=horizon, seed=seed, deterministic=deterministic, env=env
    )
    keep_compiled()
    with watched(progress, policy.about.method) as tell:
        return _evaluate_all([policy], conditions, tell)[0]


def evaluate_policy(
    policy: Policy,
    conditions: Conditions = USUAL,
    *,
    agents: Sequence[Agent] | None = None,
    keep: bool | None = None,
    progress: Tell = tell_nobody,
) -> Result:
    """Evaluate a rule, or all agents of a run, which are read if they are not at hand.

    The run's folder keeps the result if `keep` says so. By default it does if the conditions are the usual ones, but
    for a user's environment, which has to be given.
    """
    if isinstance(policy, Rule):
        return _evaluate_all([policy], conditions, progress)[0]
    digest = policy.digest()  # first: a checkpoint that comes in between makes the result old, not wrong
    agents = policy.agents() if agents is None else agents
    if any(agent.about.method_settings != agents[0].about.method_settings for agent in agents):
        raise InvalidInputError(
            f"The agents in {policy.path} were trained with different coefficients: a mean over them says nothing. "
            "Evaluate them one by one: elbert.load(folder, member=...)."
        )
    result = over_seeds(_evaluate_all(agents, conditions, progress), [agent.about.seed for agent in agents])
    if keep is None:
        keep = replace(conditions, env=None) == USUAL
    if keep and (conditions.env is None or policy.world is None):
        policy.keep_evaluation(replace(result, protocol=conditions.protocol, agents=digest))
    return result


def _evaluate_all(policies: Sequence[Agent | Rule], conditions: Conditions, progress: Tell) -> list[Result]:
    """Each policy in episodes of its own, so that an interval over seeds covers both kinds of chance."""
    env, own = conditions.env, OWN
    if isinstance(env, str):
        own = env = get_entry(env).name
    elif env is None and policies[0].about.parameters is not None:
        own = policies[0].about.env
    if own == OWN and conditions.horizon is not None:
        raise InvalidInputError("The horizon of an environment of your own is set where it is made, not here.")
    protocol = protocol_for(conditions.protocol, own)
    episodes = protocol.episodes if conditions.episodes is None else conditions.episodes
    horizon = protocol.horizon if conditions.horizon is None else conditions.horizon
    parameters = {} if own == OWN or horizon is None else {"horizon": horizon}
    evaluations: list[Result] = []
    for place, policy in enumerate(policies):

        def tell(own: Progress, place: int = place) -> None:
            progress(replace(own, done=place * episodes + own.done, total=len(policies) * episodes))

        evaluations.append(
            policy.evaluate(
                episodes,
                env=env,
                seed=conditions.seed + place,
                deterministic=conditions.deterministic,
                extra_demand=protocol.extra_demand,
                progress=tell,
                **parameters,
            )
        )
    return evaluations
