"""Several different parts in one action, drawn one after the other by the same scores (Plackett and Luce).

    log p(a) = sum_i s[a_i] - log(sum of exp s over what was not drawn before i)

Nobody is an alternative that stays: it can be drawn again and again, so that some of the draws can be left unused.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

NEVER = -1e30  # a score that is never drawn; finite, so that gradients of what it takes no part in are 0, not NaN


@dataclass(frozen=True)
class Subset:
    """`draws` parts out of `count` without replacement, and nobody, if there is such an alternative, with it.

    numbers = [count, or count + 1] scores, that of nobody last. An action is the row of draws in their order; `count`
    stands for nobody. Memory is in proportion to count + draws, for samples and for probabilities.
    """

    count: int
    draws: int
    nobody: bool
    starts: tuple[int, ...]  # [draws] from where the space counts
    shape: tuple[int, ...]  # of an action in its space
    learns_deviation: ClassVar[bool] = False

    @property
    def size(self) -> int:
        """How many numbers of the network describe one distribution."""
        return self.count + self.nobody

    def noise(self, key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
        """Exponential numbers: one for each part, one for each time that nobody may be drawn."""
        return jax.random.exponential(key, (*shape, self.count + self.draws * self.nobody), jnp.float32)

    def sample(self, numbers: jax.Array, noise: jax.Array) -> jax.Array:
        """The first events of a race: part i comes once, after E_i exp(-s_i), and nobody at a constant rate exp(s).

        This is exact: what comes next in a race of exponential clocks does not depend on what has come.
        """
        once = numbers[..., : self.count] - _log(noise[..., : self.count])
        if not self.nobody:
            return self._first(once)
        again = numbers[..., self.count :] - _log(jnp.cumsum(noise[..., self.count :], axis=-1))
        return self._first(jnp.concatenate([once, again], axis=-1))

    def mode(self, numbers: jax.Array) -> jax.Array:
        """At each draw the alternative with the largest score: nobody, once no part is left above it."""
        again = jnp.broadcast_to(numbers[..., self.count :], (*numbers.shape[:-1], self.draws * self.nobody))
        return self._first(jnp.concatenate([numbers[..., : self.count], again], axis=-1))

    def _first(self, order: jax.Array) -> jax.Array:
        """The `draws` largest, where places from `count` on all stand for nobody. [..., n] -> [..., draws]"""
        return jnp.minimum(jax.lax.top_k(order, self.draws)[1], self.count).astype(jnp.int32)

    def log_prob(self, numbers: jax.Array, action: jax.Array) -> jax.Array:
        """sum_i s[a_i] - log(sum of exp s over what was not drawn before i).   -> [...]

        What is left is added up from the last draw to the first: nothing is subtracted, so nothing is cancelled.
        """

        def of_one(scores: jax.Array, drawn: jax.Array) -> jax.Array:
            spent = jnp.zeros(self.count + 1, bool).at[drawn].set(True).at[self.count].set(False)
            rest = jax.nn.logsumexp(jnp.where(spent[: self.size], NEVER, scores))
            chosen = scores[drawn]
            parts = jnp.where(drawn < self.count, chosen, NEVER)
            left = jnp.logaddexp(jax.lax.cumlogsumexp(parts, reverse=True), rest)
            return jnp.sum(chosen - left)

        lead = jnp.broadcast_shapes(numbers.shape[:-1], action.shape[:-1])
        scores, drawn = (jnp.broadcast_to(x, (*lead, x.shape[-1])).reshape(-1, x.shape[-1]) for x in (numbers, action))
        return jax.vmap(of_one)(scores, drawn).reshape(lead)

    def described(self, numbers: jax.Array) -> jax.Array:
        """How probable each alternative is in the first draw, softmax(s).   -> [..., alternatives]"""
        return jax.nn.softmax(numbers)

    def entropy(self, numbers: jax.Array) -> jax.Array:
        """draws times the entropy of the first draw: an estimate, close where few of many are drawn.   -> [...]"""
        log_p = jax.nn.log_softmax(numbers)
        return -self.draws * jnp.sum(jnp.exp(log_p) * log_p, axis=-1)

    def divergence(self, numbers: jax.Array, others: jax.Array) -> jax.Array:
        """draws times KL(p || q) of the first draw: an estimate, as `entropy` is one.   -> [...]"""
        p, q = jax.nn.log_softmax(numbers), jax.nn.log_softmax(others)
        return self.draws * jnp.sum(jnp.exp(p) * (p - q), axis=-1)

    def to_env(self, action: Any) -> Any:
        """Counted from where the space starts, in the shape of the space."""
        moved = action + np.asarray(self.starts, np.int32).reshape(*(1,) * (action.ndim - 1), -1)
        return moved.reshape(*moved.shape[:-1], *self.shape)


def _log(noise: jax.Array) -> jax.Array:
    """log of exponential noise, which float32 may round to 0."""
    return jnp.log(jnp.maximum(noise, jnp.finfo(jnp.float32).tiny))
