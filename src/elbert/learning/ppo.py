"""Proximal policy optimisation with a value for every signal: from a rollout to better weights.

An iteration is one pure function of the training state:

    rollout -> values -> GAE of all signals, eta -> one advantage (the method) -> epochs of minibatches

`Learner.update` is the part behind the rollout; compiled worlds run it in the same compiled function as the rollout,
users' environments hand it a rollout made on the host.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from elbert.errors import InvalidInputError
from elbert.fairness.penalties import Penalty
from elbert.learning import multiplier
from elbert.learning.advantages import Coefficients, Method, penalty_of
from elbert.learning.distributions import Distribution
from elbert.learning.estimates import (
    Estimates,
    Rollout,
    Running,
    Window,
    advantages,
    episode_totals,
    eta_of,
    moved_window,
    signals_of,
    split_signals,
)
from elbert.learning.metrics import Estimated, Losses, Metrics, metrics_of
from elbert.learning.multiplier import Dual
from elbert.learning.networks import Model, Moments, Scale, Weights
from elbert.learning.settings import Settings

SCALE_MEMORY = 0.9
"""How much of the signals' scale an iteration keeps from those before it."""

PRICE_MEMORY = 0.95
"""How much of the price of a limit an iteration keeps from those before it."""

AVERAGED, AVERAGED_LEAST = 0.03, 3.0
"""Over this part of the iterations, and over so many at least, the policy that is kept under a limit is averaged."""

SHUFFLED = 2**15
"""Rollouts with more samples than this are shuffled in blocks."""


class TrainState(NamedTuple):
    """Everything that training carries from one iteration to the next."""

    weights: Weights
    optimiser: Any
    moments: Moments  # of the observations, as the weights were last trained with
    gathered: Moments  # of all observations so far: what the next iteration uses
    scale: Scale  # of the signals' values
    running: Running  # episodes under way
    window: Window  # whole episodes
    dual: Dual  # multipliers of a limit on the bias
    average: Weights | None  # of the latest iterations, where there is such a limit: the policy that is kept
    worlds: Any  # states and observations of the copies; None if they live on the host
    key: jax.Array
    iteration: jax.Array  # []


