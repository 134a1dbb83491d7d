"""Several launches in one file: only what ended the last one is told. And programs that ended by themselves."""

from __future__ import annotations

from pathlib import Path

import polars as pl
from msgspec.structs import replace

from diagnosis.kinds.logs.causes import launches
from diagnosis.kinds.logs.decide import verdict
from diagnosis.records.result import LogDiagnosis
from tests.diagnosis.cases import case_of_files, case_of_lines

BEGINNING = ["reading options from run7.yaml", "device: cuda:0", "optimizer: adamw", "images found in /mnt/d: 34745"]
MISSING = "ModuleNotFoundError: No module named 'ibex'"
SHAPE = "RuntimeError: shape '[640, 24, 24]' is invalid for input of size 8847360"
TRACEBACK = ["Traceback (most recent call last):", '  File "train.py", line 29, in <module>']
NOTICE = "[rank{}]:[W403 16:15:02.3 ProcessGroupNCCL.cpp:1250] Warning: WARNING: process group has NOT been destroyed"
NOTICES = [f"{NOTICE.format(rank)} before we destruct ProcessGroupNCCL." for rank in range(4)]
LOST = (
    "[rank3]:[W403 16:15:06.2 TCPStore.cpp:125] [c10d] recvValue failed on SocketImpl(fd=105): Connection reset by peer"
)
STEPS = [f"2026-03-01 10:{n:02d}:00 step {n} loss 2.1" for n in range(1, 30)]


def conclude(tmp_path: Path, *lines: str) -> LogDiagnosis:
    return verdict.conclude(case_of_lines(tmp_path, *lines))


def test_of_two_launches_in_one_file_the_last_one_is_told(tmp_path: Path) -> None:
    first = [*BEGINNING, *TRACEBACK, MISSING]
    found = conclude(tmp_path, *first, *BEGINNING, *TRACEBACK, SHAPE)
    assert found.verdict.id == "user.code.shape"
    assert conclude(tmp_path, *first).verdict.id == "user.environment.import"


def test_of_three_launches_the_last_one_is_quoted_though_the_second_ended_alike(tmp_path: Path) -> None:
    launches = [[*BEGINNING, *TRACEBACK, error] for error in (MISSING, SHAPE, SHAPE)]
    found = conclude(tmp_path, *(line for launch in launches for line in launch))
    assert found.verdict.id == "user.code.shape"
    assert [ref.line for ref in found.lines] == [sum(map(len, launches))]


def test_an_error_before_anything_else_belongs_to_another_program(tmp_path: Path) -> None:
    later = [f"{'begin' * n}: ready" for n in range(1, 12)]
    found = conclude(tmp_path, "python: can't open file 'train.py': [Errno 2] No such file", *later, *TRACEBACK, SHAPE)
    assert found.verdict.id == "user.code.shape"


def test_a_launch_that_goes_on_after_one_that_failed_is_no_failure(tmp_path: Path) -> None:
    for error in (SHAPE, "KeyboardInterrupt"):
        found = conclude(tmp_path, *BEGINNING, *TRACEBACK, error, *BEGINNING, *STEPS)
        assert (found.is_failure, found.outcome) == (False, "running")


def test_a_last_launch_that_was_cut_short_is_found_among_several(tmp_path: Path) -> None:
    own = [[f"{word} {n} was read" for n in range(8)] for word in ("shard", "index", "cache")]
    launches = [[*BEGINNING, *lines, *TRACEBACK, SHAPE] for lines in own]
    found = conclude(tmp_path, *(line for launch in launches for line in launch), *BEGINNING)
    assert (found.is_failure, found.outcome) == (False, "unknown")


def test_a_beginning_that_is_printed_again_is_a_launch_where_the_counter_never_moves() -> None:
    no_ends = pl.DataFrame(schema={"first_line": pl.UInt32, "last_line": pl.UInt32})
    still = pl.DataFrame({"line": range(10, 90), "n": [0] * 80})
    moving = still.with_columns(n=pl.int_range(80))
    assert launches._is_launch(50, no_ends, still, has_peers=False)
    assert not launches._is_launch(50, no_ends, moving, has_peers=False)


def test_rounds_of_a_loop_hide_no_launch(tmp_path: Path) -> None:
    checks = ["reading the table of marks", "marks: 41", "the table of marks is ready"]
    rounds = [line for step in STEPS[:12] for line in (step, *checks)]
    found = conclude(tmp_path, *checks, *BEGINNING, *rounds, *TRACEBACK, SHAPE, *checks, *BEGINNING, *rounds)
    assert (found.is_failure, found.outcome) == (False, "running")


