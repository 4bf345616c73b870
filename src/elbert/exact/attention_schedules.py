"""Attention: schedules of units, their expected totals, and the best ones that are known within a limit on the bias.

They are rules to compare with; what no policy exceeds is proven in `elbert.exact.attention_limits`.
"""

import numpy as np

from elbert.checks import as_number
from elbert.envs.attention import Attention
from elbert.errors import InvalidInputError
from elbert.exact.attention import Bound, Site, gain_and_cost, sites_of, stored_bound
from elbert.exact.attention_limits import stored_for
from elbert.exact.band import Array, as_written
from elbert.exact.finite import PolicyTotals


def stored_schedules(world: Attention) -> list[tuple[float, Array]]:
    """(bias, schedule [horizon, sites]) by rising bias, which we compute here; none where nothing is stored."""
    stored = stored_for(world, "schedules") or []
    schedules = [np.array([[int(unit, 36) for unit in site] for site in text.split()]).T for text in stored]
    return sorted(((schedule_totals(world, schedule).bias, schedule) for schedule in schedules), key=lambda row: row[0])


def fair_schedule(world: Attention, max_bias: float) -> Array:
    """The best schedule known with an expected bias of at most max_bias.   [horizon, sites]

    Where no schedules are stored, as for another horizon, only the one is known that looks ahead with the stored
    prices of units.
    """
    as_number(max_bias, "max_bias", "a limit on the bias, 0 or more", low=0.0, high=np.inf)
    known = stored_schedules(world)
    if not known:
        ahead = schedule_from(world, stored_bound(world))
        known = [(schedule_totals(world, ahead).bias, ahead)]
    within = [schedule for bias, schedule in known if bias <= max_bias]
    if not within:
        raise InvalidInputError(
            f"No schedule of whole units with a bias of at most {max_bias:g} is known for this world. The least bias "
            f"of those known is {known[0][0]:.2g}. Ask for a larger limit."
        )
    return max(within, key=lambda schedule: schedule_totals(world, schedule).reward)


def schedule_from(world: Attention, bound: Bound, sites: list[Site] | None = None, gains: Array | None = None) -> Array:
    """Whole units per step that look one step ahead with the sites' values at these prices.   -> [horizon, sites]

    u_t = argmax of sum_g [ gain E min(Y, u_g) - cost rate_g + ahead_gt(rate after u_g) ] with sum_g u_g = units, by
    dynamic programming over the sites. `gains` [sites] is what an incident found counts where the sites differ in it.
    """
    sites = sites_of(world) if sites is None else sites
    available = int(world.units)
    gains = np.full(len(sites), gain_and_cost(world)[0]) if gains is None else gains
    places = [site.start for site in sites]
    schedule = np.zeros((int(world.horizon), len(sites)), int)
    choices = np.arange(available + 1)
    for t in range(len(schedule)):
        total = np.full(available + 1, -np.inf)
        total[0] = 0.0
        picks = []
        for site, place, ahead, gain in zip(sites, places, bound.ahead, gains, strict=True):
            after = np.array([ahead[t][_moved(site, place, int(u))] for u in choices])
            worth = gain * site.found[place[0], :, place[1]] + after
            sums = total[None, :] + worth[:, None]  # [units here, units so far]
            table = np.full((available + 1, available + 1), -np.inf)  # [units here, units with this site]
            for u in choices:
                table[u, u:] = sums[u, : available + 1 - u]
            picks.append(table.argmax(axis=0))
            total = table.max(axis=0)
        left = available
        for g in reversed(range(len(sites))):
            schedule[t, g] = picks[g][left]
            left -= schedule[t, g]
            places[g] = _moved(sites[g], places[g], int(schedule[t, g]))
    return schedule


def schedule_totals(world: Attention, schedule: Array) -> PolicyTotals:
    """R, S and D of a schedule of units [horizon, sites], in expectation: nothing is simulated."""
    from scipy.special import gammainc

    rates, fall, growth = (as_written(x) for x in (world.initial_rates, world.fall, world.growth))
    steps = np.arange(1, int(world.units) + 1)[:, None]
    supply, demand = np.zeros((2, len(rates)))
    for units in schedule:
        supply += (gammainc(steps, np.maximum(rates, 1e-300)) * (steps <= units)).sum(axis=0)
        demand += rates
        rates = np.where(units > 0, np.maximum(rates - fall * units, 0.0), rates + growth)
    reward = float(world.reward_found) * supply.sum() - float(world.cost_missed) * (demand - supply).sum()
    return PolicyTotals(float(reward), supply[None], demand[None])


def _moved(site: Site, place: tuple[int, int], units: int) -> tuple[int, int]:
    """Where a rate goes; beyond the last level it is taken as the last (a schedule stays within)."""
    grid, level = place
    if units == 0:
        return grid, min(level + site.jump, site.rates.shape[1] - 1)
    return (grid, level - units) if level >= units else (len(site.rates) - 1, 0)
