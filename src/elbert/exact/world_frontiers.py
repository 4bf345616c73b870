"""What is known of the best possible policies, world by world.

A `WorldFrontier` says for one world which points can be computed, whether they are exact, which rules are worth showing
and what to say about the numbers. For a class of worlds that is not listed here,

    register_frontier(Maze, lambda world: WorldFrontier(world, point=..., note="Computed by ..."))

gives `elbert.frontier`, `elbert compare` and the pictures what they need.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache, lru_cache
from typing import Any

import numpy as np
from scipy.optimize import linprog

from elbert.envs import get_entry
from elbert.envs.admission import Admission
from elbert.envs.applicants import Applicants
from elbert.envs.attention import Attention
from elbert.envs.credit import Credit
from elbert.envs.infectious import Infectious
from elbert.envs.lending import Lending
from elbert.envs.patrol import Patrol
from elbert.envs.waiting_list import WaitingList
from elbert.envs.world import World
from elbert.exact.attention_limits import fair_bound, stored_bounds, stored_schedules
from elbert.exact.branch_and_bound import best_within
from elbert.exact.lending import lending_is_exact, lending_program
from elbert.exact.waiting_list import FluidProgram

TOLERANCE = 1e-6
FLUID_TOLERANCE = 1e-3
"""Of the reward: how much larger than necessary a bound of the fluid program may be."""


@dataclass(frozen=True)
class FrontierPoint:
    """The most reward with a bias of at most max_bias."""

    max_bias: float | None  # None: no limit
    reward: float  # per step; an upper bound where the frontier is not exact
    rates: tuple[tuple[float | None, ...], ...] | None = None  # [criteria][groups] of the best policy; None for a bound
    price: float | None = None  # reward per step that one more unit of bias would allow, at the margin
    bound: float = field(kw_only=True)  # per step: no policy within the limit has more
    bias: float | None = None  # of the best policy

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers; with one criterion, `rates` is a plain list."""
        rates = self.rates[0] if self.rates is not None and len(self.rates) == 1 else self.rates
        return asdict(self) | {"rates": rates}


@dataclass(frozen=True, eq=False)
class WorldFrontier:
    """What is known of the best possible policies of one world."""

    world: World
    point: Callable[[float | None], FrontierPoint] | None = None  # from a limit on the bias; None: no bound is known
    exact: bool = False  # whether the points are what a policy reaches in the simulated world, not mere bounds
    note: str = "No bound is known to us here; these are simple rules."
    rules: Callable[[Sequence[float | None]], Sequence[str]] = lambda limits: ()  # names of rules worth showing
    stored: tuple[FrontierPoint, ...] = ()  # points computed beforehand, by rising limit
    parts: int = 10_000  # comparisons round limits up to one over this, so that few are solved


_FRONTIERS: dict[type[World], tuple[Callable[[Any], WorldFrontier], int | None]] = {World: (WorldFrontier, None)}
"""How the frontier of a class of worlds is opened, and the horizon of evaluations where it is not that of training."""


def register_frontier(kind: type[World], opened: Callable[[Any], WorldFrontier], *, horizon: int | None = None) -> None:
    """Say what is known of the best possible in worlds of this class and those derived from it.

    `opened` leads from a world to what is known of it. It should be quick: what takes time belongs into `point`. The
    horizon is that of an evaluation, if it is longer than the world's default.
    """
    _FRONTIERS[kind] = opened, horizon
    _opened.cache_clear()


def open_frontier(env: str, horizon: int | None, parameters: dict[str, Any]) -> WorldFrontier:
    """What is known of a named world; the same object for the same parameters, so that what was solved is kept."""
    _, usual = _known(get_entry(env).world)
    chosen = ({} if usual is None else {"horizon": usual}) | parameters
    chosen |= {} if horizon is None else {"horizon": horizon}
    try:
        return _opened(env, _hashable(chosen))
    except TypeError:  # a parameter that cannot be kept by its value
        return _opened.__wrapped__(env, tuple(chosen.items()))


@lru_cache(maxsize=32)
def _opened(env: str, parameters: tuple[tuple[str, Any], ...]) -> WorldFrontier:
    world = get_entry(env).make(**dict(parameters))
    opened, _ = _known(type(world))
    return opened(world)


def _known(kind: type[World]) -> tuple[Callable[[Any], WorldFrontier], int | None]:
    """The entry of the nearest class that has one."""
    return next(_FRONTIERS[base] for base in kind.__mro__ if base in _FRONTIERS)


def _hashable(value: Any) -> Any:
    if isinstance(value, dict):
        return tuple(sorted((key, _hashable(entry)) for key, entry in value.items()))
    return tuple(_hashable(entry) for entry in value) if isinstance(value, list | tuple) else value


