"""The best policy within a limit on the bias: a certified search over the lowest rate.

    maximise R   subject to   rho_k D_kg <= S_kg <= (rho_k + max_bias) D_kg   for all k, g,   over policies and rho.

A group without demand (S = D = 0) satisfies its constraints for every rho. For a fixed rho the problem is linear in the
occupancy. Over rho it need not be concave, so we branch and bound. For prices low, high >= 0 the Lagrangian

    L(rho) = max over policies of  R + sum_kg low_kg (S_kg - rho_k D_kg) + high_kg ((rho_k + max_bias) D_kg - S_kg)

bounds what any policy within the limit reaches at rho. There are two bounds for a box of rho:

1. With the same prices everywhere, L is a maximum of functions that are linear in rho. So it is convex, and largest at
   a corner of the box. The least of these bounds over all prices is a linear program: mix policies of all corners.
2. With prices of its own at every corner c, and multilinear ones between them, what a policy adds to L is multilinear
   in rho except for the terms (high - low) rho D. These rise above the values at the corners by at most

       sum_k width_k / 4 * max over policies of  sum_g slope_kg D_kg,   slope = the fall of high - low along axis k.

   The best prices of near corners are close, so the error is of second order in the width of the box. The error of the
   first bound is of first order: around a flat maximum it would need thousands of boxes.

Boxes whose bound is below what a known policy reaches are done with.
"""

import heapq
import itertools
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from elbert.checks import as_number
from elbert.errors import ElbertError, InvalidInputError
from elbert.exact.finite import Array, PolicyTotals

FEASIBILITY = 1e-6
"""By how much a policy's bias may exceed the limit: the room that linear programs leave."""
NARROWEST = 1e-8
"""Boxes narrower than this are not divided: rates as close as this cannot be told apart."""
NARROW = 1 / 16
"""The part of the range of rho below which a box gets the second bound: in wide boxes it is the weaker one."""
MOST_BOXES = 4000
"""Boxes examined at most for the best policy."""
SOME_BOXES = 200
"""Boxes examined per limit, to find out how small a limit can be."""
DOUBLINGS = 30
"""Limits tried to find a policy with a finite bias."""


class NotWithinLimitError(InvalidInputError):
    """No policy keeps the bias within the limit."""


class Relaxed(NamedTuple):
    """The best mixture of policies for the corners of a box, and what its prices prove."""

    bound: float  # no policy within the limit and with its lowest rates in the box has more reward
    totals: PolicyTotals  # of the mixture; a policy's own where the box is a point
    price: float  # reward per unit of bias, at these prices
    prices: Array  # [2, criteria, groups] low and high
    policy: Any  # how to make it


class Program(Protocol):
    """Something whose policies' totals form a convex set that can be optimised over."""

    def free(self) -> Relaxed:
        """The most reward without a limit."""
        ...

    def relaxed(self, corners: Array, max_bias: float) -> Relaxed | None:
        """The best mixture over corners of rho [corners, criteria]; None if there is none."""
        ...

    def highest_rates(self) -> Array:
        """What the lowest rate of each criterion can be at most, among groups with demand.   [criteria]"""
        ...

    def most_demand(self, weights: Array) -> Array:
        """max over policies of sum_kg w_kg D_kg, never below the truth.   [n, criteria, groups] -> [n]"""
        ...


@dataclass(frozen=True)
class Best:
    """The best policy within a limit on the bias, and the proof that no other is much better."""

    max_bias: float
    totals: PolicyTotals  # of the policy; its bias is above max_bias by at most FEASIBILITY
    bound: float  # no policy within the limit has more reward
    price: float  # reward that one more unit of bias would allow, at the margin
    policy: Any
    boxes: int = 0  # how many were examined

    @property
    def reward(self) -> float:
        """The total of an episode."""
        return self.totals.reward

    @property
    def bias(self) -> float:
        """The largest difference of rates."""
        return self.totals.bias

    @property
    def rates(self) -> Array:
        """NaN for a group without demand under this policy.   [criteria, groups]"""
        return self.totals.rates

    @property
    def gap(self) -> float:
        """bound - reward, never negative: how much better another policy could be."""
        return max(0.0, self.bound - self.reward)


