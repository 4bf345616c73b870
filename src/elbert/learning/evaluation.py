"""What a policy does in fresh episodes: reward and long-term benefits, with their uncertainty."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from elbert.checks import as_whole
from elbert.envs.world import World
from elbert.errors import InvalidInputError, NotEstimableError
from elbert.fairness.benefit_report import BenefitReport, CriterionBenefit, benefit_report
from elbert.fairness.bias_inference import BiasTest
from elbert.fairness.rate_intervals import MeanEstimate, mean_interval
from elbert.learning.host import HostCopies
from elbert.learning.networks import Model, Moments, Weights
from elbert.learning.rollout import Copies, start

AT_ONCE = 1024
"""Episodes that are simulated side by side."""


class Episodes(NamedTuple):
    """Sums over each episode."""

    reward: np.ndarray[Any, Any]  # [episodes]
    length: np.ndarray[Any, Any]  # [episodes] steps
    supply: np.ndarray[Any, Any]  # [episodes, criteria, groups]
    demand: np.ndarray[Any, Any]  # [episodes, criteria, groups]


@dataclass(frozen=True)
class Evaluation:
    """Reward and benefits of a policy over whole episodes. `print(evaluation)`, `to_dict()` for programs."""

    env: str
    method: str
    episodes: int
    horizon: int  # the longest episode
    reward: MeanEstimate  # per step
    steps: float  # mean per episode
    report: BenefitReport
    extra_demand: float
    deterministic: bool
    train_seconds: float | None
    limit: BiasTest | None = None  # of the limit that the policy was trained for
    price: float | None = None  # reward per step that a limit higher by 0.01 would be worth, as training saw it

    @property
    def criterion(self) -> CriterionBenefit:
        """The criterion under which the bias is largest."""
        return max(self.report.criteria, key=lambda part: -1.0 if part.bias.estimate is None else part.bias.estimate)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers; supply and demand per step; null where something is not estimable."""
        part = self.criterion
        return {
            "env": self.env,
            "method": self.method,
            "episodes": self.episodes,
            "horizon": self.horizon,
            "reward": {"mean": self.reward.mean, "ci": _pair(self.reward.low, self.reward.high)},
            "bias": _bias(part),
            "groups": self._groups(part),
            "criterion": part.criterion,
            "criteria": [
                {"criterion": one.criterion, "bias": _bias(one), "groups": self._groups(one)}
                for one in self.report.criteria
            ],
            "extra_demand": self.extra_demand,
            "deterministic": self.deterministic,
            "not_estimable": [str(entry) for entry in self.report.not_estimable],
            "train_seconds": self.train_seconds,
            "limit": None
            if self.limit is None
            else {
                "max_bias": self.limit.max_bias,
                "verdict": self.limit.verdict,
                "p_refute": self.limit.p_refute,
                "p_confirm": self.limit.p_confirm,
                "left_out": list(self.limit.left_out),
                "price": self.price,
            },
        }

    def __str__(self) -> str:
        """The reward, then the report's table."""
        interval = "" if self.reward.low is None else f"   ({self.reward.low:.4f} .. {self.reward.high:.4f})"
        limit = "" if self.limit is None else f"\n{self.limit}"
        if self.price is not None:
            limit += f"\n0.01 more would be worth {self.price:.2g} reward per step"
        return f"reward per step {self.reward.mean:.4f}{interval}\n\n{self.report}{limit}"

    def _groups(self, part: CriterionBenefit) -> list[dict[str, Any]]:
        return [
            {
                "group": row.group,
                "rate": row.rate,
                "ci": _pair(row.low, row.high),
                "supply": row.supply / self.steps,
                "demand": (row.demand - self.extra_demand) / self.steps,
            }
            for row in part.groups
        ]


