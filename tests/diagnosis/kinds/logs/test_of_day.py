"""Stamps of the time of day alone get a date: of other stamps of the log, else whole days next to the job's files."""

import io
import json
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest

from diagnosis import Kind, ParseHints, parse
from diagnosis.__main__ import main
from diagnosis.kinds.logs.log_parsing import SmallLog, parse_together
from diagnosis.kinds.logs.rows import clocks, events, stored_rows
from diagnosis.model import Parsed


def _log(folder: Path, name: str, *lines: str, hints: ParseHints | None = None) -> Parsed:
    stream = io.BytesIO("".join(f"{line}\n" for line in lines).encode())
    return parse(stream, f"{name}.log", hints or ParseHints(kind=Kind.LOG), folder / name)


def _times(log: Parsed) -> list[str]:
    at = stored_rows.read([stored_rows.lines_of(log)], ["time"])["time"].to_list()
    return ["" if one is None else f"{datetime.fromtimestamp(one / 1e9, UTC):%Y-%m-%d %H:%M:%S}" for one in at]


def test_the_date_comes_from_the_stamp_before_and_midnights_are_counted(tmp_path: Path) -> None:
    log = _log(
        tmp_path,
        "a",
        "23:58:00 INFO parameters: 1.3B",
        "Tue Feb  3 23:59:00 2026",
        "[23:59:58] step 1",
        "no time",
        "00:00:03.250 [I] step 2",
        "23:59:59,100 late line",
        "INFO 00:00:05 [a.py:3] step 3",
        "slurmstepd: error: *** JOB 41 ON n1 CANCELLED AT 2026-02-05T01:27:05 ***",
        "(01:27:06) bye",
    )
    assert _times(log) == [
        "2026-02-03 23:58:00",
        "2026-02-03 23:59:00",
        "2026-02-03 23:59:58",
        "",
        "2026-02-04 00:00:03",
        "2026-02-03 23:59:59",
        "2026-02-04 00:00:05",
        "2026-02-05 01:27:05",
        "2026-02-05 01:27:06",
    ]


def test_durations_and_lists_of_numbers_are_no_times(tmp_path: Path) -> None:
    log = _log(
        tmp_path,
        "a",
        "0:00:05 elapsed",
        "25:00:00 x",
        "12:30:61 x",
        "12:30:10:3 x",
        "eta 12:30:10",
        "[12:30] x",
        "01:00:01 PM x",
    )
    assert _times(log) == [""] * 7


def test_a_file_without_dates_begins_next_to_the_others(tmp_path: Path) -> None:
    logs = [
        _log(tmp_path, "a", *(f"2026-02-04 00:00:{second:02d} step {second}" for second in range(9))),
        _log(tmp_path, "b", "[23:59:58] loading", "[00:00:07] step 7"),
        _log(tmp_path, "c", "[00:00:04] step 4"),
    ]
    table = events.build(logs)
    assert table.undated == {1, 2}
    found = clocks.estimate(table)
    assert found.corrections == ()
    occurrences = found.correct(table.occurrences, "first_at").sort("file", "first_line")
    first = occurrences.group_by("file", maintain_order=True).agg(pl.col("first_at").first())["first_at"].to_list()
    at = [datetime.fromtimestamp(one / 1e9, UTC).isoformat() for one in first]
    assert at == ["2026-02-04T00:00:00+00:00", "2026-02-03T23:59:58+00:00", "2026-02-04T00:00:04+00:00"]


def test_a_job_without_any_date_ends_on_the_day_before_its_evidence_was_taken(tmp_path: Path) -> None:
    logs = [_log(tmp_path, "a", "[23:59:58] step 1", "[00:00:07] step 2"), _log(tmp_path, "b", "[00:00:04] step 4")]
    for taken, day in (("2026-02-04T00:00:08", "2026-02-04"), ("2026-02-04T00:00:05", "2026-02-03")):
        as_of = int(datetime.fromisoformat(f"{taken}+00:00").timestamp()) * 1_000_000_000
        table = events.build(logs, as_of=as_of)
        last = clocks.estimate(table).correct(table.occurrences, "last_at")["last_at"].max()
        assert datetime.fromtimestamp(last / 1e9, UTC).isoformat() == f"{day}T00:00:07+00:00"


@pytest.mark.parametrize("day", ["[", "Jun 09 "])
def test_flows_date_a_job_whose_logs_name_no_date_or_no_year(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], day: str
) -> None:
    lines = [f"{day}13:59:{second}{']' if day == '[' else ' gpu-01 train:'} step {second}" for second in range(10, 30)]
    (tmp_path / "train.log").write_text("\n".join(lines))
    flows = [f"2026-06-09T13:59:{second}Z,0.2,10.0.0.1,10.0.0.2,400000" for second in range(10, 20)]
    (tmp_path / "flows.csv").write_text("\n".join(["start_time,duration,src,dst,bytes", *flows]))
    assert main([str(tmp_path), "--json"]) == 0
    (attempt,) = json.loads(capsys.readouterr().out)["job"]["attempts"]
    assert datetime.fromtimestamp(attempt["t1"], UTC).isoformat() == "2026-06-09T13:59:29+00:00"


def test_the_time_at_the_start_of_a_line_outranks_one_in_its_message(tmp_path: Path) -> None:
    saved = "06:14:01.892 [I] Deleting Checkpoint[step=1000 | time=2026-01-04 21:47:42.413855+00:00]: (old)"
    other = "[06:14:03] [INFO] 2026-01-05 06:14:02,100 saved"
    left = "36:45:31 left, it will be done soon if nothing happens at 2026-01-05 06:14:03"
    assert _times(_log(tmp_path, "a", "2026-01-05 06:14:00 x", saved, other, left)) == [
        "2026-01-05 06:14:00",
        "2026-01-05 06:14:01",
        "2026-01-05 06:14:02",
        "2026-01-05 06:14:03",
    ]


def test_a_range_of_a_log_does_not_know_its_day(tmp_path: Path) -> None:
    assert _times(_log(tmp_path, "a", "[12:00:00] x", hints=ParseHints(kind=Kind.LOG, offset=80))) == [""]


def test_logs_that_are_read_together_do_not_share_a_day(tmp_path: Path) -> None:
    texts = (b"2026-02-04 00:00:00 x\n[00:00:07] y\n", b"[23:00:00] x\n[01:00:00] y\n", b"[02:00:00] z\n")
    logs = [SmallLog(f"{n}.log", Kind.LOG, text, None, tmp_path / str(n)) for n, text in enumerate(texts)]
    days = [[at[:10] for at in _times(log)] for log in parse_together(logs, "UTC")]
    assert days == [["2026-02-04", "2026-02-04"], ["1972-01-01", "1972-01-02"], ["1972-01-01"]]


def test_the_first_cell_of_a_row_may_be_the_time_of_day(tmp_path: Path) -> None:
    rows = ["| time         | step | loss |", "| 08:00:07.120 |    1 | 9.01 |", "| 08:00:09.370 |    2 | 8.70 |"]
    log = _log(tmp_path, "a", "2026-03-01 08:00:00 INFO model built", *rows)
    assert _times(log)[2:] == ["2026-03-01 08:00:07", "2026-03-01 08:00:09"]
