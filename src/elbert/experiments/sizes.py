"""The sizes that fit a training: what "auto" in a preset becomes, by its steps and the length of its episodes.

More steps are spent on more updates and on larger rollouts alike, so that the last updates are less noisy; a rollout
holds whole episodes where a world says how long they are, because rates are those of whole episodes.
"""

import math
from collections.abc import Collection, Mapping
from typing import Any

AUTO = "auto"
SIZES = ("copies", "rollout", "minibatch", "gamma")
"""The settings for which a preset may say "auto"."""
USUAL_STEPS, USUAL_BATCH = 100_000, 2048
GROWTH = 0.6  # batches grow with this power of the steps
FEWEST_SAMPLES = 256  # in a rollout, and in a minibatch unless the rollout has fewer
COPIES = 8  # of environments whose episodes have no known length, or too long a one for whole ones
ROLLOUT = 256  # steps, at least about so many where the batch allows
GRADIENT_STEPS = 32  # in one epoch, at the most
LOOKS_AHEAD = 0.2  # part of an episode that the discount reaches over ...
LEAST_AHEAD = 100  # ... but no fewer steps than this


def sizes(names: Collection[str], given: Mapping[str, Any], steps: int, horizon: int | None) -> dict[str, Any]:
    """What fits, of `SIZES`, beside what is given of them. `horizon` None: not known."""
    copies, rollout, minibatch = (given.get(name) for name in ("copies", "rollout", "minibatch"))
    least = minibatch or 1  # a rollout holds at least one minibatch
    batch = _power_of_two(max(USUAL_BATCH * (steps / USUAL_STEPS) ** GROWTH, FEWEST_SAMPLES, least))
    if rollout is None:
        each = batch / copies if copies is not None else min(ROLLOUT, batch / COPIES)
        if horizon is not None and horizon <= (2 * each if copies is not None else batch / 4):
            rollout = horizon * max(1, round(each / horizon))
        else:
            rollout = max(1, round(batch / (copies or COPIES)))
        if copies is not None:
            rollout = max(rollout, math.ceil(least / copies))
    if copies is None:
        copies = max(_power_of_two(max(batch / rollout, 1)), math.ceil(least / rollout))
    samples = copies * rollout
    minibatch = min(samples, max(FEWEST_SAMPLES, _power_of_two(samples / GRADIENT_STEPS)))
    ahead = LEAST_AHEAD if horizon is None else max(LEAST_AHEAD, LOOKS_AHEAD * horizon)
    fitting = {"copies": copies, "rollout": rollout, "minibatch": minibatch, "gamma": 1 - 1 / ahead}
    return {name: fitting[name] for name in names}


def _power_of_two(x: float) -> int:
    return 2 ** round(math.log2(x))
