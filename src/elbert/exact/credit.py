"""Credit: thresholds that look at the scores of the start alone, and what a policy does to the groups' mean scores.

w_g m(g, c) is the chance that an applicant is of group g and has score c, and p(g, c) that of repaying. Accepting with
probability a(g, c) has

    profit_g(a) = w_g sum_c m(g, c) a(g, c) (p(g, c) (gain + loss) - loss)
    true positive rate of g = sum_c m(g, c) p(g, c) a(g, c) / sum_c m(g, c) p(g, c)
"""

import numpy as np

from elbert.envs.applicants import Applicants
from elbert.exact.finite import Array, as_written
from elbert.exact.lending import lending_groups
from elbert.fairness.arrays import ArrayLike


def profitable(world: Applicants) -> Array:
    """a = 1 where p >= loss / (gain + loss): the most profit now, and one threshold per group.   [groups, scores]"""
    tables = world.population()
    return (as_written(tables.repayment) * (tables.gain + tables.loss) >= tables.loss).astype(float)


def best_shared_threshold(world: Applicants) -> Array:
    """a = 1 from one threshold on, the same for all groups and with the most profit.   [groups, scores]"""
    gains = _profits(world).sum(axis=0)
    above = np.append(np.cumsum(gains[::-1])[::-1], 0.0)  # profit from each score on; the last: nobody
    return np.broadcast_to(np.arange(world.scores) >= np.argmax(above), (world.groups, world.scores)).astype(float)


def equal_opportunity_thresholds(world: Applicants) -> Array:
    """Thresholds with the same true positive rate and the most profit: at a threshold, a part.   [groups, scores]

    For a true positive rate r, group g accepts its highest scores until they hold the part r of those who would repay.
    Profit is linear in r between the rates at which some group comes to its next score, so one of these is best.
    """
    tables = world.population()
    weights = as_written(tables.start) * as_written(tables.repayment)
    weights = weights / weights.sum(axis=1, keepdims=True)
    above = np.cumsum(weights[:, ::-1], axis=1)[:, ::-1] - weights  # of those who would repay, who has more points

    def acceptance(rate: float) -> Array:
        return np.where(weights > 0, np.clip((rate - above) / np.where(weights > 0, weights, 1.0), 0, 1), above < rate)

    gains = _profits(world)
    rates = np.unique(np.concatenate([[0.0], np.minimum((above + weights).ravel(), 1.0)]))
    return acceptance(max(rates, key=lambda rate: float((gains * acceptance(rate)).sum())))


def expected_mean_scores(world: Applicants, acceptance: ArrayLike, steps: int | None = None) -> Array:
    """sum_c m_t(g, c) points(c) after t steps, those of an episode by default: the groups' welfare.   [groups]

    `acceptance` holds the probabilities of acceptance, [groups, scores].
    """
    points, count = world.population().points, int(world.horizon) if steps is None else steps
    means = []
    for part, chances in zip(lending_groups(world), np.asarray(acceptance, float), strict=True):
        stays, moves = part.transition[:, 0], part.transition[:, 1]
        chain = stays + chances[:, None] * (moves - stays)
        means.append(part.start @ np.linalg.matrix_power(chain, count) @ points)
    return np.array(means)


def _profits(world: Applicants) -> Array:
    """w_g m(g, c) (p(g, c) (gain + loss) - loss)   [groups, scores]"""
    tables = world.population()
    earned = as_written(tables.repayment) * (tables.gain + tables.loss) - tables.loss
    return as_written(world.group_shares)[:, None] * as_written(tables.start) * earned
