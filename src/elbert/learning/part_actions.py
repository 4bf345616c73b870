"""What actions have to do with the parts of a problem: whether they name parts, or hold something for each of them."""

from typing import NamedTuple

import numpy as np

from elbert.envs.parts import Parts
from elbert.errors import InvalidInputError
from elbert.learning.distributions import Categorical, Distribution, Gaussian
from elbert.learning.subsets import Subset


class PartActions(NamedTuple):
    """The distribution over actions, and which of its numbers belong to whom."""

    distribution: Distribution
    each: int  # numbers of each part
    rest: int  # numbers that belong to no part

    def like(self, other: "PartActions") -> bool:
        """Whether the same weights can say both, of however many parts: one choice among parts, or several of them."""
        real = (isinstance(actions.distribution, Gaussian) for actions in (self, other))
        return (self.each, self.rest) == (other.each, other.rest) and len(set(real)) == 1


def part_actions(parts: Parts, actions: Distribution) -> PartActions | None:
    """How the parts of a problem make up a distribution over its actions; None if they do not.

    Actions hold something for each part (a real number, a choice, or a row of either), or they name parts: one choice
    among all of them, or several different ones, with or without an alternative for nobody.
    """
    if isinstance(actions, Subset):
        return PartActions(actions, 1, int(actions.nobody)) if actions.count == parts.count else None
    for_each, naming = _for_each(parts.count, actions), _naming(parts.count, actions)
    if parts.chosen is not None:
        return naming if parts.chosen else for_each
    if for_each is None or naming is None:
        return naming or for_each
    raise InvalidInputError(
        f"An action of shape {actions.shape} could name some of the {parts.count} parts, or hold a choice for each of "
        "them. Say which: Parts(..., chosen=True) or chosen=False."
    )


def _for_each(count: int, actions: Categorical | Gaussian) -> PartActions | None:
    """Numbers or choices of each part: an action of shape [parts] or [parts, k]."""
    if actions.shape[:1] != (count,):
        return None
    if isinstance(actions, Gaussian):
        return PartActions(actions, actions.size // count, 0)
    rows = np.reshape(actions.sizes, (count, -1))
    return PartActions(actions, int(rows[0].sum()), 0) if (rows == rows[0]).all() else None


def _naming(count: int, actions: Categorical | Gaussian) -> PartActions | None:
    """Choices among all parts, or all parts and nobody, which comes last."""
    if isinstance(actions, Gaussian) or set(actions.sizes) not in ({count}, {count + 1}):
        return None
    draws, nobody = len(actions.sizes), actions.sizes[0] > count
    if draws == 1:
        return PartActions(actions, 1, int(nobody))
    if draws > count and not nobody:
        return None
    return PartActions(Subset(count, draws, nobody, actions.starts, actions.shape), 1, int(nobody))


def check_parts(parts: Parts | None, observation: int, actions: Distribution, groups: int) -> PartActions:
    """How the parts make up the actions of a problem with these sizes; refused with what is missing if they do not."""
    instead = 'Or leave policy out: "mlp" learns any environment.'
    if not isinstance(parts, Parts):
        raise InvalidInputError(
            'policy is "parts", but the environment declares none. Give it the attribute `parts`, an elbert.envs.Parts '
            f"that says which numbers of the observation belong to which part. {instead}"
        )
    if misfit := parts.misfit(observation, groups):
        raise InvalidInputError(misfit)
    fitted = part_actions(parts, actions)
    if fitted is None:
        raise InvalidInputError(
            f'policy is "parts", but an action {_shown(actions)} does not fit {parts.count} parts. Actions must hold '
            "the same for each part, in rows of a part, or name parts: a choice among all of them, or all and nobody, "
            f"or several such choices. {instead}"
        )
    return fitted


def _shown(actions: Distribution) -> str:
    if isinstance(actions, Categorical):
        sizes = sorted(set(actions.sizes))
        return f"of {len(actions.sizes)} choices among {' or '.join(map(str, sizes[:3]))}"
    return f"of shape {actions.shape}"
