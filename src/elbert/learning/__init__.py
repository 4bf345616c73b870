"""How policies learn: networks, simulators, estimates, methods, updates, and the agents that come of it."""

from elbert.learning.agent import Agent
from elbert.learning.estimates import Estimates
from elbert.learning.evaluation import Evaluable
from elbert.learning.foreign import ForeignPolicy
from elbert.learning.methods import METHODS, Method, MethodLike, fair_advantage, get_method
from elbert.learning.metrics import Metrics
from elbert.learning.policy import Policy
from elbert.learning.ppo import Learner
from elbert.learning.result import Result
from elbert.learning.settings import Setting, Settings
from elbert.learning.simulators import Environment, Simulator, open_simulator
from elbert.learning.trainer import Callback, DivergedError, Iteration, Member, Trainer

__all__ = [
    "METHODS",
    "Agent",
    "Callback",
    "DivergedError",
    "Environment",
    "Estimates",
    "Evaluable",
    "ForeignPolicy",
    "Iteration",
    "Learner",
    "Member",
    "Method",
    "MethodLike",
    "Metrics",
    "Policy",
    "Result",
    "Setting",
    "Settings",
    "Simulator",
    "Trainer",
    "fair_advantage",
    "get_method",
    "open_simulator",
]
