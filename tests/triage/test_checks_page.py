"""What would decide a doubtful conclusion: the command on the page, and its output pasted there as evidence."""

from __future__ import annotations

import msgspec
import pytest
from django.urls import reverse
from msgspec.structs import replace

from diagnosis.conclusion import next_check
from diagnosis.conclusion.conclude import conclude
from diagnosis.conclusion.conclusion_records import report_of
from diagnosis.evidence import FlowFinding, StackFinding, Suspect
from diagnosis.kinds import checks
from ingest.models import Artifact, Job
from tests.diagnosis.conclusion.test_conclude import FAILED
from tests.factories import make_attempt, make_job, make_user
from tests.triage.report import sample
from triage.models import Activity
from triage.services.diagnosing import diagnosis_store

pytestmark = pytest.mark.django_db

OUTPUT = next(c for c in checks.load() if c.id == "dcgm").examples["fail"]


@pytest.fixture
def incident():
    suspect = Suspect("node-3", "node", 0.7, ("logs",), ("Xid 79 only here",))
    concluded = conclude(FAILED, FlowFinding(), StackFinding(), (suspect,), gpus=8)
    offered = next_check.choose_checks(
        checks.load(), "failed", concluded.alternatives, concluded.fault, concluded.seen, ()
    )
    told = msgspec.to_builtins(report_of(replace(concluded, checks=offered)))
    attempt = make_attempt(make_job("llama"))
    diagnosis_store(
        attempt=attempt,
        revision=1,
        report={**sample(), "version": 2, "headline": told["sentence"], "conclusion": told},
    )
    return attempt.incidents.get()


def test_the_page_names_the_cheapest_check_with_its_command_and_what_each_outcome_says(client, ada, incident):
    page = client.get(reverse("incident", args=[incident.pk])).content.decode()
    section = page.partition('data-testid="checks"')[2].partition("</section>")[0]
    assert section.index("ssh node-3 nvidia-smi -q") < section.index("ssh node-3 dcgmi diag -r 2")
    assert "If a test failed: <b" in section
    assert 'name="output"' in section


def test_pasted_output_is_kept_as_evidence_of_the_machine_and_the_job_is_diagnosed_again(client, ada, incident):
    address = reverse("incident-check", args=[incident.pk])
    page = client.post(address, {"output": OUTPUT, "target": "node-3"}, follow=True).content.decode()
    assert "Stored as evidence (GPU diagnostics (dcgmi diag): a test failed)" in page
    artifact = Artifact.objects.get(path="checks/node-3/dcgm-1.txt")
    assert artifact.attempt == incident.attempt
    assert Job.objects.get(pk=incident.job_id).is_diagnosis_wanted
    assert Activity.objects.get(kind="checked").actor == ada


def test_what_is_no_output_of_a_check_is_refused_with_what_to_do(client, ada, incident):
    address = reverse("incident-check", args=[incident.pk])
    for text, words in (("all is well", "paste all of it"), ("", "Nothing was pasted")):
        page = client.post(address, {"output": text, "target": "node-3"}, follow=True).content.decode()
        assert words in page
    assert not Artifact.objects.exists()


def test_who_may_not_upload_sees_the_command_and_no_form(client, incident):
    client.force_login(make_user("vera", "viewer"))
    page = client.get(reverse("incident", args=[incident.pk])).content.decode()
    assert "dcgmi diag -r 2" in page
    assert 'name="output"' not in page
