"""A node is found if its own measurements differ from its peers', and only then."""

import re

import pytest

from diagnosis.kinds.logs.compare.detectors.uneven import compare


def lines(text: str, values: dict[str, float]) -> dict[str, list[str]]:
    return {node: [text.format(v=v + 0.1 * k, rank=n) for k in range(5)] for n, (node, v) in enumerate(values.items())}


PEERS = {f"n{k}": 800.0 + k for k in range(8)}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("rank {rank} compute {v:.1f} ms", 1300.0),
        ("forward-backward time (ms): {v:.2f}", 1300.0),
        ("step done, {v:.0f} tokens/s", 500.0),
        ("waiting for peers {v:.1f} ms", 30.0),
    ],
)
def test_longer_work_shorter_waiting_and_a_lower_rate_mark_the_slow_node(text: str, value: float) -> None:
    odd = compare(lines(text, PEERS | {"n3": value}), total=8)
    assert [o.node for o in odd] == ["n3"]
    assert re.search(r"the other nodes about 80[2-6]", odd[0].reason)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("waiting for peers {v:.1f} ms", 1300.0),
        ("step done, {v:.0f} tokens/s", 1300.0),
        ("read {v:.0f} samples", 1300.0),
        ("rank {rank} compute {v:.1f} ms", 830.0),
    ],
)
def test_waiting_longer_a_higher_rate_counts_and_small_differences_mark_nobody(text: str, value: float) -> None:
    assert compare(lines(text, PEERS | {"n3": value}), total=8) == []


def test_half_of_the_nodes_or_too_few_of_them_are_never_odd() -> None:
    half = {n: v * (1.6 if k % 2 else 1.0) for k, (n, v) in enumerate(PEERS.items())}
    assert compare(lines("compute {v:.1f} ms", half), total=8) == []
    assert compare(lines("compute {v:.1f} ms", {"a": 1.0, "b": 9.0, "c": 1.0}), total=3) == []


def test_ranks_and_other_numbers_without_a_unit_are_not_compared() -> None:
    assert compare({f"n{k}": [f"rank {k * k * k} is ready"] * 4 for k in range(8)}, total=8) == []
