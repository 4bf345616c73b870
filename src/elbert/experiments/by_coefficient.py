"""Runs of several coefficients, read by coefficient: each combination is a policy over its seeds."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from elbert.experiments.evaluate import USUAL, Conditions, Policy, evaluate_policy
from elbert.experiments.run_folder import RunFolder, coefficients_text
from elbert.learning import Agent
from elbert.learning.result import Result
from elbert.progress import Progress, Tell, tell_nobody


def by_coefficient(policies: Mapping[str, Any]) -> dict[str, Any]:
    """Policies by name, with what has several coefficients in its parts: "run alpha=1000", or "alpha=1000" if alone.

    These are runs, and lists of agents as `elbert.train_many` returns them.
    """
    parts: dict[str, Any] = {}
    for name, policy in policies.items():
        for label, part in _parts(policy).items():
            parts[f"{'' if label and len(policies) == 1 else name} {label}".strip()] = part
    return parts


def evaluate_by_coefficient(
    policy: Policy,
    conditions: Conditions = USUAL,
    *,
    agents: Sequence[Agent] | None = None,
    progress: Tell = tell_nobody,
) -> dict[str, Result]:
    """`evaluate_policy` for every combination of coefficients, by their text; under "" where there is only one."""
    results: dict[str, Result] = {}
    for label, part in _parts(policy).items():

        def tell(event: Progress, label: str = label) -> None:
            progress(replace(event, activity=f"{event.activity} {label}".strip()))

        members = part.part.members if isinstance(part, RunFolder) and part.part is not None else None
        own = agents if agents is None or members is None else [agents[i] for i in members]
        results[label] = evaluate_policy(part, conditions, agents=own, progress=tell)
    return results


def _parts(policy: Any) -> Mapping[str, Any]:
    if isinstance(policy, RunFolder):
        return policy.parts()
    if isinstance(policy, list | tuple) and policy and all(isinstance(agent, Agent) for agent in policy):
        return _alike(policy)
    return {"": policy}


def _alike(agents: Sequence[Agent]) -> Mapping[str, Sequence[Agent]]:
    """The agents by the settings of the method in which they differ; all under "" where they do not."""
    every = [agent.about.method_settings for agent in agents]
    names = [name for name in every[0] if any(settings.get(name) != every[0][name] for settings in every)]
    groups: dict[str, list[Agent]] = {}
    for agent, settings in zip(agents, every, strict=True):
        groups.setdefault(coefficients_text({name: settings.get(name) for name in names}), []).append(agent)
    return groups
