"""What a range changes in the state of its job: its files, its progress, its stage."""

from __future__ import annotations

import pytest

from diagnosis.live import JobState, Observation, learn, new_state
from diagnosis.live.job_learning import MAX_SOURCES
from diagnosis.live.job_state import SHUTDOWN, StageEntry
from diagnosis.live.observation import CountRow, StageMark
from diagnosis.live.watches import hang
from diagnosis.live.watches.pause_history import HangState

S = 1_000_000_000
SAVE = "checkpoint_save"


def counting(first: int, at: int | None) -> Observation:
    """Two counts, the second one of this time."""
    before = None if at is None else at - 1
    return Observation(lines=2, counters={"a": (CountRow(first, before), CountRow(first + 1, at))})


def saving(at: int | None) -> JobState:
    """A job that began to save at this time, as another file than that of its counts says."""
    job = new_state(0.0)
    learn(job, "other", Observation(lines=1, stage=SAVE, stage_at=at), 10.0)
    return job


def test_a_file_that_is_known_is_renewed_though_no_new_one_is_kept() -> None:
    job = JobState(since=0.0, sources={str(n): 0.0 for n in range(MAX_SOURCES)})
    assert learn(job, "7", Observation(), 9.0) is job
    learn(job, "new", Observation(), 9.0)
    assert (job.sources["7"], len(job.sources)) == (9.0, MAX_SOURCES)


def test_progress_is_noted_with_the_time_that_the_site_was_away() -> None:
    job = JobState(since=0.0, away_s=70.0)
    learn(job, "log", Observation(lines=3), 5.0)
    assert job.advanced_at is None
    learn(job, "log", counting(1, 10), 6.0)
    assert (job.advanced_at, job.away_before_progress_s) == (6.0, 70.0)


def test_the_longest_silence_is_that_since_the_last_count() -> None:
    job = new_state(0.0)
    for now in (1.0, 4.0, 9.0, 11.0):
        learn(job, "log", Observation(lines=1), now)
    assert job.longest_silence_s == {"training": 5.0}
    learn(job, "log", counting(1, 10), 12.0)
    assert job.longest_silence_s == {}


@pytest.mark.parametrize(("at", "stage"), [(99, SAVE), (100, "training"), (101, "training"), (None, "training")])
def test_a_count_ends_the_stage_of_another_file_unless_it_is_older(at: int | None, stage: str) -> None:
    job = saving(at=100)
    learn(job, "log", counting(1, at), 20.0)
    assert job.stage == stage
    assert job.stage_stamp == (100 if stage == SAVE else None)


def test_a_count_ends_a_stage_whose_line_states_no_time() -> None:
    job = saving(at=None)
    learn(job, "log", counting(1, 99), 20.0)
    assert job.stage == "training"


def test_lines_without_progress_end_no_stage() -> None:
    job = saving(at=100)
    learn(job, "log", Observation(lines=5), 20.0)
    assert job.stage == SAVE


def test_the_latest_count_of_all_messages_decides() -> None:
    job = saving(at=100)
    early = (CountRow(1, 10), CountRow(2, 20))
    late = (CountRow(1, 10), CountRow(2, 200))
    learn(job, "log", Observation(lines=9, counters={"a": early, "b": late, "c": early, "d": ()}), 20.0)
    assert job.stage == "training"


def test_after_a_count_only_the_stages_that_were_announced_later_are_kept() -> None:
    job = new_state(0.0)
    job.marks = [StageEntry("launch", 99, 1.0), StageEntry(SAVE, 101, 1.0), StageEntry("evaluation", None, 1.0)]
    learn(job, "log", counting(1, 100), 20.0)
    assert job.marks == [StageEntry(SAVE, 101, 1.0)]
    learn(job, "log", counting(3, None), 21.0)
    assert job.marks == []


def test_a_stage_that_is_announced_again_is_no_news_but_its_end_is() -> None:
    job = new_state(0.0)
    announced = [StageMark(stage, 1) for stage in (SAVE, "training", SAVE, "training", "evaluation", "training")]
    learn(job, "log", Observation(lines=6, announced=tuple(announced)), 20.0)
    assert [mark.stage for mark in job.marks] == [SAVE, "training", "evaluation", "training"]
    assert job.marks[0] == StageEntry(SAVE, 1, 20.0)


def ending(at: int) -> JobState:
    """A job of which one file says that it ends, in this moment."""
    job = new_state(0.0)
    learn(job, "other", Observation(lines=1, stage=SHUTDOWN, stage_at=at), 10.0)
    return job


@pytest.mark.parametrize(("count_ms", "stage"), [(4_700, SHUTDOWN), (5_400, SHUTDOWN), (6_100, "training")])
def test_an_end_told_in_whole_seconds_is_not_taken_back_by_a_count_of_that_second(count_ms: int, stage: str) -> None:
    job = ending(5 * S)
    learn(job, "log", counting(1, count_ms * S // 1_000), 10.0)
    assert job.stage == stage


def test_a_file_that_saves_beside_the_end_of_another_one_does_not_take_it_back() -> None:
    job = ending(5 * S + 1)
    learn(job, "log", Observation(lines=1, stage=SAVE, stage_at=6 * S), 12.0)
    assert (job.stage, [mark.stage for mark in job.marks]) == (SHUTDOWN, [SHUTDOWN])


def test_an_end_after_which_the_job_went_on_teaches_nothing_of_ends() -> None:
    job = ending(5 * S + 1)
    learn(job, "log", counting(1, 8 * S), 12.0)
    learn(job, "log", counting(2, 9 * S), 14.0)
    assert job.watch_state(hang.id, HangState).of_stage(SHUTDOWN) == []
