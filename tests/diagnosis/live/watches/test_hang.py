"""How long a job may go without progress, by its stage and its own pauses."""

from __future__ import annotations

import random
from typing import Any

from diagnosis.live import encode, new_state, note_judgement


def test_a_hang_is_reported_within_three_usual_steps_and_fifteen_seconds(job: Any) -> None:
    job.trains(103).waits(3 * 2.0 + 15)
    assert job.kinds == ["hang"]
    assert job.text == "No progress after iteration 103; a step usually takes 2.0 s."


def test_a_noisy_job_may_have_one_step_that_takes_three_times_as_long_and_its_noise(job: Any) -> None:
    dice = random.Random(1)
    for _ in range(103):
        job.trains(1, step_s=30 * max(0.3, dice.gauss(1, 0.2)))
    assert job.waits(103).kinds == []
    assert job.waits(25).kinds == ["hang"]


def test_a_job_that_prints_every_tenth_count_is_late_after_three_times_ten(job: Any) -> None:
    for n in range(10, 300, 10):
        job.waits(60).says(counters={"a": [[n, int(job.now * 1e9), [], False]]})
    assert job.waits(100).kinds == []
    assert job.waits(100).kinds == ["hang"]


def test_the_first_pause_at_a_round_count_may_be_an_evaluation_that_no_line_announces(job: Any) -> None:
    assert job.trains(200).waits(600).kinds == []
    assert job.waits(600).kinds == ["hang"]


def test_a_round_count_that_was_passed_without_a_pause_is_no_excuse(job: Any) -> None:
    assert job.trains(300).waits(30).kinds == ["hang"]


def test_a_job_whose_first_count_is_one_has_no_round_count_at_99(job: Any) -> None:
    assert job.trains(99).waits(30).kinds == ["hang"]


def test_a_job_that_was_followed_late_may_evaluate_after_99_and_after_100(job: Any) -> None:
    job.n = 30
    assert job.trains(69).waits(30).kinds == []
    assert job.waits(1000).kinds == ["hang"]


def test_counts_of_saves_show_whether_the_first_iteration_is_called_zero(job: Any) -> None:
    job.n = 50
    for _ in range(3):
        job.trains(50).says(stage="checkpoint_save").waits(5)
    job.trains(49)
    assert job.waits(30).kinds == ["hang"], "249 is no round count of a job that saves after 200"


def test_a_first_save_and_an_evaluation_that_no_line_announces_have_one_time_together(job: Any) -> None:
    job.trains(100).says(stage="checkpoint_save").waits(800)
    assert job.kinds == []
    assert job.waits(150).kinds == ["hang"]


def test_unannounced_pauses_recur_and_are_expected_at_the_same_distance(job: Any) -> None:
    job.trains(137)
    assert job.waits(100).kinds == ["hang"]
    job.trains(137)
    assert job.waits(100).kinds == [], "at twice 137 steps"
    assert job.trains(30).waits(100).kinds == ["hang"], "not after 304"


def test_one_long_stall_does_not_excuse_the_next(job: Any) -> None:
    job.trains(61).waits(1200).trains(46)
    assert job.waits(30).kinds == ["hang"]


def test_a_stage_may_take_as_long_as_its_own_history_allows(job: Any) -> None:
    job.trains(61).says(stage="evaluation")
    assert job.waits(600).kinds == [], "the first one is not known"
    job.trains(61).says(stage="evaluation")
    assert job.waits(1200).kinds == []
    assert job.waits(1000).kinds == ["hang"]


def test_a_checkpoint_and_the_evaluation_after_it_each_have_their_own_time(job: Any) -> None:
    for stage in ("checkpoint_save", "evaluation"):
        job.trains(61).says(stage=stage, announced=[[stage, None]]).waits(40)
    job.trains(61).says(stage="checkpoint_save", announced=[["checkpoint_save", None]]).waits(40)
    assert job.says(stage="evaluation", announced=[["evaluation", None]]).waits(90).kinds == []
    assert job.waits(10).kinds == ["hang"], "its own longest was 42 s, the checkpoint before it is over"


