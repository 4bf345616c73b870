"""Worlds: Supply-Demand MDPs as pure functions, the paper's five among them, and bridges to and from Gymnasium."""

from elbert.envs.admission import ADMISSION_AND_BURDEN, Admission, AdmissionState
from elbert.envs.applicants import Applicants, ApplicantState
from elbert.envs.attention import Attention, AttentionState
from elbert.envs.credit import Credit
from elbert.envs.graphs import karate_club
from elbert.envs.gym_checker import EnvReport, check_env
from elbert.envs.gym_env import ResetNeededError, WorldEnv, WorldVectorEnv
from elbert.envs.gym_returns import EnvCheckError
from elbert.envs.gym_wrappers import (
    NotionVectorWrapper,
    NotionWrapper,
    SupplyDemandVectorWrapper,
    SupplyDemandWrapper,
    Transition,
)
from elbert.envs.infectious import DOSES_PER_INFECTION, INFECTED, RECOVERED, SUSCEPTIBLE, Infectious, InfectiousState
from elbert.envs.lending import Lending, LendingState
from elbert.envs.parameters import plain_parameters
from elbert.envs.parts import Parts
from elbert.envs.patrol import Patrol, PatrolState
from elbert.envs.registry import ENTRIES, Entry, Parameter, describe, find_world, get_entry, make_world, register
from elbert.envs.waiting_list import BLOOD_GROUPS, WaitingList, WaitingListState
from elbert.envs.world import TimeStep, World

__all__ = [
    "ADMISSION_AND_BURDEN",
    "BLOOD_GROUPS",
    "DOSES_PER_INFECTION",
    "ENTRIES",
    "INFECTED",
    "RECOVERED",
    "SUSCEPTIBLE",
    "Admission",
    "AdmissionState",
    "ApplicantState",
    "Applicants",
    "Attention",
    "AttentionState",
    "Credit",
    "Entry",
    "EnvCheckError",
    "EnvReport",
    "Infectious",
    "InfectiousState",
    "Lending",
    "LendingState",
    "NotionVectorWrapper",
    "NotionWrapper",
    "Parameter",
    "Parts",
    "Patrol",
    "PatrolState",
    "ResetNeededError",
    "SupplyDemandVectorWrapper",
    "SupplyDemandWrapper",
    "TimeStep",
    "Transition",
    "WaitingList",
    "WaitingListState",
    "World",
    "WorldEnv",
    "WorldVectorEnv",
    "check_env",
    "describe",
    "find_world",
    "get_entry",
    "karate_club",
    "make_world",
    "plain_parameters",
    "register",
]
