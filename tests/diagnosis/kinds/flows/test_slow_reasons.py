"""Which place explains groups and pairs that are slow at the same time."""

from __future__ import annotations

import polars as pl

from diagnosis.kinds.flows.capture.capture import Capture, Place
from diagnosis.kinds.flows.layout.parallelism import Layout
from diagnosis.kinds.flows.slow.slow_reasons import explain
from diagnosis.kinds.flows.slow.slowness import Episode, SlowReport
from diagnosis.kinds.flows.steps.transfers import Transfers
from diagnosis.kinds.flows.tell.suspects import suspects
from tests.diagnosis.kinds.flows.test_stragglers import capture

#: Pairs of members: two across the leaves, one below each leaf.
UNITS = ((0, 2), (1, 3), (0, 1), (2, 3))


def told(leaf_of: dict[int, str]) -> tuple[SlowReport, Capture]:
    """What explains that the first two pairs are slow and the others are not."""
    _, _, whole = capture()
    places = {m: Place(f"n{m}", "", leaf_of[m]) for m in range(4)}
    whole = Capture(whole.flows, whole.names[:4], [], 0.0, places=places)
    crossed = [frozenset({leaf_of[a], leaf_of[b]}) for a, b in UNITS]
    cells = pl.DataFrame({"unit": [0, 1, 2, 3], "first": [0.0] * 4, "last": [9.0] * 4})
    table = Transfers(cells, pl.DataFrame(), pl.DataFrame(), [frozenset(pair) for pair in UNITS], crossed)
    ((owner, slow),) = explain([Episode(1.0, 8.0, (0, 1), (2, 3), 3.0, 0)], [table], [Layout(None, 1, 4)], whole)
    assert owner is None
    return slow, whole


def test_what_only_pairs_between_the_two_leaves_have_is_their_link_and_no_switch() -> None:
    slow, whole = told({0: "leaf0", 1: "leaf0", 2: "leaf1", 3: "leaf1"})
    assert (slow.kind, slow.link, slow.candidates) == ("slow_switch", "leaf0-leaf1", ["leaf0", "leaf1"])
    assert "crosses the link leaf0-leaf1 needed" in slow.reason
    assert [(row.kind, row.entity, row.score) for row in suspects([], [slow], whole, [])] == [
        ("link", "leaf0-leaf1", 0.9)
    ]


def test_what_all_transfers_of_a_kind_cross_makes_none_of_them_slower_than_the_others() -> None:
    """Three leaves below one spine: the two pairs of the first leaf are slow, the third pair is not."""
    _, _, whole = capture()
    places = {m: Place(f"n{m}", "", f"leaf{m // 2}") for m in range(6)}
    whole = Capture(whole.flows, [f"10.0.0.{m}" for m in range(6)], [], 0.0, places=places)
    units = [frozenset(pair) for pair in ((0, 2), (1, 4), (3, 5))]
    crossed = [frozenset({"spine", *(f"leaf{m // 2}" for m in pair)}) for pair in units]
    cells = pl.DataFrame({"unit": [0, 1, 2], "first": [0.0] * 3, "last": [9.0] * 3})
    table = Transfers(cells, pl.DataFrame(), pl.DataFrame(), units, crossed)
    episode = Episode(1.0, 8.0, (0, 1), (2,), 3.0, 0, peers=("PP leaves",) * 3)
    ((_, slow),) = explain([episode], [table], [Layout(None, 1, 6)], whole)
    assert slow.candidates == ["leaf0"]


def test_a_slow_path_is_named_by_its_two_ends_though_a_ring_is_slow_as_well() -> None:
    _, _, whole = capture()
    whole = Capture(whole.flows, [f"10.0.0.{m}" for m in range(6)], [], 0.0)
    others = [(end, other) for end in (0, 1) for other in (2, 3, 4, 5)]
    units = [frozenset(own) for own in [(0, 1), range(6), (3, 4, 5), *others]]
    cells = pl.DataFrame({"unit": range(11), "first": [0.0] * 11, "last": [9.0] * 11})
    table = Transfers(cells, pl.DataFrame(), pl.DataFrame(), units, [frozenset()] * 11)
    peers = ("EP", "rings", "rings", *["EP"] * 8)
    episode = Episode(1.0, 8.0, (0, 1), tuple(range(2, 11)), 3.0, 0, peers=peers)
    ((_, slow),) = explain([episode], [table], [Layout(None, 1, 6)], whole)
    assert (slow.link, slow.members) == ("10.0.0.0-10.0.0.1", [0, 1])