def _lending(world: Applicants, rules: Sequence[str]) -> WorldFrontier:
    steps, exact = int(world.horizon), lending_is_exact(world)
    program = cache(lambda: lending_program(world))  # built when the first point is asked for

    @cache
    def point(max_bias: float | None) -> FrontierPoint:
        best = best_within(program(), np.inf if max_bias is None else max_bias, tolerance=TOLERANCE)
        return FrontierPoint(
            max_bias=max_bias,
            reward=best.reward / steps,
            rates=tuple(tuple(None if np.isnan(z) else float(z) for z in row) for row in best.rates),
            price=best.price / steps,
            bound=best.bound / steps,
            bias=best.bias,
        )

    note = (
        "Expected values in the simulated world. No policy has more reward at the same bias, except by the luck of the "
        "episodes that it was evaluated on."
        if exact
        else "Values of the population equations, which approximate the simulated world here: the shift does not "
        "divide the initial scores, or the bank's cash may not last."
    )
    return WorldFrontier(world, point=point, exact=exact, note=note, rules=lambda limits: rules)


def _attention(world: Attention) -> WorldFrontier:
    steps = int(world.horizon)

    def point(max_bias: float | None) -> FrontierPoint:
        bound = fair_bound(world, np.inf if max_bias is None else float(max_bias))
        value = bound.value / steps
        return FrontierPoint(max_bias, reward=value, bound=value, price=bound.price / steps)

    def rules(limits: Sequence[float | None]) -> list[str]:
        biases = [bias for bias, _ in stored_schedules(world)]
        within = [limit for limit in limits if limit is not None and biases and biases[0] <= limit]
        return [*(f"best-{limit:g}" for limit in within), "best", "index", "proportional"]

    stored = tuple(
        FrontierPoint(None if np.isinf(limit) else limit, reward=value / steps, bound=value / steps)
        for limit, value in stored_bounds(world)
    )
    note = "Upper bounds that no policy within the limit exceeds, and the best rules we know."
    return WorldFrontier(world, point=point, note=note, rules=rules, stored=stored, parts=200)


def _patrol(world: Patrol) -> WorldFrontier:
    """max sum_i p_i * happened_i over shares p of the days, with |p_i - p_j| <= max_bias: p_i is the rate of region i.

    Incidents do not depend on the policy, and a day's are independent of where the patrol is sent that day.
    """
    happened = np.asarray(world.rates + world.reported, float)
    busy = np.flatnonzero(happened > 0)  # the others have no demand, and so no rate
    names = ("urn", "corrected-urn", "uniform", "true-rates")
    if not len(busy):
        return WorldFrontier(world, rules=lambda limits: names)

    def point(max_bias: float | None) -> FrontierPoint:
        one, ones = np.eye(len(busy)), np.ones((len(busy), 1))
        limit = 1.0 if max_bias is None else min(float(max_bias), 1.0)
        best = linprog(  # of (p, lowest rate)
            np.append(-happened[busy], 0.0),
            A_ub=np.block([[-one, ones], [one, -ones]]),
            b_ub=np.repeat([0.0, limit], len(busy)),
            A_eq=np.append(np.ones(len(busy)), 0.0)[None],
            b_eq=[1.0],
        )
        assert best.status == 0, best.message
        share = dict(zip(busy.tolist(), best.x[:-1].tolist(), strict=True))
        return FrontierPoint(
            max_bias=max_bias,
            reward=-best.fun,
            rates=(tuple(share.get(i) for i in range(world.groups)),),
            price=0.0 if limit == 1.0 else -float(best.ineqlin.marginals[len(busy) :].sum()),
            bound=-best.fun,
            bias=float(np.ptp(best.x[:-1])),
        )

    exact = world.action == "region"
    note = (
        "Expected values. No policy has more reward at the same bias, whatever it observes, except by luck."
        if exact
        else "Upper bounds: shares cannot be made as unequal as the best of them, because actions are clipped."
    )
    return WorldFrontier(world, point=point, exact=exact, note=note, rules=lambda limits: names)


def _waiting_list(world: WaitingList) -> WorldFrontier:
    steps = int(world.horizon)
    program = cache(lambda: FluidProgram(world))

    @cache
    def point(max_bias: float | None) -> FrontierPoint:
        best = best_within(program(), np.inf if max_bias is None else max_bias, tolerance=FLUID_TOLERANCE)
        return FrontierPoint(max_bias, reward=best.bound / steps, bound=best.bound / steps, price=best.price / steps)

    note = "Upper bounds that no policy within the limit exceeds, from expected lists and organs, and rules."
    rules = ("identical-first", "identical-only", "longest-list", "most-at-risk", "least-served", "sickest-first")
    return WorldFrontier(world, point=point, note=note, rules=lambda limits: rules, parts=200)


register_frontier(Patrol, _patrol)
_THRESHOLDS = ("thresholds-3-3", "thresholds-2-2", "thresholds-1-1", "thresholds-2-1")
register_frontier(Lending, lambda world: _lending(world, _THRESHOLDS), horizon=10_000)
register_frontier(Credit, lambda world: _lending(world, ("profit", "one-threshold", "equal-opportunity")))
register_frontier(Attention, _attention)
register_frontier(WaitingList, _waiting_list)
register_frontier(Infectious, lambda world: WorldFrontier(world, rules=lambda limits: ("nobody", "exposed", "degree")))
register_frontier(
    Admission, lambda world: WorldFrontier(world, rules=lambda limits: ("naive", "robust", "threshold-0.75"))
)
