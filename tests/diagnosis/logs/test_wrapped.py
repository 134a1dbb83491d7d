"""Logs of JSON lines read like the logs that were wrapped."""

import json

import pytest

from diagnosis.logs import wrapped

LINES = {
    '{"log": "loss 2.1\\n", "stream": "stdout", "time": "2026-03-01T08:00:00.5Z"}': "2026-03-01T08:00:00.5Z loss 2.1",
    '{"__REALTIME_TIMESTAMP": "1772352000250000", "_HOSTNAME": "dgx-2", "PRIORITY": "3", "MESSAGE": "NVRM: Xid"}': (
        "2026-03-01T08:00:00.250000Z dgx-2: [ERROR] NVRM: Xid"
    ),
    '{"ts": 1772352000, "level": "warn", "msg": "slow", "rank": 7}': (
        "2026-03-01T08:00:00.000000Z [rank7]: [WARNING] slow"
    ),
    '{"message": {"message": "RuntimeError: boom", "extraInfo": {"timestamp": "1772352000"}}}': (
        "2026-03-01T08:00:00.000000Z RuntimeError: boom"
    ),
    '{"MESSAGE": [98, 228, 100]}': "bäd",
}


@pytest.mark.parametrize("line", LINES)
def test_the_message_comes_out_with_its_header(line: str) -> None:
    assert wrapped.unwrap(line) == LINES[line]


@pytest.mark.parametrize("line", ["plain", "{", "[1, 2]", '{"loss": 2.1}', '{"message": null}', "[" * 100_000, "1e999"])
def test_what_holds_no_message_stays_as_it_is(line: str) -> None:
    assert wrapped.unwrap(line) == line


def test_only_files_of_such_lines_count_as_wrapped() -> None:
    line = json.dumps({"msg": "x", "level": "info"})
    assert wrapped.is_wrapped(f"{line}\n{line}\n")
    assert wrapped.is_wrapped(line)
    assert wrapped.is_wrapped(f'{line}\n{{"msg": "cut of')
    assert not wrapped.is_wrapped(f"start\n{line}\n")
    assert not wrapped.is_wrapped("")
    assert not wrapped.is_wrapped(':::MLLOG {"key": "run_start"}\n')


@pytest.mark.parametrize("time", [10**30, -(10**30), True, [], {"a": 1}, "x", "9" * 400])
def test_odd_times_do_not_raise(time: object) -> None:
    assert wrapped.unwrap(json.dumps({"msg": "x", "time": time})).endswith("x")
