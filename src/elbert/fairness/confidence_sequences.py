"""Intervals that hold however often one looks: at every time at once, and whenever one stops.

An interval with 95 % confidence holds at one time that was fixed beforehand. Who looks after every unit and stops when
something shows is wrong far more often. A confidence sequence pays for that with width.

    Waudby-Smith, Arbour, Sinha, Kennedy, Ramdas: Time-uniform central limit theory and asymptotic confidence
        sequences, Annals of Statistics 2024.
    Chugg, Cortes-Gomez, Wilder, Ramdas: Auditing Fairness by Betting, NeurIPS 2023.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import lambertw, logsumexp, ndtri, stdtrit

from elbert.checks import as_number
from elbert.fairness.episode_totals import Floats

BEST_AT = 500.0
"""The number of units at which the sequence is narrowest, unless something else is asked for."""
FEWEST_UNITS = 10.0
"""Before a group's demand weighs as much as this many units, nothing is said: the theory is one of many units."""

GRID = np.linspace(0.0, 1.0, 201)
"""Rates that bets are placed on. An interval is as fine as that, and its ends lie on the safe side."""
STAKES = np.geomspace(0.003, 0.97, 16)
"""Parts of the capital that are bet: the wealth is the mean over all of them, so none has to be chosen."""


def sequence_radius(
    deviation: Floats | float, units: Floats | float, *, level: float, best_at: float = BEST_AT, freedom: Floats | float
) -> Floats:
    """sd sqrt(2 (t rho^2 + 1) / (t^2 rho^2) log(sqrt(t rho^2 + 1) / level)), the half width after t units.

    rho^2 = (-W_{-1}(-level^2 / e) - 1) / t_opt makes it narrowest at t_opt. The deviation is estimated, so the half
    width is stretched as Student's t is next to the normal distribution.

    Args:
        deviation: of one unit's influence.
        units: t.
        level: probability of being wrong at any time.
        best_at: t_opt.
        freedom: degrees of freedom of the deviation.
    """
    as_number(level, "level", "a probability above 0 and below 1", low=1e-12, high=0.5)
    rho = (-float(lambertw(-(level**2) / np.e, -1).real) - 1) / best_at
    t = np.asarray(units, float)
    inner = t * rho + 1
    stretch = stdtrit(freedom, 1 - level / 2) / ndtri(1 - level / 2)
    return np.asarray(deviation * stretch * np.sqrt(2 * inner / (t**2 * rho) * np.log(np.sqrt(inner) / level)))


class Wealth(NamedTuple):
    """Capital of bets against "the rate is at most c" and "the rate is at least c", for every c of the grid.

    Each unit pays 1 + lambda (S - c D) / B for the one, and 1 - lambda (S - c D) / B for the other, with any stake
    lambda below 1 and no unit's demand above B. If the claim is true of every unit, no bet gains on average, and the
    chance that the capital ever reaches 1 / level is at most the level (Ville), without any approximation. If the rate
    changes over time, the bounds follow the rate so far, but nothing is proved.
    """

    above: Floats  # [stakes, grid] logarithm of the capital against "at most c"
    below: Floats  # [stakes, grid]

    @classmethod
    def start(cls) -> "Wealth":
        """Before the first unit."""
        nothing = np.zeros((STAKES.size, GRID.size))
        return cls(nothing, nothing)

    def after(self, supply: Floats, demand: Floats, number: Floats) -> "Wealth":
        """The capital after more units, `number` of which have this supply and demand, in units of B.   [kinds]"""
        gain = supply[:, None] - GRID * demand[:, None]  # [kinds, grid]
        stakes = STAKES[:, None, None]
        return Wealth(
            self.above + (number[:, None] * np.log1p(stakes * gain)).sum(axis=1),
            self.below + (number[:, None] * np.log1p(-stakes * gain)).sum(axis=1),
        )

    def ends(self, level: float) -> tuple[float, float]:
        """The highest c that "at most c" is refuted for, and the lowest that "at least c" is."""
        enough = -np.log(level) + np.log(STAKES.size)
        won, lost = (logsumexp(capital, axis=0) >= enough for capital in (self.above, self.below))
        # The capital against "at most c" falls as c rises, so what lies between two points of the grid is safe.
        return float(GRID[won].max(initial=0.0)), float(GRID[lost].min(initial=1.0))
