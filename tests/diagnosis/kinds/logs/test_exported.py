"""Exports of log stores and histories of trackers: recognised by their records, bounded, in order of time."""

import io
import json
from pathlib import Path

import pytest

from diagnosis import ParseHints, parse
from diagnosis.kinds.logs.unwrap import exported, structured, wrapped
from diagnosis.kinds.logs.unwrap.structured import MAX_LINES


def export(count: int) -> bytes:
    values = [[str(1_772_000_000_000_000_000 + n), f"step {n}"] for n in range(count)]
    stream = {"stream": {"node": "gpu-07"}, "values": values}
    return json.dumps({"data": {"resultType": "streams", "result": [stream]}}).encode()


def test_an_export_with_more_records_than_are_read_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exported, "MAX_RECORDS", 3)
    assert [len(exported.records(export(count))) for count in (3, 4)] == [3, 0]


def test_the_file_of_an_export_that_is_too_large_says_how_it_was_read(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def notes() -> tuple[str, ...]:
        stream = io.BytesIO(export(3))
        return parse(stream, "export.json", work=tmp_path, hints=ParseHints()).notes

    assert not any("record by record" in note for note in notes())
    monkeypatch.setattr(exported, "MAX_BYTES", 64)
    assert any("read line by line, not record by record" in note for note in notes())


def test_a_record_with_too_many_lines_says_how_many_were_left_out() -> None:
    text = "\n".join(f"frame {n}" for n in range(MAX_LINES + 500))
    told = structured.record_of({"message": text}).lines
    assert len(told) == MAX_LINES
    assert told[MAX_LINES // 2] == "[501 lines of this record were left out]"
    assert (told[0], told[-1]) == ("frame 0", f"frame {MAX_LINES + 499}")


def test_no_record_keeps_the_labels_of_its_stream() -> None:
    first = exported.records(export(2))[0]
    assert (first.node, first.lines, first.fields) == ("gpu-07", ["step 0"], {})


def lines_of(text: str) -> list[str]:
    """What a reader makes of a document; nothing if it is none."""
    return wrapped.unwrap_document(text.encode()) if wrapped.is_wrapped(text) else []


def test_a_table_of_a_log_store_is_read_record_by_record_in_order_of_time() -> None:
    table = (
        '"@timestamp","kubernetes.pod.name","host.name",level,message\n'
        '"2026-03-02T09:15:03Z","w-1","gpu-18",ERROR,"Traceback (most recent call last):\n'
        '  File ""train.py"", line 3"\n'
        '"2026-03-02T09:15:01Z","w-1","gpu-18",INFO,"iteration 40, loss 2.1"\n'
    )
    assert lines_of(table) == [
        "2026-03-02T09:15:01Z [pod/gpu-18] [INFO] iteration 40, loss 2.1",
        "2026-03-02T09:15:03Z [pod/gpu-18] Traceback (most recent call last):",
        '2026-03-02T09:15:03Z [pod/gpu-18]   File "train.py", line 3',
    ]


def group(host: str, *records: tuple[str, int, object]) -> str:
    """One line as the collector of OpenTelemetry writes it to a file."""
    logged = [
        {"timeUnixNano": at, "severityNumber": severity, "body": {"stringValue": text}, "attributes": RANK}
        for at, severity, text in records
    ]
    resource = {"attributes": [{"key": "host.name", "value": {"stringValue": host}}]}
    return json.dumps({"resourceLogs": [{"resource": resource, "scopeLogs": [{"logRecords": logged}]}]})


RANK = [{"key": "rank", "value": {"intValue": "11"}}]
AT = "1772442901000000000"


def test_each_record_of_opentelemetry_is_read_with_the_machine_of_its_resource() -> None:
    lines = [
        group("gpu-41", (AT, 9, "step 100 loss 2.1")),
        group("gpu-42", (AT, 9, "step 100"), (AT, 17, "Traceback (most recent call last):\nRuntimeError: ECC")),
    ]
    document = {"resourceLogs": [json.loads(line)["resourceLogs"][0] for line in lines]}
    expected = [
        "2026-03-02T09:15:01.000000Z [pod/gpu-41] [rank11]: [INFO] step 100 loss 2.1",
        "2026-03-02T09:15:01.000000Z [pod/gpu-42] [rank11]: [INFO] step 100",
        "2026-03-02T09:15:01.000000Z [pod/gpu-42] [rank11]: Traceback (most recent call last):",
        "2026-03-02T09:15:01.000000Z [pod/gpu-42] [rank11]: [ERROR] RuntimeError: ECC",
    ]
    assert lines_of("\n".join(lines) + "\n") == expected
    assert lines_of(json.dumps(document)) == expected
    assert lines_of(json.dumps(document, indent=2)) == expected


def test_a_number_that_is_none_stays_the_text_that_it_is() -> None:
    document = json.loads(group("gpu-41", (AT, 9, "")))
    document["resourceLogs"][0]["scopeLogs"][0]["logRecords"][0]["body"] = {"intValue": "--5"}
    assert lines_of(json.dumps(document)) == ["2026-03-02T09:15:01.000000Z [pod/gpu-41] [rank11]: [INFO] --5"]


@pytest.mark.parametrize(
    "text",
    ['{"resourceLogs": 3}', '{"resourceLogs": [{"scopeLogs": [{"logRecords": [7, null]}]}]}', '{"resourceLogs": [{"'],
)
def test_a_damaged_export_of_opentelemetry_has_no_records(text: str) -> None:
    assert lines_of(text) == []


def test_a_record_may_be_a_list_of_fields() -> None:
    def row(at: int, text: str) -> list[dict[str, str]]:
        at_second = {"field": "@timestamp", "value": f"2026-03-01 08:00:0{at}.000"}
        return [at_second, {"field": "@message", "value": text}, {"field": "@ptr", "value": "Cz8"}]

    document = {"results": [row(2, "second"), row(1, "first")], "status": "Complete"}
    text = json.dumps(document, indent=1)
    assert exported.begins(text)
    assert [record.lines for record in exported.records(text.encode())] == [["first"], ["second"]]


def test_the_full_message_of_graylog_is_told_once() -> None:
    text = "Traceback (most recent call last):\n  File \"run.py\", line 7\nKeyError: 'd_ff'"
    record = {"version": "1.1", "host": "gpu-48", "short_message": "stopped", "full_message": text, "level": 3}
    (lines,) = wrapped.unwrap_all([json.dumps(record)])
    assert lines.split("\n")[0] == "[pod/gpu-48] [ERROR] stopped"
    assert lines.split("\n")[-1] == "[pod/gpu-48] [ERROR] KeyError: 'd_ff'"


@pytest.mark.parametrize(
    ("history", "last"),
    [
        ('"Step","run-1 - train/loss","run-1 - train/loss__MIN"\n1,2.5,2.5\n2,NaN,NaN\n', "step 2 - train/loss: NaN"),
        (
            "Wall time,Step,Value\n1772442901,1,2.5\n1772442902,2,2.4\n",
            "2026-03-02T09:15:02.000000Z step 2 - Value: 2.4",
        ),
        ("[[1772442901.1, 1, 2.5], [1772442902.0, 2, NaN]]", "2026-03-02T09:15:02.000000Z step 2 - tracked value: NaN"),
        ("1772442901000 2.5 1\n1772442902000 nan 2\n", "2026-03-02T09:15:02.000000Z step 2 - tracked value: nan"),
        ('{"log_history": [{"step": 1, "loss": 2.5}, {"step": 2, "loss": NaN}]}', "step 2 - loss: nan"),
    ],
)
def test_a_history_is_progress_in_other_words(history: str, last: str) -> None:
    assert lines_of(history)[-1] == last


@pytest.mark.parametrize(
    "text",
    [
        "name,price\nbolt,3\nnut,4\n",
        "step,comment\n1,begun\n2,ended\n",
        "Epoch 1, loss 2.5\nEpoch 2, loss 2.4\n",
        '[{"step": -1, "loss": 2.5}]',
        '[{"step": 1e300, "loss": 2.5}]',
        '[{"step": true, "loss": 2.5}]',
        "[[1, 2, 3], [4, 5, 6]]",
        "1772442901000 begun 1\n1772442902000 ended 2\n",
    ],
)
def test_a_table_without_steps_and_numbers_is_no_history(text: str) -> None:
    assert lines_of(text) == []


def test_a_dated_history_names_no_machine(tmp_path: Path) -> None:
    data = b"1772442901000 2.5 100\n1772442902000 2.4 200\n1772442903000 2.3 300\n"
    parsed = parse(io.BytesIO(data), "metrics/loss", ParseHints(), tmp_path / "work")
    assert [source.node for source in parsed.sources] == [None]
    assert parsed.notes[0].startswith("The file is an export")


def test_a_json_line_with_a_step_and_a_number_is_a_line_of_progress() -> None:
    assert wrapped.unwrap('{"_step": 3, "train/loss": NaN, "rank": 2}') == "[rank2]: step 3 - train/loss: nan"


def test_a_text_comes_before_what_is_measured() -> None:
    assert wrapped.unwrap('{"step": 3, "loss": 2.5, "message": "saved"}') == "saved step 3 - loss: 2.5"


def test_a_damaged_table_is_no_export() -> None:
    assert exported.records(b'"Step","loss"\n1,"2.5\n' + b"x" * 200_000) == ()


def test_empty_cells_of_a_wide_table_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exported, "MAX_CELLS", 60)
    header = ",".join(["step", "loss", *(f"c{number}" for number in range(8))])
    table = f"{header}\n" + "1,2.5\n" * 6
    assert len(exported.records(table.encode())) == 6
    assert exported.records(f"{table},\n".encode()) == ()


def test_a_flow_that_a_policy_refuses_is_told_as_a_line() -> None:
    flow = {
        "verdict": "DROPPED",
        "IP": {"source": "10.1.4.2", "destination": "10.1.4.3"},
        "l4": {"TCP": {"source_port": 41022, "destination_port": 29500}},
        "destination": {"namespace": "ml", "pod_name": "llm-0"},
        "drop_reason_desc": "POLICY_DENIED",
    }
    record = structured.record_of({"flow": flow, "time": "2026-03-01T08:00:01Z"})
    assert record.lines == ["10.1.4.2:41022 <> ml/llm-0:29500 Policy denied DROPPED"]
    assert not structured.record_of({"flow": {"verdict": "DROPPED"}}).has_text