def test_a_save_with_an_evaluation_that_no_line_announces_has_the_time_that_both_took_before(job: Any) -> None:
    for _ in range(2):
        job.trains(100).says(stage="checkpoint_save", announced=[["checkpoint_save", None]]).waits(60)
    job.trains(100).says(stage="checkpoint_save", announced=[["checkpoint_save", None]])
    assert job.waits(100).kinds == []
    assert job.waits(60).kinds == ["hang"]


def test_the_first_save_that_meets_an_evaluation_that_no_line_announces_may_take_both_times(job: Any) -> None:
    """Evaluations after each 20 counts, saves after each 50: they meet at 100 for the first time."""
    for n in range(10, 100, 10):
        job.trains(10)
        if n % 50 == 0:
            job.says(stage="checkpoint_save").waits(90)
        elif n % 20 == 0:
            job.waits(150)
    job.trains(10).says(stage="checkpoint_save").waits(300)
    assert job.kinds == []
    assert job.waits(250).kinds == ["hang"]


def test_an_evaluation_within_one_range_is_no_slow_step(job: Any) -> None:
    job.trains(61)
    job.waits(100).says(counters={"iteration a": [[62, int(job.now * 1e9), [["evaluation", None]], False]]})
    assert job.state.steps[-1] == 2.0
    assert encode(job.state)["watches"]["hang"]["stages"]["evaluation"] == [[61, 100.0, 100.0]]


def test_a_pause_is_divided_among_its_stages_by_the_times_of_their_lines(job: Any) -> None:
    job.trains(61)
    begun = int(job.now * 1e9)
    marks = [["checkpoint_save", begun + 10**9], ["evaluation", begun + 31 * 10**9], ["training", begun + 91 * 10**9]]
    job.waits(100).says(counters={"iteration a": [[62, int(job.now * 1e9), marks, False]]})
    assert encode(job.state)["watches"]["hang"]["stages"] == {
        "checkpoint_save": [[61, 30.0, 30.0]],
        "evaluation": [[61, 60.0, 60.0]],
    }


def test_a_stage_that_ended_is_no_hang_before_the_next_count(job: Any) -> None:
    job.trains(61).says(stage="evaluation", announced=[["evaluation", None]]).waits(500)
    job.says(stage="training", announced=[["training", None]])
    assert job.waits(8).kinds == []
    assert job.waits(15).kinds == ["hang"]


def test_a_stage_that_is_announced_again_and_again_hides_no_hang(job: Any) -> None:
    for _ in range(3):
        job.trains(61).says(stage="checkpoint_save", announced=[["checkpoint_save", None]]).waits(20)
    job.trains(61)
    for _ in range(20):
        job.says(stage="checkpoint_save", announced=[["checkpoint_save", None]]).waits(10)
    assert job.kinds == ["hang"]


def test_the_next_attempt_knows_the_pauses_of_the_one_before(job: Any) -> None:
    for _ in range(3):
        job.trains(61).says(stage="evaluation", announced=[["evaluation", None]]).waits(40)
    job.trains(1)
    job.state = new_state(job.now, job.state)
    job.trains(30).says(stage="evaluation", announced=[["evaluation", None]])
    assert job.waits(60).kinds == []
    assert job.waits(60).kinds == ["hang"]


def test_a_longer_pause_within_an_announced_stage_is_expected_at_the_same_distance(job: Any) -> None:
    def save(seconds: float) -> None:
        job.trains(50).says(stage="checkpoint_save", announced=[["checkpoint_save", None]]).waits(seconds)

    for n in range(1, 20):
        save(200 if n == 10 else 20)
    save(0)
    assert job.waits(400).kinds == [], "after 1,000, as after 500"
    assert job.waits(100).kinds == ["hang"], "an evaluation of its own would have got 15 minutes more"


def test_what_follows_the_last_planned_count_may_take_its_time(job: Any) -> None:
    job.trains(61).waits(2).says(counters={"iteration a": [[62, int(job.now * 1e9), [], True]]})
    assert job.waits(300).kinds == []


