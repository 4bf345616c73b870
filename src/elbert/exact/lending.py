"""Lending and credit, exactly: the population equations, and the most reward within a limit on the bias.

m_t(g, c) is the expected share of group g at score c, and x_t(g, c) = E[m_t(g, c) accepted_t] what of it is accepted.
An applicant of group g comes with probability w_g, and a loan moves the part shift_g of the group:

    m_t+1(g, c) = m_t(g, c) + w_g shift_g (sum of x_t moving to c - x_t(g, c))
    reward      = sum_gc w_g x_t(g, c) (repayment_gc (gain + loss) - loss)

So each group is a finite SD-MDP whose states are the scores, and a person's score moves with probability w_g shift_g
when accepted. These equations are linear in x, and hold for every policy, also one that looks at the whole history. In
credit they are exact: a loan moves one person of a group. In lending they are exact where min(shift, mass) is always
the shift or 0, which is so if every initial mass is a multiple of the shift, as in the published world, and where the
bank's cash lasts for the horizon.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from elbert.envs.applicants import Applicants
from elbert.errors import InvalidInputError
from elbert.exact.branch_and_bound import Best, best_within
from elbert.exact.column_generation import ComponentsProgram, mixed_policy
from elbert.exact.finite import Array, FiniteSDMDP, PolicyTotals, as_written

STARTING_RATES = (0.5, 0.7, 0.8, 0.85, 0.9, 0.95)
STARTING_PRICES = (-0.5, -0.1, 0.1, 0.3, 0.6, 1.0, 2.0)
"""The first columns are the best responses to these prices of S - rate D."""
FEW_SCORES = 50


def lending_groups(world: Applicants) -> list[FiniteSDMDP]:
    """Every group as a finite SD-MDP over scores: action 1 accepts, 0 rejects.   [groups]"""
    tables, parts = world.population(), []
    rows = (as_written(world.group_shares), as_written(tables.start), as_written(tables.repayment), tables.shift)
    for share, first, repays, shift in zip(*rows, strict=True):
        if share == 0:
            raise InvalidInputError(
                "A group has share 0 of the applicants: it can never have demand and has no benefit rate. Give every "
                "group in group_shares a share above 0."
            )
        moved = np.einsum("ys,ysp->sp", np.stack([1 - repays, repays]), tables.moved)
        stays = np.eye(world.scores)
        moves = np.stack([stays, stays + share * shift * (moved - stays)], axis=1)
        reward = np.zeros((world.scores, 2))
        reward[:, 1] = share * (repays * (tables.gain + tables.loss) - tables.loss)
        amounts = [
            share * (repays * np.array(of(decision, 1.0)) + (1 - repays) * np.array(of(decision, 0.0)))
            for criterion in world.benefit.criteria
            for of in (criterion.supply, criterion.demand)
            for decision in (0.0, 1.0)
        ]
        table = np.array(amounts).reshape(-1, 2, 2, world.scores)  # [criteria, supply or demand, decision, scores]
        supply, demand = (np.moveaxis(table[:, i], 0, -1).swapaxes(0, 1)[..., None] for i in (0, 1))
        parts.append(FiniteSDMDP(moves, reward, supply, demand, start=first, horizon=int(world.horizon)))
    return parts


def lending_is_exact(world: Applicants) -> bool:
    """Whether the population equations are those of the simulated world."""
    return world.population().exact


def lending_program(world: Applicants) -> ComponentsProgram:
    """The groups as a `Program`, with columns to start from; it can be used for many limits.

    Where scores are many a column takes long, and only those that are asked for are made.
    """
    program = ComponentsProgram(lending_groups(world))
    if world.scores > FEW_SCORES:
        return program
    program.explore(
        [
            part.reward + price * (part.supply[..., 0] - rate * part.demand[..., 0]).sum(axis=-1)
            for rate in STARTING_RATES
            for price in STARTING_PRICES
        ]
        for part in program.parts
    )
    return program


def best_lending(world: Applicants, max_bias: float = np.inf, *, tolerance: float = 1e-6) -> Best:
    """max reward subject to bias <= max_bias in lending's population.

    `Best.policy` holds the probabilities of acceptance, [horizon, groups, scores].
    """
    program = lending_program(world)
    return with_acceptance(program, best_within(program, max_bias, tolerance=tolerance))


def with_acceptance(program: ComponentsProgram, best: Best) -> Best:
    """The same best policy, as probabilities of acceptance, [horizon, groups, scores]."""
    return replace(best, policy=np.moveaxis(mixed_policy(program, best.policy)[..., 1], 0, 1))


def accepting_from(world: Applicants, thresholds: Any) -> Array:
    """1 for scores from each group's threshold on, in the world's points, else 0.   [groups] -> [groups, scores]"""
    return (world.population().points >= np.asarray(thresholds, float)[:, None]).astype(float)


def acceptance_totals(world: Applicants, acceptance: Any) -> PolicyTotals:
    """R, S and D of an episode if applicants are accepted with these probabilities.   [groups, scores]"""
    groups = [
        part.totals(np.stack([1 - chances, chances], axis=-1))
        for part, chances in zip(lending_groups(world), np.asarray(acceptance, float), strict=True)
    ]
    reward, supply, demand = zip(*groups, strict=True)
    return PolicyTotals(sum(reward), np.concatenate(supply, axis=-1), np.concatenate(demand, axis=-1))


def threshold_totals(world: Applicants, thresholds: Any) -> PolicyTotals:
    """R, S and D of an episode if scores from each group's threshold on are accepted."""
    return acceptance_totals(world, accepting_from(world, thresholds))
