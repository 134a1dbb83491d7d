"""No two claims of an incident contradict each other, on any page, in any file or message.

``pytest tests/triage/test_claims.py --all-evidence`` compares them for every sample, recording and case.
"""

from __future__ import annotations

import copy
import io
import json
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from diagnosis.__main__ import main
from tests.conftest import SHARED
from tests.diagnosis.kinds.logs.test_first_consequence import report_of
from tests.diagnosis.kinds.logs.test_first_writers import written
from tests.factories import make_attempt, make_job
from tests.triage.claims import contradictions
from tests.triage.test_agreement import KINDS, told
from triage.models import Incident
from triage.places import ROOT
from triage.services.diagnosing import diagnosis_store

pytestmark = pytest.mark.django_db

RECORDED = ROOT / "tests" / "diagnosis" / "kinds" / "flows" / "recordings"


def evidence() -> list[Path]:
    """Every sample and recording, and the reference evidence where it is."""
    cases = SHARED / "data" / "cases"
    found = [*(ROOT / "samples").glob("*.tar.gz"), *RECORDED.glob("*.parquet")]
    found += (SHARED / "data" / "recordings3").glob("*.tar.gz")
    found += (path for path in cases.glob("*") if path.name != "expected.json")
    return sorted(found)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "path" in metafunc.fixturenames:
        paths = evidence() if metafunc.config.getoption("--all-evidence") else []
        metafunc.parametrize("path", paths, ids=[path.name for path in paths])


def stored(report: dict[str, Any]) -> Incident | None:
    attempt = make_attempt(make_job("llama"))
    diagnosis_store(attempt=attempt, revision=1, report=report)
    return attempt.incidents.first()


def test_the_claims_about_recorded_evidence_agree(client, ada, path):
    out = io.StringIO()
    with redirect_stdout(out), redirect_stderr(io.StringIO()):
        main([str(path), "--json"])
    report = json.loads(out.getvalue() or "null")
    incident = stored(report) if report else None
    assert incident is None or contradictions(client, incident) == []


def test_the_claims_about_a_log_of_an_error_that_spread_agree(client, ada, tmp_path):
    incident = stored(report_of(tmp_path, **{f"trn-{n}": written(f"09.{n}00", n) for n in (4, 5, 6)}))
    assert incident is not None
    assert "on 3 of 3 nodes" in incident.headline
    assert contradictions(client, incident) == []


@pytest.mark.parametrize("kind", KINDS)
def test_the_claims_about_each_kind_of_incident_agree(client, ada, kind):
    incident = stored(told(kind))
    assert incident is not None
    assert contradictions(client, incident) == []


def test_a_root_line_of_another_category_names_no_second_cause(client, ada):
    report = told("a broken machine")
    for row in report["conclusion"]["chain"]:
        row["category"] = "hardware.host.killed"
    incident = stored(report)
    assert incident is not None
    assert contradictions(client, incident) == []


def test_of_two_names_for_the_same_machines_the_one_of_the_advice_is_marked(client, ada):
    report = copy.deepcopy(told("stacks alone"))
    report["stacks"]["candidates"] = [{"kind": "pp", "groups": ["4-5"], "ranks": 2, "coverage": 1.0}]
    report["advice"] |= {"action": "over_evict", "action_title": "Evict the whole group", "targets": ["node-2"]}
    incident = stored(report)
    assert incident is not None
    assert contradictions(client, incident) == []


def test_a_job_that_a_person_ended_did_not_crash(client, ada):
    report = told("a cancelled job")
    report["logs"]["symptom"] = "crash"
    incident = stored(report)
    assert incident is not None
    assert (incident.condition, incident.symptom) == ("cancelled", "none")


def test_of_a_job_without_a_readable_log_no_message_is_called_usual(client, ada):
    report = {"version": 2, "headline": "Nothing to diagnose: no logs, flows or stacks could be read."}
    attempt = make_attempt(make_job("llama"))
    diagnosis_store(attempt=attempt, revision=1, report=report)
    page = client.get("/jobs/llama/").content.decode()
    assert "Nothing to diagnose" in page
    assert "is unusual" not in page