def best_within(program: Program, max_bias: float, *, tolerance: float = 1e-6) -> Best:
    """max R subject to bias <= max_bias (infinity for no limit), over the policies of a program.

    The search ends where bound - reward is at most `tolerance` * max(1, |largest reward|).
    """
    as_number(max_bias, "max_bias", "a limit on the bias, 0 or more", low=0.0)
    as_number(tolerance, "tolerance", "a number above 0", low=float(np.nextafter(0, 1)))
    free = program.free()
    if free.totals.bias <= max_bias:
        return Best(max_bias, free.totals, free.bound, price=0.0, policy=free.policy)
    search = _Search(program, max_bias)
    search.run(room=tolerance * max(1.0, abs(free.totals.reward)), most=MOST_BOXES)
    if search.found is None:
        smallest = _smallest_limit(program, max_bias, free.totals.bias)
        raise NotWithinLimitError(
            f"No policy keeps the bias within {max_bias:g}. {smallest}; without a limit the best policy has "
            f"{free.totals.bias:.4g}. Give a larger limit."
        )
    found = search.found
    return Best(max_bias, found.totals, search.proven, search.price, found.policy, boxes=search.examined)


def _smallest_limit(program: Program, low: float, high: float) -> str:
    """How small a limit can be, to 1 %, by bisection: `low` is known to be too small, and a policy has the bias `high`.

    Where the search cannot say whether any policy is within a limit, only what is proven and what is reached are told.
    """
    proven, limit = low, max(1.0, 2 * low)
    for _ in range(DOUBLINGS):
        if high < np.inf:
            break
        # the best policy gives to a group without demand: look for another that does not
        reached = _bias_within(program, limit)
        high, limit = np.inf if reached is None else reached, 2 * limit
    else:
        return "None with a finite bias was found"
    while high - low > 1e-2 * high:
        middle = (low + high) / 2
        reached = _bias_within(program, middle)
        if reached is not None and reached < np.inf:
            high = min(middle, reached)
        else:
            low, proven = middle, proven if reached is None else middle
    if proven == low:
        return f"The smallest possible is about {high:.3g}"
    return f"The smallest possible is above {proven:.3g} and at most {high:.3g}"


def _bias_within(program: Program, max_bias: float) -> float | None:
    """The bias of some policy within the limit; infinite if there surely is none, and None if that is not known."""
    search = _Search(program, max_bias)
    try:
        search.run(room=np.inf, most=SOME_BOXES)
    except SearchTooLongError:
        return None
    return np.inf if search.found is None else search.found.totals.bias


class SearchTooLongError(ElbertError):
    """The search for the best policy did not end within the boxes that it may examine."""


class Box(NamedTuple):
    """Policies whose lowest rates lie between low and high."""

    low: Array  # [criteria]
    high: Array  # [criteria]
    bound: float  # none of them that is within the limit has more reward
    relaxed: Relaxed  # the best mixture over the corners
    tightened: bool  # whether the bound is the better one of two

    @property
    def rho(self) -> Array:
        """The lowest rates of the mixture, where a policy is tried and the box is divided.   [criteria]"""
        return np.clip(np.nanmin(self.relaxed.totals.rates, axis=-1, initial=np.inf), self.low, self.high)


