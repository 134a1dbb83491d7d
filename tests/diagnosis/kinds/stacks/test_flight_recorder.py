"""Flight Recorder dumps: read without running them, and compared."""

from __future__ import annotations

import json
import os
import pickle
import struct
from pathlib import Path

import pytest

from diagnosis.kinds.stacks import sniff
from diagnosis.kinds.stacks.blame.collectives import State, compare
from diagnosis.kinds.stacks.recorded import flight_recorder
from diagnosis.kinds.stacks.recorded.unpickle import BrokenPickle, HostilePickle, loads
from tests.diagnosis.kinds.reports import stacks_json
from tests.diagnosis.kinds.stacks.simulate import parse

SHARED = Path(os.environ.get("FAULTLINE_SHARED", Path(__file__).resolve().parents[5] / "shared"))


def entry(seq, op, state="completed", group="0", desc="default_pg", pg_id=0, **more):
    return {
        "record_id": seq,
        "pg_id": pg_id,
        "process_group": (group, desc),
        "collective_seq_id": seq,
        "p2p_seq_id": 0,
        "op_id": seq,
        "profiling_name": f"nccl:{op}",
        "time_created_ns": 10**18 + seq,
        "input_sizes": [[4, 4]],
        "input_dtypes": ["Float"],
        "output_sizes": [[4, 4]],
        "output_dtypes": ["Float"],
        "state": state,
        "time_discovered_started_ns": None,
        "time_discovered_completed_ns": 5 if state == "completed" else None,
        "retired": state == "completed",
        "timeout_ms": 600000,
        "is_p2p": False,
        **more,
    }


def dump(entries, world=4, enqueued=None, completed=None, pg_id=0):
    seqs = [e["collective_seq_id"] for e in entries]
    done = [e["collective_seq_id"] for e in entries if e["state"] == "completed"]
    status = {
        "last_enqueued_collective": enqueued or max(seqs, default=-1),
        "last_started_collective": -1,
        "last_completed_collective": completed or max(done, default=-1),
    }
    config = {"0": {"name": "0", "desc": "default_pg", "ranks": str(list(range(world)))}}
    return {
        "version": "2.9",
        "nccl_version": "2.27.3",
        "pg_config": config,
        "pg_status": {str(pg_id): status},
        "entries": entries,
    }


def job(dumps, form="pickle"):
    files = []
    for rank, d in dumps.items():
        data = pickle.dumps(d, 2) if form == "pickle" else json.dumps(d).encode()
        files.append(parse(data, f"fr/nccl_trace_rank_{rank}{'' if form == 'pickle' else '.json'}"))
    return stacks_json(files)


HEALTHY = [entry(1, "all_reduce"), entry(2, "all_gather")]
WAITING = [*HEALTHY, entry(3, "all_reduce", "scheduled")]


@pytest.mark.parametrize("form", ["pickle", "json"])
def test_a_rank_that_never_scheduled_what_its_peers_wait_in_is_stuck_on_its_host(form):
    got = job({0: dump(WAITING), 1: dump(WAITING), 2: dump(HEALTHY), 3: dump(WAITING)}, form)
    assert got["suspect_ranks"] == [2]
    assert got["collectives"]["host_stuck"] == [2]
    assert got["collectives"]["collective"] == {
        "group": "default_pg",
        "op": "all_reduce",
        "seq": 3,
        "missing": [2],
        "ranks": "0-3",
    }
    assert "has not scheduled all_reduce #3 of default_pg, which 3 of 4 ranks wait in" in got["reason"]


def test_a_rank_that_scheduled_but_did_not_finish_what_a_peer_finished_is_stuck_on_its_device():
    ahead = [*HEALTHY, entry(3, "all_reduce"), entry(4, "all_reduce", "scheduled")]
    behind = [*HEALTHY, entry(3, "all_reduce", "started"), entry(4, "all_reduce", "scheduled")]
    got = job({0: dump(ahead), 1: dump(ahead), 2: dump(ahead), 3: dump(behind)})
    assert got["suspect_ranks"] == [3]
    assert got["collectives"]["device_stuck"] == [3]


def test_a_rank_with_an_empty_ring_buffer_is_missing_from_the_collective():
    empty = {"version": "2.9", "pg_config": dump([])["pg_config"], "pg_status": {}, "entries": []}
    assert job({0: dump(WAITING), 1: empty, 2: dump(WAITING), 3: dump(WAITING)})["suspect_ranks"] == [1]


def test_a_rank_that_wrote_no_dump_is_suspected_when_nobody_else_is():
    got = job({0: dump(WAITING), 1: dump(WAITING), 3: dump(WAITING)} | {r: dump(WAITING) for r in range(4, 8)})
    assert got["suspect_ranks"] == [2]
    assert got["collectives"]["ranks_without_dump"] == [2]


def test_two_collectives_under_one_number_are_a_mismatch_and_the_minority_is_named():
    other = [*HEALTHY, entry(3, "all_gather", "scheduled")]
    got = job({0: dump(WAITING), 1: dump(other), 2: dump(WAITING), 3: dump(WAITING)})
    assert got["suspect_ranks"] == [1]
    assert "called all_gather as #3 of default_pg where its peers called all_reduce" in got["reason"]


