"""Advantages and episode totals, against numbers computed by hand."""
# pyright: reportArgumentType=false, reportCallIssue=false, reportOptionalOperand=false, reportOperatorIssue=false

import jax.numpy as jnp
import numpy as np

from elbert.fairness.rates import Totals
from elbert.learning.estimates import advantages, signals_of, split_signals
from elbert.learning.rollouts import Rollout, Running, Window, episode_totals, eta_of, moved_window, running_bias


def test_advantages_by_hand_with_an_end_and_a_cut():
    """gamma = lambda = 1/2; step 0 terminates, step 1 is cut off, step 2 goes on."""
    x, v, after = (jnp.asarray(row, jnp.float32).reshape(4, 1, 1) for row in ([1, 2, 3, 4], [8, 4, 2, 1], [4, 6, 1, 2]))
    terminated = jnp.asarray([True, False, False, False])[:, None]
    ended = jnp.asarray([True, True, False, False])[:, None]
    got = advantages(x, v, after, terminated, ended, gamma=0.5, gae_lambda=0.5)[:, 0, 0]
    # delta: 1 - 8; 2 + 6/2 - 4; 3 + 1/2 - 2; 4 + 2/2 - 1.   A_2 = 1.5 + 4/4
    assert got.tolist() == [-7.0, 1.0, 2.5, 4.0]
    as_published = advantages(x, v, after, ended, ended, gamma=0.5, gae_lambda=0.5)[:, 0, 0]
    assert as_published.tolist() == [-7.0, -2.0, 2.5, 4.0]


def test_signals_go_together_and_apart():
    reward, supply = jnp.arange(3.0), jnp.arange(12.0).reshape(3, 2, 2)
    parts = split_signals(signals_of(reward, supply, 100 + supply), 2, 2)
    for part, given in zip(parts, (reward, supply, 100 + supply), strict=True):
        assert np.array_equal(part, given)


def test_running_bias_counts_extra_demand_and_takes_the_worst_criterion():
    total = Totals(jnp.asarray([[[1.0, 0.0], [3.0, 3.0]]]), jnp.asarray([[[1.0, 0.0], [3.0, 3.0]]]))
    assert running_bias(total, 0.0).tolist() == [1.0]
    assert running_bias(total, 1.0).tolist() == [0.5]


def course(supply, ended):
    """A rollout of one copy and one group with demand 1 a step."""
    steps = len(supply)
    given = jnp.asarray(supply, jnp.float32).reshape(steps, 1, 1, 1)
    over = jnp.asarray(ended).reshape(steps, 1)
    no = jnp.zeros((steps, 1), bool)
    blank = [jnp.zeros((steps, 1))] * 5
    return Rollout(*blank, given, jnp.ones_like(given), no, over, ~no)


def test_totals_carry_over_between_rollouts_shorter_than_an_episode():
    nothing = jnp.zeros((1, 1, 1))
    running = Running(nothing, nothing, jnp.ones(1))
    window = Window(nothing[0], nothing[0], jnp.zeros(()))
    seen = []
    for supply, ended in (([1, 0], [0, 0]), ([1, 1], [0, 1]), ([0, 0], [0, 0]), ([0, 0], [0, 1])):
        running, done, *_ = episode_totals(course(supply, np.asarray(ended, bool)), running, discount=1.0)
        window = moved_window(window, done, 1)
        eta = eta_of(window, running)
        seen.append((float(eta.supply[0, 0]), float(eta.demand[0, 0])))
    # of the unfinished episode; of the first whole one (4 steps); still of it; of the second
    assert seen == [(1.0, 2.0), (3.0, 4.0), (3.0, 4.0), (0.0, 4.0)]


def test_a_discount_for_totals_weighs_later_steps_less():
    nothing = jnp.zeros((1, 1, 1))
    running = Running(nothing, nothing, jnp.ones(1))
    ended = np.asarray([False, False, True, False])
    running, done, *_ = episode_totals(course([1, 1, 1, 1], ended), running, discount=0.5)
    assert float(done.supply[0, 0]) == 1.75
    assert float(running.supply[0, 0, 0]) == 1.0


def test_new_episodes_push_older_ones_out():
    def window(total, episodes):
        return Window(jnp.full((1, 1), float(total)), jnp.full((1, 1), float(episodes)), jnp.asarray(float(episodes)))

    assert float(moved_window(window(8, 4), window(3, 1), 4).supply[0, 0]) == 0.75 * 8 + 3
    assert float(moved_window(window(8, 4), window(20, 5), 4).supply[0, 0]) == 20
