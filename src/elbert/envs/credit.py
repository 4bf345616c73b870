"""Credit: loans move people's scores, with the score distributions of four groups in the USA.

The groups' FICO scores and who repays are figures of the Federal Reserve (2007) as Hardt, Price and Srebro (2016) used
them; what a loan does to a score is that of Liu et al. ("Delayed Impact of Fair Machine Learning", ICML 2018).

A step, with applicant (g, c) of score x who would repay or not (y, drawn on arrival):
    reward      +gain if accepted and y, -loss if accepted and not y, 0 if refused
    dynamics    if accepted, this one person's score becomes x + rise if y, x - fall if not, within the least and the
                highest score: the next score below or above that on the grid, at random, so that its mean is right
    supply      what the notion counts as given; equal opportunity: 1[accepted and y] for group g
    demand      what the notion counts as due; equal opportunity: 1[y] for group g
    next        g ~ group_shares, a person of g at random, y ~ Bernoulli(repayment[g, c])
"""

from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Annotated, Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from elbert.envs.applicants import Applicants, ApplicantState, Array, Population, one_hot
from elbert.envs.parameters import Number, Numbers, as_count, as_distributions, as_float, stored
from elbert.errors import InvalidInputError, unknown_name
from elbert.fairness.notions import Notion

GROUPS = ("White", "Black", "Hispanic", "Asian")
PEOPLE = (133_165, 18_274, 14_702, 7_906)
"""Of each group in the sample."""
LOWEST, HIGHEST, BIN = 300, 850, 50
PERCENT_PER_BIN = (2.1, 4.2, 5.4, 6.5, 7.9, 9.6, 12.0, 13.8, 17.0, 15.8, 5.7)
"""People of all groups in every 50 points of FICO from 300 on: what leads from percentiles to points."""
MOST_PEOPLE = 2**24  # float32 counts them one by one


class ScoreTable(NamedTuple):
    """Scores of the groups in `GROUPS`."""

    points: Array  # [scores] of FICO, rising
    mass: Array  # [groups, scores] share of the group; rows sum to 1
    repayment: Array  # [groups, scores] probability to repay


