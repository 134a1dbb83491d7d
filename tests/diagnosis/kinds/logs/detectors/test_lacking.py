"""A node that does not print what nearly all print at the end."""

from __future__ import annotations

from pathlib import Path

from diagnosis.kinds.logs.causes.case import LOST_HOST
from diagnosis.kinds.logs.compare.detectors import lacking
from tests.diagnosis.cases import case_of
from tests.diagnosis.synthetic import Job


def told(job: Job, work: Path) -> set[tuple[str, str]]:
    """The nodes with a clue, and the category that it tells."""
    return {(clue.node, clue.tells) for clue in lacking.find_clues(case_of(job, work))}


def job() -> Job:
    return Job(nodes=8, iterations=12)


def test_the_node_that_reports_no_time_out_is_the_one_waited_for(tmp_path: Path) -> None:
    assert told(job().timed_out(job().ends + 600, (5,)), tmp_path) == {("gpu-0005", "")}


def test_where_half_report_it_nobody_is_odd(tmp_path: Path) -> None:
    assert told(job().timed_out(job().ends + 600, (0, 1, 2, 3)), tmp_path) == set()


def test_the_launcher_that_never_ends_its_workers_is_seen(tmp_path: Path) -> None:
    assert told(job().torn_down(500, but=(4,)), tmp_path) == {("gpu-0004", "")}


def test_launchers_that_end_together_prove_nothing(tmp_path: Path) -> None:
    assert told(job().torn_down(500), tmp_path) == set()


def test_a_node_that_writes_nothing_at_the_end_is_lost(tmp_path: Path) -> None:
    ends = job().ends
    silent = job().timed_out(ends + 600, but=(6,)).torn_down(ends + 605, but=(6,))
    assert told(silent, tmp_path) == {("gpu-0006", LOST_HOST)}


def test_a_node_that_is_ended_like_the_others_is_only_stuck(tmp_path: Path) -> None:
    ends = job().ends
    stuck = job().timed_out(ends + 600, but=(6,)).torn_down(ends + 605)
    assert told(stuck, tmp_path) == {("gpu-0006", "")}


def test_the_host_of_a_lost_meeting_point_reports_the_cause_like_the_others_and_is_not_stuck(tmp_path: Path) -> None:
    ends = job().ends
    failed = job().all_say(ends + 60, "RuntimeError: connect() timed out. Original timeout was 90000 ms.")
    lost = failed.all_say(
        ends + 65, "RendezvousConnectionError: The connection to the C10d store has failed.", but=(0,)
    )
    assert told(lost, tmp_path) == set()


def test_several_lines_of_one_watchdog_that_a_node_lacks_are_one_observation(tmp_path: Path) -> None:
    """Before, the node whose ranks had been ended first was accused for each of them."""
    twice = job().timed_out(job().ends + 600, but=(6,))
    dump = (
        "[rank{rank}]: Received a dump signal due to a collective timeout from rank 3 and we will try our best to dump"
    )
    (clue,) = lacking.find_clues(case_of(twice.all_say(job().ends + 601, dump, but=(6,)), tmp_path))
    assert clue.node == "gpu-0006"
