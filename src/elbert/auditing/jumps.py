"""Stretches of time in which a log is unlike itself: a change of who is in it, of what is known, or of what is decided.

For every stretch of periods, the mean inside is compared with the mean outside. The scatter is that of the periods
around both means, and at least that of chance. The stretch that stands out most is named if it would be rarer than 1 in
1000 among all stretches, and the difference is large enough to matter.
"""

import numpy as np
from scipy.special import stdtr

from elbert.auditing.results import Jump
from elbert.fairness.episode_totals import Floats
from elbert.fairness.rates import ratio

FEWEST_PERIODS = 6
RARE = 1e-3
LARGE_SHARE, LARGE_FACTOR = 0.1, 2.0
"""A share must differ by the one, a number of rows by the other factor."""


def share_jump(what: str, count: Floats, number: Floats, periods: tuple[str, ...]) -> Jump | None:
    """The stretch in which the share count / number differs most, if it does.   [periods]"""
    used = number > 0
    share = ratio(count, number, otherwise=0.0)
    mean = float(count.sum() / max(number.sum(), 1.0))
    least = mean * (1 - mean)
    place = _stretch(share[used], number[used], least)
    return _jump(what, place, share[used], number[used], np.asarray(periods)[used], LARGE_SHARE)


def rows_jump(rows: Floats, periods: tuple[str, ...]) -> Jump | None:
    """The stretch with far more or fewer rows; the first and the last period may be cut short and do not count."""
    if len(rows) < FEWEST_PERIODS + 2:
        return None
    inner = np.maximum(rows[1:-1], 0.5)
    logs, weights = np.log(inner), np.ones_like(inner)
    place = _stretch(logs, weights, float(np.mean(1 / inner)))
    jump = _jump("rows per period", place, logs, weights, np.asarray(periods)[1:-1], float(np.log(LARGE_FACTOR)))
    if jump is None:
        return None
    return Jump(jump.what, jump.first, jump.last, float(np.exp(jump.inside)), float(np.exp(jump.outside)))


def _jump(
    what: str, place: tuple[int, int] | None, values: Floats, weights: Floats, names: np.ndarray, large: float
) -> Jump | None:
    if place is None:
        return None
    inside = np.zeros(len(values), bool)
    inside[slice(*place)] = True
    within, outside = (float(np.average(values[mask], weights=weights[mask])) for mask in (inside, ~inside))
    if abs(within - outside) < large:
        return None
    return Jump(what, str(names[place[0]]), str(names[place[1] - 1]), within, outside)


def _stretch(values: Floats, weights: Floats, least: float) -> tuple[int, int] | None:
    """The stretch [first, last) whose mean differs most from that of the others, if it stands out.   [periods]"""
    n = len(values)
    if n < FEWEST_PERIODS:
        return None
    w, wx, wxx = (np.concatenate([[0.0], np.cumsum(each)]) for each in (weights, weights * values, weights * values**2))
    first, last = np.triu_indices(n + 1, k=1)
    part = (last - first <= n // 2) | ((first == 0) ^ (last == n))  # a short stretch, or one side of a change
    first, last = first[part], last[part]
    inside, sum_in = w[last] - w[first], wx[last] - wx[first]
    outside, sum_out = w[-1] - inside, wx[-1] - sum_in
    difference = sum_in / inside - sum_out / outside
    scatter = np.maximum(wxx[-1] - sum_in**2 / inside - sum_out**2 / outside, 0.0) / (n - 2)
    t = np.abs(difference) / np.sqrt(np.maximum(scatter, least) * (1 / inside + 1 / outside) + 1e-300)
    best = int(np.argmax(t))
    if 2 * stdtr(n - 2, -t[best]) * len(t) > RARE:
        return None
    begin, end = int(first[best]), int(last[best])
    if inside[best] > outside[best] and (begin == 0 or end == n):  # a change: its shorter side is the one to look at
        begin, end = (end, n) if begin == 0 else (0, begin)
    return begin, end