@cache
def score_table(width: float = 0) -> ScoreTable:
    """The 198 scores of the source, or bins of this many points, each with the repayment that its people have."""
    text = (files("elbert.envs") / "fico.csv").read_text("utf-8")
    content = np.loadtxt([line for line in text.splitlines() if not line.startswith(("#", "p"))], delimiter=",")
    percentile, upto, defaults = content[:, 0], content[:, 1:5].T / 100, content[:, 5:].T / 100
    bounds = np.cumsum((0.0, *PERCENT_PER_BIN))
    points = np.interp(percentile, bounds, np.linspace(LOWEST, HIGHEST, len(bounds)))
    table = ScoreTable(points, np.diff(upto, axis=1, prepend=0.0), 1 - defaults)
    if width == 0:
        return table
    bins = int(np.ceil((HIGHEST - LOWEST) / width))
    member = np.minimum((points - LOWEST) // width, bins - 1)[:, None] == np.arange(bins)  # [scores, bins]
    middle = np.minimum(LOWEST + width * (np.arange(bins) + 0.5), HIGHEST)
    mass, repaid = table.mass @ member, (table.mass * table.repayment) @ member
    between = np.stack([np.interp(middle, points, chances) for chances in table.repayment])  # where nobody is
    return ScoreTable(middle, mass, np.where(mass > 0, repaid / np.where(mass > 0, mass, 1.0), between))


class Credit(Applicants, static=("members",)):
    """The credit world. Action 1 accepts the applicant, 0 refuses."""

    initial_scores: jax.Array  # [groups, scores]
    repayment: jax.Array  # [groups, scores]
    points: jax.Array  # [scores] of FICO
    people: jax.Array  # []
    gain: jax.Array  # []
    loss: jax.Array  # []
    rise: jax.Array  # []
    fall: jax.Array  # []
    members: tuple[str, ...]
    draws: ClassVar[int] = 4

    def __init__(
        self,
        *,
        groups: Annotated[Sequence[str], "names of the groups, among White, Black, Hispanic, Asian"] = GROUPS,
        group_shares: Annotated[
            Numbers | None, "probability that an applicant is of each group; none: as in the source"
        ] = None,
        people: Annotated[Number, "people in all groups together; a loan moves the score of one"] = 1000,
        gain: Annotated[Number, "what the bank earns on a loan that is repaid"] = 1.0,
        loss: Annotated[Number, "what it loses on a loan that is not (Liu et al. also take 10)"] = 4.0,
        rise: Annotated[Number, "points that a repaid loan adds to a score"] = 75.0,
        fall: Annotated[Number, "points that a default takes off a score"] = 150.0,
        bin_width: Annotated[Number, "points of FICO per bin of scores; 0: the 198 scores of the source"] = 0,
        horizon: Annotated[Number, "applicants per episode"] = 2000,
        notion: Annotated[str | Notion, "what counts as a benefit given and due"] = "equal-opportunity",
        counted: Annotated[
            str | Notion | None, "notion that results are counted by, if it is not the one whose rates are observed"
        ] = None,
        observe_rates: Annotated[bool, "observe the groups' running rates"] = True,
        labels: Annotated[
            str, "whose outcomes show in the observed rates: all, or selective (only those of the accepted)"
        ] = "all",
    ) -> None:
        """Liu et al.'s scores and score changes by default; `elbert envs credit` explains every parameter."""
        if not isinstance(groups, Sequence) or isinstance(groups, str):
            raise InvalidInputError(f"groups is {groups!r}. Give names of groups, among {', '.join(GROUPS)}.")
        names = list(groups)
        for name in names:
            if name not in GROUPS:
                raise unknown_name("group", name, GROUPS)
        if not names or len(set(names)) < len(names):
            raise InvalidInputError(f"groups is {names!r}. Give at least one of {', '.join(GROUPS)}, and each once.")
        self.members, rows = tuple(names), [GROUPS.index(name) for name in names]
        usual = np.asarray(PEOPLE, float)[rows]
        need = f"one probability from 0 to 1 for each of the {len(names)} groups, summing to 1"
        shares = usual / usual.sum() if group_shares is None else group_shares
        self.group_shares = as_distributions(shares, "group_shares", ndim=1, need=need)
        if self.group_shares.shape[0] != len(names):
            raise InvalidInputError(f"group_shares has {self.group_shares.shape[0]} entries. Give {need}.")
        self.people = as_count(people, "people", "people", high=MOST_PEOPLE)
        self.gain = as_float(gain, "gain", low=0, need="an amount, 0 or more")
        self.loss = as_float(loss, "loss", low=0, need="an amount, 0 or more")
        self.rise = as_float(rise, "rise", low=0, need="points, 0 or more")
        self.fall = as_float(fall, "fall", low=0, need="points, 0 or more")
        width = float(as_float(bin_width, "bin_width", low=0, high=275, need="0, or points from 5 to 275"))
        if 0 < width < 5:
            raise InvalidInputError(f"bin_width is {width:g}. Give 0, or points from 5 to 275.")
        table = score_table(width)
        self.points = stored(table.points, np.float32)
        self.initial_scores, self.repayment = (stored(part[rows], np.float32) for part in table[1:])
        super().__init__(horizon=horizon, notion=notion, counted=counted, labels=labels, observe_rates=observe_rates)

    @property
    def groups(self) -> int:
        """As many as were named."""
        return len(self.members)

    @property
    def scores(self) -> int:
        """198, or as many as there are bins."""
        return self.points.shape[-1]

    @property
    def group_names(self) -> tuple[str, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Those given."""
        return self.members

    @property
    def sizes(self) -> Any:
        """People of each group: its share of all, at least one.   [groups]"""
        return jnp.maximum(jnp.round(jnp.asarray(self.group_shares) * jnp.asarray(self.people, jnp.float32)), 1.0)

    def mean_scores(self, state: ApplicantState) -> Any:
        """sum_c people(g, c) points(c) / people(g): the welfare of every group, in points.   [groups]"""
        return jnp.sum(state.mass * self.points[None], axis=-1) / jnp.sum(state.mass, axis=-1)

    def population(self) -> Population:
        """A loan moves one person of a group, wherever the person is."""
        points, sizes = np.asarray(self.points, float), np.asarray(self.sizes, float)
        places = np.arange(len(points))
        moved = []
        for change in (-float(self.fall), float(self.rise)):
            to = np.clip(points + change, points[0], points[-1])
            moved.append(np.stack([np.interp(to, points, places == place) for place in places], axis=1))
        return Population(
            points=points,
            gain=float(self.gain),
            loss=float(self.loss),
            start=np.asarray(self.initial_scores, float),
            repayment=np.asarray(self.repayment, float),
            moved=np.stack(moved),
            shift=1 / sizes,
            exact=True,
        )

    def _start(self, uniform: jax.Array) -> jax.Array:
        """Whole people whose expected numbers are those of the distribution: floor(n F(c) + u), u in [0, 1)."""
        upto, sizes = jnp.cumsum(self.initial_scores, axis=-1), self.sizes[:, None]
        counts = jnp.minimum(jnp.floor(sizes * upto / upto[:, -1:] + uniform[3]), sizes)
        return jnp.diff(counts, axis=-1, prepend=0.0)

    def _applicant(self, state: ApplicantState) -> jax.Array:
        """The score, 0 at the least and 1 at the highest, and one-hot group."""
        points = jnp.asarray(self.points)
        score = (points[state.score] - points[0]) / (points[-1] - points[0])
        return jnp.concatenate([score[None], one_hot(state.group, self.groups)])

    @property
    def _features(self) -> int:
        return 1 + self.groups

    def _target(self, uniform: jax.Array, state: ApplicantState) -> tuple[jax.Array, jax.Array]:
        """One person moves to the grid's score below or above the new one, such that the mean is the new one."""
        points = jnp.asarray(self.points)
        change = jnp.where(state.repays, self.rise, -self.fall)
        to = jnp.clip(points[state.score] + change, points[0], points[-1])
        below = jnp.clip(jnp.sum(points <= to, dtype=jnp.int32) - 1, 0, self.scores - 2)
        share = (to - points[below]) / (points[below + 1] - points[below])
        return below + (uniform[3] < share), jnp.ones((), jnp.float32)

    def _earned(self, repays: jax.Array) -> jax.Array:
        return jnp.where(repays, self.gain, -self.loss)

    def _chance(self, group: jax.Array, score: jax.Array) -> jax.Array:
        return jnp.asarray(self.repayment)[group, score]
