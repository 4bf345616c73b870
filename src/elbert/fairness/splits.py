"""Where a difference of two rates comes from: different treatment at the same place, or demand at other places.

A place is whatever the totals are divided by: a period, a site, a department, a stratum of controls. Everything here
takes supply and demand [places, 2] of two groups A and B and gives a number with its slopes by each total. A unit's
totals times the slopes are its influence on the number, from which `clustered_error` finds the standard error.

    Kitagawa: Components of a Difference Between Two Rates, JASA 1955.
    Mantel, Haenszel: Statistical Aspects of the Analysis of Data from Retrospective Studies of Disease, JNCI 1959.
    Greenland, Robins: Estimation of a Common Effect Parameter from Sparse Follow-Up Data, Biometrics 1985.
"""

from typing import NamedTuple

import numpy as np

from elbert.errors import InvalidInputError, NotEstimableError
from elbert.fairness.arrays import ArrayLike, as_pair
from elbert.fairness.episode_totals import Floats
from elbert.fairness.rates import Totals, ratio


class Sloped(NamedTuple):
    """A number that was found from totals, and how it changes with each of them."""

    value: float
    slopes: Totals  # [places, 2] by supply and by demand


class Split(NamedTuple):
    """A difference of two long-term rates, z_A - z_B = treatment + timing, exactly."""

    difference: Sloped  # z_A - z_B
    treatment: Sloped  # sum_t (w_At + w_Bt) / 2 (r_At - r_Bt): different rates at the same place
    timing: Sloped  # sum_t (r_At + r_Bt) / 2 (w_At - w_Bt): demand at other places
    weights: Floats  # [places, 2] share w of each group's demand at each place
    rates: Floats  # [places, 2] r, filled where a group has no demand
    filled: int  # places where one group has no demand and takes the other's rate


def split_difference(supply: ArrayLike, demand: ArrayLike) -> Split:
    """z_A - z_B = sum_t (w_At + w_Bt)/2 (r_At - r_Bt) + sum_t (r_At + r_Bt)/2 (w_At - w_Bt).   [places, 2]

    With the rates r_gt = S_gt / D_gt and the weights w_gt = D_gt / D_g. At a place where one group has no demand it
    takes the other's rate, so that nothing there counts as different treatment. Both parts follow from

        X = sum_t (w_Bt r_At - w_At r_Bt),   treatment = (z_A - z_B + X) / 2,   timing = (z_A - z_B - X) / 2
    """
    given, due = _two_groups(supply, demand)
    total = due.sum(axis=0)
    weights, swapped = due / total, (due / total)[:, ::-1]
    rates = ratio(given, due, otherwise=np.nan)
    absent = due == 0
    filled = np.where(absent, rates[:, ::-1], rates)
    filled = np.where(np.isnan(filled), 0.0, filled)  # nobody has demand: no weight either
    sign = np.array([1.0, -1.0])
    long_term = given.sum(axis=0) / total
    crossed = (swapped * filled).sum(axis=0)  # each group's rates with the other's weights
    difference = Sloped(
        float(sign @ long_term), Totals(np.broadcast_to(sign / total, due.shape), -sign * long_term / total + 0 * due)
    )
    # By the rates, then by the weights: sum_t w_t f_t with w_t = D_t / D has the slope (f_t - sum_t w_t f_t) / D.
    by_rate = sign * swapped
    by_supply = ratio(by_rate, due, otherwise=0.0)
    by_demand = -by_supply * filled - sign * (filled[:, ::-1] - crossed[::-1]) / total
    through = np.where(absent, by_rate, 0.0)[:, ::-1]  # a filled rate is the other group's
    by_supply = by_supply + ratio(through, due, otherwise=0.0)
    by_demand = by_demand - ratio(through * filled, due, otherwise=0.0)
    exchanged = Sloped(float(sign @ crossed), Totals(by_supply, by_demand))
    return Split(
        difference=difference,
        treatment=_mean(difference, exchanged, 1.0),
        timing=_mean(difference, exchanged, -1.0),
        weights=weights,
        rates=filled,
        filled=int((absent[:, 0] != absent[:, 1]).sum()),
    )


