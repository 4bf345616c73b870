"""The paper's motivating example: two trajectories that step-wise notions tell apart and people would not.

A bank decides on loans at two steps. At the first it meets 1 blue and 100 red applicants, at the second 100 blue and
1 red. It approves 100 of 101 blue and 1 of 101 red applicants in both trajectories; only the step at which the one red
applicant is approved differs.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

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

    trajectory: Trajectory
    difference: float  # sum of step-wise differences (Wen 2021, Chi 2022)
    squared_difference: float  # sum of squared step-wise differences (Yin 2023)
    rates: Floats  # [groups] long-term benefit rates
    bias: float  # their difference
    stepwise_weights: Floats  # [steps, groups] what one decision weighs, divided step by step
    long_term_weights: Floats  # [steps, groups] what one decision weighs, added up first

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, strings, lists and dicts."""
        return {
            "trajectory": self.trajectory.name,
            "groups": list(GROUPS),
            "steps": list(STEPS),
            "approved": self.trajectory.supply.tolist(),
            "applicants": self.trajectory.demand.tolist(),
            "stepwise_difference": self.difference,
            "stepwise_squared_difference": self.squared_difference,
            "long_term_benefit_rates": self.rates.tolist(),
            "long_term_bias": self.bias,
            "weight_of_a_decision": {
                "step-wise": self.stepwise_weights.tolist(),
                "long-term": self.long_term_weights.tolist(),
            },
        }


def read(trajectory: Trajectory) -> Reading:
    """Apply all notions to one trajectory."""
    supply, demand = trajectory.supply, trajectory.demand
    rates = np.asarray(long_term_benefit_rate(supply, demand))
    return Reading(
        trajectory=trajectory,
        difference=float(stepwise_difference(supply, demand)),
        squared_difference=float(stepwise_squared_difference(supply, demand)),
        rates=rates,
        bias=float(bias(rates)),
        stepwise_weights=np.asarray(decision_weights(demand, aggregation="step-wise")),
        long_term_weights=np.asarray(decision_weights(demand, aggregation="long-term")),
    )


@dataclass(frozen=True)
class TwoTrajectories:
    """The example as an experiment: it needs no training and no environment, and is its own outcome."""

    readings: tuple[Reading, ...] = field(default_factory=lambda: (read(TRAJECTORY_A), read(TRAJECTORY_B)))
    name: str = "temporal"
    jobs: tuple[Job, ...] = ()
    envs: tuple[str, ...] = ()

    def within(self, envs: Sequence[str]) -> "TwoTrajectories":
        """The same: no environment is left out."""
        del envs
        return self

    def outcome(self, runs: Path) -> "TwoTrajectories":
        """The readings; there are no runs."""
        del runs
        return self

    def to_dict(self) -> list[dict[str, Any]]:
        """A list of what is said of each trajectory."""
        return [reading.to_dict() for reading in self.readings]
