"""A gate for scripts: whether a limit on the bias is kept, as a verdict in words and an exit code."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from elbert.errors import InvalidInputError
from elbert.exit_codes import CONFIRMED, REFUTED, UNDETERMINED, code_of, overall
from elbert.experiments.evaluate import Policy
from elbert.experiments.run_folder import RunFolder
from elbert.learning.result import Result

FailOn: TypeAlias = Literal["refuted", "unconfirmed", "never"]
NO_LIMIT = "--fail-on needs a limit to judge by. Give --max-bias."


def check_gate(fail_on: FailOn | None, *, limited: bool, evaluated: bool) -> None:
    """Refuse a gate that could not judge, before anything is trained."""
    if fail_on is not None and not limited:
        raise InvalidInputError(NO_LIMIT)
    if fail_on is not None and not evaluated:
        raise InvalidInputError("--fail-on needs an evaluation to judge by. Leave --no-evaluate out.")


def trained_with_limit(policy: Policy) -> bool:
    """Whether a run was trained under a limit, which its evaluation tests."""
    return isinstance(policy, RunFolder) and policy.config["settings"].get("max_bias") is not None


@dataclass(frozen=True)
class Gate:
    """What a script is told."""

    code: int  # the exit code
    text: str  # the same in words


def gate(results: Sequence[Result], fail_on: FailOn = "unconfirmed") -> Gate:
    """The verdict over all policies of these results: confirmed if it is for each, refuted if it is for one.

    Everything else is undetermined, which passes only where `fail_on` says so, and never without a word.
    """
    limits = [single.limit for result in results for single in result.singles if single.limit is not None]
    if not limits:
        raise InvalidInputError(NO_LIMIT)
    code = code_of(overall(limit.verdict for limit in limits))
    claim = f"bias <= {', '.join(f'{bound:g}' for bound in sorted({limit.max_bias for limit in limits}))}"
    shares = f" for {sum(limit.verdict == 'refuted' for limit in limits)} of {len(limits)} policies"
    several = len(limits) > 1
    text = {
        CONFIRMED: f"{claim} is confirmed{f' for all {len(limits)} policies' if several else ''}.",
        REFUTED: f"{claim} is refuted{shares if several else ''}.",
        UNDETERMINED: f"{claim} is undetermined: the episodes neither confirm nor refute it. Evaluate with more "
        "episodes (--episodes).",
    }[code]
    passes = code == CONFIRMED or fail_on == "never" or (code == UNDETERMINED and fail_on == "refuted")
    if passes and code != CONFIRMED:
        text += f" It passes because of --fail-on {fail_on}."
    return Gate(CONFIRMED if passes else code, f"Gate: {text}")
