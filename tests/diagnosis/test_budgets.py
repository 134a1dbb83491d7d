"""A stage of a diagnosis that takes too long is left out with a sentence, and the rest of the report is there."""

import io
import math
import re
import time
from pathlib import Path

import pytest

from diagnosis import ParseHints, parse, pipeline
from diagnosis.processing import budgets
from diagnosis.processing.budgets import Budgets, CpuAlarm, Over
from diagnosis.report import to_json
from tests.diagnosis.test_pipeline import LOG


class Clock:
    """An alarm whose time passes only in the stage ``slow``."""

    def __init__(self, slow: str = "") -> None:
        self.slow, self.seconds, self.told = slow, 0.0, list[str]()

    def now(self) -> float:
        return self.seconds

    def set(self, moment: float) -> None:
        if self.told and self.told[-1] == self.slow and moment < math.inf:
            self.slow, self.seconds = "", moment
            raise Over

    def tell(self, stage: str) -> None:
        self.told.append(stage)


def diagnosed(work: Path, **options: object) -> dict[str, object]:
    log = parse(io.BytesIO(LOG), "n0.log", ParseHints(), work)
    found = pipeline.diagnose([log], read=lambda path, offset, length: LOG[offset : offset + length], **options)
    return to_json(found)


def stages(work: Path) -> list[str]:
    clock = Clock()
    diagnosed(work, alarm=clock)
    return [stage for stage in dict.fromkeys(clock.told) if stage]


def test_each_stage_may_go_over_and_the_rest_is_told(tmp_path: Path) -> None:
    seen = stages(tmp_path / "all")
    assert {"logs", "progress", "pace", "rosters", "indicators"} <= set(seen)
    for number, stage in enumerate(seen):
        report = diagnosed(tmp_path / str(number), alarm=Clock(stage))
        sentences = [sentence for sentence in report["missing"] if "left out (" in sentence]
        assert len(sentences) == 1, stage
        assert f"({stage}): it took longer than" in sentences[0]
        assert report["headline"]
        assert ("logs" not in report) == (stage == "logs")


def test_a_stage_that_ended_its_process_is_not_done_again(tmp_path: Path) -> None:
    clock = Clock()
    report = diagnosed(tmp_path, alarm=clock, left_out={"progress"})
    assert "progress" not in clock.told
    assert report["logs"]["lines"]
    assert any("left out (progress)" in sentence for sentence in report["missing"])


def test_a_part_that_is_over_ends_with_the_stage_that_runs() -> None:
    clock = Clock()
    of_job = Budgets(alarm=clock)

    def long() -> str:
        clock.seconds += 1e6
        raise Over

    result = of_job.run("logs", lambda: of_job.run("progress", long, "nothing"), "no logs", is_part=True)
    assert (result, len(of_job.told)) == ("no logs", 1)


def spend(cpu_s: float) -> None:
    end = time.process_time() + cpu_s
    while time.process_time() < end:
        pass


def test_the_alarm_ends_a_pattern_that_backtracks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(vars(budgets.LIMITS), "stage_s", 0.05)
    of_job = Budgets(alarm=CpuAlarm())
    assert of_job.run("a search", lambda: re.search(r"(a+)+$", "a" * 60 + "!"), None) is None
    assert "(a search)" in of_job.told[0]


def test_the_alarm_waits_while_it_is_held() -> None:
    alarm = CpuAlarm()
    whole: list[bool] = []

    def work() -> None:
        with alarm.held():
            alarm.set(alarm.now() + 0.01)
            spend(0.05)
            whole.append(True)
        spend(5)

    def ring_late() -> None:
        # Loops are in functions of their own: Python may skip the ``finally`` around a loop that a signal ends.
        try:
            work()
        finally:
            alarm.set(math.inf)  # before anything else takes time: it rings until it is heard

    with pytest.raises(Over):
        ring_late()
    assert whole == [True]


def test_a_stage_that_is_over_leaves_no_alarm_behind() -> None:
    alarm = CpuAlarm()
    of_job = Budgets(alarm=alarm)

    def long() -> None:
        alarm.set(alarm.now() + 0.01)
        spend(5)

    assert of_job.run("logs", lambda: of_job.run("progress", long, None), None, is_part=True) is None
    spend(0.5)


def test_large_evidence_has_more_time(tmp_path: Path) -> None:
    log = parse(io.BytesIO(LOG * 5000), "n0.log", ParseHints(), tmp_path)
    assert Budgets([log])._sized_s > Budgets()._sized_s == 0
