"""What is highlighted in a line: the words that state the fault and their objects."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diagnosis.kinds.logs.meaning import signatures
from diagnosis.kinds.logs.meaning.indicators import LIMITS, Indication, extract


def spans_point_at_their_values(line: str, found: Indication) -> bool:
    is_inside = all(0 <= span.start <= span.end <= len(line) for span in found.spans)
    return is_inside and all(value in line for value in found.parameters.values())


@pytest.mark.parametrize(
    ("line", "words", "parameters"),
    [
        (
            "[ 91.5] NVRM: Xid (PCI:0000:4e:00): 79, pid=811, GPU has fallen off the bus.",
            "GPU has fallen off the bus",
            {"pci": "0000:4e:00", "xid": "79", "process": "811"},
        ),
        (
            "2031-02-03 04:05:06 ERROR rank 7: OSError: [Errno 28] No space left on device: '/ckpt/step_9/model.pt'",
            "No space left on device",
            {"rank": "7", "errno": "28", "exception": "OSError", "path": "/ckpt/step_9/model.pt"},
        ),
        (
            "worker lost contact with 10.3.2.1:4411 after 30 seconds on mlx5_3 port 1",
            "worker lost contact with 10.3.2.1:4411 after 30 seconds on mlx5_3 port 1",
            {"address": "10.3.2.1:4411", "duration": "30 seconds", "device": "mlx5_3", "port": "1"},
        ),
        (
            "nvidia-nvswitch2: SXid (PCI:0000:c4:00.0): 20034, Fatal, Link 12 LTSSM Fault Up",
            "Fatal, Link 12 LTSSM Fault Up",
            {"device": "nvidia-nvswitch2", "pci": "0000:c4:00.0", "xid": "20034", "link": "12"},
        ),
        (
            "[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 5 has 79.11 GiB",
            "CUDA out of memory",
            {"rank": "3", "gpu": "5", "bytes": "2.00 GiB", "exception": "torch.OutOfMemoryError"},
        ),
        (
            "agent: node trn-17: worker exited with code -9 at iteration 41, received SIGKILL, see launch.py:88",
            "worker exited with code -9 at iteration 41",
            {"node": "trn-17", "exit_code": "-9", "iteration": "41", "signal": "SIGKILL", "source": "launch.py:88"},
        ),
    ],
)
def test_a_line_without_a_rule_is_read_by_its_words(line: str, words: str, parameters: dict[str, str]) -> None:
    found = extract(line)
    assert found.text == words
    assert parameters.items() <= found.parameters.items()
    assert spans_point_at_their_values(line, found)


def test_the_match_of_a_rule_is_the_description() -> None:
    line = "[rank9]: RuntimeError: CUDA error: an illegal memory access was encountered on something else"
    found = extract(line, "cuda.illegal_access")
    assert found.text == "illegal memory access was encountered"
    (fault,) = [span for span in found.spans if span.kind == "fault"]
    assert line[fault.start : fault.end] == found.text


def test_the_words_next_to_a_code_describe_the_fault() -> None:
    found = extract("NVRM: Xid (PCI:0000:4e:00): 79, pid=811, GPU has fallen off the bus.", "nvidia.xid.79")
    assert found.text == "GPU has fallen off the bus"
    assert found.parameters["xid"] == "79"


def test_a_code_without_words_is_its_own_description() -> None:
    assert extract("NVRM: Xid (PCI:0000:4e:00): 44, Ch 00000010", "nvidia.xid.44").text == "Xid (PCI:0000:4e:00): 44"


def test_a_rule_that_does_not_match_falls_back_to_the_words() -> None:
    assert extract("disk failed: sdb", "cuda.illegal_access").text == "disk failed"
    assert extract("disk failed: sdb", "no.such.rule").text == "disk failed"


def test_a_line_that_tells_no_fault_is_its_own_description() -> None:
    found = extract("  training goes on  ")
    assert found.text == "training goes on"
    assert found.spans == ()


def test_the_nearest_value_of_a_kind_is_the_parameter() -> None:
    found = extract("rank 1 says hello, link 4 of gpu 2 failed on rank 9")
    assert found.parameters["rank"] == "9"


def test_times_are_not_taken_for_bus_ids_or_addresses() -> None:
    found = extract("2031-02-03 10:11:12 ERROR 10:11:12.131 version 1.2.3 failed")
    assert not {"pci", "address"} & found.parameters.keys()


@pytest.mark.parametrize("rule", signatures.builtin(), ids=lambda rule: rule.id)
def test_every_rule_describes_its_own_example(rule: signatures.Signature) -> None:
    found = extract(rule.examples[0], rule.id)
    assert len(found.text) >= 3
    assert found.text in rule.examples[0]


@given(st.text(max_size=200))
def test_no_line_breaks_it(line: str) -> None:
    assert spans_point_at_their_values(line, extract(line))


def test_only_the_head_of_a_huge_line_is_read() -> None:
    found = extract("y" * 3_000_000 + " failed")
    assert found.spans == ()
    assert len(found.text) <= LIMITS.limit


def test_a_rule_that_only_anchors_the_beginning_describes_the_whole_clause():
    found = extract("2026-01-01T00:00:02Z RuntimeError: boom in the shard", "code.exception")
    assert found.text == "RuntimeError: boom in the shard"


def test_a_description_takes_the_word_before_it_rather_than_the_name_of_another_value() -> None:
    line = "api.py:1002] failed (exitcode: -9) local_rank: 1 (pid: 28520) of binary: /venv/bin/python"
    assert extract(line, "elastic.exit_killed").text == "failed (exitcode: -9)"


def test_a_description_does_not_end_where_a_comparison_begins() -> None:
    line = "RuntimeError: [enforce fail at inline_container.cc:603] . unexpected pos 64 vs 0"
    assert extract(line, "storage.stream_writer").text == "unexpected pos 64 vs 0"
