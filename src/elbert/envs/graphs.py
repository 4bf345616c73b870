"""Social networks: the karate club, and a user's own graph, as arrays of edges and groups.

A graph is undirected and unweighted. People are numbered 0, 1, 2, ... in the order of the graph's nodes.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple, TypeAlias, TypeGuard

import numpy as np

from elbert.errors import InvalidInputError

GraphLike: TypeAlias = Any
"""A networkx graph, or pairs of people as a list or an array of shape [edges, 2]."""

GroupsLike: TypeAlias = Sequence[int] | Mapping[Any, int] | np.ndarray[Any, Any] | str
"""Group numbers in the order of the nodes, by node, or the name of a node attribute."""

KARATE_GROUP_0 = (0, 1, 3, 4, 5, 6, 7, 10, 11, 12, 13, 16, 17, 19, 21)
"""One side of the first Girvan-Newman split of Zachary's karate club; the other 19 people are group 1."""

KARATE_FRIENDS = """
0: 1 2 3 4 5 6 7 8 10 11 12 13 17 19 21 31; 1: 2 3 7 13 17 19 21 30; 2: 3 7 8 9 13 27 28 32
3: 7 12 13; 4: 6 10; 5: 6 10 16; 6: 16; 8: 30 32 33; 9: 33; 13: 33; 14: 32 33; 15: 32 33; 18: 32 33
19: 33; 20: 32 33; 22: 32 33; 23: 25 27 29 32 33; 24: 25 27 31; 25: 31; 26: 29 33; 27: 33; 28: 31 33
29: 32 33; 30: 32 33; 31: 32 33; 32: 33
"""
"""Who is a friend of whom, each friendship once: W. W. Zachary, "An information flow model for conflict and fission in
small groups", Journal of Anthropological Research 33 (1977), numbered from 0 as in networkx."""

LARGEST_POPULATION = 1_000_000


class Network(NamedTuple):
    """Who knows whom, and who belongs where."""

    edges: np.ndarray[Any, Any]  # [edges, 2] each pair once, smaller number first
    group: np.ndarray[Any, Any]  # [people] 0 .. groups - 1


@cache
def karate_club() -> Network:
    """Zachary's karate club: 34 people, 78 friendships, split in two groups of 15 and 19."""
    group = np.asarray([0 if person in KARATE_GROUP_0 else 1 for person in range(34)])
    rows = [row.split(":") for row in KARATE_FRIENDS.replace("\n", ";").strip(";").split(";")]
    pairs = [(int(person), int(friend)) for person, friends in rows for friend in friends.split()]
    network = Network(_edges(pairs, len(group)), group)
    for array in network:  # one network for all who ask
        array.setflags(write=False)
    return network


def as_network(graph: GraphLike, groups: GroupsLike | None) -> Network:
    """The network that a user means; without a graph the karate club, without either its own split in two groups."""
    if graph is None and groups is None:
        return karate_club()
    if groups is None:
        raise InvalidInputError(
            "The graph has no groups. Give groups=: one group number per person in the order of the nodes, a mapping "
            "from node to group, or the name of a node attribute."
        )
    if is_graph(graph) and graph.is_directed():
        raise InvalidInputError(
            "The graph is directed, but a contact goes both ways. Give graph.to_undirected(), if that is what it means."
        )
    if isinstance(groups, str):
        groups = _attribute(groups, graph)
    if is_graph(graph):
        nodes = list(graph.nodes())
        place = {node: index for index, node in enumerate(nodes)}
        pairs = [(place[edge[0]], place[edge[1]]) for edge in graph.edges()]
    elif graph is None:
        nodes, pairs = range(len(karate_club().group)), karate_club().edges
    else:
        nodes, pairs = None, graph  # as many people as there are groups given
    group = _checked_groups(groups, nodes)
    return Network(_edges(pairs, len(group)), group)


def is_graph(value: Any) -> TypeGuard[Any]:
    """Whether this looks like a networkx graph."""
    return hasattr(value, "nodes") and hasattr(value, "is_directed")


def _edges(pairs: Any, people: int) -> np.ndarray[Any, Any]:
    """Pairs as a sorted array without repetition; refuses what is not a pair of two different people."""
    try:
        array = np.asarray(pairs if isinstance(pairs, np.ndarray) else [tuple(pair) for pair in pairs])
    except (TypeError, ValueError) as error:
        raise InvalidInputError(
            f"The graph is neither a networkx graph nor pairs of people ({error}). Give [(0, 1), (1, 2), ...]."
        ) from error
    if array.size == 0:
        return np.zeros((0, 2), int)
    if array.ndim != 2 or array.shape[1] != 2 or not np.issubdtype(array.dtype, np.integer):
        raise InvalidInputError(
            f"The edges have shape {array.shape} and dtype {array.dtype}. Give pairs of whole numbers, [edges, 2]."
        )
    if array.min() < 0 or array.max() >= people:
        raise InvalidInputError(
            f"The edges name people from {array.min()} to {array.max()}, but groups has {people} entries, for people 0 "
            f"to {people - 1}. Give every person a group."
        )
    alone = array[:, 0] == array[:, 1]
    if alone.any():
        raise InvalidInputError(f"Person {array[alone][0, 0]} is joined to themselves. Remove edges of this kind.")
    return np.unique(np.sort(array, axis=1), axis=0).astype(int)


def _attribute(name: str, graph: Any) -> dict[Any, Any]:
    """Node -> what its attribute of this name holds."""
    nodes = graph.nodes(data=True) if is_graph(graph) else ()
    known = {str(attribute): None for _, data in nodes for attribute in data}
    if name not in known:
        have = ", ".join(map(repr, known)) or "no attributes (those of a list of edges never do)"
        raise InvalidInputError(f"No node has the attribute {name!r}, which groups= names. The nodes have {have}.")
    return {node: data[name] for node, data in nodes if name in data}


def _checked_groups(groups: Any, nodes: Sequence[Any] | None) -> np.ndarray[Any, Any]:
    """Whole numbers 0 .. M - 1 with somebody in each group, in the order of the people. [people]"""
    if isinstance(groups, Mapping):
        order = range(len(groups)) if nodes is None else nodes
        missing = [node for node in order if node not in groups]
        if missing:
            raise InvalidInputError(
                f"groups has no entry for {missing[0]!r}; {len(missing)} people have no group. Give every person one. "
                "In a list of edges people are numbered 0, 1, 2, ..."
            )
        groups = [groups[node] for node in order]
    try:
        groups = list(groups)
        array = np.asarray(groups)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"groups is not a list of group numbers ({error}). Give one per person.") from error
    if array.ndim != 1 or array.size == 0 or not np.issubdtype(array.dtype, np.integer):
        strange = next((g for g in groups if isinstance(g, bool) or not isinstance(g, int | np.integer)), groups)
        raise InvalidInputError(f"groups holds {strange!r}. Number the groups 0, 1, 2, ... and give one per person.")
    if nodes is not None and len(array) != len(nodes):
        raise InvalidInputError(f"groups has {len(array)} entries for {len(nodes)} people. Give one per person.")
    if len(array) > LARGEST_POPULATION:
        raise InvalidInputError(f"There are {len(array)} people. Give at most {LARGEST_POPULATION}.")
    used = np.unique(array)
    if used[0] != 0 or used[-1] != len(used) - 1:
        raise InvalidInputError(
            f"The groups in use are {', '.join(map(str, used[:10]))}. Number them 0, 1, 2, ... without gaps, so that "
            "every group has somebody in it."
        )
    return array.astype(int)
