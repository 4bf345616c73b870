"""Whatever the totals: verdict, interval and estimate never contradict each other, and nothing foreign is raised.

The relations that must hold, for a report and for the test of any limit:

- 0 <= low <= high; low <= estimate; a rate lies within its interval.
- The debiased bias is at most the estimate and at most high; it is at least low unless low is 0.
- confirmed: the limit is at least the estimate, at least low, and no group with demand is left out.
- refuted: the limit is below the estimate and at most high (to the precision of the search).
- A limit that is confirmed stays confirmed when it is raised; p_confirm falls, or stays.
- If every compared group is still: a limit is confirmed if and only if it is not below high.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elbert.errors import ElbertError
from elbert.fairness import benefit_report
from elbert.fairness.rate_intervals import INTERVAL_METHODS, pool
from elbert.fairness.true_range import _PRECISION

ORDINARY = st.sampled_from([0.0, 0.0, 1.0, 1.0, 2.0, 3.0, 7.0, 20.0])
ODD = st.sampled_from([0.0, 5e-324, 1e-300, 1e-160, 1e-20, 1 / 3, 1e6, 1e20, 1e160, 1e300])
SHARES = st.sampled_from([0.0, 1e-200, 1e-12, 1 / 3, 0.5, 1.0, 1.0])


@st.composite
def totals(draw):
    """Supply and demand [episodes, groups], mostly ordinary counts; some groups keep one share in every episode."""
    episodes, groups = draw(st.integers(1, 7)), draw(st.integers(2, 10))
    amounts = draw(st.sampled_from([ORDINARY, ORDINARY, ODD, st.one_of(ORDINARY, ODD)]))
    rows = st.lists(st.lists(amounts, min_size=groups, max_size=groups), min_size=episodes, max_size=episodes)
    demand = np.array(draw(rows))
    share = np.array(draw(st.lists(SHARES, min_size=groups, max_size=groups)))
    supply = demand * share
    moving = np.array(draw(st.lists(st.booleans(), min_size=groups, max_size=groups)))
    supply[:, moving] = np.array(draw(rows))[:, moving]
    bounded = draw(st.booleans())
    if bounded:
        supply = np.minimum(supply, demand)
    notion = draw(st.sampled_from(["equal-opportunity", "demographic-parity"])) if bounded else None
    return supply, demand, notion


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(totals(), st.sampled_from([0.5, 0.9, 0.95]), st.sampled_from(INTERVAL_METHODS))
def test_verdict_interval_and_estimate_never_contradict_each_other(example, confidence, method):
    supply, demand, notion = example
    try:
        report = benefit_report(supply, demand, notion=notion, confidence=confidence, method=method, resamples=100)
    except ElbertError:
        return
    report.to_json()
    assert "nan" not in str(report)
    (part,) = report.criteria
    for row in part.groups:
        if row.low is not None and row.rate is not None and row.high is not None:
            assert 0 <= row.low <= row.high
            if method == "delta":
                assert row.low <= row.rate * (1 + 1e-9)
                assert row.rate <= row.high * (1 + 1e-9)
    check_bias(report, part.bias)
    ratio = part.impact_ratio
    if ratio.low is not None and ratio.high is not None and ratio.debiased is not None:
        assert 0 <= ratio.low <= ratio.high <= 1
        assert 0 <= ratio.debiased <= 1


def check_bias(report, bias):
    """The relations in the module's docstring."""
    if bias.low is None:
        return
    assert 0 <= bias.low <= bias.high
    assert bias.low <= bias.estimate
    assert bias.debiased <= min(bias.estimate * (1 + 1e-9), bias.high)
    assert bias.low == 0 or bias.debiased >= bias.low
    pooled = pool(report.totals, confidence=report.confidence)
    noise = pooled.error[pooled.compared].max()
    precision = 2 * _PRECISION * noise  # of the ends of an interval
    limits = [0.0, bias.low, bias.estimate, bias.high * 0.999, bias.high * 1.001, 1e300]
    tests = [report.test(limit) for limit in sorted({float(np.clip(limit, 0, 1e300)) for limit in limits})]
    for test in tests:
        assert 0 <= test.p_refute <= 1
        assert 0 <= test.p_confirm <= 1
        if test.verdict == "confirmed":
            assert test.max_bias >= bias.estimate - 1e-9 * noise  # a p-value of 0.5 is rounded
            assert test.max_bias >= bias.low - 1e-9 * noise
            assert pooled.compared[pooled.with_demand > 0].all()
        if test.verdict == "refuted":
            assert test.max_bias < bias.estimate
            assert test.max_bias <= bias.high + precision
        if pooled.still[pooled.compared].all() and pooled.compared[pooled.with_demand > 0].all():
            if test.max_bias > bias.high + precision:
                assert test.verdict == "confirmed" or bias.high == 1  # where rates are bounded, so is the interval
            if test.max_bias < bias.high - precision:
                assert test.verdict != "confirmed"
    confirming = [test.p_confirm for test in tests]
    assert confirming == sorted(confirming, reverse=True)


@pytest.mark.parametrize(
    ("supply", "demand"),
    [
        # each of these ended in "The function value at x=0.0 is NaN" or "xtol too small"
        ([[1e-200, 1.0], [0.0, 1.0], [3e-200, 0.0]], [[1.0, 1.0], [1.0, 2.0], [1.0, 1.0]]),
        ([[1e-160, 1e-160], [0.0, 3e-160], [2e-160, 0.0]], np.ones((3, 2))),
        ([[1e160, 1.0], [3e160, 1.0], [2e160, 0.0]], np.ones((3, 2))),
        ([[1.0, 1.0], [0.0, 1.0]], [[1e10, 1.0], [1e-10, 1.0]]),
    ],
)
@pytest.mark.parametrize("method", INTERVAL_METHODS)
def test_totals_that_once_stopped_the_search(supply, demand, method):
    report = benefit_report(supply, demand, method=method, resamples=100)
    (part,) = report.criteria
    assert part.bias.low is not None
    assert part.bias.high is not None
    assert 0 <= part.bias.low <= part.bias.high < np.inf
    assert report.test(0.05).verdict in ("confirmed", "not refuted", "refuted")
