"""Bad stack evidence gets a sentence and loses nothing."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diagnosis.kinds.stacks import sniff
from diagnosis.kinds.stacks.blame.accusations import Findings
from diagnosis.kinds.stacks.blame.stack_report import report_of
from diagnosis.kinds.stacks.read.stack_frames import unpack
from diagnosis.model import Kind, Parsed
from tests.diagnosis.kinds.reports import stacks_json
from tests.diagnosis.kinds.stacks.simulate import CULPRITS, SCHEDULE, dumps, hang, parse, pyspy_text, pystack_text

SIZES = {"tp": 2, "pp": 4, "dp": 4}


def test_without_stacks_there_is_no_report():
    assert stacks_json([]) == {}
    assert stacks_json([Parsed(path="a.log", kind=Kind.LOG)]) == {}


MANY_DIGITS = "7" * 5000
FRAME = f"    train (train.py:{MANY_DIGITS})"


@pytest.mark.parametrize(
    "text",
    [
        f"Process {MANY_DIGITS}: python train.py\nThread {MANY_DIGITS} (idle)\n{FRAME}\n",
        f"Process 7: python train.py\nParent Process {MANY_DIGITS}: bash\nThread 7 (idle)\n    train (train.py:3)\n",
        f'Thread {MANY_DIGITS} (LWP {MANY_DIGITS} "python"):\n#0  train () at train.c:{MANY_DIGITS}\n',
        f"Attaching to process {MANY_DIGITS}\nThread 1 (LWP 7):\n#0  train () at train.c:3\n",
    ],
    ids=["process", "parent", "thread", "attach"],
)
def test_a_number_of_thousands_of_digits_costs_nothing_but_itself(text):
    (dump,) = unpack(parse(text, "stacks/rank-0.txt").facts)
    assert dump.threads[0].frames[0].name == "train"


def test_one_rank_alone_is_compared_with_nobody():
    case = hang(SIZES, "tp-dp-pp", {3}, "loader")
    got = stacks_json([parse(pyspy_text(case.stacks[3], 7), "stacks/rank-3.txt")])
    assert got["suspect_ranks"] == []
    assert "nothing to compare it with" in got["reason"]
    assert got["groups"][0]["what"] == "waiting for its data loader"


def test_equal_ranks_have_no_outlier_and_the_sentence_says_what_that_means():
    case = hang({"dp": 16}, "dp", set(), "dead")
    got = stacks_json(dumps(case))
    assert got["suspect_ranks"] == got["evict_ranks"] == []
    assert "No outlier can be named" in got["reason"]
    assert "network or a device" in got["reason"]
    for r in case.stacks:
        case.stacks[r] = [*CULPRITS["loader"], *SCHEDULE]
    assert "a cause common to all (storage, input, code)" in stacks_json(dumps(case))["reason"]


def test_ranks_that_are_all_different_are_no_hang_at_one_point():
    case = hang({"dp": 8}, "dp", set(), "dead")
    for r in case.stacks:
        case.stacks[r] = [(f"step_{'abcdefgh'[r]}", "mycorp/steps.py", r), *SCHEDULE]
    got = stacks_json(dumps(case))
    assert got["suspect_ranks"] == []
    assert "All 8 ranks are in different places" in got["reason"]


@pytest.mark.parametrize("keep", [0.3, 0.5, 0.7])
def test_half_truncated_dumps_are_joined_with_what_they_begin(keep):
    case = hang(SIZES, "tp-dp-pp", {10}, "loader")
    files = []
    for r, stack in case.stacks.items():
        text = pyspy_text(stack, 100 + r)
        cut = r % 5 == 0 and r not in case.culprits
        files.append(
            parse(text[: 120 + int(keep * (len(text) - 120))] if cut else text, f"stacks/{case.nodes[r]}/rank-{r}.txt")
        )
    got = stacks_json(files)
    assert got["suspect_ranks"] == [10]


def test_a_stack_cut_where_its_inner_part_is_missing_accuses_nobody():
    case = hang(SIZES, "tp-dp-pp", {10}, "loader")
    files = []
    for r, stack in case.stacks.items():
        text = pystack_text(stack, 100 + r)
        if r in (4, 21):
            text = text[: text.index("in train_step") + 8]
        files.append(parse(text, f"stacks/{case.nodes[r]}/rank-{r}.txt"))
    assert stacks_json(files)["suspect_ranks"] == [10]


def test_a_layout_that_does_not_fit_is_named_and_the_hang_is_still_diagnosed():
    case = hang(SIZES, "tp-dp-pp", {10}, "loader")
    got = stacks_json(dumps(case, layout=False), layout={"tp": 8, "pp": 3, "dp": 2, "world_size": 32})
    assert got["suspect_ranks"] == [10]
    assert got["explained_by"] is None  # without groups all outliers are proposed
    assert 10 in got["evict_ranks"]
    assert any("= 48, but there are 32 ranks" in n for n in got["notes"])


def test_a_layout_of_a_smaller_job_is_not_applied_silently():
    case = hang(SIZES, "tp-dp-pp", {10}, "loader")
    got = stacks_json(dumps(case, layout=False), layout={"tp": 2, "dp": 4, "world_size": 8})
    assert any("the layout has 8 ranks" in n for n in got["notes"])
    assert got["suspect_ranks"] == [10]


def test_dumps_of_two_jobs_are_noticed_and_the_larger_one_is_diagnosed():
    big, small = hang(SIZES, "tp-dp-pp", {10}, "loader"), hang({"dp": 8}, "dp", {2}, "kernel")
    small.command = "python finetune.py --other"
    small.nodes = dict.fromkeys(small.nodes, "other-77")
    got = stacks_json([*dumps(big, layout=False), *dumps(small, layout=False)])
    assert got["suspect_ranks"] == [10]
    assert any("dumps are of two jobs" in n for n in got["notes"])


def test_two_jobs_that_nothing_tells_apart_are_said_to_be_mixed():
    case, other = (hang({"dp": 8}, "dp", {2}, "loader", per_node=4) for _ in range(2))
    other.nodes = {r: f"else-{r // 4}" for r in other.nodes}
    files = [*dumps(case, layout=False), *dumps(other, layout=False)]
    got = stacks_json(files)
    assert any("more than one node" in n for n in got["notes"])


def test_files_that_name_local_ranks_are_counted_through_the_nodes():
    case = hang({"dp": 16}, "dp", {13}, "loader")
    files = [parse(pyspy_text(s, 100 + r), f"stacks/{case.nodes[r]}/rank{r % 8}.txt") for r, s in case.stacks.items()]
    got = stacks_json(files)
    assert got["suspect_ranks"] == [13]
    assert got["suspect_nodes"] == ["node-001"]
    assert any("count ranks per node" in n for n in got["notes"])


def test_files_named_after_process_ids_are_not_taken_for_ranks():
    case = hang({"dp": 16}, "dp", {13}, "loader")
    files = [parse(pyspy_text(s, 14100 + r), f"stacks/{case.nodes[r]}/{14100 + r}.txt") for r, s in case.stacks.items()]
    got = stacks_json(files)
    assert got["suspect_ranks"] == [13]
    assert got["missing_ranks"] == []


def test_local_ranks_on_command_lines_are_counted_through_the_nodes():
    case = hang({"dp": 16}, "dp", {13}, "loader")
    files = []
    for r, stack in case.stacks.items():
        text = pyspy_text(stack, 500 + r, f"python train.py --local-rank={r % 8}")
        files.append(parse(text, f"stacks/{case.nodes[r]}/some-{'abcdefgh'[r % 8]}.txt"))
    got = stacks_json(files)
    assert got["suspect_ranks"] == [13]
    assert got["suspect_nodes"] == ["node-001"]


def test_files_without_any_rank_are_said_to_have_none():
    got = stacks_json(
        [
            parse(pyspy_text([("f", "a.py", 1)], 5), "notes/dump.txt"),
            parse(pyspy_text([("g", "a.py", 1)], 6), "notes/second.txt"),
        ]
    )
    assert got["suspect_ranks"] == []
    assert any("could not be given to a rank" in n for n in got["notes"])


def test_a_gap_in_process_ids_tells_which_process_of_a_bundle_is_missing():
    case = hang({"tp": 8, "dp": 2}, "tp-dp", {3}, "dead")
    got = stacks_json(dumps(case, "srun", layout=False))
    assert got["suspect_ranks"] == [3]
    assert got["suspect_nodes"] == ["node-000"]


def test_log_text_around_dumps_is_counted_and_left_out():
    case = hang({"dp": 4}, "dp", {2}, "loader")
    text = pyspy_text(case.stacks[2], 9) + "srun: job 5 queued\nanother line\n" + pyspy_text(case.stacks[1], 10)
    parsed = parse(text, "stacks/n0.out")
    assert len(unpack(parsed.facts)) == 2
    assert parsed.notes[1:] == ("2 line(s) belong to no stack and were left out.",)


def test_markup_and_control_characters_stay_text():
    text = pyspy_text([("<script>alert(1)</script>", "a\x07b.py", 1), ("<module>", "x.py", 2)], 5)
    frames = unpack(parse(text, "stacks/rank-0.txt").facts)[0].main().frames
    assert frames[0].function == "<script>alert(1)</script>"


def test_one_endless_line_stays_small():
    parsed = parse("Process 1: " + "x" * 3_000_000 + "\n" + pyspy_text([("f", "a.py", 1)], 5), "stacks/rank-0.txt")
    assert max(len(d.command) for d in unpack(parsed.facts)) <= 16_384
    assert parsed.bytes > 3_000_000


SEED = pyspy_text([("wait", "threading.py", 1), ("<module>", "x.py", 2)], 5).encode()


@settings(max_examples=150, deadline=None)
@given(
    st.binary(max_size=400),
    st.integers(0, len(SEED)),
    st.sampled_from(
        [
            b"",
            b"\x80\x02",
            b"[",
            b'{"communicators": ',
            b"NCCL version 2 compiled with CUDA\nCommunicators",
            b"Thread 0x1 (most recent call first):\n",
            b"#0  ",
        ]
    ),
)
def test_no_bytes_make_the_reader_raise(noise, at, start):
    data = start + SEED[:at] + noise + SEED[at:]
    sniff(data, "stacks/rank-1.txt")
    parsed = parse(data, "stacks/rank-1.txt")
    assert parsed.bytes == len(data)
    stacks_json([parsed, parse(SEED, "stacks/rank-0.txt")])


def test_dumps_that_break_off_are_counted_and_named() -> None:
    case = hang({"tp": 2, "pp": 2, "dp": 4}, "tp-dp-pp", {5}, "storage")
    whole = {r: pyspy_text(s, 40000 + r) for r, s in case.stacks.items()}
    cut = {r: t[: len(t) // 2] if r % 4 == 1 else t for r, t in whole.items()}
    got = stacks_json([parse(t, f"stacks/rank-{r:05d}.txt") for r, t in cut.items()])
    assert (
        "4 of 16 dumps break off in the middle of a stack (rank 1/5/9/13); what is there was compared." in got["notes"]
    )


def test_rounds_of_different_ranks_are_reported() -> None:
    case = hang({"tp": 2, "pp": 2, "dp": 4}, "tp-dp-pp", {5}, "storage")
    rounds = [p for at in range(3) for p in dumps(case, round_at=at, layout=False)]
    kept = [p for p in rounds if not (p.path.endswith("rank-00003.txt") and "round-1" in p.path)]
    got = stacks_json(kept)
    assert "The 3 rounds are not of the same ranks: round 2 lacks rank 3." in got["notes"]
    assert not [n for n in stacks_json(rounds)["notes"] if "rounds are not" in n]


def test_a_layout_given_apart_from_the_world_size_is_checked_against_it() -> None:
    case = hang({"tp": 2, "pp": 2, "dp": 4}, "tp-dp-pp", {5}, "storage")
    sizes = {"tp": 4, "pp": 4, "dp": 4, "order": "tp-dp-pp"}
    got = stacks_json(dumps(case, layout=False), layout=sizes, world_size=16)
    assert any("tp 4 × dp 4 × pp 4 = 64, but there are 16 ranks" in note for note in got["notes"])
    assert got["suspect_ranks"] == [5]


def test_a_layout_of_many_more_ranks_than_were_dumped_is_doubted() -> None:
    case = hang({"tp": 2, "pp": 2, "dp": 4}, "tp-dp-pp", {5}, "storage")
    got = stacks_json(dumps(case, layout=False), layout={"tp": 4, "pp": 4, "dp": 4})
    assert any("the layout is another job's" in note for note in got["notes"])


_FRAME = {"name": "train", "filename": "a.py", "short_filename": "a.py", "line": 3}
_RAS = {
    "nccl_version": "2.28.9",
    "communicators": [
        {
            "hash": "0xa",
            "size": 2,
            "ranks": [{"rank": 0, "host": "n", "pid": 1, "collective_counts": {"AllReduce": 4}, "status": {}}],
            "missing_ranks": [{"rank": 1, "host": "m", "pid": 2, "status": {"considered_dead": True}}],
        }
    ],
}
_RECORDER = {
    "version": "2.5",
    "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}},
    "pg_status": {"0": {"last_enqueued_collective": 2, "last_completed_collective": 1}},
    "entries": [
        {
            "process_group": ["0", "default_pg"],
            "pg_id": "0",
            "collective_seq_id": 2,
            "profiling_name": "nccl:all_reduce",
            "state": "scheduled",
            "frames": [_FRAME],
            "input_sizes": [[4]],
        }
    ],
}
_PY_SPY = [{"pid": 7, "thread_id": 7, "thread_name": "MainThread", "active": True, "frames": [_FRAME]}]


def spoilt(value, odd):
    """``value`` with each of its parts, one at a time, replaced by ``odd``."""
    yield odd
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in parts:
        for other in spoilt(part, odd):
            copy = value.copy()
            copy[key] = other
            yield copy


@pytest.mark.parametrize("whole", [_RAS, _RECORDER, _PY_SPY], ids=["ras", "flight recorder", "py-spy"])
@pytest.mark.parametrize("odd", [None, "x", -1, 1e400, [1], {"a": [1]}], ids=str)
def test_json_with_one_part_of_another_kind_is_read_or_refused(whole, odd):
    for data in spoilt(whole, odd):
        text = json.dumps(data)
        bundled = f"==> rank0.json <==\n{text}\n" if whole is _PY_SPY else text
        for said in {text, bundled}:
            assert stacks_json([parse(said, "stacks/n1/rank-0.json")]) is not None


def test_who_is_accused_weakly_stands_in_the_ranking_with_half_the_score():
    found = Findings()
    found.accuse(1, "n1", 0.9, "stands still", "stacks")
    found.accuse(2, "n2", 0.4, "is late", "stacks")
    rows = {row.entity: (row.score, row.is_suspect) for row in report_of(found).suspects}
    assert rows == {"n1": (0.9, True), "n2": (0.2, False), "rank 1": (0.9, True), "rank 2": (0.2, False)}
