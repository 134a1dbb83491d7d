"""Ranks that the others name as missing are named, whatever the wording."""

from __future__ import annotations

from pathlib import Path

import pytest

from diagnosis.kinds.logs.compare import stalled
from tests.diagnosis.cases import case_of_files

HOROVOD = (
    "[1,0]<stderr>:One or more tensors were submitted to be reduced by subset of ranks and are waiting",
    "[1,0]<stderr>:Missing ranks:",
    "[1,0]<stderr>:5: [allreduce.grad_layer4_0_conv1, allreduce.grad_layer4_0_conv2]",
    "[1,0]<stderr>:6: [allreduce.grad_layer4_0_conv1]",
)
WORDINGS = (
    (HOROVOD, ["rank 5", "rank 6"]),
    (("Stalled ranks: 3",), ["rank 3"]),
    (("RuntimeError: [Rank 0]: Ranks 3, 9 failed to reach the barrier in 600000 ms",), ["rank 3", "rank 9"]),
    (("sync point: 15/16 ranks after 300s, missing [4]",), ["rank 4"]),
    (("no stalled tensors", "5: [allreduce.grad_1]"), []),
    (("Missing ranks:", "7: [12, 13]"), []),
    (("Ranks 0, 1, 2, 3, 4, 5, 6, 7 did not join",), []),
)


@pytest.mark.parametrize(("lines", "found"), WORDINGS, ids=[lines[-1][:40] for lines, _ in WORDINGS])
def test_the_missing_ranks_are_those_that_the_messages_name(
    tmp_path: Path, lines: tuple[str, ...], found: list[str]
) -> None:
    case = case_of_files(tmp_path, {"out.log": ["2026-03-01 12:30:00 INFO step 200 loss 1.9", *lines]})
    assert [result.target for result in stalled.ranks_missing(case)] == found
