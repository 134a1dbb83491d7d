"""The wait-for graph's components, held against SciPy's."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from diagnosis.kinds.stacks.ranks.waitgraph import components


@settings(max_examples=100, deadline=None)
@given(
    st.integers(1, 12).flatmap(
        lambda n: st.tuples(st.just(n), st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=30))
    )
)
def test_components_are_those_of_scipy_and_ends_have_no_edge_out(graph):
    size, edges = graph
    label, is_end = components(edges, size)
    rows, cols = [a for a, _ in edges], [b for _, b in edges]
    count, other = connected_components(
        coo_matrix((np.ones(len(edges)), (rows, cols)), shape=(size, size)), connection="strong"
    )
    assert len(is_end) == count
    assert all((label[a] == label[b]) == (other[a] == other[b]) for a in range(size) for b in range(size))
    assert all(end == (not any(label[a] == c != label[b] for a, b in edges)) for c, end in enumerate(is_end))


def test_a_path_of_fifty_thousand_ranks_needs_no_recursion():
    label, is_end = components([(i, i + 1) for i in range(49_999)], 50_000)
    assert is_end[label[49_999]]
    assert sum(is_end) == 1