def test_a_job_that_a_scheduler_stopped_and_began_again_runs(tmp_path: Path) -> None:
    stop = "slurmstepd: error: *** JOB 91 ON trn-17 CANCELLED AT 2026-03-01T10:40:00 ***"
    assert conclude(tmp_path, *BEGINNING, *STEPS, stop, *BEGINNING, STEPS[0]).outcome == "running"


def test_a_command_that_nohup_could_not_start_is_no_failure_of_the_next_one(tmp_path: Path) -> None:
    refused = "nohup: failed to run command 'trainn': No such file or directory"
    assert not conclude(tmp_path, "nohup: ignoring input", refused, *BEGINNING, *STEPS[:1]).is_failure


def test_a_line_of_the_beginning_that_is_printed_at_the_end_shows_no_launch(tmp_path: Path) -> None:
    assert conclude(tmp_path, *BEGINNING, *STEPS, *TRACEBACK, SHAPE, BEGINNING[0]).verdict.id == "user.code.shape"


def test_errors_close_together_are_of_one_launch(tmp_path: Path) -> None:
    found = conclude(tmp_path, *BEGINNING, *TRACEBACK, MISSING, "cleaning up", *TRACEBACK, SHAPE)
    assert found.verdict.id == "user.environment.import"


def test_ranks_that_share_a_file_begin_while_the_first_one_fails(tmp_path: Path) -> None:
    begun = [f"[rank{rank}] {line}" for rank in (1, 2) for line in BEGINNING]
    first = [f"[rank0] {line}" for line in (*BEGINNING, *TRACEBACK, MISSING)]
    found = conclude(tmp_path, *first, *begun, "[rank1] " + SHAPE)
    assert found.verdict.id == "user.environment.import"


def test_ranks_that_miss_each_other_before_the_program_ended_are_a_failure(tmp_path: Path) -> None:
    assert conclude(tmp_path, *STEPS, LOST, *NOTICES).is_failure


def test_an_error_before_the_program_ended_is_a_failure(tmp_path: Path) -> None:
    found = conclude(tmp_path, *STEPS, *TRACEBACK, SHAPE, *NOTICES, LOST)
    assert found.verdict.id == "user.code.shape"


def test_the_reason_of_a_stop_may_come_at_the_end_of_its_grace_period(tmp_path: Path) -> None:
    told = "slurmstepd: error: *** {} ON trn-17 CANCELLED AT {}{} ***"
    found = conclude(
        tmp_path,
        *STEPS,
        told.format("STEP 91.0", "2026-03-01T10:29:10", ""),
        "submitit WARNING (2026-03-01 10:29:10,701) - Bypassing signal 15",
        told.format("JOB 91", "2026-03-01T10:39:10", " DUE TO PREEMPTION"),
        "2026-03-01 10:45:40,210 - ERROR - the submitted job raised an exception",
    )
    assert found.verdict.id == "platform.scheduler.preemption"


def test_of_several_cancelled_jobs_in_one_file_the_last_one_is_quoted(tmp_path: Path) -> None:
    told = "slurmstepd: error: *** JOB {} ON trn-17 CANCELLED AT 2026-03-0{}T10:30:00 DUE TO PREEMPTION ***"
    launches = [[*BEGINNING, *STEPS, told.format(90 + day, day)] for day in (1, 2, 3)]
    found = conclude(tmp_path, *(line for launch in launches for line in launch))
    assert [ref.line for ref in found.lines] == [sum(map(len, launches))]


def test_the_work_is_bounded_however_many_files_have_errors(tmp_path: Path) -> None:
    later = [f"{'begin' * n}: ready" for n in range(1, 12)]
    case = case_of_lines(tmp_path, "python: can't open file 'train.py': [Errno 2] No such file", *later, SHAPE)
    assert launches.errors_of_other_programs(case.catalogue)
    many = range(launches.THRESHOLDS.files + 1)
    copies = [case.catalogue.occurrences.with_columns(file=pl.lit(n, pl.UInt32)) for n in many]
    assert launches.errors_of_other_programs(replace(case.catalogue, occurrences=pl.concat(copies))) == set()


def test_nothing_of_an_earlier_launch_counts(tmp_path: Path) -> None:
    done = [*BEGINNING, *STEPS, "training finished"]
    case = case_of_lines(tmp_path, *done, *BEGINNING, *STEPS[:5])
    assert (case.ending.outcome, case.progress.last) == ("running", 5)
    assert case.table.begun == {0: len(done) + 1}
    assert not case.catalogue.events["template"].str.contains("finished").any()
    told = verdict.conclude(case).missing
    assert f"train.log holds several launches one after another: only the last one, from line {len(done) + 1} on, " in (
        " ".join(told)
    )


