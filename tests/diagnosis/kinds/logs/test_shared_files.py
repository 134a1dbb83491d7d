"""The machine of a rank, where all ranks write into one file and no header names it."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from diagnosis.kinds.logs.pace.shared_files import machines_in, machines_of_ranks
from tests.diagnosis.cases import case_of_lines

RANKS = range(6)
#: Forms in which a line of a rank names its machine.
FORMS = (
    "{at} INFO Loop: [w{rank}@{host}] batch {step} of 900, {work:.2f} s kernel time",
    "{at} 节点{host} 进程{rank} 第{step}步 损失{work:.4f}",
    "(Learner id={rank}, on {host}) {at} rank {rank} update {step}: loss={work:.3f}",
)


def _host(rank: int) -> str:
    return f"heron-{40 + rank // 2}"


def _lines(form: str, steps: int = 30) -> list[str]:
    order = random.Random(3)
    rows = [(step, rank) for step in range(1, steps) for rank in order.sample(RANKS, len(RANKS))]
    return [
        form.format(at=f"2026-03-01 10:{step:02d}:00", rank=rank, host=_host(rank), step=step, work=9 / (step + rank))
        for step, rank in rows
    ]


@pytest.mark.parametrize("form", FORMS)
def test_a_word_that_each_rank_has_in_all_its_lines_is_its_machine(tmp_path: Path, form: str) -> None:
    case = case_of_lines(tmp_path, *_lines(form))
    assert {rank: case.node_of(rank) for rank in RANKS} == {rank: _host(rank) for rank in RANKS}


def test_a_device_that_ranks_of_every_machine_have_is_no_machine() -> None:
    ranks = [rank for _ in range(5) for rank in RANKS]
    assert machines_in([f"rank {rank} on gpu{rank % 2} step" for rank in ranks], ranks) == {}


def test_a_word_of_one_rank_alone_is_no_machine() -> None:
    ranks = [rank for _ in range(5) for rank in RANKS]
    assert machines_in([f"[w{rank}] done" for rank in ranks], ranks) == {}


def test_a_rank_that_moves_has_no_machine() -> None:
    lines = [f"rank {rank} at heron-{rank // 2 + turn} done" for turn in range(3) for rank in RANKS]
    assert machines_in(lines, [*RANKS] * 3) == {}


def test_no_line_is_read_back_where_one_process_writes(tmp_path: Path) -> None:
    case = case_of_lines(tmp_path, *(f"2026-03-01 10:{n:02d}:00 step {n} loss 2.1" for n in range(1, 40)))

    def read(path: str, offset: int, length: int) -> bytes:
        raise AssertionError(path)

    assert machines_of_ranks(case.progress, case.table, read) == {}
