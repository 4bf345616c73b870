"""Proximal policy optimisation with a value for every signal: from a rollout to better weights.

An iteration is one pure function of the training state:

    rollout -> values -> GAE of all signals, eta -> one advantage (the method) -> epochs of minibatches
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from elbert.errors import InvalidInputError
from elbert.fairness.rates import Totals, ratio
from elbert.learning.estimates import Estimated, Estimates, advantages, signals_of, split_signals
from elbert.learning.methods.base import Clock, Compared, Method
from elbert.learning.methods.weighing import standardised
from elbert.learning.metrics import Losses, Metrics, metrics_of
from elbert.learning.networks import Model, Moments, Scale, Shape, Weights
from elbert.learning.rollouts import Rollout, Running, Window, episode_totals, eta_of, moved_window
from elbert.learning.schedules import factors
from elbert.learning.settings import Settings

LARGEST_CHANGE = 1.0  # of a log probability that is believed where the effect of a change is foreseen
SCALE_MEMORY = 0.9  # part of the signals' scale that an iteration keeps from those before it
PACES = (0.01, 30.0)  # between which the actor's steps are shortened or lengthened ...
PACE_CHANGES = (0.5, 1.5)  # ... by no more than this from one iteration to the next


class TrainState(NamedTuple):
    """Everything that training carries from one iteration to the next."""

    weights: Weights
    optimiser: Any
    moments: Moments  # of the observations, as the weights were last trained with
    gathered: Moments  # of all observations so far: what the next iteration uses
    scale: Scale  # of the signals' values
    running: Running  # episodes under way
    window: Window  # whole episodes
    method: Any  # the method's own state
    copies: Any  # where the simulator's copies stand; None if they live elsewhere
    key: jax.Array
    iteration: jax.Array  # []
    pace: jax.Array | None = None  # [] factor on the actor's steps; None unless `divergence` is set


class Samples(NamedTuple):
    """What a gradient step sees of each step. [T, N, ...], then [B, ...]"""

    observation: jax.Array  # [..., observation] normalised
    action: jax.Array
    log_prob: jax.Array
    targets: jax.Array  # [..., signals] in the signals' scale
    counted: jax.Array  # 1 or 0
    weighed: Any  # the advantage, or what it is made of within each minibatch
    numbers: Any  # [..., numbers] of the policy that acted, if the method compares policies by them; else None


@dataclass(frozen=True)
class Learner:
    """The pure functions of training for one shape of problem. Learners that compute the same are equal."""

    settings: Settings
    shape: Shape

    @cached_property
    def model(self) -> Model:
        """The networks."""
        return Model(self.settings, self.shape)

    @cached_property
    def optimiser(self) -> Any:
        """Adam with clipped gradients. A linear schedule moves with each gradient step, others with each iteration."""
        s, steps = self.settings, self.settings.epochs * self.settings.minibatches
        table = factors(s.anneal, s.iterations)

        def by_iteration(count: jax.Array) -> jax.Array:
            return s.learning_rate * jnp.asarray(table)[count // steps]

        falling = optax.linear_schedule(s.learning_rate, 0.0, s.iterations * steps)
        rate = {"none": s.learning_rate, "linear": falling}.get(str(s.anneal), by_iteration)
        return optax.chain(optax.clip_by_global_norm(s.gradient_clip), optax.adam(rate, eps=s.adam_epsilon))

    def init(self, key: jax.Array, method: Method, copies: Any = None) -> TrainState:
        """The state before the first iteration."""
        key_weights, key = jax.random.split(key)
        weights, unseen = self.model.init(key_weights), Moments.unseen(self.model.shape.seen)
        return TrainState(
            weights=weights,
            optimiser=self.optimiser.init(weights),
            moments=unseen,
            gathered=unseen,
            scale=Scale.unit(self.shape.signals),
            running=Running.none(self.settings.copies, *self.shape.benefits),
            window=Window.none(*self.shape.benefits),
            method=method.start(*self.shape.benefits),
            copies=copies,
            key=key,
            iteration=jnp.zeros((), jnp.int32),
            pace=jnp.ones((), jnp.float32) if self.settings.divergence > 0 else None,
        )

    def estimate(self, state: TrainState, rollout: Rollout, method: Method) -> Estimated:
        """Advantages of all signals and episode totals from a rollout, with the critic as it is."""
        s, model = self.settings, self.model
        running, done, (before, after) = episode_totals(
            rollout, state.running, discount=s.eta_discount, running_bias_demand=getattr(method, "extra_demand", None)
        )
        window = moved_window(state.window, done, s.copies)
        observed = model.normalised(state.gathered, rollout.observation)
        following = model.normalised(state.gathered, rollout.next_observation)
        values, next_values = (model.values(state.weights, state.scale, x) for x in (observed, following))
        beyond = s.bootstrap_at_truncation and not model.shape.state  # the state says when the horizon comes
        terminal = rollout.terminated if beyond else rollout.ended
        signals = signals_of(method.reward(rollout.reward, after), rollout.supply, rollout.demand)
        raw = advantages(signals, values, next_values, terminal, rollout.ended, gamma=s.gamma, gae_lambda=s.gae_lambda)
        raw = jnp.where(rollout.counted[..., None], raw, 0.0)  # where a copy was only reset there is nothing to learn
        estimates = Estimates(
            *split_signals(raw, *self.shape.benefits),
            eta=eta_of(window, running),
            bias_before=before,
            bias_after=after,
            counted=rollout.counted.astype(jnp.float32),
        )
        return Estimated(estimates, observed, values, raw + values, running, window, done)

    def update(self, state: TrainState, rollout: Rollout, method: Method) -> tuple[TrainState, Metrics]:
        """Learn from a rollout."""
        s = self.settings
        key, key_epochs = jax.random.split(state.key)
        estimated = self.estimate(state, rollout, method)
        estimates, scale, gathered = estimated.estimates, state.scale, state.gathered
        if s.scale_values:  # by all of the first iteration's targets, then by a tenth of each
            keep = jnp.where(state.iteration == 0, 0.0, SCALE_MEMORY)
            scale = scale.moved(estimated.targets, estimates.counted, keep)
        if s.normalise_observations:
            gathered = gathered.moved(rollout.observation)
        left = 1.0 - state.iteration / s.iterations if s.anneal == "linear" else 1.0
        if s.anneal not in ("linear", "none"):
            left = jnp.asarray(factors(s.anneal, s.iterations))[state.iteration]
        clock = Clock(state.iteration, s.iterations, left)
        method_state = method.advance(state.method, estimates, estimated.done, clock)

        def weigh(samples: Estimates, state: Any = method_state) -> jax.Array:
            return weighed(method, samples._replace(eta=estimates.eta), state, s.standardise)

        def foreseen(weights: Weights) -> Any:
            return method.foreseen(method_state, self.change(weights, estimated, rollout))

        def reweighed(weights: Weights, samples: Samples) -> Samples:
            return samples._replace(weighed=self._rows(weigh(estimates, foreseen(weights))))

        in_minibatches = s.standardise_over == "minibatch"  # eta belongs to all of them: it is not shuffled
        follows = method.foresees and not in_minibatches and s.epochs > 1  # before the first epoch nothing has changed
        samples = Samples(
            observation=estimated.observed,
            action=rollout.action,
            log_prob=rollout.log_prob,
            targets=(estimated.targets - scale.mean[None, None]) / scale.deviation[None, None],
            counted=estimates.counted,
            weighed=estimates._replace(eta=None) if in_minibatches else weigh(estimates),
            numbers=self._numbers(state.weights, estimated.observed) if method.needs_divergence else None,
        )
        weights = self.model.rescaled(state.weights, state.scale, scale)
        if method.takes_steps:
            weights, method_state = self._stepped(weights, method, method_state, estimated, rollout)
        weights, optimiser, losses = self._epochs(
            weights,
            method,
            state.optimiser,
            jax.tree.map(self._rows, samples),
            reweighed if follows else lambda weights, samples: samples,
            weigh if in_minibatches else lambda advantage: advantage,
            left * s.entropy_weight,
            state.pace,
            key_epochs,
        )
        if s.deviation_kept < 1.0:  # noise that only costs is learned away slowly: its effect is of second order
            weights = weights._replace(log_std=weights.log_std + math.log(s.deviation_kept) / s.iterations)
        if method.foresees:
            method_state = foreseen(weights)
        after = state._replace(
            weights=weights,
            optimiser=optimiser,
            moments=state.gathered,
            gathered=gathered,
            scale=scale,
            running=estimated.running,
            window=estimated.window,
            method=method_state,
            key=key,
            iteration=state.iteration + 1,
            pace=state.pace if state.pace is None else self._paced(state.pace, losses, left),
        )
        return after, metrics_of(rollout, estimated, losses, weights, method, method_state)

    def _epochs(
        self,
        weights: Weights,
        method: Method,
        optimiser: Any,
        samples: Samples,
        reweighed: Callable[[Weights, Samples], Samples],
        to_advantage: Callable[[Any], jax.Array],
        entropy_weight: Any,
        pace: jax.Array | None,
        key: jax.Array,
    ) -> tuple[Weights, Any, Losses]:
        """Several passes over the samples in random minibatches."""
        s = self.settings
        slope = jax.value_and_grad(self._loss, has_aux=True)

        def step(carry: Any, batch: Samples) -> tuple[Any, Losses]:
            weights, optimiser = carry
            (_, losses), gradient = slope(weights, method, batch, to_advantage(batch.weighed), entropy_weight)
            changes, optimiser = self.optimiser.update(gradient, optimiser, weights)
            if pace is not None:
                actor, log_std = jax.tree.map(lambda change: pace * change, (changes.actor, changes.log_std))
                changes = changes._replace(actor=actor, log_std=log_std)
            return (optax.apply_updates(weights, changes), optimiser), losses | {
                "gradient_norm": optax.tree.norm(gradient)
            }

        def epoch(carry: Any, key_epoch: jax.Array) -> tuple[Any, Losses]:
            samples_now = reweighed(carry[0], samples)
            order = jax.random.permutation(key_epoch, s.batch // s.block)[: s.minibatches * s.minibatch // s.block]
            blocks = jax.tree.map(lambda x: x.reshape(-1, s.block, *x.shape[1:])[order], samples_now)
            shuffled = jax.tree.map(lambda x: x.reshape(s.minibatches, -1, *x.shape[2:]), blocks)
            return jax.lax.scan(step, carry, shuffled)

        (weights, optimiser), losses = jax.lax.scan(epoch, (weights, optimiser), jax.random.split(key, s.epochs))
        return weights, optimiser, losses

    def _paced(self, pace: jax.Array, losses: Losses, left: Any) -> jax.Array:
        """The factor on the actor's steps that should bring the next update to the divergence asked for.

        A divergence grows with the square of the steps, so it falls as the square of the learning rate.
        """
        wanted, reached = self.settings.divergence * left**2, jnp.mean(losses["kl"][-1])
        change = jnp.sqrt(wanted / jnp.maximum(reached, 1e-12))
        return jnp.clip(pace * jnp.clip(change, *PACE_CHANGES), *PACES)

    def change(self, weights: Weights, estimated: Estimated, rollout: Rollout) -> Totals:
        """E[(r - 1) A_S] / E[D] and E[(r - 1) A_D] / E[D], r = pi / pi_old.   [criteria, groups] each

        What new weights change of supply and demand, per unit of demand: to first order, the difference between two
        policies is the old one's advantage under the new one (Kakade and Langford 2002). Both expectations are over the
        steps of the rollout; the noise of the episodes that they belong to has no part in it.
        """
        estimates, counted = estimated.estimates, estimated.estimates.counted
        log_prob = self._log_prob(weights, estimated, rollout)
        log_ratio = jnp.clip(log_prob - rollout.log_prob, -LARGEST_CHANGE, LARGEST_CHANGE)
        due = jnp.tensordot(counted, rollout.demand, 2)  # [criteria, groups]
        moved = jnp.expm1(log_ratio) * counted

        def per_demand(advantage: jax.Array) -> jax.Array:
            return ratio(jnp.tensordot(moved, advantage, 2), due, otherwise=0.0)

        return Totals(per_demand(estimates.supply), per_demand(estimates.demand))

    def _numbers(self, weights: Weights, observed: jax.Array) -> jax.Array:
        """The numbers of the distribution over actions at each step.   [T, N, observation] -> [T, N, numbers]"""
        segment, (steps, copies) = self.settings.segment, observed.shape[:2]
        numbers = self.model.policy(weights, self._rows(observed), segment)
        if segment == 1:
            return numbers.reshape(steps, copies, -1)
        return jnp.moveaxis(numbers.reshape(-1, copies, segment, numbers.shape[-1]), 2, 1).reshape(steps, copies, -1)

    def _rows(self, x: jax.Array) -> jax.Array:
        """Row by row, the steps of a segment one after the other.   [T, N, ...] -> [T N, ...]"""
        segment = self.settings.segment
        if segment > 1:
            x = jnp.moveaxis(x.reshape(-1, segment, *x.shape[1:]), 1, 2)
            return x.reshape(-1, *x.shape[3:])
        return x.reshape(-1, *x.shape[2:])

    def _log_prob(self, weights: Weights, estimated: Estimated, rollout: Rollout) -> jax.Array:
        """Of the actions of a rollout under any weights.   [T, N]"""
        return self.model.distribution.log_prob(self._numbers(weights, estimated.observed), rollout.action)

    def _stepped(
        self, weights: Weights, method: Method, state: Any, estimated: Estimated, rollout: Rollout
    ) -> tuple[Weights, Any]:
        """The weights and the state of a method that moves the policy itself."""

        def with_policy(policy: Any) -> Weights:
            return weights._replace(actor=policy[0], log_std=policy[1])

        policy, state = method.stepped(
            (weights.actor, weights.log_std),
            state,
            estimated.estimates,
            lambda policy: self._log_prob(with_policy(policy), estimated, rollout),
            lambda policy: self.change(with_policy(policy), estimated, rollout),
        )
        return with_policy(policy), state

    def _loss(
        self, weights: Weights, method: Method, batch: Samples, advantage: jax.Array, entropy_weight: Any
    ) -> tuple[jax.Array, Losses]:
        """mean loss of the method + c_v mean_k (V_k - target_k)**2 - c_e entropy; PPO's is -min(r A, clip(r) A)."""
        s, model = self.settings, self.model
        numbers = model.policy(weights, batch.observation, s.segment)
        log_ratio = model.distribution.log_prob(numbers, batch.action) - batch.log_prob
        ratio = jnp.exp(log_ratio)
        apart = (
            model.distribution.divergence(numbers, batch.numbers) if method.needs_divergence else jnp.zeros_like(ratio)
        )

        def mean(x: jax.Array) -> jax.Array:
            return jnp.sum(x * batch.counted) / jnp.maximum(jnp.sum(batch.counted), 1.0)

        policy = mean(method.loss(Compared(ratio, apart), advantage, s.clip))
        errors = (model.scaled_values(weights, batch.observation) - batch.targets) ** 2
        value = mean(jnp.sum(errors, axis=-1)) if s.critic == "separate" else mean(jnp.mean(errors, axis=-1))
        entropy = mean(model.distribution.entropy(numbers))
        total = policy + s.value_weight * value - entropy_weight * entropy
        return total, {
            "policy_loss": policy,
            "value_loss": value,
            "entropy": entropy,
            "kl": mean((ratio - 1) - log_ratio),
            "clip_fraction": mean((jnp.abs(ratio - 1) > s.clip).astype(jnp.float32)),
        }


def weighed(method: Method, estimates: Estimates, state: Any, standardise: str) -> jax.Array:
    """The method's advantage, standardised over the samples that count. [...] as `estimates.reward`"""
    counted = estimates.counted
    if standardise == "per-signal":
        signals = ("reward", "supply", "demand")
        estimates = estimates._replace(**{name: standardised(getattr(estimates, name), counted) for name in signals})
    combined = method.advantage(estimates, state)
    if jnp.shape(combined) != estimates.reward.shape:
        raise InvalidInputError(
            f"The method {method.name} gives an advantage of shape {jnp.shape(combined)}. Give one number per sample, "
            f"as estimates.reward has: {estimates.reward.shape}."
        )
    whole = standardise == "combined" or (standardise == "per-signal" and method.standardises_sum)
    return standardised(combined, counted) if whole else combined
