"""What a row of a list says of an incident beside its node and its cause."""

from __future__ import annotations

import pytest

from triage.domain.row_headline import beside_columns

_KILLED = "Process killed from outside"


@pytest.mark.parametrize(
    ("headline", "cause", "accused", "told"),
    [
        (
            f"{_KILLED} on n-2 in training. 3 other nodes followed.",
            _KILLED,
            ["n-2"],
            "In training. 3 other nodes followed.",
        ),
        ("Disk full on n-1, n-2 while saving: “no space”.", "Disk full", ["n-1", "n-2"], "While saving: “no space”."),
        ("Tensors do not fit: “size 65”.", "tensors do not fit", [], "“size 65”."),
        (
            "n-3 is most probably at fault. The job was slow. It cost 2 s.",
            "Straggler",
            ["n-3"],
            "The job was slow. It cost 2 s.",
        ),
        ("n-3 and n-4 are most probably at fault. The job was slow.", "Straggler", ["n-3", "n-4"], "The job was slow."),
        ("Perhaps n-3 is at fault. rank 5 waits.", "Straggler", ["n-3"], "rank 5 waits."),
        ("One of 2 may be at fault (n-3, n-4). The job hung.", "", ["n-3", "n-4"], "The job hung."),
        ("GPU lost on n-3 (rank 12), n-4 (rank 7) in training.", "GPU lost", ["n-3", "n-4"], "In training."),
        ("demo-118: a GPU fell off the bus", "GPU lost", ["demo-118"], "A GPU fell off the bus"),
    ],
)
def test_what_the_columns_say_is_left_out(headline, cause, accused, told):
    assert beside_columns(headline, cause, accused) == told


@pytest.mark.parametrize(
    ("headline", "cause", "accused"),
    [
        ("Disk full on n-1.", "Disk full", ["n-1"]),
        (f"{_KILLED} on n-2 in training.", "Host out of memory", ["n-2"]),
        ("Unknown cause in training.", "", []),
        ("The job hung (n-1). It was ended.", "Data loader stuck", []),
        ("n-2 uses another network (sockets, the others IB). The job completed.", "Slow communication", ["n-2"]),
        ("n-1 stopped at 02:31. 7 nodes waited.", "Node lost", ["n-1"]),
    ],
)
def test_a_headline_of_which_nothing_would_be_left_or_of_another_cause_stays_whole(headline, cause, accused):
    assert beside_columns(headline, cause, accused) == headline
