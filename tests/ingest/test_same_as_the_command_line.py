"""The site and ``python -m diagnosis`` read the same evidence in the same way: one walk, one parse, one report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from diagnosis.__main__ import main
from diagnosis.pipeline import diagnose
from diagnosis.report import to_json
from ingest import selectors, services
from ingest.models import Job
from tests.archives import gz_of, tar_of, zip_of
from tests.ingest.conftest import LOG

ROOT = Path(__file__).resolve().parent.parent.parent
NESTED = zip_of({"n1.tar.gz": tar_of({"rank0.log": LOG}), "rank1.log.gz": gz_of(LOG), "empty.log": b"", "../x": LOG})


def of_the_site(job: Job, path: str, data: bytes, work: Path) -> dict[str, Any]:
    services.artifact_receive(job=job, path=path, chunks=[data])
    attempt = job.attempts.get()
    return to_json(diagnose(selectors.parsed_for(attempt, work), read=selectors.reader_for(attempt)))


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("name", ["sigkill_rank5.tar.gz", "nested.zip"])
def test_both_give_the_same_report(job: Job, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = NESTED if name == "nested.zip" else (ROOT / "samples" / name).read_bytes()
    file = tmp_path / name
    file.write_bytes(data)
    assert main([str(file), "--json"]) == 0
    theirs = json.loads(capsys.readouterr().out)
    ours = json.loads(json.dumps(of_the_site(job, name, data, tmp_path / "work")))
    left_out = [row["path"] for row in theirs["inputs"] if row not in ours["inputs"]]
    assert left_out == (["../x"] if name == "nested.zip" else [])
    theirs["inputs"] = [row for row in theirs["inputs"] if row["path"] not in left_out]
    assert theirs["inputs"] == ours["inputs"]
    assert theirs == ours
