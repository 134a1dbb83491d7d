"""The machines of a job from descriptions that people and schedulers write."""

from __future__ import annotations

import pytest

from diagnosis.evidence import inventory
from diagnosis.model import JobHints, Kind, Parsed


@pytest.mark.parametrize("jobs", [5, "a", {"a": 1}, [1, "a", {"nodes": 7}]])
def test_a_description_whose_jobs_are_no_list_of_jobs_still_names_its_machines(jobs: object) -> None:
    """Before, a number there ended the diagnosis of the whole job."""
    described = Parsed("job.json", Kind.INVENTORY, facts={"json": {"job_id": "x", "jobs": jobs, "nodes": ["n1"]}})
    assert inventory.read([described], JobHints()).nodes == ("n1",)


def test_a_row_names_the_machine_its_address_and_the_number_of_its_gpu() -> None:
    row = {"host": "gpu-7", "ip": " 10.0.0.7 ", "port": 29500, "gpu": 0, "leaf": "leaf-1"}
    assert inventory.machine_of(row) == inventory.Machine("gpu-7", "10.0.0.7", "29500", "0", "leaf-1")
