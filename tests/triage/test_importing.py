"""Recorded faults become a past that statistics can begin with."""

import json
from datetime import UTC, datetime

import pytest
from django.core.management import CommandError, call_command

from tests.factories import make_cluster
from triage.models import Incident
from triage.services.importing import Fault, ImportRefused, faults_import, faults_of_trace

EPOCH = datetime(2024, 3, 30, tzinfo=UTC)


def event(node, days, kind, desc="GPU DBE(Double Bit ECC) > Threshold", category="GPU"):
    fault = {"Level": "Hardware Failure", "Class": category, "Desc": desc}
    return {"node_id": node, "event_time": days, "event_type": f"fault_{kind}", "fault_type": fault}


def test_starts_and_ends_of_a_trace_are_paired_by_node_and_fault():
    rows = [event("a", 1, "start"), event("b", 2, "start"), event("a", 3, "end")]
    faults = {fault.node: fault for fault in faults_of_trace(rows, epoch=EPOCH)}
    assert (faults["a"].ended_at - faults["a"].started_at).days == 2
    assert faults["b"].ended_at is None


@pytest.mark.parametrize(
    ("said", "category"),
    [
        ("GPU › GPU DBE(Double Bit ECC) > Threshold", "hardware.gpu.ecc"),
        ("NIC › NIC Lost", "hardware.network.adapter"),
        ("Parameter Plane Cable › Link Down", "network.link_down"),
        ("CPU › Machine Check Exception ( Uncorrectable )", "hardware.host.memory"),
        ("Unknown Error › Unknown Error", "unknown"),
    ],
)
def test_a_description_names_its_category(said, category):
    assert Fault("n", EPOCH, None, said).standing == category


def test_a_garbled_event_is_refused_with_its_place():
    with pytest.raises(ImportRefused, match="Event 2"):
        list(faults_of_trace([event("a", 1, "start"), {"node_id": "b"}], epoch=EPOCH))
    with pytest.raises(ImportRefused, match="not a JSON list"):
        list(faults_of_trace({}, epoch=EPOCH))


@pytest.mark.django_db
def test_imported_faults_are_resolved_incidents_with_their_cost():
    cluster = make_cluster("hbd", gpus_per_node=8)
    faults = list(faults_of_trace([event("a", 1, "start"), event("a", 3, "end")], epoch=EPOCH))
    assert faults_import(cluster=cluster, slug="faults-hbd", faults=faults) == 1
    incident = Incident.objects.get()
    assert incident.state == Incident.State.RESOLVED
    assert incident.gpu_hours == 2 * 24 * 8
    assert incident.accused == ["a"]
    assert incident.suspects.get().node.name == "a"


@pytest.mark.django_db
def test_importing_again_adds_nothing(tmp_path, capsys):
    trace = tmp_path / "trace.json"
    trace.write_text(json.dumps([event("a", 1, "start"), event("a", 3, "end")]))
    for _ in range(2):
        call_command("import_faults", trace, start="2024-03-30", cluster="hbd")
    assert Incident.objects.count() == 1
    assert "nothing was added" in capsys.readouterr().out


@pytest.mark.django_db
def test_a_file_that_cannot_be_used_is_explained(tmp_path):
    (tmp_path / "bad.json").write_text("{")
    with pytest.raises(CommandError, match="is not JSON"):
        call_command("import_faults", tmp_path / "bad.json", start="2024-03-30")
    with pytest.raises(CommandError, match="cannot be read"):
        call_command("import_faults", tmp_path / "absent.json", start="2024-03-30")
    with pytest.raises(CommandError, match="is not a day"):
        call_command("import_faults", tmp_path / "bad.json", start="yesterday")


@pytest.mark.shared
@pytest.mark.django_db
def test_the_faults_of_a_real_fleet_come_in_whole(shared):
    trace = shared / "infinitehbd" / "fault_trace.json"
    trace = trace if trace.exists() else shared / "data" / "infinitehbd" / "fault_trace.json"
    call_command("import_faults", trace, start="2024-03-30", cluster="hbd")
    assert Incident.objects.count() == 584
    unknown = Incident.objects.filter(category="unknown").count()
    assert unknown / 584 < 0.5
