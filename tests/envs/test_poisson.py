"""The Poisson sampler has the Poisson distribution, at every rate."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from elbert.envs.poisson import _alias, _tables, poisson

DRAWS = 200_000
RATES = [0.02, 0.5, 0.999, 1.0, 3.7, 15.96, 16.0, 31.4, 255.5, 256.0, 1000.25, 2048.0, 4095.5, 4096.0, 5000.5, 12_345.0]


@pytest.mark.parametrize("rate", RATES)
def test_counts_have_the_poisson_distribution(rate):
    counts = np.asarray(jax.jit(poisson)(jax.random.key(int(rate)), jnp.full(DRAWS, rate)))
    assert (counts == np.round(counts)).all()
    assert (counts >= 0).all()
    law = stats.poisson(rate)
    edges = np.unique(law.ppf(np.linspace(0, 1, 41)[1:-1]))  # cells of about 1/40 each
    cells = np.concatenate([[-np.inf], edges, [np.inf]])
    expected = DRAWS * np.diff(np.concatenate([[0], law.cdf(edges), [1]]))
    seen = np.histogram(counts, bins=np.nextafter(cells, np.inf))[0]
    keep = expected > 5
    assert stats.chisquare(seen[keep], expected[keep] * seen[keep].sum() / expected[keep].sum()).pvalue > 1e-4
    assert abs(counts.mean() - rate) < 4.5 * np.sqrt(rate / DRAWS)
    error = np.sqrt((rate + 2 * rate**2) / DRAWS)  # of the sample variance: fourth moment rate + 3 rate**2
    assert abs(counts.var() - rate) < 4.5 * error


@pytest.mark.slow
def test_rare_counts_come_as_often_as_they_should():
    """Tails: a rate of 20 exceeds 40 once in 50 000 draws."""
    counts = np.asarray(poisson(jax.random.key(1), jnp.full(4_000_000, 20.0)))
    for limit in (38, 40, 42):
        expected = 4_000_000 * stats.poisson(20).sf(limit)
        assert abs((counts > limit).sum() - expected) < 4.5 * np.sqrt(expected)
    expected = 4_000_000 * stats.poisson(20).cdf(5)
    assert abs((counts <= 5).sum() - expected) < 4.5 * np.sqrt(expected)


def test_the_tables_hold_the_probabilities():
    """What an alias table gives each count, added up over its columns, is its probability."""
    for unit, digit in ((1, 7), (16, 15), (256, 3), (256, 15), (4096, 1)):
        tables = _tables(unit)
        size = 2**tables.bits
        keep = tables.keep[digit * size : (digit + 1) * size] / 2.0**32
        other = tables.other[digit * size : (digit + 1) * size]
        given = (keep + np.bincount(other, weights=1 - keep, minlength=size)) / size
        counts = tables.lowest[digit] + np.arange(size)
        assert np.abs(given - stats.poisson.pmf(counts, digit * unit)).max() < 1e-9
        assert abs(stats.poisson.pmf(counts, digit * unit).sum() - 1) < 1e-11


def test_alias_of_a_known_distribution():
    keep, other = _alias(np.asarray([0.5, 0.25, 0.25, 0.0]))
    given = (keep + np.bincount(other, weights=1 - keep, minlength=4)) / 4
    assert given == pytest.approx([0.5, 0.25, 0.25, 0.0])


@pytest.mark.slow
def test_no_rate_no_incident_and_mixed_rates_keep_their_places():
    rates = jnp.asarray([0.0, 5000.0, 0.0, 3.0])
    counts = np.asarray(jax.vmap(lambda key: poisson(key, rates))(jax.random.split(jax.random.key(0), 2000)))
    assert (counts[:, [0, 2]] == 0).all()
    assert counts.mean(axis=0) == pytest.approx([0, 5000, 0, 3], abs=7)
    assert abs(np.corrcoef(counts[:, 1], counts[:, 3])[0, 1]) < 0.1
