"""Lending, exactly: the population equations, and the most reward within a limit on the bias.

m_t(g, c) is the expected share of group g at score c, and x_t(g, c) = E[m_t(g, c) accepted_t] what of it is accepted.
An applicant of group g comes with probability w_g, and a loan moves `shift` of the group:

    m_t+1(g, c) = m_t(g, c) + w_g shift (sum of x_t moving to c - x_t(g, c))
    reward      = sum_gc w_g x_t(g, c) loan (repayment_c (interest + 1) - 1)

So each group is a finite SD-MDP whose states are the scores, and a person's score moves with probability w_g shift when
accepted. These equations are linear in x, and hold for every policy, also one that looks at the whole history: they are
exact for the simulated world where min(shift, mass) is always `shift` or 0, which is so if every initial mass is a
multiple of the shift, as in the published world, and where the bank's cash lasts for the horizon.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from elbert.envs.lending import Lending
from elbert.errors import InvalidInputError
from elbert.exact.branch_and_bound import Best, best_within
from elbert.exact.column_generation import ComponentsProgram, mixed_policy
from elbert.exact.finite import FiniteSDMDP, PolicyTotals, as_written

STARTING_RATES = (0.5, 0.7, 0.8, 0.85, 0.9, 0.95)
STARTING_PRICES = (-0.5, -0.1, 0.1, 0.3, 0.6, 1.0, 2.0)
"""The first columns are the best responses to these prices of S - rate D."""


def lending_groups(world: Lending) -> list[FiniteSDMDP]:
    """Every group as a finite SD-MDP over scores: action 1 accepts, 0 rejects.   [groups]"""
    repays, shift = as_written(world.repayment), float(world.shift)
    loan, interest = float(world.loan), float(world.interest)
    scores = np.arange(world.scores)
    parts = []
    for share, first in zip(as_written(world.group_shares), as_written(world.initial_scores), strict=True):
        if share == 0:
            raise InvalidInputError(
                "A group has share 0 of the applicants: it can never have demand and has no benefit rate. Give every "
                "group in group_shares a share above 0."
            )
        moves = np.zeros((world.scores, 2, world.scores))
        moves[scores, :, scores] = 1.0
        for end, chance in ((1, repays), (-1, 1 - repays)):
            moves[scores, 1, np.clip(scores + end, 0, world.scores - 1)] += share * shift * chance
            moves[scores, 1, scores] -= share * shift * chance
        reward = np.zeros((world.scores, 2))
        reward[:, 1] = share * loan * (repays * (interest + 1) - 1)
        amounts = [
            share * (repays * np.array(of(decision, 1.0)) + (1 - repays) * np.array(of(decision, 0.0)))
            for criterion in world.notion.criteria
            for of in (criterion.supply, criterion.demand)
            for decision in (0.0, 1.0)
        ]
        table = np.array(amounts).reshape(-1, 2, 2, world.scores)  # [criteria, supply or demand, decision, scores]
        supply, demand = (np.moveaxis(table[:, i], 0, -1).swapaxes(0, 1)[..., None] for i in (0, 1))
        parts.append(FiniteSDMDP(moves, reward, supply, demand, start=first, horizon=int(world.horizon)))
    return parts


def lending_is_exact(world: Lending) -> bool:
    """Whether the population equations are those of the simulated world.

    They are if min(shift, mass) is always the shift or 0, and if the bank's cash lasts for the horizon.
    """
    shift, masses = float(world.shift), as_written(world.initial_scores)
    whole = shift == 0 or np.allclose(masses / shift, np.round(masses / shift), atol=1e-4)
    return bool(whole) and float(world.initial_cash) >= float(world.loan) * int(world.horizon)


def lending_program(world: Lending) -> ComponentsProgram:
    """The groups as a `Program`, with columns to start from; it can be used for many limits."""
    program = ComponentsProgram(lending_groups(world))
    program.explore(
        [
            part.reward + price * (part.supply[..., 0] - rate * part.demand[..., 0]).sum(axis=-1)
            for rate in STARTING_RATES
            for price in STARTING_PRICES
        ]
        for part in program.parts
    )
    return program


def best_lending(world: Lending, max_bias: float = np.inf, *, tolerance: float = 1e-6) -> Best:
    """max reward subject to bias <= max_bias in lending's population.

    `Best.policy` holds the probabilities of acceptance, [horizon, groups, scores].
    """
    program = lending_program(world)
    return with_acceptance(program, best_within(program, max_bias, tolerance=tolerance))


def with_acceptance(program: ComponentsProgram, best: Best) -> Best:
    """The same best policy, as probabilities of acceptance, [horizon, groups, scores]."""
    return replace(best, policy=np.moveaxis(mixed_policy(program, best.policy)[..., 1], 0, 1))


def threshold_totals(world: Lending, thresholds: Any) -> PolicyTotals:
    """R, S and D of an episode if scores from each group's threshold on are accepted."""
    groups = [
        part.totals(np.eye(2)[(np.arange(part.states) >= low).astype(int)])
        for part, low in zip(lending_groups(world), np.asarray(thresholds, float), strict=True)
    ]
    reward, supply, demand = zip(*groups, strict=True)
    return PolicyTotals(sum(reward), np.concatenate(supply, axis=-1), np.concatenate(demand, axis=-1))