def pooled_difference(supply: ArrayLike, demand: ArrayLike) -> Sloped:
    """sum_s W_s (r_As - r_Bs) / sum_s W_s with W = D_A D_B / (D_A + D_B): Mantel and Haenszel's.   [strata, 2]"""
    given, due = _two_groups(supply, demand)
    (s_a, s_b), (d_a, d_b) = given.T, due.T
    n = d_a + d_b
    crossed = ratio(s_a * d_b - s_b * d_a, n, otherwise=0.0)
    weight = ratio(d_a * d_b, n, otherwise=0.0)
    if not weight.sum() > 0:
        raise NotEstimableError("In no stratum do both groups have demand, so nothing can be compared within strata.")
    value = crossed.sum() / weight.sum()
    by_supply = np.stack([ratio(d_b, n, otherwise=0.0), -ratio(d_a, n, otherwise=0.0)], axis=1)
    by_demand = np.stack(
        [
            ratio(-s_b, n, otherwise=0.0)
            - ratio(crossed, n, otherwise=0.0)
            - value * ratio(d_b, n, otherwise=0.0) ** 2,
            ratio(s_a, n, otherwise=0.0) - ratio(crossed, n, otherwise=0.0) - value * ratio(d_a, n, otherwise=0.0) ** 2,
        ],
        axis=1,
    )
    return Sloped(float(value), Totals(by_supply / weight.sum(), by_demand / weight.sum()))


def pooled_odds_ratio(supply: ArrayLike, demand: ArrayLike) -> float | None:
    """sum_s S_A (D_B - S_B) / n over sum_s S_B (D_A - S_A) / n: Mantel and Haenszel's; None if it is unbounded."""
    given, due = _two_groups(supply, demand)
    (s_a, s_b), (d_a, d_b) = given.T, due.T
    above = ratio(s_a * (d_b - s_b), d_a + d_b, otherwise=0.0).sum()
    below = ratio(s_b * (d_a - s_a), d_a + d_b, otherwise=0.0).sum()
    return float(above / below) if below > 0 else None


def influences(number: Sloped, supply: Floats, demand: Floats) -> Floats:
    """What each unit's totals of each group add to the number, in first order.   [units, places, 2] -> [units, 2]"""
    slopes = number.slopes
    return np.einsum("upg,pg->ug", supply, slopes.supply) + np.einsum("upg,pg->ug", demand, slopes.demand)


def clustered_error(influence: Floats, share: Floats) -> float:
    """sqrt(sum_u (sum_g I_ug / sqrt(1 - w_ug))**2), with w the share of the group's demand in the unit.   [units, 2]

    As in the errors of rates: a unit with a large share draws the estimate towards itself.
    """
    scaled = influence / np.sqrt(np.maximum(1 - share, 1e-12))
    return float(np.sqrt((scaled.sum(axis=-1) ** 2).sum()))


def _mean(difference: Sloped, exchanged: Sloped, sign: float) -> Sloped:
    """(difference +- exchanged) / 2."""
    by_supply, by_demand = (
        (one + sign * other) / 2 for one, other in zip(difference.slopes, exchanged.slopes, strict=True)
    )
    return Sloped((difference.value + sign * exchanged.value) / 2, Totals(by_supply, by_demand))


def _two_groups(supply: ArrayLike, demand: ArrayLike) -> tuple[Floats, Floats]:
    given, due = (np.asarray(values, float) for values in as_pair(supply, demand))
    if given.ndim != 2 or given.shape[1] != 2 or len(given) == 0:
        raise InvalidInputError(f"supply and demand have shape {given.shape}. Give [places, 2]: two groups to compare.")
    if not (due.sum(axis=0) > 0).all():
        raise NotEstimableError("A group has no demand at any place, so there is no difference of rates to split.")
    return given, due
