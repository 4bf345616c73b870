"""What ELBERT-PO subtracts from the reward: a penalty h of the benefit rates, and its slope dh/dz.

A penalty is any differentiable function from the rates, [groups] or [criteria, groups], to one number. The one of the
paper is `squared_bias`. Your own penalty is an ordinary function written with `jax.numpy`; its slope comes from
automatic differentiation:

    def spread(rates):
        return ((rates - rates.mean()) ** 2).sum()

    slope = penalty_slope(rates, spread)
"""

from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import numpy as np

from elbert.errors import InvalidInputError
from elbert.fairness.arrays import Array, ArrayLike, as_array, has_values, namespace
from elbert.fairness.rates import DEFAULT_BETA, bias, centred_soft_bias, soft_bias

Penalty: TypeAlias = Callable[[Any], Any]
"""h: rates [groups] or [criteria, groups] -> one number."""

Kind: TypeAlias = Literal["auto", "hard", "soft", "centred"]


def squared_bias(rates: ArrayLike, *, beta: float | Array = DEFAULT_BETA, kind: Kind = "auto") -> Array:
    """h(z) = sum over criteria of b(z)**2.   [groups] or [criteria, groups] -> []

    The kind "hard" uses `bias`, "soft" `soft_bias` with temperature beta, "centred" `centred_soft_bias`; "auto" is hard
    for two groups and soft for more, as in the paper.
    """
    z = as_array(rates, "rates")
    if z.ndim not in (1, 2):
        raise InvalidInputError(
            f"rates have shape {z.shape}. A penalty takes [groups] or [criteria, groups]; map over batches with vmap."
        )
    if kind == "auto":
        kind = "hard" if z.shape[-1] <= 2 else "soft"
    if kind not in ("hard", "soft", "centred"):
        raise InvalidInputError(f'kind is {kind!r}. Give "auto", "hard", "soft" or "centred".')
    soft = soft_bias if kind == "soft" else centred_soft_bias
    return namespace(z, beta).sum((bias(z) if kind == "hard" else soft(z, beta=beta)) ** 2)


def penalty_slope(rates: ArrayLike, penalty: Penalty = squared_bias) -> Array:
    """dh/dz_g at the given rates, for any differentiable h.   [groups] or [criteria, groups] -> same shape

    NumPy rates are differentiated in float64 and give a NumPy array; JAX rates keep their precision. Where several
    groups share the highest or lowest rate, the slope of a hard maximum is divided evenly among them.
    """
    import jax

    if not callable(penalty):
        raise InvalidInputError(f"penalty is {penalty!r}. Give a function from rates to one number.")
    z = as_array(rates, "rates")
    if namespace(z) is np:
        with jax.ensure_compile_time_eval(), jax.enable_x64(True):
            return np.asarray(_slope(jax.numpy.asarray(z, dtype=float), penalty))
    return _slope(z, penalty)


def _slope(rates: Any, penalty: Penalty) -> Any:
    import jax

    name = getattr(penalty, "__name__", repr(penalty))

    def checked(z: Any) -> Any:
        value = penalty(z)
        real = isinstance(value, jax.Array) and jax.numpy.issubdtype(value.dtype, jax.numpy.floating)
        if not real or value.shape != ():
            kind = f"{value.dtype}{list(value.shape)}" if isinstance(value, jax.Array) else type(value).__name__
            raise InvalidInputError(
                f"The penalty {name} returns {kind}, not one number that follows the rates. Write it with jax.numpy "
                "and add its parts up, for example with .sum()."
            )
        return value

    try:
        slope = jax.grad(checked)(rates)
    except jax.errors.JAXTypeError as error:
        raise InvalidInputError(
            f"The penalty {name} cannot be differentiated: it turns the rates into a NumPy array or a plain number. "
            "Write it with jax.numpy."
        ) from error
    if has_values(slope) and not np.isfinite(np.asarray(slope)).all():
        raise InvalidInputError(
            f"The slope of the penalty {name} is not finite at the rates {np.asarray(rates).tolist()}: {slope}. "
            "Is the penalty differentiable there (a square root at 0 is not)?"
        )
    return slope
