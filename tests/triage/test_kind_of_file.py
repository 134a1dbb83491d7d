"""The Files page has a word for each kind of evidence, also for one that only the table of kinds knows."""

import pytest

from diagnosis.kinds import kind_table
from ingest.models import Artifact
from tests.diagnosis.kinds import cooling
from triage.selectors.files import FileRow


def test_a_new_kind_has_the_word_of_its_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kind_table, "TABLE", (cooling.KIND, *kind_table.TABLE))
    assert FileRow(Artifact(kind="cooling"), "").kind == "cooling unit"


def test_a_file_without_a_kind_has_no_word() -> None:
    assert FileRow(Artifact(kind=""), "").kind == ""


def test_a_text_that_the_diagnosis_read_by_its_layout_is_no_log() -> None:
    assert FileRow(Artifact(kind="log"), "", (), "state").kind == "report of a machine"
    assert FileRow(Artifact(kind="log"), "").kind == "log"