def judged(
    sums: Episodes,
    *,
    env: str,
    method: str,
    criteria: tuple[str, ...],
    extra_demand: float = 0.0,
    deterministic: bool = False,
    train_seconds: float | None = None,
    confidence: float = 0.95,
    max_bias: float | None = None,
    price: float | None = None,
    length: float | None = None,
) -> Evaluation:
    """The statistics of the fairness room on these episodes.

    The reward per step is sum_e R_e / sum_e L_e; its interval comes from the residuals (R_e - r L_e) / mean(L).
    `max_bias` is the limit to be tested; `price`, the reward of an episode per unit of bias, comes from training, where
    episodes had the `length` given (if none, the same as here).
    `extra_demand` is added to every group's demand in every episode, as the published evaluation does.
    """
    mean = float(sums.reward.sum() / sums.length.sum())
    reward = MeanEstimate(mean, None, None)
    if len(sums.reward) > 1:
        around = mean_interval(mean + (sums.reward - mean * sums.length) / sums.length.mean(), confidence=confidence)
        reward = MeanEstimate(mean, around.low, around.high)
    report = benefit_report(sums.supply, sums.demand + extra_demand, criteria=criteria, confidence=confidence)
    return Evaluation(
        env,
        method,
        len(sums.reward),
        int(sums.length.max()),
        reward,
        float(sums.length.mean()),
        report,
        extra_demand,
        deterministic,
        train_seconds,
        None if max_bias is None else _tested(report, max_bias),
        None if price is None else price * 0.01 / (float(sums.length.mean()) if length is None else length),
    )


def _tested(report: BenefitReport, limit: float) -> BiasTest:
    """The test of "bias <= limit"; where too little is known for it, it says so."""
    try:
        return report.test(limit)
    except NotEstimableError:
        return BiasTest(max_bias=limit, verdict="not estimable")


def simulate(
    world: World,
    model: Model,
    weights: Weights,
    moments: Moments,
    *,
    episodes: int,
    seed: int = 0,
    deterministic: bool = False,
    tick: Callable[[int], None] | None = None,
) -> Episodes:
    """So many whole episodes of a compiled world, `AT_ONCE` of them side by side; `tick` is told how many are done."""
    return in_chunks(
        lambda key, size: _episodes(world, model, weights, moments, key, size, deterministic),
        episodes=episodes,
        seed=seed,
        tick=tick,
    )


