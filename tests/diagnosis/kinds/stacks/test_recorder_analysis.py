"""The output of PyTorch's analyser of Flight Recorder dumps: who did not join which collective."""

from __future__ import annotations

from diagnosis.kinds.stacks import sniff
from tests.diagnosis.kinds.reports import stacks_json
from tests.diagnosis.kinds.stacks.simulate import parse

TEXT = """Not all ranks joining collective: sequence number: 41
internal record id: 40
group info: 3:tp_group
collective: nccl:_all_gather_base
missing ranks: {2}
input sizes: [[8, 4]]
expected ranks: {0, 1, 2, 3}
collective state: scheduled
collective stack trace:
 forward at /srv/run/layers.py:210
"""


def test_the_rank_that_did_not_join_is_accused() -> None:
    report = stacks_json([parse(TEXT.encode(), "analysis.txt")])
    assert report["suspect_ranks"] == [2]
    assert "all_gather_base #41 of 3:tp_group" in report["reason"]


def test_what_the_tool_says_of_its_files_may_stand_before_its_findings() -> None:
    said = "loaded 4 files in 0.02s\nbuilt groups, memberships\n" + TEXT.replace("collective: seq", "collective, seq")
    assert stacks_json([parse(said.encode(), "analysis.txt")])["suspect_ranks"] == [2]


def test_prose_about_the_tool_is_no_output_of_it() -> None:
    assert sniff(b"2026-03-01 08:00:00 the tool says: Not all ranks joining collective: 41\n", "train.log") is None


def test_an_output_in_the_middle_of_a_log_leaves_it_a_log() -> None:
    log = b"2026-03-01 08:00:00 INFO step 7\n2026-03-01 08:00:01 INFO step 8\n"
    assert sniff(log + TEXT.encode(), "train.log") is None


def test_an_output_without_missing_ranks_is_left_out_with_a_sentence() -> None:
    one = parse(b"Not all ranks joining collective: sequence number: 41\nmissing ranks: {}\n", "analysis.txt")
    assert one.skipped is not None
    assert "torchfrtrace" in one.skipped


def test_the_rank_that_called_another_collective_is_accused() -> None:
    said = "Expected collective type: 'all_reduce' does not match found collective type: '_all_gather_base'"
    culprit = f"error msg: Culprit rank 1; Error type: COLLECTIVE_TYPE_MISMATCH; {said}"
    text = TEXT.replace(
        "Not all ranks joining collective: sequence number: 41", "Collective sequence number: 41 has errors"
    )
    report = stacks_json([parse(text.replace("missing ranks: {2}", culprit).encode(), "analysis.txt")])
    assert report["suspect_ranks"] == [1]
    assert "called all_gather_base as #41 of 3:tp_group where its peers called all_reduce" in report["reason"]
