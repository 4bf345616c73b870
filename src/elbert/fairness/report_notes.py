"""What a reader of a report should know and cannot see in its numbers."""

from collections.abc import Iterator, Sequence

import numpy as np

from elbert.fairness.bias_inference import BiasEstimate
from elbert.fairness.episode_totals import EpisodeTotals
from elbert.fairness.rate_intervals import Pooled

FEW_EPISODES = 20
"""Below this many episodes a report says that its intervals are approximate."""


def notes_on(totals: EpisodeTotals, pooled: Pooled, biases: Sequence[BiasEstimate]) -> tuple[str, ...]:
    """All notes, the gravest first."""
    notes = [*_everybody_served(totals)]
    for c, bias in enumerate(biases):
        notes += [*_unreliable(totals, pooled, c), *_still(totals, pooled, c), *_sparse(totals, pooled, c)]
        if bias.debiased is not None and bias.debiased < 0:
            notes.append(
                f"{bias.criterion}: a debiased bias below 0, and so outside its interval, means that equal groups "
                "would differ more by chance."
            )
    if 1 < totals.episodes < FEW_EPISODES:
        notes.append(
            f"{totals.episodes} episodes are few: intervals are approximate below about {FEW_EPISODES}, less so for "
            "groups whose demand is even."
        )
    return tuple(notes)


def _everybody_served(totals: EpisodeTotals) -> Iterator[str]:
    """A rate that may be 1 by construction, where a label says who was due a benefit and everybody due received it."""
    if totals.notion is not None and not totals.notion.needs_qualified:
        return
    complete = (totals.supply == totals.demand).all(axis=(0, 2)) & totals.demand.any(axis=(0, 2))
    for c in np.flatnonzero(complete):
        yield (
            f"WARNING: {totals.criteria[c]}: every group received exactly what it was due, in every episode. If who "
            "was due is known among accepted people only (as the repayment of a loan is), and 0 was filled in for the "
            "others, this rate is 1 by construction: neither it nor a bias of 0 says anything about fairness. "
            "Compare acceptance rates (demographic parity), or find out about the people who were rejected."
        )


def _unreliable(totals: EpisodeTotals, pooled: Pooled, c: int) -> Iterator[str]:
    """Groups whose demand lies in few of the episodes, so that the rest say little."""
    concerned = np.flatnonzero(pooled.compared[c] & ~pooled.reliable[c])
    if concerned.size and totals.episodes > 1:
        each = ", ".join(
            f"{totals.groups[g]} ({pooled.effective[c, g]:.1f}, {100 * pooled.largest[c, g]:.0f} %)" for g in concerned
        )
        yield (
            f"{totals.criteria[c]}: unreliable for group {each}. In parentheses: how many episodes of equal demand its "
            "demand weighs as much as, and the share of it in the largest episode. With fewer than 10, or more than "
            "25 %, intervals and verdicts err more often than they say."
        )


def _still(totals: EpisodeTotals, pooled: Pooled, c: int) -> Iterator[str]:
    """Groups whose rate never varied, those with the same number of episodes together."""
    for n in np.unique(pooled.with_demand[c][pooled.still[c]]):
        alike = np.flatnonzero(pooled.still[c] & (pooled.with_demand[c] == n))
        unseen = pooled.unseen[c][alike].max()
        yield (
            f"{totals.criteria[c]}, group {', '.join(totals.groups[g] for g in alike)}: the rate was the same in all "
            f"{n} episodes with demand. Up to {100 * unseen:.2g} % of episodes could differ without any having been "
            "seen; the intervals allow for that."
        )


def _sparse(totals: EpisodeTotals, pooled: Pooled, c: int) -> Iterator[str]:
    """Groups that had demand, but in one episode only."""
    sparse = [totals.groups[g] for g in np.flatnonzero(~pooled.compared[c] & (pooled.with_demand[c] > 0))]
    if sparse:
        yield (
            f"{totals.criteria[c]}, group {', '.join(sparse)}: left out of bias and impact ratio, having demand in one "
            "episode only. No limit can be confirmed without it."
        )
