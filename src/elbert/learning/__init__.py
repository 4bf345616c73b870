"""How policies learn: networks, rollouts, estimates, advantages, updates, and the agents that come of it."""

from elbert.learning.advantages import (
    METHODS,
    Coefficients,
    Method,
    a_ppo,
    elbert_po,
    fair_advantage,
    g_ppo,
    get_method,
    r_ppo_reward,
)
from elbert.learning.agent import About, Agent
from elbert.learning.estimates import Estimates, Rollout, advantages
from elbert.learning.evaluation import Evaluation
from elbert.learning.metrics import Metrics
from elbert.learning.ppo import Learner, TrainState
from elbert.learning.problem import Environment, HostProblem, WorldProblem, opened
from elbert.learning.settings import Settings
from elbert.learning.trainer import Callback, DivergedError, Member, Progress, Trainer

__all__ = [
    "METHODS",
    "About",
    "Agent",
    "Callback",
    "Coefficients",
    "DivergedError",
    "Environment",
    "Estimates",
    "Evaluation",
    "HostProblem",
    "Learner",
    "Member",
    "Method",
    "Metrics",
    "Progress",
    "Rollout",
    "Settings",
    "TrainState",
    "Trainer",
    "WorldProblem",
    "a_ppo",
    "advantages",
    "elbert_po",
    "fair_advantage",
    "g_ppo",
    "get_method",
    "opened",
    "r_ppo_reward",
]
