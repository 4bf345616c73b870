"""How policies learn: networks, simulators, estimates, methods, updates, and the agents that come of it."""

from elbert.learning.agent import About, Agent
from elbert.learning.estimates import Estimates, advantages
from elbert.learning.methods import METHODS, Method, MethodLike, fair_advantage, get_method
from elbert.learning.metrics import Metrics
from elbert.learning.networks import Shape
from elbert.learning.policy import Policy
from elbert.learning.ppo import Learner, TrainState
from elbert.learning.result import Result
from elbert.learning.rollouts import Rollout
from elbert.learning.settings import Setting, Settings
from elbert.learning.simulators import Environment, Simulator, open_simulator
from elbert.learning.trainer import Callback, DivergedError, Iteration, Member, Trainer

__all__ = [
    "METHODS",
    "About",
    "Agent",
    "Callback",
    "DivergedError",
    "Environment",
    "Estimates",
    "Iteration",
    "Learner",
    "Member",
    "Method",
    "MethodLike",
    "Metrics",
    "Policy",
    "Result",
    "Rollout",
    "Setting",
    "Settings",
    "Shape",
    "Simulator",
    "TrainState",
    "Trainer",
    "advantages",
    "fair_advantage",
    "get_method",
    "open_simulator",
]