def test_another_size_under_one_number_is_a_mismatch_unless_the_collective_may_be_uneven():
    def waiting(op, size):
        return dump([*HEALTHY, entry(3, op, "scheduled", input_sizes=[[size]])])

    assert job(
        {
            0: waiting("all_reduce", 8),
            1: waiting("all_reduce", 8),
            2: waiting("all_reduce", 9),
            3: waiting("all_reduce", 8),
        }
    )["suspect_ranks"] == [2]
    assert (
        job(
            {
                0: waiting("all_to_all", 8),
                1: waiting("all_to_all", 8),
                2: waiting("all_to_all", 9),
                3: waiting("all_to_all", 8),
            }
        )["suspect_ranks"]
        == []
    )


def test_local_ids_differ_between_ranks_and_are_joined_through_entries():
    swapped = [dict(e, pg_id=7) for e in WAITING]
    got = job({0: dump(WAITING), 1: dump(swapped, pg_id=7), 2: dump(HEALTHY), 3: dump(WAITING)})
    assert got["suspect_ranks"] == [2]


def test_a_rank_whose_host_never_came_to_the_collective_is_late_and_not_stuck_on_its_device():
    late = State(1, "0", "default_pg", (0, 1), enqueued=3, completed=3)
    assert compare([State(0, "0", "default_pg", (0, 1), enqueued=5, completed=5), late]).device == {}


def test_counters_of_pipeline_groups_accuse_nobody():
    states = [State(r, "9", "PIPELINE_MODEL_PARALLEL_GROUP", (0, 1), enqueued=50, completed=40 + r) for r in range(2)]
    assert compare(states).ranks == {}


def test_all_healthy_dumps_name_nobody_and_say_so():
    got = job({r: dump(HEALTHY) for r in range(4)})
    assert got["suspect_ranks"] == got["evict_ranks"] == []
    assert "no rank is missing" in got["reason"]


def test_watchdog_lines_from_the_logs_are_compared_like_dumps():
    class Line:
        def __init__(self, rank, seq, enqueued, completed):
            self.rank, self.node, self.group, self.op, self.seq, self.enqueued, self.completed = (
                rank,
                None,
                "0",
                "ALLREDUCE",
                seq,
                enqueued,
                completed,
            )

    stacks = [parse("Error: Failed to suspend process\nReason: EPERM\n", f"stacks/rank-{r}.txt") for r in range(4)]
    rows = [Line(0, 8, 8, 7), Line(1, 8, 8, 7), Line(2, None, 7, 7), Line(3, 8, 8, 7)]
    assert stacks_json(stacks, protocol=rows)["suspect_ranks"] == [2]


def test_every_entry_of_a_full_ring_buffer_is_not_kept():
    many = dump([entry(i, "all_reduce", "scheduled") for i in range(1, 3000)])
    kept = parse(pickle.dumps(many, 2), "fr/nccl_trace_rank_0").facts["flight_recorder"]
    assert kept["entries"] == 2999
    assert len(kept["groups"][0]["open"]) <= 64


@pytest.mark.parametrize(
    "value",
    [
        {},
        [],
        0,
        -5,
        2**40,
        -(2**70),
        1.5,
        None,
        True,
        "text ü",
        (1, 2, 3, 4),
        {"a": [(1, "b")] * 40},
        [[[[]]]],
        300 * ["x" * 300],
    ],
)
@pytest.mark.parametrize("protocol", [0, 2, 3, 4, 5])
def test_plain_values_are_read_as_python_reads_them(value, protocol):
    assert loads(pickle.dumps(value, protocol)) == value


class Importing:
    def __reduce__(self):
        return (os.system, ("touch /tmp/faultline-hostile-pickle",))


@pytest.mark.parametrize("protocol", [0, 1, 2, 4])
def test_a_pickle_that_wants_to_import_is_refused_as_hostile_and_nothing_runs(protocol, tmp_path):
    mark = Path("/tmp/faultline-hostile-pickle")
    data = pickle.dumps({"entries": [Importing()]}, protocol)
    with pytest.raises(HostilePickle, match="import or call"):
        loads(data)
    if protocol >= 2:
        parsed = parse(data, "fr/nccl_trace_rank_3")
        assert parsed.skipped.startswith("Refused: this pickle is hostile")
        assert "system" in parsed.skipped
        assert parsed.facts["hostile"] is True
    assert not mark.exists()


