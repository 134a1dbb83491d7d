"""The command line: what it prints, what it exits with, and that the whole engine needs no server."""

import csv
import io
import json
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from diagnosis import pipeline
from diagnosis.__main__ import main
from diagnosis.files import parse_pool
from diagnosis.model import Parsed
from diagnosis.report import Diagnosis
from tests.patience import WORK_S

HEALTHY = (
    "".join(f"2026-03-01 08:00:{n:02d} iteration {n}/30 loss {3 - n / 60:.3f}\n" for n in range(31))
    + "training finished\n"
)
FAILED = (
    "".join(f"2026-03-01 08:00:{n:02d} iteration {n}/100 loss {3 - n / 60:.3f}\n" for n in range(20))
    + "2026-03-01 08:00:21 ERROR Traceback (most recent call last):\n"
    '  File "/a/train.py", line 7, in main\nValueError: [bold]bad[/bold]\n'
)


def job(folder: Path, text: str) -> Path:
    folder.mkdir()
    (folder / "node-1.log").write_text(text, encoding="utf-8")
    (folder / "empty.log").touch()
    return folder


def report_of(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    assert main([*arguments, "--json"]) == 0
    data: dict[str, object] = json.loads(capsys.readouterr().out)
    return data


def test_a_directory_gives_one_json_object(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = report_of([str(job(tmp_path / "j", FAILED))], capsys)
    assert data["version"] == 2
    inputs = {one["path"]: one for one in data["inputs"]}  # type: ignore[attr-defined]
    assert inputs["node-1.log"]["lines"] == FAILED.count("\n")
    assert inputs["node-1.log"]["skipped"] is None
    assert "empty" in inputs["empty.log"]["skipped"]
    assert data["logs"]["is_failure"] is True  # type: ignore[index]


def test_an_archive_gives_the_same_as_its_directory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = job(tmp_path / "j", FAILED)
    with zipfile.ZipFile(tmp_path / "j.zip", "w") as archive:
        for file in sorted(folder.iterdir()):
            archive.write(file, file.name)
    assert report_of([str(folder)], capsys) == report_of([str(tmp_path / "j.zip")], capsys)


def test_the_summary_is_for_people_and_prints_log_text_as_text(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(job(tmp_path / "j", FAILED))]) == 0
    out = capsys.readouterr().out
    assert "[bold]bad[/bold]" in out
    assert "node-1.log:" in out


@pytest.mark.parametrize("arguments", [["/nowhere/at/all"], [], ["--as-of", "yesterday", "x"], ["learn", "x"]])
def test_unusable_arguments_exit_2_with_what_to_do(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert capsys.readouterr().err.startswith("diagnosis: ")


def test_nothing_readable_exits_2_and_says_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.bin").write_bytes(b"\x7fELF" + bytes(100))
    assert main([str(tmp_path)]) == 2
    assert "ELF" in capsys.readouterr().err


def test_a_batch_prints_a_line_for_each_job_and_the_unreadable_one_stops_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in (("crash", "crash"), ("failed", FAILED), ("healthy", HEALTHY)):
        job(tmp_path / name, text)
    (tmp_path / "broken.log").touch()
    diagnose = pipeline.diagnose

    def crash_once(parsed: list[Parsed], **options: Any) -> Diagnosis:
        monkeypatch.setattr(pipeline, "diagnose", diagnose)
        raise ZeroDivisionError

    monkeypatch.setattr(parse_pool, "processes", lambda: 1)
    monkeypatch.setattr(pipeline, "diagnose", crash_once)
    assert main(["--batch", str(tmp_path)]) == 2
    broken, crash, failed, healthy = capsys.readouterr().out.splitlines()
    assert broken.startswith("broken.log: nothing to diagnose: broken.log: The file is empty")
    assert crash.startswith("crash: The analysis failed (ZeroDivisionError")
    assert failed.startswith("failed: Exception in the program")
    assert healthy.startswith("healthy: ")
    assert "failure" in healthy


def test_a_report_of_a_batch_is_that_of_the_job_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    alone = report_of([str(job(tmp_path / "failed", FAILED))], capsys)
    assert report_of(["--batch", str(tmp_path)], capsys) == {"name": "failed", **alone}
    assert "name" not in alone


def test_learn_makes_and_updates_a_history(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "history.json"
    first, second = job(tmp_path / "a", HEALTHY), job(tmp_path / "b", HEALTHY)
    assert main(["learn", str(first), "--out", str(out)]) == 0
    assert main(["learn", str(second), "--out", str(out)]) == 0
    assert "2 healthy jobs" in capsys.readouterr().err
    assert report_of([str(job(tmp_path / "c", FAILED)), "--history", str(out)], capsys)["history"]["jobs"] == 2  # type: ignore[index]


def test_templates_lists_every_line(tmp_path: Path) -> None:
    log, out = tmp_path / "x.log", tmp_path / "x.csv"
    log.write_text("read 3 files\n\nread 9 files\n", encoding="utf-8")
    assert main(["templates", str(log), "--out", str(out)]) == 0
    rows = list(csv.DictReader(io.StringIO(out.read_text(encoding="utf-8"))))
    assert [row["line"] for row in rows] == ["1", "2", "3"]
    assert rows[0]["template_id"] == rows[2]["template_id"] != rows[1]["template_id"]
    assert rows[0]["template"] == "read <NUM> files"


def test_fail_on_suspect_exits_3_only_where_a_machine_is_accused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for node in range(4):
        fault = "2026-03-01 08:00:31 node-2 kernel: NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.\n"
        lines = HEALTHY.removesuffix("training finished\n") + (fault if node == 2 else "")
        folder = tmp_path / "broken"
        folder.mkdir(exist_ok=True)
        (folder / f"node-{node}.log").write_text(lines, encoding="utf-8")
    assert main([str(tmp_path / "broken"), "--fail-on-suspect", "--json"]) == 3
    assert [s["entity"] for s in json.loads(capsys.readouterr().out)["suspects"] if s["suspect"]] == ["node-2"]
    assert main([str(job(tmp_path / "j", HEALTHY)), "--fail-on-suspect", "--json"]) == 0


def test_own_rules_are_asked_before_the_built_in_ones(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rules = tmp_path / "own.toml"
    rules.write_text(
        '[[signature]]\nid = "site.fence"\ntitle = "Fence of the site"\nrole = "root"\nstrength = "decisive"\n'
        'category = "platform.storage.outage"\npattern = "FENCE-[0-9]+ closed"\nadvice = "Ask storage."\n'
        'source = "site"\nexample = ["FENCE-12 closed"]\ncounter = "FENCE open"\n',
        encoding="utf-8",
    )
    folder = job(tmp_path / "j", FAILED.replace("ValueError: [bold]bad[/bold]", "ValueError: FENCE-12 closed"))
    told = report_of([str(folder), "--rules", str(rules)], capsys)["logs"]
    assert told["id"] == "platform.storage.outage"  # type: ignore[index]
    assert told["events"][0]["signature"] == "site.fence"  # type: ignore[index]


def test_one_small_log_loads_no_library_that_it_has_no_use_for(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text("2026-03-01 08:00:00 INFO step 1 loss 2.0\nRuntimeError: CUDA error\n", encoding="utf-8")
    script = (
        "import sys; from diagnosis.__main__ import main; main([sys.argv[1], '--json']);"
        "unused = 'scipy.linalg', 'sklearn', 'rich', 'pandas', 'diagnosis.kinds.stacks.blame.stack_cause';"
        "print([m for m in unused if m in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, log], capture_output=True, text=True, check=True, timeout=WORK_S
    )
    assert done.stderr.strip() == "[]"
