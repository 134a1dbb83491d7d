"""The same records pushed by a collector and uploaded as its file lead to one answer. A followed file ends as the bytes
of the file itself (``test_live_uploads.py``).
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from diagnosis.files.gathering import gather
from diagnosis.pipeline import diagnose
from ingest.models import Upload
from ingest.services import resuming

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.urls("tests.ingest.urls")]

T0_NS = 1_772_442_901 * 10**9
TRACEBACK = (
    'Traceback (most recent call last):\n  File "/w/train.py", line 88, in <module>\n    loss.backward()\n'
    "RuntimeError: CUDA error: uncorrectable ECC error encountered\n"
)


def record(at_ns: int, level: str, rank: int, text: str) -> dict[str, Any]:
    return {"at": at_ns, "level": level, "node": f"gpu-{rank}", "rank": rank, "text": text}


def records(seed: int) -> list[dict[str, Any]]:
    """The records of two machines up to the failure of a rank of one, the same at each time."""
    dice = random.Random(seed)
    made = [
        {
            "at": T0_NS + step * 10**9,
            "level": "INFO",
            "node": f"gpu-{rank}",
            "rank": rank,
            "text": f"step {step} loss 2.1",
        }
        for step in range(dice.randint(3, 9))
        for rank in (3, 7)
    ]
    failed = dice.choice((3, 7))
    return [*made, record(made[-1]["at"] + 10**9, "ERROR", failed, TRACEBACK)]


def otlp(made: list[dict[str, Any]]) -> str:
    groups = [
        {
            "resource": {"attributes": [{"key": "host.name", "value": {"stringValue": one["node"]}}]},
            "scopeLogs": [
                {
                    "logRecords": [
                        {
                            "timeUnixNano": str(one["at"]),
                            "severityText": one["level"],
                            "body": {"stringValue": one["text"]},
                            "attributes": [{"key": "rank", "value": {"intValue": str(one["rank"])}}],
                        }
                    ]
                }
            ],
        }
        for one in made
    ]
    return json.dumps({"resourceLogs": groups})


def lines(made: list[dict[str, Any]]) -> str:
    rows = [
        {"time": one["at"], "level": one["level"], "host": one["node"], "rank": one["rank"], "msg": one["text"]}
        for one in made
    ]
    return "".join(f"{json.dumps(row)}\n" for row in rows)


FORMS = {
    "otlp": (otlp, "/v1/logs", "application/json"),
    "lines": (lines, "/api/v1/lines/", "application/x-ndjson"),
}


def answer(folder: Path, work: Path) -> tuple[Any, ...]:
    """What the engine says of the files of a folder."""
    found = gather([folder], work)
    told = diagnose(found.parsed, read=found.read)
    assert told.logs is not None
    accused = [suspect.entity for suspect in told.suspects if suspect.is_suspect]
    return told.conclusion.id, told.conclusion.condition, told.logs.iteration, accused


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("form", FORMS)
def test_pushed_and_uploaded_records_lead_to_one_answer(api: Any, tmp_path: Path, form: str, seed: int) -> None:
    write, url, kind = FORMS[form]
    body = write(records(seed))
    uploaded, pushed = tmp_path / "uploaded", tmp_path / "pushed"
    uploaded.mkdir()
    (uploaded / "records.json").write_text(body)
    assert api.post(url, body.encode(), content_type=kind, headers={"Faultline-Job": "r1"}).status_code == 200
    for upload in Upload.objects.all():
        path = pushed / f"{upload.path}.log"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(resuming.part_path_of(upload).read_bytes())
    category, condition, iteration, accused = answer(uploaded, tmp_path / "a")
    assert (category, condition) == ("hardware.gpu.ecc", "failed")
    assert answer(pushed, tmp_path / "b") == (category, condition, iteration, accused)
