"""How agents are evaluated: protocols, which are data, and the one function that follows them."""

import tomllib
from collections.abc import Callable
from importlib.resources import files
from typing import NamedTuple

from elbert.envs import get_entry
from elbert.errors import InvalidInputError
from elbert.exact.rules import Rule
from elbert.experiments.presets import OWN
from elbert.learning import Agent, Environment, Evaluation
from elbert.progress import tell_nobody


class Protocol(NamedTuple):
    """How agents are evaluated."""

    episodes: int
    horizon: int | None  # None: the environment's own
    extra_demand: float = 0.0


def protocol_for(name: str, env: str) -> Protocol:
    """The protocol of this name for an environment."""
    content = tomllib.loads((files("elbert.experiments") / "data" / "protocols.toml").read_text("utf-8"))
    if name not in content:
        raise InvalidInputError(f"No evaluation protocol is called {name!r}. Known: {', '.join(content)}.")
    section = content[name]
    if env not in section and OWN not in section:
        raise InvalidInputError(f"The protocol {name!r} says nothing about {env}. It knows: {', '.join(section)}.")
    entry = section.get(env, section.get(OWN))
    return Protocol(entry["episodes"], entry.get("horizon"), entry.get("extra_demand", 0.0))


def evaluate(
    agent: Agent | Rule,
    *,
    protocol: str = "default",
    episodes: int | None = None,
    horizon: int | None = None,
    seed: int = 1,
    deterministic: bool = False,
    env: Environment | None = None,
    tick: Callable[[int], None] | None = None,
) -> Evaluation:
    """Evaluate an agent or a rule by a protocol.

    "default", or "paper": the published number of episodes, horizon, and 1 added to every group's demand.
    """
    if isinstance(env, str):
        name = env = get_entry(env).name
    else:
        name = agent.about.env if agent.about.parameters is not None and env is None else OWN
    if name == OWN and horizon is not None:
        raise InvalidInputError("The horizon of an environment of your own is set where it is made, not here.")
    plan = protocol_for(protocol, name)
    steps = plan.horizon if horizon is None else horizon
    changed = {} if name == OWN or steps is None else {"horizon": steps}
    return agent.evaluate(
        plan.episodes if episodes is None else episodes,
        env=env,
        seed=seed,
        deterministic=deterministic,
        extra_demand=plan.extra_demand,
        progress=(lambda p: tick(p.done)) if tick is not None else tell_nobody,
        **changed,
    )