def _nested(depth):
    return b"\x80\x02" + b"K\x01" + b"\x85" * depth + b"."


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "ends before"),
        (b"\x80\x02}", "ends before"),
        (b"\x80\x02X\xff\xff\xff\x7fabc.", "middle of a value"),
        (b"\x80\x02T\xfb\xff\xff\xff.", "middle of a value"),  # a length below zero would read the same again
        (b"\x80\x02h\x07.", "never written"),
        (b"\x80\x02K\x01K\x02s.", "is missing|no container"),
        (b"\x80\x02e.", "no beginning"),
        (_nested(100_000), "nest deeper"),
        (b"\x80\x02}]K\x01s.", "neither text nor number"),
        (b"\x80\x63.", "newer"),
        (b"\x80\x02\x8f.", "instruction 0x8f"),
    ],
)
def test_broken_pickles_say_what_is_wrong(data, why):
    with pytest.raises(BrokenPickle, match=why):
        loads(data)


def test_a_huge_memo_index_costs_no_memory():
    assert loads(b"\x80\x02K\x05r" + struct.pack("<I", 2**32 - 1) + b".") == 5


def test_a_small_pickle_that_means_two_to_the_sixty_values_is_refused():
    """Printing or storing it would take all memory; each list is written once and referred to twice."""
    laugh = "ha"
    for _ in range(60):
        laugh = [laugh, laugh]
    data = pickle.dumps({"pg_config": {"0": {"name": laugh}}, "entries": []}, 2)
    assert len(data) < 1000
    with pytest.raises(BrokenPickle, match="refer to each other so often"):
        loads(data)


def test_a_pickle_that_holds_itself_is_refused():
    ring = []
    ring.append({"again": ring})
    with pytest.raises(BrokenPickle, match="holds itself"):
        loads(pickle.dumps({"entries": ring}, 2))


def test_a_stack_that_many_entries_share_is_read():
    frames = [{"name": f"f{n}", "filename": "/opt/train.py", "line": n} for n in range(40)]
    dump = {"version": "2.4", "entries": [{"frames": frames, "collective_seq_id": n} for n in range(500)]}
    assert loads(pickle.dumps(dump, 2)) == dump


def test_a_pickle_of_a_gigabyte_is_refused_without_being_kept(monkeypatch):
    import io

    from diagnosis.kinds.stacks import parse_stack
    from diagnosis.kinds.stacks.read import dump_reading
    from diagnosis.model import ParseHints

    monkeypatch.setattr(dump_reading, "MAX_WHOLE_BYTES", 1 << 20)

    class Endless(io.RawIOBase):
        left = 40 << 20
        first = True

        def read(self, size=-1):
            if self.first:
                self.first = False
                return b"\x80\x02}"
            size = min(self.left, max(size, 0))
            self.left -= size
            return b"(" * size

    parsed = parse_stack(Endless(), "fr/nccl_trace_rank_0", ParseHints(), Path())
    assert "larger than 1 MB" in parsed.skipped
    assert parsed.bytes == (40 << 20) + 3


def test_a_truncated_dump_is_skipped_and_the_rest_is_compared():
    good = {r: pickle.dumps(dump(WAITING if r != 2 else HEALTHY), 2) for r in range(4)}
    files = [parse(d if r != 3 else d[:-40], f"fr/nccl_trace_rank_{r}") for r, d in good.items()]
    got = stacks_json(files)
    assert got["suspect_ranks"] == [2]
    assert any("nccl_trace_rank_3" in n and "Collect it again" in n for n in got["notes"])


def test_json_that_is_not_flight_recorders_is_not_claimed():
    assert sniff(b'{"entries": 3}', "x.json") is None
    assert sniff(json.dumps(dump(WAITING)).encode(), "x.json") == "flight_recorder json"


@pytest.mark.parametrize(("case", "truth"), [("gpu_error_1st", [12, 14]), ("lock_gil_1st", [9, 14])])
def test_recorded_faults_are_named_exactly(case, truth):
    folder = SHARED / "data" / "flight_recorder" / case
    if not folder.is_dir():
        pytest.skip(f"no recorded dumps at {folder}; set FAULTLINE_SHARED")
    got = stacks_json([parse(f.read_bytes(), f"{case}/{f.name}") for f in sorted(folder.glob("_dump_*"))])
    assert got["suspect_ranks"] == truth
    assert set(truth) <= set(got["evict_ranks"])


def test_an_entry_that_a_pickle_repeats_a_million_times_is_refused_soon():
    entries = [{"pg_id": 0, "collective_seq_id": 1, "state": "scheduled"}] * 1_000_100
    data = pickle.dumps({"version": "2.5", "entries": entries}, protocol=2)
    with pytest.raises(BrokenPickle, match="refers to its own values more than 1,000,000 times"):
        loads(data)


def test_of_very_many_entries_the_newest_are_read(monkeypatch):
    monkeypatch.setattr(flight_recorder, "MAX_READ_ENTRIES", 3)
    rows = [{"pg_id": 0, "collective_seq_id": n, "state": "scheduled", "process_group": ["0", "w"]} for n in range(9)]
    data = pickle.dumps({"version": "2.5", "entries": rows}, protocol=2)
    told = parse(data, "rank0")
    assert [one["seq"] for one in told.facts["flight_recorder"]["groups"][0]["open"]] == [6, 7, 8]
    assert told.notes[1:] == ("Its 6 oldest entries were left out; the newest show where a rank is.",)
