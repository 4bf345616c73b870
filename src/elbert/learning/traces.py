"""One episode of a policy, step by step: what a replay shows.

    trace = trace_agent(agent, seed=7)
    trace.supply.cumsum(axis=0) / trace.demand.cumsum(axis=0)  # rates so far

Traces of the same seed have the same chance; `simulators.traces` says how far that goes.
"""

from typing import Any

from elbert.checks import as_seed, as_whole
from elbert.errors import InvalidInputError
from elbert.learning.agent import Agent
from elbert.learning.foreign import Actor, ForeignPolicy
from elbert.learning.simulators import Environment, open_host_simulator, open_simulator
from elbert.learning.simulators.traces import Trace as Trace
from elbert.learning.simulators.traces import trace_function, trace_policy
from elbert.learning.simulators.traces import trace_world as trace_world


def trace_agent(
    agent: Agent,
    *,
    env: Environment | None = None,
    seed: int = 1,
    longest: int | None = None,
    deterministic: bool = False,
    **parameters: Any,
) -> Trace:
    """One episode of an agent.

    Args:
        agent: who acts.
        env: where, as in `Agent.evaluate`; by default where it was trained.
        seed: seed of the world's chance and, apart from it, of the agent's.
        longest: steps after which the trace stops though the episode goes on; None: never.
        deterministic: whether to act by the most probable action.
        parameters: of the named world, over those of training.
    """
    where, own = agent.placed_in(env, parameters)
    with open_simulator(where, 1, own, memory=agent.settings.memory) as simulator:
        fitted = agent.fitted(simulator)
        return trace_policy(
            simulator,
            fitted.model,
            fitted.policy,
            name=agent.about.method,
            seed=as_seed(seed),
            longest=_checked(longest),
            deterministic=deterministic,
        )


def trace_foreign(
    foreign: ForeignPolicy,
    *,
    env: Environment | None = None,
    seed: int = 1,
    longest: int | None = None,
    deterministic: bool = False,
    **parameters: Any,
) -> Trace:
    """One episode of a policy from elsewhere; arguments as in `trace_agent`. Its own noise has to be seeded there."""
    where, own = foreign.home if env is None else (env, None)
    if where is None:
        raise InvalidInputError(f"The policy ({foreign}) does not say where it acts. Give env=...")
    with open_host_simulator(where, 1, (own or {}) | parameters) as simulator:
        act = Actor(foreign.policy, str(foreign), simulator.env, deterministic=deterministic)
        return trace_function(simulator, act, name=str(foreign), seed=as_seed(seed), longest=_checked(longest))


def _checked(longest: int | None) -> int | None:
    return None if longest is None else as_whole(longest, "longest", "a whole number of steps, at least 1", low=1)
