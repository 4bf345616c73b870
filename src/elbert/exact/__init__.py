"""What the best possible policy reaches, with a proof, and rules to compare with.

mdp = FiniteSDMDP(transition, reward, supply, demand, start=start, horizon=20)
best_policy(mdp, max_bias=0.05)     # the most reward with a bias of at most 0.05, with a proof
best_lending(world, max_bias=0.05)  # the same in lending, at population level
"""

from elbert.exact.branch_and_bound import Best as Best
from elbert.exact.branch_and_bound import NotWithinLimitError as NotWithinLimitError
from elbert.exact.branch_and_bound import best_within as best_within
from elbert.exact.column_generation import ComponentsProgram as ComponentsProgram
from elbert.exact.finite import FiniteSDMDP as FiniteSDMDP
from elbert.exact.finite import PolicyTotals as PolicyTotals
from elbert.exact.lending import best_lending as best_lending
from elbert.exact.lending import lending_groups as lending_groups
from elbert.exact.lending import lending_program as lending_program
from elbert.exact.occupancy import OccupancyProgram as OccupancyProgram
from elbert.exact.occupancy import best_policy as best_policy
