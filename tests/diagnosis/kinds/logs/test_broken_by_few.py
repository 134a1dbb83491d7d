"""Others lose their peers when one process raises: their messages about the network follow its exception."""

from __future__ import annotations

from pathlib import Path

from diagnosis.kinds.logs.causes.case import Case
from tests.diagnosis.cases import case_of_files

LOST = "NCCL WARN NET/IB : Got completion from peer 10.3.2.1<4411> with status=12 opcode=0 len=0 vendor err 129 (Recv)"
OWN = "KeyError: 'row 478386 of part-288'"


def case(tmp_path: Path, first: list[str]) -> Case:
    steps = [f"step {n} loss 2.1" for n in range(1, 9)]
    files = {f"logs/trn-{n:02d}.log": [*steps, LOST] for n in range(8)}
    files["logs/trn-05.log"] = [*steps, *first]
    return case_of_files(tmp_path, files)


def test_the_one_exception_leads_where_it_comes_before_the_lost_peers(tmp_path: Path) -> None:
    found = case(tmp_path, [OWN, LOST])
    assert found.lead
    assert found.lead["signature"] == "code.exception"
    assert found.roots.nodes == ("trn-05",)


def test_an_exception_behind_the_lost_peers_is_one_more_consequence(tmp_path: Path) -> None:
    found = case(tmp_path, [LOST, OWN])
    assert found.lead
    assert found.lead["signature"] == "rdma.retry_exceeded"
