"""What the best possible policy reaches, with a proof, and rules to compare with.

mdp = FiniteSDMDP(transition, reward, supply, demand, start=start, horizon=20)
best_policy(mdp, max_bias=0.05)     # the most reward with a bias of at most 0.05, with a proof
best_lending(world, max_bias=0.05)  # the same in lending, at population level
"""

from elbert.exact.branch_and_bound import Best, NotWithinLimitError, best_within
from elbert.exact.column_generation import ComponentsProgram
from elbert.exact.finite import FiniteSDMDP, PolicyTotals
from elbert.exact.lending import best_lending, lending_groups, lending_program
from elbert.exact.occupancy import OccupancyProgram, best_policy

__all__ = [
    "Best",
    "ComponentsProgram",
    "FiniteSDMDP",
    "NotWithinLimitError",
    "OccupancyProgram",
    "PolicyTotals",
    "best_lending",
    "best_policy",
    "best_within",
    "lending_groups",
    "lending_program",
]