class Learner:
    """The pure functions of training, for one shape of problem."""

    def __init__(
        self,
        settings: Settings,
        method: Method,
        distribution: Distribution,
        *,
        observation: int,
        criteria: int,
        groups: int,
        penalty: Penalty | None = None,
    ) -> None:
        """The learner of a problem with so many numbers observed, criteria and groups."""
        self.settings, self.method, self.penalty = settings, method, penalty
        self.criteria, self.groups = criteria, groups
        self.model = Model(settings, observation, 1 + 2 * criteria * groups, distribution)
        updates = settings.iterations * settings.epochs * self.minibatches
        rate = optax.linear_schedule(settings.learning_rate, 0.0, updates)
        self.optimiser = optax.chain(
            optax.clip_by_global_norm(settings.gradient_clip),
            optax.adam(settings.learning_rate if settings.anneal == "none" else rate, eps=settings.adam_epsilon),
        )

    @property
    def minibatches(self) -> int:
        """Gradient steps per epoch. Samples that do not fill one more are left out, others in every epoch."""
        return max(1, self.settings.batch // self.settings.minibatch)

    @property
    def block(self) -> int:
        """How many samples stay together when a rollout is shuffled: copies side by side at one time, independent.

        One, unless a rollout is so large that sorting random numbers for it would cost more than learning from it.
        """
        s, block = self.settings, 1
        while s.batch // block > SHUFFLED and s.copies % (2 * block) == 0 and s.minibatch % (2 * block) == 0:
            block *= 2
        return block

    def coefficients(self, settings: Settings | None = None) -> Coefficients:
        """The weights of reward against fairness as arrays."""
        s = self.settings if settings is None else settings
        weight = s.demand_weight or (0.0,) * self.groups
        if len(weight) not in (self.groups, self.criteria * self.groups):
            raise InvalidInputError(
                f"demand_weight has {len(weight)} numbers. Give one for each of the {self.groups} groups"
                + (f", or {self.criteria} x {self.groups} for every criterion's." if self.criteria > 1 else ".")
            )
        rows = jnp.asarray(weight, jnp.float32).reshape(-1, self.groups)
        limit = 1.0 if s.max_bias is None else s.max_bias
        given = (s.alpha, s.beta, s.zeta, s.omega, s.beta_1, s.beta_2, limit)
        numbers = (jnp.asarray(x, jnp.float32) for x in given)
        alpha, beta, *others = numbers
        return Coefficients(alpha, beta, jnp.broadcast_to(rows, (self.criteria, self.groups)), *others)

    def init(self, key: jax.Array, worlds: Any = None) -> TrainState:
        """The state before the first iteration."""
        key_weights, key = jax.random.split(key)
        weights = self.model.init(key_weights)
        size, signals, copies = self.model.observation, self.model.signals, self.settings.copies
        none = jnp.zeros((self.criteria, self.groups), jnp.float32)
        each = jnp.zeros((copies, self.criteria, self.groups), jnp.float32)
        unseen = Moments(jnp.zeros((), jnp.float32), jnp.zeros(size, jnp.float32), jnp.zeros(size, jnp.float32))
        return TrainState(
            weights,
            self.optimiser.init(weights),  # pyright: ignore[reportArgumentType]
            unseen,
            unseen,
            Scale(jnp.zeros(signals, jnp.float32), jnp.ones(signals, jnp.float32)),
            Running(each, each, jnp.ones(copies, jnp.float32)),
            Window(none, none, jnp.zeros((), jnp.float32)),
            multiplier.start(self.criteria, self.groups),
            None if self.settings.max_bias is None else weights,
            worlds,
            key,
            jnp.zeros((), jnp.int32),
        )

    def estimate(self, state: TrainState, rollout: Rollout, coefficients: Coefficients) -> Estimated:
        """Advantages of all signals and episode totals from a rollout, with the critic as it is."""
        s, model = self.settings, self.model
        running, done, deltas = episode_totals(
            rollout,
            state.running,
            discount=s.eta_discount,
            extra_demand=s.extra_demand,
            with_bias=self.method.needs_running_bias,
        )
        window = moved_window(state.window, done, s.copies)
        reward = rollout.reward
        if self.method.reward is not None:
            reward = self.method.reward(reward, deltas[1], coefficients)
        signals = signals_of(reward, rollout.supply, rollout.demand)
        observed, following = (
            model.normalised(state.gathered, part) for part in (rollout.observation, rollout.next_observation)
        )
        values, next_values = (self._values(state, part) for part in (observed, following))
        ended = rollout.terminated | rollout.truncated
        terminal = rollout.terminated if s.bootstrap_at_truncation else ended
        raw = advantages(signals, values, next_values, terminal, ended, gamma=s.gamma, gae_lambda=s.gae_lambda)
        raw = jnp.where(rollout.counted[..., None], raw, 0.0)  # where a copy was only reset there is nothing to learn
        reward, supply, demand = split_signals(raw, self.criteria, self.groups)
        counted = rollout.counted.astype(jnp.float32)
        estimates = Estimates(reward, supply, demand, eta_of(window, running), deltas[0], deltas[1], counted)
        return Estimated(estimates, observed, values, raw + values, running, window, done)

    def update(self, state: TrainState, rollout: Rollout, coefficients: Coefficients) -> tuple[TrainState, Metrics]:
        """Learn from a rollout."""
        s = self.settings
        key, key_epochs = jax.random.split(state.key)
        known = self.estimate(state, rollout, coefficients)
        scale = self._moved_scale(state, known.targets, known.estimates.counted)
        weights = self.model.rescaled(state.weights, state.scale, scale)
        penalty = penalty_of(s, coefficients.beta) if self.penalty is None else self.penalty
        left = 1.0 if s.anneal == "none" else 1.0 - state.iteration / s.iterations
        dual = state.dual if s.max_bias is None else self._controlled(state, known, coefficients, left)
        combine = partial(self._advantage, coefficients=coefficients, penalty=penalty, dual=dual)
        later = s.standardise_over == "minibatch"
        samples = Samples(
            _one_axis(known.observed),
            _one_axis(rollout.action),
            _one_axis(rollout.log_prob),
            _one_axis((known.targets - scale.mean[None, None]) / scale.deviation[None, None]),
            _one_axis(known.estimates.counted),
            self._flat(known.estimates if later else combine(known.estimates)),
        )
        to_advantage = combine if later else lambda advantage: advantage
        weights, optimiser, losses = self._epochs(
            weights, state.optimiser, samples, to_advantage, left * s.entropy_weight, key_epochs
        )
        gathered = state.gathered
        if s.normalise_observations:
            gathered = self._moved_moments(gathered, rollout.observation)
        shown = dual if s.max_bias is not None else dual._replace(bias=jnp.full_like(dual.bias, jnp.nan))
        metrics = metrics_of(rollout, known, losses, weights, shown, coefficients.beta)
        average = self._averaged(state, scale, weights)
        changed = state._replace(
            dual=dual, average=average, weights=weights, optimiser=optimiser, scale=scale, key=key
        )._replace(moments=state.gathered, gathered=gathered)
        return changed._replace(running=known.running, window=known.window, iteration=state.iteration + 1), metrics

    def _averaged(self, state: TrainState, scale: Scale, weights: Weights) -> Weights | None:
        """Weights averaged over about the last AVERAGED of the iterations, older ones fading.

        Under a limit the policy steps to and fro around where it should be; the mean of its weights is nearer to it.
        """
        if state.average is None:
            return None
        keep = 1.0 - 1.0 / max(AVERAGED_LEAST, AVERAGED * self.settings.iterations)
        keep = jnp.where(state.iteration == 0, 0.0, keep)
        average = self.model.rescaled(state.average, state.scale, scale)
        return jax.tree.map(lambda old, new: keep * old + (1 - keep) * new, average, weights)

    def _values(self, state: TrainState, observations: jax.Array) -> jax.Array:
        """Values in the signals' own units. [T, N, observation] -> [T, N, signals]"""
        flat = observations.reshape(-1, observations.shape[-1])
        scaled = self.model.scaled_values(state.weights, flat).reshape(*observations.shape[:-1], -1)
        return scaled * state.scale.deviation[None, None] + state.scale.mean[None, None]

    def _moved_scale(self, state: TrainState, targets: jax.Array, counted: jax.Array) -> Scale:
        """Running mean and deviation of the targets; all of the first iteration's, then a tenth of each."""
        if not self.settings.scale_values:
            return state.scale
        keep = jnp.where(state.iteration == 0, 0.0, SCALE_MEMORY)
        weight = (counted / jnp.maximum(jnp.sum(counted), 1.0))[..., None]
        mean = keep * state.scale.mean + (1 - keep) * jnp.sum(weight * targets, axis=(0, 1))
        old = state.scale.deviation**2 + (state.scale.mean - mean) ** 2
        new = jnp.sum(weight * (targets - mean[None, None]) ** 2, axis=(0, 1))
        return Scale(mean, jnp.maximum(jnp.sqrt(keep * old + (1 - keep) * new), 1e-4))

    @staticmethod
    def _moved_moments(moments: Moments, observations: jax.Array) -> Moments:
        """Mean and squared deviations with the new observations included."""
        new = observations.reshape(-1, observations.shape[-1])
        count = jnp.asarray(new.shape[0], jnp.float32)
        mean = jnp.mean(new, axis=0)
        squares = jnp.sum((new - mean[None]) ** 2, axis=0)
        total = moments.seen + count
        apart = mean - moments.mean
        return Moments(
            total,
            moments.mean + apart * count / total,
            moments.squares + squares + apart**2 * moments.seen * count / total,
        )

    def _controlled(self, state: TrainState, known: Estimated, coefficients: Coefficients, left: Any) -> Dual:
        """The multipliers after this rollout; their prices fade with those of earlier ones."""
        limit = coefficients.max_bias
        pace = min(multiplier.INTEGRAL / self.settings.iterations, multiplier.INTEGRAL_MOST)
        gain = pace * jnp.maximum(left, multiplier.INTEGRAL_LEAST)
        dual = multiplier.controlled(state.dual, known.done, limit=limit, gain=gain, iteration=state.iteration)
        slope = multiplier.slopes(dual, limit)
        least = dual.integral <= multiplier.LEAST  # the limit is not felt
        _, price = multiplier.limited_advantage(known.estimates, slope, jnp.where(least, 0.0, jnp.exp(dual.integral)))
        keep = jnp.where(state.iteration == 0, 0.0, PRICE_MEMORY)
        return dual._replace(price=keep * state.dual.price + (1 - keep) * price)

    def _advantage(self, estimates: Estimates, coefficients: Coefficients, penalty: Penalty, dual: Dual) -> jax.Array:
        """The method's advantage, standardised as the settings say. [...] as `estimates.reward`"""
        counted = estimates.counted
        if self.settings.standardise == "per-signal":
            estimates = estimates._replace(
                **{name: _standardised(getattr(estimates, name), counted) for name in ("reward", "supply", "demand")}
            )
        if self.settings.max_bias is None:
            combined = self.method.advantage(estimates, coefficients, penalty)
        else:
            slope = multiplier.slopes(dual, coefficients.max_bias)
            combined, _ = multiplier.limited_advantage(estimates, slope, dual.mu)
            demanded = jnp.tensordot(estimates.demand, coefficients.demand_weight, ((-2, -1), (0, 1)))
            combined = combined + demanded / multiplier.deviation(estimates.reward[..., None], counted)[0]
        if combined.shape != estimates.reward.shape:
            raise InvalidInputError(
                f"The method {self.method.name} gives an advantage of shape {combined.shape}. Give one number per "
                f"sample, as estimates.reward has: {estimates.reward.shape}."
            )
        # a published A-PPO scales its terms and then standardises their sum
        if self.settings.standardise == "combined" or (
            self.settings.standardise == "per-signal" and self.method.name == "a-ppo"
        ):
            combined = _standardised(combined, counted)
        return combined

    @staticmethod
    def _flat(part: Any) -> Any:
        """Time and copies in one axis; eta has neither and is repeated nowhere."""
        if not isinstance(part, Estimates):
            return _one_axis(part)
        each = ("reward", "supply", "demand", "bias_before", "bias_after", "counted")
        return part._replace(**{name: _one_axis(getattr(part, name)) for name in each})

    def _epochs(
        self,
        weights: Weights,
        optimiser: Any,
        samples: "Samples",
        to_advantage: Any,
        entropy_weight: Any,
        key: jax.Array,
    ) -> tuple[Weights, Any, Losses]:
        """Several passes over the samples in random minibatches."""
        s = self.settings
        used = self.minibatches * min(s.minibatch, s.batch)
        eta = samples.estimates.eta if isinstance(samples.estimates, Estimates) else None
        shuffled_part = samples if eta is None else samples._replace(estimates=samples.estimates._replace(eta=None))

        def epoch(carry: Any, key_epoch: jax.Array) -> tuple[Any, Losses]:
            order = jax.random.permutation(key_epoch, s.batch // self.block)[: used // self.block]
            blocks = jax.tree.map(lambda x: x.reshape(-1, self.block, *x.shape[1:])[order], shuffled_part)
            shuffled = jax.tree.map(lambda x: x.reshape(self.minibatches, -1, *x.shape[2:]), blocks)

            def step(carry: Any, batch: Samples) -> tuple[Any, Losses]:
                weights, optimiser = carry
                if eta is not None:
                    batch = batch._replace(estimates=batch.estimates._replace(eta=eta))
                advantage = to_advantage(batch.estimates)
                slope = jax.value_and_grad(self._loss, has_aux=True)
                (_, losses), gradient = slope(weights, batch, advantage, entropy_weight)
                changes, optimiser = self.optimiser.update(gradient, optimiser, weights)
                losses = losses._replace(gradient_norm=optax.tree.norm(gradient))
                return (optax.apply_updates(weights, changes), optimiser), losses

            return jax.lax.scan(step, carry, shuffled)

        (weights, optimiser), losses = jax.lax.scan(epoch, (weights, optimiser), jax.random.split(key, s.epochs))
        return weights, optimiser, losses

    def _loss(
        self, weights: Weights, batch: "Samples", advantage: jax.Array, entropy_weight: Any
    ) -> tuple[jax.Array, Losses]:
        """-mean min(r A, clip(r) A) + c_v mean_k (V_k - target_k)**2 - c_e entropy, r = pi / pi_old."""
        s, model = self.settings, self.model
        numbers = model.policy(weights, batch.observation)
        log_ratio = model.distribution.log_prob(numbers, batch.action) - batch.log_prob
        ratio = jnp.exp(log_ratio)
        clipped = jnp.clip(ratio, 1 - s.clip, 1 + s.clip)

        def mean(x: jax.Array) -> jax.Array:
            return jnp.sum(x * batch.counted) / jnp.maximum(jnp.sum(batch.counted), 1.0)

        policy = -mean(jnp.minimum(ratio * advantage, clipped * advantage))
        errors = (model.scaled_values(weights, batch.observation) - batch.targets) ** 2
        value = mean(jnp.sum(errors, axis=-1)) if s.critic == "separate" else mean(jnp.mean(errors, axis=-1))
        entropy = mean(model.distribution.entropy(numbers))
        kl = mean((ratio - 1) - log_ratio)
        clip_fraction = mean((jnp.abs(ratio - 1) > s.clip).astype(jnp.float32))
        total = policy + s.value_weight * value - entropy_weight * entropy
        return total, Losses(policy, value, entropy, kl, clip_fraction, jnp.zeros(()))


class Samples(NamedTuple):
    """What a gradient step sees of each step."""

    observation: jax.Array  # [B, observation] normalised
    action: jax.Array  # [B, ...]
    log_prob: jax.Array  # [B]
    targets: jax.Array  # [B, signals] in the signals' scale
    counted: jax.Array  # [B] 1 or 0
    estimates: Any  # [B] one advantage, or `Estimates` to be combined within each minibatch


def _one_axis(x: jax.Array) -> jax.Array:
    """[T, N, ...] -> [T N, ...]"""
    return x.reshape(-1, *x.shape[2:])


def _standardised(x: jax.Array, counted: jax.Array) -> jax.Array:
    """(x - mean) / deviation over the samples that count. [..., signals of any shape], [...] -> as x"""
    axes = tuple(range(counted.ndim))
    weight = (counted / jnp.maximum(jnp.sum(counted), 1.0)).reshape(*counted.shape, *(1,) * (x.ndim - counted.ndim))
    mean = jnp.sum(weight * x, axis=axes, keepdims=True)
    variance = jnp.sum(weight * (x - mean) ** 2, axis=axes, keepdims=True)
    return (x - mean) / (jnp.sqrt(variance) + 1e-8)
