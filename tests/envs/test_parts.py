"""What parts can be, and what they are in our worlds."""
# pyright: reportArgumentType=false, reportOptionalMemberAccess=false

import numpy as np
import pytest

from elbert.envs import Attention, Infectious, Lending, Parts
from elbert.errors import InvalidInputError


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"observed": [0, 1, 2]}, r"observed has shape \(3,\)"),
        ({"observed": [[0], [0]]}, "1 different entries. .* each place once"),
        ({"observed": [[0], [-1]]}, "observed holds int64 numbers from -1 on"),
        ({"observed": [[0.5], [1]]}, "whole numbers from 0 on"),
        ({"observed": [["a"], ["b"]]}, "observed holds no numbers"),
        ({"observed": [[0], [1, 2]]}, "observed is no array"),
        ({"observed": [[0], [1]], "features": [1.0, 2.0]}, r"features has shape \(2,\) for 2 parts"),
        ({"observed": [[0], [1]], "features": [[1.0], [np.inf]]}, "Give finite numbers"),
        ({"observed": [[0], [1]], "edges": [(0, 2)]}, "edges names part 2, but parts are numbered 0 to 1"),
        ({"observed": [[0], [1]], "edges": [(1, 1)]}, "joins a part to itself"),
        ({"observed": [[0], [1]], "group": [0]}, "group has 1 entries for 2 parts"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments, says):
    with pytest.raises(InvalidInputError, match=says):
        Parts(**arguments)


def test_equal_arrays_are_equal_parts_and_files_hold_them():
    one, other = (Parts([[0], [1]], features=[[0.1], [0.7]], edges=[(0, 1)], group=[0, 1], chosen=True) for _ in "ab")
    assert (one, hash(one)) == (other, hash(other))
    again = Parts.from_arrays(one.arrays())
    assert again == one
    assert np.array_equal(again.standardised, one.standardised)
    assert one != Parts([[0], [1]], features=[[0.1], [0.7]], edges=[(0, 1)], group=[0, 1])
    assert one != Parts([[0], [1]])


def test_features_are_seen_standardised():
    parts = Parts([[0], [1], [2]], features=[[1.0, 7.0], [2.0, 7.0], [3.0, 7.0]])
    assert np.allclose(parts.standardised[:, 0], [-np.sqrt(1.5), 0, np.sqrt(1.5)])
    assert not parts.standardised[:, 1].any(), "where all are alike there is nothing to see"


def test_the_parts_of_our_worlds_are_where_they_say():
    world = Attention(initial_rates=[8.0, 4.0], history=2)
    shown = np.arange(16).reshape(2, 4, 2)  # steps, numbers, sites
    assert np.array_equal(world.parts.observed[1], shown[:, :, 1].reshape(-1))
    assert world.parts.group.tolist() == [0, 1]
    people = Infectious(graph=[(0, 1), (1, 2)], groups=[0, 1, 1]).parts
    assert people.observed.tolist() == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
    assert people.edges.tolist() == [[0, 1], [1, 2]]
    assert np.allclose(people.features[:, 0], np.log1p([1, 2, 1]))
    assert Lending().parts is None


def test_what_belongs_to_no_part_concerns_all():
    assert Parts([[1], [3]]).others(5).tolist() == [0, 2, 4]