def test_a_restart_may_load_its_checkpoint_again(job: Any) -> None:
    job.trains(61).says(stage="launch")
    assert job.waits(1500).kinds == []
    job.n = 50
    job.trains(20)
    assert (job.state.iteration, job.kinds) == (70, [])


def test_the_first_announced_evaluation_gets_no_time_for_another_that_no_line_announces(job: Any) -> None:
    job.trains(100).says(stage="evaluation", announced=[["evaluation", None]])
    assert job.waits(890).kinds == []
    assert job.waits(30).kinds == ["hang"]


def test_a_restart_at_a_round_count_gets_no_time_for_an_evaluation(job: Any) -> None:
    job.trains(30).says(stage="launch", announced=[["launch", None]]).waits(100).trains(70)
    job.says(stage="launch", announced=[["launch", None]])
    assert job.waits(890).kinds == []
    assert job.waits(30).kinds == ["hang"]


def test_an_hour_without_a_follower_does_not_lengthen_the_pauses(job: Any) -> None:
    job.trains(61).waits(3600)
    stamps = [[62 + k, int((job.now - 3600 + 2 * (k + 1)) * 1e9), [], False] for k in range(400)]
    job.says(counters={"iteration a": stamps})
    job.n = 461
    job.trains(12)
    assert job.waits(30).kinds == ["hang"]


def evaluates(job: Any, seconds: int, every: int) -> None:
    """An evaluation in which a line comes every so many seconds."""
    job.trains(61).says(stage="evaluation", announced=[["evaluation", None]])
    for _ in range(seconds // every):
        job.waits(every).says()


def test_an_evaluation_that_is_silent_for_longer_than_any_before_is_a_hang(job: Any) -> None:
    for _ in range(3):
        evaluates(job, 600, 10)
    evaluates(job, 100, 10)
    assert job.waits(35).kinds == []
    assert job.waits(10).kinds == ["hang"], "it may take 500 s more, but not without a line"
    assert job.text.startswith("No line has come for long in the pause after iteration 244")
    assert job.says().kinds == []


def test_an_evaluation_whose_lines_go_on_may_take_what_it_took_before(job: Any) -> None:
    for _ in range(3):
        evaluates(job, 600, 10)
    evaluates(job, 700, 10)
    assert job.kinds == []
    for _ in range(60):
        job.waits(10).says()
    assert job.kinds == ["hang"]


def test_one_evaluation_does_not_show_how_silent_they_are(job: Any) -> None:
    evaluates(job, 600, 10)
    evaluates(job, 100, 10)
    assert job.waits(300).kinds == []


def test_a_pause_that_no_line_announces_has_its_usual_silence_too(job: Any) -> None:
    for _ in range(3):
        job.trains(100)
        for _ in range(30):
            job.waits(10).says()
    job.trains(100)
    for _ in range(10):
        job.waits(10).says()
    assert job.waits(35).kinds == []
    assert job.waits(10).kinds == ["hang"]


def test_while_the_site_was_away_no_line_is_missed_in_a_pause(job: Any) -> None:
    for _ in range(3):
        evaluates(job, 600, 10)
    evaluates(job, 100, 10)
    note_judgement(job.state, job.now)
    job.waits(400)
    note_judgement(job.state, job.now)
    assert job.kinds == []
    job.says(stage=None)
    assert job.state.longest_silence_s["evaluation"] <= 10.0


def test_a_job_without_a_counter_that_grows_hangs_when_its_lines_end(job: Any) -> None:
    for _ in range(60):
        job.waits(60).says(counters={"batch a": [[8, None, [], False]]})
    assert job.kinds == []
    assert job.waits(200).kinds == ["hang"]


def test_an_evaluation_that_was_expected_is_no_slow_step(job: Any) -> None:
    for _ in range(4):
        job.trains(200).waits(100)
    job.trains(3)
    assert max(job.state.steps) == 2.0
    job.trains(1, step_s=90.0)
    assert max(job.state.steps) == 90.0, "after 803 none was"