class _Search:
    """Boxes by falling bound, and the best policy that was met."""

    def __init__(self, program: Program, max_bias: float) -> None:
        self.program, self.max_bias = program, max_bias
        self.highest = program.highest_rates()
        self.found: Relaxed | None = None
        self.price, self.proven, self.examined = 0.0, -np.inf, 0
        self._heap: list[tuple[float, int, Box]] = []
        self._order = itertools.count()
        self._points: dict[tuple[float, ...], Relaxed | None] = {}

    def run(self, *, room: float, most: int) -> None:
        """Divide boxes until none can hold a policy that is better than the one found by more than `room`."""
        self._examine(np.zeros_like(self.highest), self.highest, np.inf)
        while self._heap:
            box = heapq.heappop(self._heap)[-1]
            if not self._is_decided(box, room):
                if not box.tightened and (box.high - box.low <= NARROW * self.highest).all():
                    self._push(box._replace(bound=min(box.bound, self._second_bound(box)), tightened=True))
                    continue
                self._try(box.relaxed, box.relaxed.price)
                self._try(self.program.relaxed(box.rho[None], self.max_bias), box.relaxed.price)
            if self._is_decided(box, room):
                # every other box has a smaller bound
                self.proven, self.price = max(self.proven, box.bound), box.relaxed.price
                break
            self._divide(box)
            if self.examined > most:
                raise SearchTooLongError(
                    f"The search for the best policy with a bias of at most {self.max_bias:g} did not end within "
                    f"{most} boxes. Allow a larger tolerance."
                )
        if self.found is not None:
            self.proven = max(self.proven, self.found.totals.reward)

    def _is_decided(self, box: Box, room: float) -> bool:
        return self.found is not None and box.bound <= self.found.totals.reward + room

    def _try(self, relaxed: Relaxed | None, price: float) -> None:
        """Keep a mixture that is within the limit, and so a policy, if it is better than the one found."""
        if relaxed is None or relaxed.totals.bias > self.max_bias + FEASIBILITY:
            return
        if self.found is None or relaxed.totals.reward > self.found.totals.reward:
            self.found, self.price = relaxed, price

    def _examine(self, low: Array, high: Array, bound: float) -> None:
        """A new box, inside one with this bound."""
        self.examined += 1
        relaxed = self.program.relaxed(_corners(low, high), self.max_bias)
        if relaxed is not None:
            self._push(Box(low, high, min(bound, relaxed.bound), relaxed, tightened=False))

    def _push(self, box: Box) -> None:
        if self.found is None or box.bound > self.found.totals.reward:
            heapq.heappush(self._heap, (-box.bound, next(self._order), box))

    def _divide(self, box: Box) -> None:
        """Two boxes, along the criterion in which the mixture exceeds the limit most: there the box is too wide."""
        width = box.high - box.low
        along = int(np.argmax(np.where(width > NARROWEST, box.relaxed.totals.spreads - self.max_bias, -np.inf)))
        if width[along] <= NARROWEST:
            self.proven = max(self.proven, box.bound)
            return
        margin = 0.1 * width[along]
        cut = float(np.clip(box.rho[along], box.low[along] + margin, box.high[along] - margin))
        left, right = box.high.copy(), box.low.copy()
        left[along] = right[along] = cut
        self._examine(box.low, left, box.bound)
        self._examine(right, box.high, box.bound)

    def _second_bound(self, box: Box) -> float:
        """max_c L_c + sum_k width_k / 4 * max over policies of sum_g slope_kg D_kg, prices multilinear between corners.

        Infinite where no policy is within the limit at some corner, which then has no prices. Policies of the corners
        are tried on the way.
        """
        criteria = len(box.low)
        points = [self._point(corner) for corner in _corners(box.low, box.high)]
        if any(point is None for point in points):
            return np.inf
        known = [point for point in points if point is not None]
        low, high = np.stack([point.prices for point in known], axis=1)  # [corners, criteria, groups] each
        ends = (low - high).reshape(*(2,) * criteria, *low.shape[1:])
        value = max(point.bound for point in known)
        for k, width in enumerate(box.high - box.low):
            slopes = np.zeros((2 ** (criteria - 1), *low.shape[1:]))
            slopes[:, k] = np.diff(ends, axis=k).reshape(slopes.shape)[:, k]
            value += width / 4 * max(0.0, float(self.program.most_demand(slopes).max()))
        return value

    def _point(self, rho: Array) -> Relaxed | None:
        """The best policy with these lowest rates; neighbouring boxes share their corners."""
        key = tuple(rho.tolist())
        if key not in self._points:
            self._points[key] = point = self.program.relaxed(rho[None], self.max_bias)
            if point is not None:
                self._try(point, point.price)
        return self._points[key]


def _corners(low: Array, high: Array) -> Array:
    """[criteria], [criteria] -> [2**criteria, criteria], the last criterion's ends alternating."""
    return np.array(list(itertools.product(*zip(low, high, strict=True))))