def in_chunks(
    play: Callable[[jax.Array, int], Episodes],
    *,
    episodes: int,
    seed: int,
    tick: Callable[[int], None] | None = None,
) -> Episodes:
    """So many episodes from a function that plays a number of them from a key, `AT_ONCE` of them side by side."""
    chunks = -(-episodes // AT_ONCE)
    size = -(-episodes // chunks)
    parts = []
    for i in range(chunks):
        key = jax.random.fold_in(jax.random.key(seed), i)
        parts.append(jax.tree.map(np.asarray, play(key, size)))
        if tick is not None:
            tick(min(episodes, size * (i + 1)))
    return Episodes(*(np.concatenate(part)[:episodes].astype(float) for part in zip(*parts, strict=True)))


@partial(jax.jit, static_argnums=(1, 5, 6))
def _episodes(
    world: World, model: Model, weights: Weights, moments: Moments, key: jax.Array, count: int, deterministic: bool
) -> Episodes:
    def act(key: jax.Array, copies: Copies) -> jax.Array:
        flat = copies.observations.reshape(count, -1)
        numbers = model.policy(weights, model.normalised(moments, flat))
        if deterministic:
            action = model.distribution.mode(numbers)
        else:
            action = model.distribution.sample(numbers, model.distribution.noise(key, (count,)))
        return model.distribution.to_env(action)

    return played(world, act, key, count)


def played(world: World, act: Callable[[jax.Array, Copies], Any], key: jax.Array, count: int) -> Episodes:
    """Sums over `count` whole episodes side by side, for a function from (key, copies) to actions. Can be jitted."""
    key_start, key_course = jax.random.split(key)
    copies = start(world, key_start, count)
    none = jnp.zeros((count, len(world.benefit.criteria), world.groups), jnp.float32)
    zero = jnp.zeros(count, jnp.float32)

    def going(carry: Any) -> jax.Array:
        return carry[2].any()

    def step(carry: Any) -> Any:
        copies, sums, alive, time = carry
        key_noise, key_steps = jax.random.split(jax.random.fold_in(key_course, time))
        keys = jax.random.split(key_steps, count)
        states, shown = jax.vmap(world.step)(keys, copies.states, act(key_noise, copies))
        now = Episodes(shown.reward, jnp.ones(count), shown.supply, shown.demand)  # pyright: ignore[reportArgumentType]
        part = jax.tree.map(lambda x: jnp.where(alive.reshape(-1, *(1,) * (x.ndim - 1)), x, 0.0), now)
        sums = jax.tree.map(jnp.add, sums, part)
        alive = alive & ~(shown.terminated | shown.truncated)
        return type(copies)(states, shown.observation), sums, alive, time + 1

    begin = (copies, Episodes(zero, zero, none, none), jnp.ones(count, bool), jnp.zeros((), jnp.int32))  # pyright: ignore[reportArgumentType]
    return jax.lax.while_loop(going, step, begin)[1]


def simulate_on_host(
    copies: HostCopies,
    weights: Weights,
    moments: Moments,
    *,
    episodes: int,
    seed: int = 0,
    deterministic: bool = False,
    tick: Callable[[int], None] | None = None,
) -> Episodes:
    """So many whole episodes of a user's environment.

    Every copy plays the same number of them, so that short episodes are not preferred.
    """
    copies.restart(seed)
    count = copies.env.num_envs
    rounds = -(-episodes // count)
    shape = (count, rounds, len(copies.shape.criteria), copies.shape.groups)
    reward, length = np.zeros((count, rounds)), np.zeros((count, rounds))
    supply, demand = np.zeros(shape), np.zeros(shape)
    played = np.zeros(count, int)
    key = jax.random.key(seed)
    time = 0
    while (played < rounds).any():
        shown = copies.step(weights, moments, jax.random.fold_in(key, time), deterministic=deterministic)
        time += 1
        rows = np.flatnonzero((played < rounds) & shown.counted)
        at = played[rows]
        reward[rows, at] += shown.reward[rows]
        length[rows, at] += 1
        supply[rows, at] += shown.supply[rows]
        demand[rows, at] += shown.demand[rows]
        over = np.flatnonzero((shown.terminated | shown.truncated) & (played < rounds))
        played[over] += 1
        if tick is not None and over.size:
            tick(min(episodes, int(played.sum())))
    # episode by episode, so that leaving out the surplus leaves out the last round's
    flat = (
        np.swapaxes(x, 0, 1).reshape(count * rounds, *x.shape[2:])[:episodes] for x in (reward, length, supply, demand)
    )
    return Episodes(*flat)


def checked_episodes(episodes: Any) -> int:
    """A number of episodes from which intervals can be had."""
    if isinstance(episodes, bool) or not isinstance(episodes, int | np.integer) or episodes < 1:
        raise InvalidInputError(
            f"episodes is {episodes!r}. Give a whole number of at least 1; intervals need 2 or more."
        )
    return int(episodes)


def checked_seed(seed: Any) -> int:
    """A seed of episodes."""
    need = "a whole number from 0 to 2**31 - 1"
    if as_whole(seed, "seed", need, low=0) >= 2**31:
        raise InvalidInputError(f"The seed is {seed}. Give {need}.")
    return int(seed)


def _bias(part: CriterionBenefit) -> dict[str, Any]:
    bias = part.bias
    return {
        "estimate": bias.estimate,
        "debiased": bias.debiased,
        "ci": _pair(bias.low, bias.high),
        "noise_floor": bias.noise_floor,
    }


def _pair(low: float | None, high: float | None) -> list[float] | None:
    return None if low is None or high is None else [low, high]
