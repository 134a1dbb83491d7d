"""What all machines share accuses none of them; what its writer takes lightly is hardly a cause."""

from __future__ import annotations

from pathlib import Path

import pytest

from diagnosis.kinds.logs.decide import verdict
from tests.diagnosis.cases import case_of, case_of_lines
from tests.diagnosis.synthetic import Job

REFUSED = (
    "[rank{rank}]: urllib3.exceptions.MaxRetryError: HTTPSConnectionPool(host='minio', port=9000): Max retries exceeded"
)


def _refused(nodes: tuple[int, ...]) -> Job:
    job = Job(nodes=16, iterations=12)
    for node in nodes:
        job.say(job.ends + 20 + node, node, REFUSED.format(rank=2 * node) + " with url: /ckpt")
    return job.torn_down(job.ends + 60)


@pytest.mark.parametrize(("nodes", "accused"), [((3, 7), []), ((3, 7, 9), []), ((5,), ["gpu-0005"])])
def test_a_store_that_refuses_several_machines_is_the_fault_of_none(
    nodes: tuple[int, ...], accused: list[str], tmp_path: Path
) -> None:
    found = verdict.conclude(case_of(_refused(nodes), tmp_path))
    assert found.verdict.id == "platform.storage.outage"
    assert [n.node for n in found.nodes if n.is_suspect] == accused


def test_a_line_that_its_writer_calls_information_is_less_than_a_warning(tmp_path: Path) -> None:
    said = "prolog failed for job 91 on trn-17, status 1:0"
    cases = [case_of_lines(tmp_path / level, f"{level} {said}") for level in ("INFO", "WARNING", "ERROR")]
    info, warning, error = (next(iter(case.roots.weights.values())) for case in cases)
    assert 0 < info < warning < error


def test_a_warning_of_kubernetes_is_its_worst_level(tmp_path: Path) -> None:
    case = case_of_lines(
        tmp_path, "2026-03-01T10:00:00Z   Warning   Failed   pod/run7-worker-3   Error: ImagePullBackOff"
    )
    assert case.roots.weights[case.lead.event] == 1.0
