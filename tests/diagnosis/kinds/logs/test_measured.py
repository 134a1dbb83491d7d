"""Numbers that a record states beside its text are told in its line, whatever the step is called."""

from __future__ import annotations

from diagnosis.kinds.logs.unwrap.structured import record_of
from diagnosis.values.json_values import Json


def _line(**fields: Json) -> str:
    stamped = {"ts": "2026-03-01T08:00:00Z", "host": "gpu-1", "level": "info"}
    [line] = record_of({**stamped, **fields}).lines
    return line


def test_a_record_with_a_count_and_a_measurement_states_its_numbers() -> None:
    assert _line(msg="tick", tick=40, busy_s=0.31) == "tick tick: 40, busy_s: 0.31"
    assert _line(msg="step done", step=40, busy_s=0.31) == "step done step 40 - busy_s: 0.31"


def test_numbers_of_a_logging_library_and_a_lone_count_measure_nothing() -> None:
    assert _line(msg="ready", created=1772352000.25, lineno=88, process=4100) == "ready"
    assert _line(msg="ready", workers=8) == "ready"


def test_an_error_stays_as_it_is_written() -> None:
    assert _line(level="error", msg="lost peer", tick=40, busy_s=0.31) == "lost peer"
