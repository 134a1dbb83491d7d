"""An export of a log store is read whole, so it is bounded."""

import json

import pytest

from diagnosis.kinds.logs.read import exported


def export(count: int) -> bytes:
    values = [[str(1_772_000_000_000_000_000 + n), f"step {n}"] for n in range(count)]
    stream = {"stream": {"node": "gpu-07"}, "values": values}
    return json.dumps({"data": {"resultType": "streams", "result": [stream]}}).encode()


def test_an_export_with_more_records_than_are_read_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exported, "MAX_RECORDS", 3)
    assert [len(exported.records(export(count))) for count in (3, 4)] == [3, 0]


def test_no_record_keeps_the_labels_of_its_stream() -> None:
    first = exported.records(export(2))[0]
    assert (first.node, first.lines, first.fields) == ("gpu-07", ["step 0"], {})