def test_a_loop_that_prints_the_beginning_again_is_no_launch(tmp_path: Path) -> None:
    rounds = [[*BEGINNING[1:], *(f"step {n} loss 2" for n in range(5 * k, 5 * k + 5))] for k in range(6)]
    case = case_of_lines(tmp_path, BEGINNING[0], *(line for one in rounds for line in one))
    assert not case.table.begun


def test_lines_of_source_are_no_beginning(tmp_path: Path) -> None:
    code = [
        "    pretrain(provider,",
        "    initialize(extra,",
        "    validate(args, defaults)",
        "    assert not args.half",
    ]
    traceback = ["Traceback (most recent call last):", *code, "AssertionError"]
    case = case_of_lines(tmp_path, "world size: 8", *traceback, *traceback, *traceback)
    assert not case.table.begun


def test_one_machine_of_many_that_prints_its_beginning_again_begins_no_launch(tmp_path: Path) -> None:
    once = [*BEGINNING, *STEPS[:20], *TRACEBACK, SHAPE]
    twice = [*once, *BEGINNING, *STEPS[20:]]
    for name, others, files in (("alone", once, 0), ("together", twice, 5)):
        logs = {f"logs/cn{n}.log": others if n else twice for n in range(5)}
        case = case_of_files(tmp_path / name, logs, tuple(f"cn{n}" for n in range(5)))
        assert len(case.table.begun) == files


def test_a_launch_that_was_stopped_like_the_ones_before_it_is_told_apart(tmp_path: Path) -> None:
    stop = ["FatalError: `Termination signal` is detected by the operating system.", ""]
    found = conclude(tmp_path, *BEGINNING, *TRACEBACK, SHAPE, *BEGINNING, *stop, *BEGINNING, *stop)
    assert found.verdict.id != "user.code.shape"


def test_a_step_that_a_scheduler_refused_before_the_ranks_began_did_not_stop_them(tmp_path: Path) -> None:
    refused = "srun: error: Unable to create step for job 91: More processors requested than permitted"
    ranks = [f"[1,{rank}]<stdout>:device {rank} of host trn-{rank} is ready" for rank in range(4)]
    end = ["[trn-1:811] *** MPI_ERRORS_ARE_FATAL (processes in this communicator will now abort,"]
    assert case_of_lines(tmp_path / "a", refused, *ranks, *end).lead.signature is None
    assert case_of_lines(tmp_path / "b", *ranks, refused).lead.signature == "slurm.launch"


def test_of_several_launches_that_were_told_to_stop_the_last_order_is_quoted(tmp_path: Path) -> None:
    told = "*** SIGTERM (@0x2c1) received by PID {} (TID 0x7f10) from PID 700; stack trace: ***"
    steps = [f"I0301 10:{n:02d}:00.000000 71{n} solver.cpp:20] Iteration {n}, loss = 2.1" for n in range(1, 30)]
    found = conclude(tmp_path, *steps[:15], told.format(7111), *steps[15:], told.format(7112))
    assert found.verdict.id == "platform.scheduler.cancelled"
    assert [ref.line for ref in found.lines] == [len(steps) + 2]


SETTING_UP = (
    "Using network Socket",
    "comm 0xa3 Init START",
    "Setting affinity for the device",
    "threadThresholds 8/8/64",
    "Trees are made",
    "P2P Chunksize set to 131072",
    "Connected all rings",
    "Channel 00 via SHM",
    "no plugin of a tuner",
    "2 coll channels, 0 collnet channels",
    "comm 0xa3 is now complete and ready to go",
)


def test_a_failed_command_is_over_where_the_ranks_of_its_file_go_on(tmp_path: Path) -> None:
    begun = [f"gpu-{n % 2}:40:40 [{n}] NCCL INFO Bootstrap : Using eth{n}" for n in range(4)]
    failed = "rm: cannot remove './old_results/': No such file or directory"
    later = [f"gpu-{n % 2}:40:41 [{n % 4}] NCCL INFO {words}" for n, words in enumerate(SETTING_UP)]
    assert not conclude(tmp_path / "a", *begun, failed, *later).is_failure
    assert conclude(tmp_path / "b", *begun, failed).is_failure
    assert conclude(tmp_path / "c", *begun, *later, failed).is_failure
