"""The best policy within a limit on the bias: a certified search over the lowest rate.

    maximise R   subject to   rho_k D_kg <= S_kg <= (rho_k + delta) D_kg   for all k, g,   over policies and rho.

For a fixed rho this is linear in the occupancy. Over rho it need not be concave, so we branch and bound. For prices
low, high >= 0 the Lagrangian

    L(rho) = max over policies of  R + sum_kg low_kg (S_kg - rho_k D_kg) + high_kg ((rho_k + delta) D_kg - S_kg)

bounds what any policy within the limit reaches at rho. It is a maximum of functions that are linear in rho, so it is
convex, and over a box of rho it is largest at a corner. The least such bound over all prices is a linear program too:
mix policies of all corners. Boxes whose bound is below what a known policy reaches are done with.
"""

import heapq
import itertools
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from elbert.checks import as_number
from elbert.errors import ElbertError, InvalidInputError
from elbert.exact.finite import Array, Totals

FEASIBILITY = 1e-6
"""By how much a policy's bias may exceed the limit: the room that linear programs leave."""
NARROWEST = 1e-8
"""Boxes narrower than this are not divided: rates so close cannot be told apart."""
MOST_BOXES = 4000


class NotWithinLimitError(InvalidInputError):
    """No policy keeps the bias within the limit."""


class Relaxed(NamedTuple):
    """The best mixture of policies for the corners of a box, and what its prices prove."""

    bound: float  # no policy within the limit and with its lowest rates in the box has more reward
    totals: Totals  # of the mixture; a policy's own where the box is a point
    price: float  # reward per unit of bias, at these prices
    policy: Any  # how to make it


class Program(Protocol):
    """Something whose policies' totals form a convex set that can be optimised over."""

    def free(self) -> Relaxed:
        """The most reward without a limit."""
        ...

    def relaxed(self, corners: Array, delta: float) -> Relaxed | None:
        """The best mixture over corners of rho [corners, criteria]; None if there is none."""
        ...

    def highest_rates(self) -> Array:
        """What the lowest rate of each criterion can be at most.   [criteria]"""
        ...


@dataclass(frozen=True)
class Best:
    """The best policy within a limit on the bias, and the proof that no other is much better."""

    delta: float
    reward: float  # of the policy, total of an episode
    bound: float  # no policy within the limit has more reward
    bias: float  # of the policy; above delta by at most FEASIBILITY
    rates: Array  # [criteria, groups]; NaN for a group without demand under this policy
    price: float  # reward that one more unit of bias would allow, at the margin
    totals: Totals
    policy: Any
    boxes: int  # how many were examined

    @property
    def gap(self) -> float:
        """bound - reward, never negative: how much better another policy could be."""
        return max(0.0, self.bound - self.reward)


def best_within(program: Program, delta: float, *, tolerance: float = 1e-6) -> Best:
    """max R subject to bias <= delta, to within `tolerance` of the size of the largest reward.

    Args:
        program: the policies to choose from.
        delta: limit on the bias; infinity for none.
        tolerance: the search ends where bound - reward is at most this times max(1, |largest reward|).
    """
    as_number(delta, "delta", "a limit on the bias, 0 or more", low=0.0)
    as_number(tolerance, "tolerance", "a number above 0", low=float(np.nextafter(0, 1)))
    free = program.free()
    if free.totals.bias <= delta:
        return _best(delta, free, free.bound, 0.0, 0)
    found = _search(program, delta, tolerance * max(1.0, abs(free.totals.reward)))
    if found is None:
        low, high = delta, free.totals.bias
        while high - low > 1e-2 * high:
            middle = (low + high) / 2
            low, high = (low, middle) if _any_within(program, middle) else (middle, high)
        raise NotWithinLimitError(
            f"No policy keeps the bias within {delta:g}. The smallest possible is about {high:.3g}; without a limit "
            f"the best policy has {free.totals.bias:.4g}. Give a larger limit."
        )
    return found


def _any_within(program: Program, delta: float) -> bool:
    """Whether a policy within the limit is found soon; only to tell people about how small a limit can be."""
    try:
        return _search(program, delta, np.inf, most=24) is not None
    except ElbertError:
        return False


def _search(program: Program, delta: float, room: float, *, most: int = MOST_BOXES) -> Best | None:
    """Branch and bound until no box can hold a policy that is better by more than `room`; None without any policy."""
    highest = program.highest_rates()
    found: Relaxed | None = None
    price, count = 0.0, itertools.count()
    boxes: list[tuple[float, int, Array, Array, Relaxed]] = []
    proven = -np.inf

    def consider(low: Array, high: Array) -> None:
        relaxed = program.relaxed(_corners(low, high), delta)
        number = next(count)
        if number > most:
            raise ElbertError(
                f"The search for the best policy with a bias of at most {delta:g} did not end within {most} "
                "boxes. Allow a larger tolerance."
            )
        if relaxed is not None and (found is None or relaxed.bound > found.totals.reward):
            heapq.heappush(boxes, (-relaxed.bound, number, low, high, relaxed))

    consider(np.zeros_like(highest), highest)
    while boxes:
        minus, _, low, high, relaxed = heapq.heappop(boxes)
        rho = np.clip(np.nanmin(relaxed.totals.rates, axis=-1, initial=np.inf), low, high)
        if found is None or -minus > found.totals.reward + room:
            for tried in (relaxed, program.relaxed(rho[None], delta)):
                if tried is None or tried.totals.bias > delta + FEASIBILITY:
                    continue
                if found is None or tried.totals.reward > found.totals.reward:
                    found, price = tried, relaxed.price
        if found is not None and -minus <= found.totals.reward + room:
            proven, price = max(proven, -minus), relaxed.price
            break
        # divide along the criterion in which the mixture exceeds the limit most: there the box is too wide
        width = high - low
        along = int(np.argmax(np.where(width > NARROWEST, relaxed.totals.spreads - delta, -np.inf)))
        if width[along] <= NARROWEST:
            proven = max(proven, -minus)
            continue
        cut = float(np.clip(rho[along], low[along] + 0.1 * width[along], high[along] - 0.1 * width[along]))
        left, right = high.copy(), low.copy()
        left[along] = right[along] = cut
        consider(low, left)
        consider(right, high)
    return None if found is None else _best(delta, found, max(proven, found.totals.reward), price, next(count))


def _best(delta: float, found: Relaxed, bound: float, price: float, boxes: int) -> Best:
    totals = found.totals
    return Best(delta, totals.reward, bound, totals.bias, totals.rates, price, totals, found.policy, boxes)


def _corners(low: Array, high: Array) -> Array:
    """[criteria], [criteria] -> [2**criteria, criteria]"""
    return np.array(list(itertools.product(*zip(low, high, strict=True))))
