"""The paper's motivating example: two trajectories that step-wise notions tell apart and people would not.

A bank decides on loans at two steps. At the first it meets 1 blue and 100 red applicants, at the second 100 blue and
1 red. It approves 100 of 101 blue and 1 of 101 red applicants in both trajectories; only the step at which the one red
applicant is approved differs.
"""

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import numpy as np

from elbert.experiments.jobs import Job
from elbert.fairness import (
    bias,
    decision_weights,
    long_term_benefit_rate,
    stepwise_difference,
    stepwise_squared_difference,
)
from elbert.fairness.episode_totals import Floats

GROUPS = ("blue", "red")
STEPS = ("t", "t+1")


@dataclass(frozen=True)
class Trajectory:
    """Approvals (supply) and applicants (demand) of a bank that wants demographic parity."""

    name: str
    supply: Floats  # [steps, groups]
    demand: Floats  # [steps, groups]


TRAJECTORY_A = Trajectory("A", np.array([[0.0, 0.0], [100.0, 1.0]]), np.array([[1.0, 100.0], [100.0, 1.0]]))
TRAJECTORY_B = Trajectory("B", np.array([[0.0, 1.0], [100.0, 0.0]]), np.array([[1.0, 100.0], [100.0, 1.0]]))


@dataclass(frozen=True)
class Reading:
    """What each notion says of one trajectory."""

    trajectory: str
    groups: tuple[str, ...]
    steps: tuple[str, ...]
    approved: list[list[float]]  # [steps, groups]
    applicants: list[list[float]]  # [steps, groups]
    stepwise_difference: float  # sum of step-wise differences (Wen 2021, Chi 2022)
    stepwise_squared_difference: float  # sum of squared step-wise differences (Yin 2023)
    long_term_benefit_rates: list[float]  # [groups]
    long_term_bias: float  # their difference
    weight_of_a_decision: dict[str, list[list[float]]]  # [steps, groups] divided step by step, or added up first


def read(trajectory: Trajectory) -> Reading:
    """Apply all notions to one trajectory."""
    supply, demand = trajectory.supply, trajectory.demand
    rates = np.asarray(long_term_benefit_rate(supply, demand))
    kinds: tuple[Literal["step-wise", "long-term"], ...] = ("step-wise", "long-term")
    return Reading(
        trajectory=trajectory.name,
        groups=GROUPS,
        steps=STEPS,
        approved=supply.tolist(),
        applicants=demand.tolist(),
        stepwise_difference=float(stepwise_difference(supply, demand)),
        stepwise_squared_difference=float(stepwise_squared_difference(supply, demand)),
        long_term_benefit_rates=rates.tolist(),
        long_term_bias=float(bias(rates)),
        weight_of_a_decision={kind: np.asarray(decision_weights(demand, aggregation=kind)).tolist() for kind in kinds},
    )


@dataclass(frozen=True)
class TwoTrajectories:
    """The example as an experiment: it needs no training and no environment, and is its own outcome."""

    readings: tuple[Reading, ...] = field(default_factory=lambda: (read(TRAJECTORY_A), read(TRAJECTORY_B)))
    name: str = "temporal"
    jobs: tuple[Job, ...] = ()

    def to_dict(self) -> list[dict[str, Any]]:
        """A list of what is said of each trajectory."""
        return [asdict(reading) for reading in self.readings]
