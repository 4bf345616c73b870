"""Tiny SD-MDPs, and their best policies found without occupancy programs and without branch and bound."""

import itertools

import numpy as np

from elbert.exact import FiniteSDMDP


def tiny(seed, *, groups=2, criteria=1, states=2, actions=2, horizon=3, discount=None):
    rng = np.random.default_rng(seed)
    shape = (states, actions, criteria, groups)
    demand = rng.uniform(0.1, 1.0, shape)
    return FiniteSDMDP(
        rng.dirichlet(np.ones(states), (states, actions)),
        rng.normal(size=(states, actions)),
        demand * rng.uniform(0.0, 1.0, shape),
        demand,
        start=rng.dirichlet(np.ones(states)),
        horizon=None if discount else horizon,
        discount=discount,
    )


def sometimes_silent(seed, *, groups=2, criteria=1, states=3, actions=2, horizon=2, silence=0.6, moves="random"):
    """Demand is 0 in this share of steps, so that some policies leave groups without any demand."""
    rng = np.random.default_rng(seed)
    shape = (states, actions, criteria, groups)
    spoken = rng.random(shape) > silence
    spoken[0, 0] = True  # every group can have demand
    demand = rng.uniform(0.1, 1.0, shape) * spoken
    supply = demand * rng.uniform(0.0, 1.0, shape)
    if moves == "random":
        transition, start = rng.dirichlet(np.ones(states), (states, actions)), np.full(states, 1 / states)
    else:
        transition, start = np.eye(states)[rng.integers(states, size=(states, actions))], np.eye(states)[0]
    reward = rng.normal(size=(states, actions))
    return FiniteSDMDP(transition, reward, supply, demand, start=start, horizon=horizon)


def vertices(mdp):
    """R, S, D of every deterministic policy: [policies], [policies, criteria, groups] twice."""
    steps = mdp.horizon or 1
    found = []
    for choice in itertools.product(range(mdp.actions), repeat=mdp.states * steps):
        policy = np.eye(mdp.actions)[np.array(choice).reshape(steps, mdp.states)]
        found.append(mdp.totals(policy if mdp.horizon else policy[0]))
    return tuple(np.array(part) for part in zip(*found, strict=True))


def best_deterministic(mdp, limit):
    """The most reward of a deterministic policy with this bias at most, by definition: max - min of the rates."""
    most = -np.inf
    for reward, supply, demand in zip(*vertices(mdp), strict=True):
        spreads = [0.0]
        for given, due in zip(supply, demand, strict=True):
            rates = [s / d for s, d in zip(given, due, strict=True) if d > 0]
            spreads.append(max(rates) - min(rates) if rates else 0.0)
            if any(s > 0 and d <= 0 for s, d in zip(given, due, strict=True)):
                spreads.append(np.inf)
        if max(spreads) <= limit:
            most = max(most, reward)
    return most


def climbed(mdp, max_bias, *, starts=12, rounds=400, seed=0):
    """The most reward of a mixture of deterministic policies with bias <= max_bias: a local search over mixtures.

    Every policy's totals are a mixture of those of deterministic ones. From many starts: try moving weight between two
    of them and keep what is within the limit and better. It never reaches more than the truth.
    """
    reward, supply, demand = vertices(mdp)
    count = len(reward)
    rng = np.random.default_rng(seed)

    def excess(weights):
        rates = np.tensordot(weights, supply, 1) / np.tensordot(weights, demand, 1)
        return np.max(np.ptp(rates, axis=-1), axis=-1) - max_bias

    best = -np.inf
    steps = np.concatenate([[0.0], np.geomspace(1e-7, 1.0, 60)])
    for _ in range(starts):
        weights = rng.dirichlet(np.full(count, 0.3))
        for _ in range(rounds):
            # towards a random mixture of two policies, as far as is best: first into the limit, then up
            to = np.zeros(count)
            i, j = rng.integers(count, size=2)
            share = rng.uniform()
            to[i] += share
            to[j] += 1 - share
            line = weights + steps[:, None] * (to - weights)
            over, gain = excess(line), line @ reward
            inside = over <= 1e-9
            at = int(np.argmax(np.where(inside, gain, -np.inf))) if inside.any() else int(np.argmin(over))
            weights = line[at]
        if excess(weights) <= 1e-9:
            best = max(best, float(weights @ reward))
    return best


def gridded(mdp, max_bias, *, points=41, axes=None):
    """The same by a dense grid over the lowest rates, and a linear program over the mixtures at each."""
    from scipy.optimize import linprog

    reward, supply, demand = vertices(mdp)
    count = len(reward)
    rates = np.divide(supply, demand, out=np.zeros_like(supply), where=demand > 0)
    if axes is None:
        axes = [np.linspace(rates[:, k].min(), rates[:, k].max(), points) for k in range(mdp.criteria)]
    best = -np.inf
    for rho in itertools.product(*axes):
        low = np.array(rho)[:, None]
        short, over = low * demand - supply, supply - (low + max_bias) * demand
        limits = np.concatenate([part.reshape(count, -1).T for part in (short, over)])
        right, one = np.zeros(len(limits)), np.ones((1, count))
        done = linprog(-reward, A_ub=limits, b_ub=right, A_eq=one, b_eq=[1.0], method="highs")
        best = max(best, -done.fun) if done.status == 0 else best
    return best
