"""Runs of several coefficients, read by coefficient: each combination is a policy over its seeds."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from elbert.experiments.evaluate import USUAL, Conditions, Policy, evaluate_policy
from elbert.experiments.run_folder import RunFolder
from elbert.learning import Agent
from elbert.learning.result import Result
from elbert.progress import Progress, Tell, tell_nobody


def by_coefficient(policies: Mapping[str, Policy]) -> dict[str, Policy]:
    """Policies by name, with a run of several coefficients in its parts: "run alpha=1000", or "alpha=1000" if alone."""
    parts: dict[str, Policy] = {}
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


def _parts(policy: Policy) -> Mapping[str, Policy]:
    return policy.parts() if isinstance(policy, RunFolder) else {"": policy}
