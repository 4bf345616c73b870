"""What every iteration of a training showed, as columns of plain numbers."""

from elbert.frames import Frame


class History(Frame):
    """A row for each iteration of one agent's training: the rows of its run's metrics.csv.

    iteration, steps, seconds, seed, the coefficients in which agents that were trained together differ; then, of the
    iteration's rollout, reward (per step), bias, soft_bias, and for every group rate_0, supply_0, demand_0 (per step;
    with several criteria rate_0_0: criterion, group); then what the method shows, and what the learner shows:
    policy_loss, value_loss, entropy, kl, clip_fraction, gradient_norm, explained_variance, and the episodes that ended.
    A rate is None where a group had no demand.
    """
