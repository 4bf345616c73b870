"""Parameters of tests that take long: some run in `make test`, all in `make test-all`."""

import pytest


def slow_after(number, parameters, mark=pytest.mark.slow):
    """The parameters, plain or with an id; those after the first so many are marked as slow, or as a study."""
    whole = [each if hasattr(each, "marks") else pytest.param(each) for each in parameters]
    return [
        pytest.param(*each.values, id=each.id, marks=[mark] if place >= number else [])
        for place, each in enumerate(whole)
    ]
