"""A node whose log ends well before those of its peers."""

from __future__ import annotations

from pathlib import Path

from diagnosis.kinds.logs.compare.clues import THRESHOLDS
from diagnosis.kinds.logs.compare.detectors import early
from tests.diagnosis.cases import case_of, case_of_files
from tests.diagnosis.synthetic import Job


def test_a_log_that_ends_first_proves_nothing(tmp_path: Path) -> None:
    """The others go on only with the end of the job, which a rank may miss by chance: healthy nodes were accused."""
    job = Job(nodes=6, iterations=12)
    job.cut = {2: job.ends - 20}
    assert list(early.look(case_of(job.timed_out(job.ends + 600), tmp_path))) == []


def test_nodes_that_all_write_to_the_end_are_not(tmp_path: Path) -> None:
    job = Job(nodes=6, iterations=12)
    assert list(early.look(case_of(job.timed_out(job.ends + 600), tmp_path))) == []


def _stopped_by_hand(silent: tuple[int, ...], cut: tuple[int, ...] = ()) -> Job:
    """Training stands still; the monitor of each node goes on for an hour, until a person cancels the job."""
    job = Job(nodes=8, iterations=12)
    for at in range(int(job.ends), int(job.ends) + 3_600, 30):
        job.all_say(at, "gpu-mon: gpu=0 temp=51C power=90W util=100%", but=silent)
    job.cut = dict.fromkeys((*silent, *cut), job.ends - 5)
    return job.say(
        job.ends + 3_610, None, "srun: error: *** STEP 77.0 ON gpu-0000 CANCELLED AT 2025-10-09T09:55:20 ***"
    )


def test_a_node_whose_monitor_ceased_in_a_hang_that_a_person_ended_is_seen(tmp_path: Path) -> None:
    clues = list(early.look(case_of(_stopped_by_hand(silent=(5,)), tmp_path)))
    assert [clue.node for clue in clues] == ["gpu-0005"]
    assert (clues[0].tells, clues[0].weight) == ("hardware.host.lost", THRESHOLDS.likely)  # its one file may be cut
    assert "writes nothing any more, while the others go on for 3," in clues[0].reason


def test_a_hang_in_which_all_monitors_go_on_accuses_nobody(tmp_path: Path) -> None:
    assert list(early.look(case_of(_stopped_by_hand(silent=()), tmp_path))) == []


def test_a_job_that_a_person_ended_while_it_trained_accuses_nobody(tmp_path: Path) -> None:
    job = Job(nodes=8, iterations=40, cut={5: 200.0})
    job.say(job.ends + 3, None, "srun: error: *** STEP 77.0 ON gpu-0000 CANCELLED AT 2025-10-09T09:00:00 ***")
    assert list(early.look(case_of(job, tmp_path))) == []


def test_silence_in_several_files_of_a_node_weighs_more_than_in_one(tmp_path: Path) -> None:
    job = _stopped_by_hand(silent=(5,))
    files = {path: data.decode().splitlines() for path, data in job.files().items()}
    for node in map(job.name, range(job.nodes)):
        files[f"monitor/{node}.log"] = [line for line in files[f"logs/{node}.log"] if "gpu-mon" in line]
    (clue,) = early.look(case_of_files(tmp_path, files, job.hints().nodes))
    assert (clue.node, clue.weight) == ("gpu-0005", THRESHOLDS.sure)


def test_of_two_nodes_neither_is_the_first(tmp_path: Path) -> None:
    job = _stopped_by_hand(silent=(1,))
    files = {path: data.decode().splitlines() for path, data in job.files().items() if path[-8:-4] in ("0000", "0001")}
    files["launcher.log"] = job.files()["launcher.log"].decode().splitlines()
    assert list(early.look(case_of_files(tmp_path, files, job.hints().nodes[:2]))) == []


def test_a_node_whose_silence_training_survived_is_not_lost(tmp_path: Path) -> None:
    job = Job(nodes=8, iterations=200)
    job.cut = {5: job.at(job.start + 100)}
    assert list(early.look(case_of(job.timed_out(job.ends + 600), tmp_path))) == []
