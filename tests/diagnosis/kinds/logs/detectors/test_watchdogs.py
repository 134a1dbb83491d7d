"""Ranks that the state of collective watchdogs points at."""

from __future__ import annotations

import re
from pathlib import Path

from diagnosis.kinds.logs.compare.detectors import watchdogs
from tests.diagnosis.cases import case_of, case_of_files
from tests.diagnosis.synthetic import Job


def stuck(op: str, tmp_path: Path, size: int = 4) -> list[tuple[str, str]]:
    """Sixteen ranks whose watchdogs report number 90; rank 6 of node 3 with ``op`` and ``size``."""
    job = Job(nodes=8, gpus=2, iterations=12)
    for rank in range(16):
        said = op if rank == 6 else "ALLREDUCE"
        own = size if rank == 6 else 4
        text = (
            f"[rank{rank}]: [PG ID 1 PG GUID 7(default_pg) Rank {rank}] Watchdog caught collective operation timeout: "
            f"WorkNCCL(SeqNum=90, OpType={said}, NumelIn={own}, NumelOut={own}, Timeout(ms)=600000)"
        )
        job.say(job.ends + 600, rank // 2, text)
    return [(clue.node, clue.tells) for clue in watchdogs.find_clues(case_of(job, tmp_path))]


def test_the_rank_that_called_something_else_is_seen_and_shows_the_cause(tmp_path: Path) -> None:
    assert stuck("BROADCAST", tmp_path) == [("gpu-0003", "framework.collective.mismatch")]


def test_ranks_that_agree_prove_nothing(tmp_path: Path) -> None:
    assert stuck("ALLREDUCE", tmp_path) == []


def test_the_rank_that_gave_another_number_of_elements_is_seen(tmp_path: Path) -> None:
    assert stuck("ALLREDUCE", tmp_path, size=8) == [("gpu-0003", "framework.collective.mismatch")]


def test_the_wording_of_the_watchdog_that_names_its_group_in_another_line_is_read() -> None:
    rank = 2
    lines = [
        f"[Rank {rank}] Watchdog caught it: WorkNCCL(SeqNum=7219, OpType=ALLREDUCE, NumelIn=9, NumelOut=9, T=1)",
        f"[PG ID 0 PG GUID 0(default_pg) Rank {rank}] failure detected by watchdog at work sequence id: 7219 "
        "PG status: last enqueued work: 7219, last completed work: 7218",
    ]
    [state] = watchdogs.read((text, rank, "gpu-1") for text in lines)
    assert (state.group, state.seq, state.op, state.size) == ("0", 7219, "ALLREDUCE", "9 to 9")


def test_a_later_line_of_a_watchdog_adds_to_what_an_earlier_one_stated() -> None:
    work = "[Rank 2] Watchdog caught it: WorkNCCL(SeqNum=7, OpType=BROADCAST, NumelIn=9, NumelOut=9, T=1)"
    later = "[Rank 2] last enqueued work: 8, last completed work: 6"
    [state] = watchdogs.read([(work, None, None), (later, 2, "gpu-1"), (later, 2, None)])
    assert (state.rank, state.node, state.seq, state.op) == (2, "gpu-1", 7, "BROADCAST")
    assert (state.enqueued, state.completed, state.size) == (8, 6, "9 to 9")


def test_ranks_that_wrote_nothing_are_part_of_the_world(tmp_path: Path) -> None:
    """A launcher's log showed four of 24 ranks; rank 0 was accused because the other three reported the time-out."""
    job = Job(nodes=4, gpus=1, iterations=12)
    job.say(job.ends - 1, 0, "[rank0]: lr schedule: cosine")
    for node, rank in ((1, 9), (2, 17), (3, 23)):
        work = "WorkNCCL(SeqNum=90, OpType=ALLREDUCE, NumelIn=4, NumelOut=4, Timeout(ms)=600000)"
        text = f"[rank{rank}]: [Rank {rank}] Watchdog caught collective operation timeout: {work}"
        job.say(job.ends + 600, node, text)
    files = {path: data.decode().splitlines() for path, data in job.files().items()}
    kept = {path: [line for line in lines if not re.search(r"\[rank[123]\]", line)] for path, lines in files.items()}
    assert list(watchdogs.find_clues(case_of_files(tmp_path, kept, job.hints().nodes))) == []
