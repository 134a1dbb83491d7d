"""Counts of lines become iterations, their times, and pauses."""

from __future__ import annotations

import pytest

from diagnosis.live import JobState, Observation
from diagnosis.live.counting import MAX_COUNTERS, learn_counts
from diagnosis.live.job_state import StageEntry
from diagnosis.live.observation import CountRow, StageMark
from diagnosis.live.range_effect import Pause, RangeEffect

S = 1_000_000_000


def counts(job: JobState, *rows: CountRow, message: str = "a", now: float = 100.0) -> RangeEffect:
    """A range with these counts of one message."""
    seen = Observation(counters={message: rows})
    return learn_counts(job, RangeEffect("log", seen, now))


def rows(first: int, last: int, step_s: float = 2.0) -> list[CountRow]:
    """Counts that were printed each so many seconds since the count 0."""
    return [CountRow(n, int(n * step_s * S)) for n in range(first, last + 1)]


@pytest.fixture
def job() -> JobState:
    return JobState(since=0.0)


def test_the_time_between_two_counts_is_that_of_the_iterations_between_them(job: JobState) -> None:
    effect = counts(job, CountRow(10, 0), CountRow(20, 25 * S), CountRow(23, 26 * S))
    assert effect.steps == (2.5, 0.3333)
    assert effect.pauses == (Pause(10, 25.0, "training"), Pause(20, 1.0, "training"))
    assert (job.iteration, job.interval, job.advances, job.steps) == (23, 3, 2, [2.5, 0.3333])


def test_the_first_count_of_a_message_is_no_progress(job: JobState) -> None:
    effect = counts(job, CountRow(7, 0))
    assert (effect.has_advanced, effect.pauses, job.iteration) == (False, (), None)
    assert counts(job, CountRow(7, S)).pauses == (), "nor the same count again"
    assert counts(job, CountRow(8, 2 * S)).has_advanced


def test_without_stamps_the_clock_of_the_site_counts(job: JobState) -> None:
    counts(job, CountRow(1), now=100.0)
    assert counts(job, CountRow(2), now=103.0).steps == (3.0,)
    assert counts(job, CountRow(3, 5 * S), now=104.0).steps == (1.0,)
    assert counts(job, CountRow(4), now=106.0).steps == (2.0,)


def test_counts_of_one_moment_have_no_step_time(job: JobState) -> None:
    assert counts(job, CountRow(1, 0), CountRow(2, 0), CountRow(3, S)).steps == (1.0,)


def test_a_message_without_counts_changes_nothing(job: JobState) -> None:
    assert counts(job) == RangeEffect("log", Observation(counters={"a": ()}), 100.0)
    assert job == JobState(since=0.0)


def test_no_more_messages_are_followed_than_are_kept(job: JobState) -> None:
    for number in range(MAX_COUNTERS + 1):
        counts(job, CountRow(1, 0), CountRow(2, S), message=str(number))
    assert len(job.counters) == MAX_COUNTERS
    assert not counts(job, CountRow(3, 2 * S), message=str(MAX_COUNTERS)).has_advanced
    assert counts(job, CountRow(3, 2 * S), message="0").has_advanced


def test_a_counter_leads_once_it_has_three_advances_more(job: JobState) -> None:
    counts(job, *rows(1, 3), message="a")
    assert counts(job, *rows(11, 15), message="b").steps == ()
    assert (job.leader, job.iteration) == ("log\ta", 3)
    assert counts(job, *rows(16, 16), message="b").steps == (2.0,)
    assert (job.leader, job.iteration, job.advances) == ("log\tb", 16, 3)
    assert counts(job, *rows(4, 4), message="a").has_advanced
    assert job.iteration == 16


def test_counts_that_were_printed_earlier_and_came_later_are_not_read(job: JobState) -> None:
    counts(job, *rows(1, 60))
    for _ in range(3):
        assert not counts(job, *rows(20, 30)).has_advanced
    assert counts(job, *rows(20, 30)).has_restarted, "the fourth range is of a job that counts again"
    assert job.iteration == 30


def test_ranges_that_came_late_count_in_turn_only(job: JobState) -> None:
    counts(job, *rows(1, 60))
    for n in range(61, 70):
        assert not counts(job, *rows(20, 30)).has_advanced
        assert counts(job, *rows(n, n)).has_advanced


@pytest.mark.parametrize("at", [None, 120 * S, 130 * S], ids=["without a time", "at the same time", "later"])
def test_a_smaller_count_that_is_not_known_to_be_earlier_is_a_restart(job: JobState, at: int | None) -> None:
    counts(job, *rows(1, 60))
    effect = counts(job, CountRow(41, at))
    assert (effect.has_restarted, effect.has_advanced, effect.steps, effect.pauses) == (True, True, (), ())
    assert (job.iteration, job.interval) == (41, 1)


def test_a_larger_count_is_read_though_its_stamp_is_earlier(job: JobState) -> None:
    counts(job, *rows(1, 60), now=100.0)
    assert counts(job, CountRow(61, 7 * S), now=104.0).steps == (4.0,)


def test_a_pause_is_divided_among_the_stages_that_were_announced(job: JobState) -> None:
    counts(job, CountRow(1, 0), CountRow(2, 2 * S))
    marks = (StageMark("evaluation", 12 * S), StageMark("training", 32 * S), StageMark("shutdown", 99 * S))
    (pause,) = counts(job, CountRow(3, 42 * S, marks)).pauses
    assert pause == Pause(2, 40.0, "shutdown", (("evaluation", 20.0), ("shutdown", 0.0)))
    assert job.steps == [2.0]


def test_a_stage_that_another_range_announced_has_its_time_on_the_clock_of_the_site(job: JobState) -> None:
    counts(job, CountRow(1), CountRow(2), now=100.0)
    job.marks = [StageEntry("checkpoint_save", None, 110.0)]
    effect = counts(job, CountRow(3), CountRow(4), now=130.0)
    assert effect.pauses == (
        Pause(2, 30.0, "checkpoint_save", (("checkpoint_save", 20.0),)),
        Pause(3, 0.0, "training"),
    )


def test_a_stage_that_another_file_announced_later_has_no_part_of_the_pause(job: JobState) -> None:
    counts(job, *rows(1, 3))
    job.marks = [StageEntry("shutdown", 11 * S, 100.0)]
    assert counts(job, *rows(4, 5)).pauses == (Pause(3, 2.0, "training"), Pause(4, 2.0, "training"))


def test_a_stage_whose_line_states_no_time_has_all_of_the_pause(job: JobState) -> None:
    counts(job, CountRow(1), CountRow(2), now=100.0)
    (pause,) = counts(job, CountRow(3, None, (StageMark("evaluation"),)), now=130.0).pauses
    assert pause.parts == (("evaluation", 30.0),)


def test_the_last_count_that_is_planned_is_known(job: JobState) -> None:
    counts(job, CountRow(1), CountRow(2, is_last=True))
    assert job.is_last
    counts(job, CountRow(3))
    assert not job.is_last
