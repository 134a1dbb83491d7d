"""The outermost frame of a traceback tells whether it ended its process, whatever lines follow it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from diagnosis.pipeline import diagnose
from diagnosis.report import to_json
from tests.diagnosis.synthetic import read_files

FRAMES = ['  File "train.py", line 90, in <module>', "    main()", '  File "train.py", line 71, in main']
HEAD = "Traceback (most recent call last):"


def told(lines: list[str], tmp_path: Path) -> dict[str, Any]:
    parsed, read = read_files({"train.log": "".join(f"{line}\n" for line in lines).encode()}, tmp_path)
    return to_json(diagnose(parsed, read=read))


def test_what_was_buffered_and_comes_after_the_end_of_a_program_outlives_nothing(tmp_path: Path) -> None:
    raised = [HEAD, *FRAMES, "    net(x)", "RuntimeError: expected scalar type Half but found Float"]
    buffered = ["found 2 cards", "=== Starting training ===", "building model", "reading 40 shards", "ready"]
    report = told(["reading settings", *raised, *buffered], tmp_path)
    assert (report["logs"]["outcome"], report["logs"]["id"]) == ("failed", "user.code.shape")


def test_a_crash_below_the_exception_that_ended_its_process_is_no_cause(tmp_path: Path) -> None:
    raised = [HEAD, *FRAMES, "    next(rows)", "KeyError: 'label'"]
    crash = ["-- native stack --", "FatalError: `Segmentation fault` is detected by the operating system."]
    report = told([*(f"step {n} loss 1.{n}" for n in range(20)), *raised, *crash], tmp_path)
    assert (report["logs"]["id"], report["logs"]["lines"][0]["line"]) == ("user.code.exception", 26)


def test_a_crash_without_an_exception_is_the_cause(tmp_path: Path) -> None:
    crash = ["FatalError: `Segmentation fault` is detected by the operating system."]
    report = told([*(f"step {n} loss 1.{n}" for n in range(20)), *crash], tmp_path)
    assert report["logs"]["id"] == "user.code.native_crash"


def test_a_program_that_prints_tracebacks_again_and_again_goes_on(tmp_path: Path) -> None:
    lines = []
    for n in range(6):
        lines += [HEAD, '  File "reward.py", line 12, in score', "    a, b = parse(text)"]
        lines += ["TypeError: cannot unpack non-iterable NoneType object"]
        lines += [f"answer {n} is {word}" for word in ("long", "new", "kept", "scored", "sent", "read", "paid")]
    assert not told(["rollout begins", *lines], tmp_path)["logs"]["is_failure"]


def test_the_end_of_a_thread_names_an_exception_of_any_class(tmp_path: Path) -> None:
    thread = [HEAD, '  File "loader.py", line 3, in run', "    image = decode(raw)", "cv2.error: the picture is empty"]
    report = told([*(f"step {n} loss 1.{n}" for n in range(20)), *thread], tmp_path)
    assert (report["logs"]["outcome"], report["logs"]["lines"][0]["line"]) == ("failed", 24)


def test_a_bar_that_is_drawn_again_begins_no_launch(tmp_path: Path) -> None:
    bars = ["0it [00:00, ?it/s]", "", "1it [00:00, ?it/s]", "", "2it [00:00, ?it/s]", ""]
    raised = [HEAD, *FRAMES, "    fetch(url)", "urllib.error.HTTPError: HTTP Error 403: Forbidden"]
    closed = ["0it [00:00, ?it/s]", "1it [00:00, ?it/s]", "2it [00:00, ?it/s]"]
    assert told([*bars, *raised, *closed], tmp_path)["logs"]["outcome"] == "failed"
