"""Progress, and events that a job survived: whole small jobs, from their lines."""

import io
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from diagnosis import Kind, ParseHints, parse, report
from diagnosis.kinds.logs.pace import counter_words, progress
from diagnosis.pipeline import diagnose
from tests.diagnosis.cases import case_of_lines


def told(folder: Path, **files: str) -> dict[str, Any]:
    return dict(told_all(folder, **files)["logs"])


def told_all(folder: Path, **files: str) -> dict[str, Any]:
    """The whole report of a job of these files."""
    kept = {f"{name}.log": text.encode() for name, text in files.items()}
    parsed = [
        parse(io.BytesIO(data), path, ParseHints(kind=Kind.LOG), folder / path) for path, data in sorted(kept.items())
    ]
    return dict(report.to_json(diagnose(parsed, read=lambda path, at, size: kept[path][at : at + size])))


def steps(count: int, line: str) -> str:
    return "".join(f"2026-03-01 08:{k // 60:02d}:{k % 60:02d} {line.format(k)}\n" for k in range(1, count + 1))


@pytest.mark.parametrize(
    ("line", "is_progress"),
    [
        ("INFO - fairseq2.checkpoint - Train Metrics (step 4755) - loss: 2.08", True),
        ("INFO - fairseq2.trainer - saving checkpoint at step 4755", False),
        ("INFO wrote /mnt/weka/run7/ckpt/iter50", False),
        ("INFO iteration 50/ 900 loss 2.1", True),
        ("Epoch 0 itr 3768/9364: lr: 5e-05 loss_h: 2.3", True),
    ],
)
def test_the_name_of_a_module_proves_nothing_about_a_counter_and_a_path_holds_none(
    line: str, is_progress: bool
) -> None:
    assert (progress.counter_kind(line) is not None) is is_progress


def test_a_loop_of_many_short_epochs_counts_in_them(tmp_path: Path) -> None:
    end = "2026-03-01 08:02:00 torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB\n"
    assert told(tmp_path, rank_0=steps(40, "finished outer epoch #{}, loss = 9.1") + end)["iteration"] == 41


@pytest.mark.parametrize(
    ("line", "iteration"),
    [
        ("Epoch: [0][{0}00/2028]\tTime 3.0s\tLoss 0.2", 2000),
        ("Epoch 2 ({0}/90) loss 0.2", 20),
        ("Train Epoch: 2 [{0}/128 (3%)] loss 0.2", 2),  # samples are no steps
    ],
)
def test_the_steps_within_the_only_epoch_are_progress(line: str, iteration: int, tmp_path: Path) -> None:
    assert told(tmp_path, rank_0=steps(20, line))["iteration"] == iteration


def test_stamps_of_month_and_day_in_brackets_are_times(tmp_path: Path) -> None:
    text = "".join(f"[04/24 16:{k:02d}:51 libai]: iteration {k} loss 2.1\n" for k in range(10, 50))
    kept = {"rank_0.log": text.encode()}
    parsed = parse(io.BytesIO(kept["rank_0.log"]), "rank_0.log", ParseHints(kind=Kind.LOG), tmp_path)
    assert parsed.lines == 40
    found = report.to_json(diagnose([parsed], read=lambda path, at, size: kept[path][at : at + size]))
    assert found["job"]["attempts"][0]["t0"] is not None


def test_the_process_that_lustre_states_first_is_no_error_code(tmp_path: Path) -> None:
    lines = (
        f"Mar  1 08:00:0{k} cn{k} kernel: LNetError: {90000 + 7 * k}:0:(o2iblnd_cb.c:3455:kiblnd()) Timed out tx: 1 s"
        for k in range(5)
    )
    parsed = parse(io.BytesIO("\n".join(lines).encode()), "kern.log", ParseHints(kind=Kind.LOG), tmp_path)
    assert parsed.uniques is not None
    assert pl.read_parquet(parsed.uniques)["masked"].n_unique() == 1


@pytest.mark.parametrize(
    ("line", "number"),
    [
        ("Iter(train) [    25/28600]  lr: 2.0000e-05  time: 2.7  loss: 8.8", 25),
        ("  4%|          | 171/3700 [31:42, 10.68s/it]", 171),
        ("Train:   0%|          | 5/11300 [3.76s/it]", 5),
        ("{'loss': 9.3, 'global_step/max_steps': '5/11300'}", 5),
        ("[info] 反復 1460/17200 損失 3.77", 1460),
        ("스텝=35 손실=8.51", 35),
    ],
)
def test_the_counter_is_known_in_the_forms_of_frameworks_and_languages(line: str, number: int) -> None:
    found = counter_words.counter(line)
    assert found is not None
    assert found[1] == number
    assert progress.counter_kind(line)


def test_an_unknown_error_that_nothing_follows_is_caught_if_its_writer_wrote_on(tmp_path: Path) -> None:
    error = "2026-03-01 08:00:02 ERROR telemetry could not attach: status 7\n"
    before = "2026-03-01 08:00:00 INFO preparing\n2026-03-01 08:00:01 INFO tasks: 12\n"
    after = [f"2026-03-01 08:00:0{n} INFO {word}\n" for n, word in enumerate(("rollout", "sampler", "prompts"), 3)]
    assert told(tmp_path / "a", rank_0=before + error + "".join(after))["outcome"] == "unknown"
    assert told(tmp_path / "b", rank_0=before + error + "".join(after[:2]))["outcome"] == "failed"
    ends = "".join(after) + "2026-03-01 08:00:09 failed (exitcode: 1) local_rank: 0\n"
    assert told(tmp_path / "c", rank_0=before + error + ends)["outcome"] == "failed"


def test_a_complaint_of_a_script_about_the_environment_is_caught_if_the_model_was_built(tmp_path: Path) -> None:
    complaint = "_STATUS=System has unsupported driver (CUDA_ERROR_SYSTEM_DRIVER_MISMATCH) cuInit()=803\n"
    built = "[rank0]: building model ...\n[rank0]: > number of parameters 8030261248\n"
    end = "[rank0]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.00 GiB.\n"
    assert told(tmp_path / "a", job=complaint + built + end)["id"] == "user.memory.cuda_oom"
    assert told(tmp_path / "b", job=built + complaint)["id"] == "user.environment.incompatible"


def test_the_share_of_training_that_a_record_states_counts_its_epochs(tmp_path: Path) -> None:
    lines = [f"{{'loss': 2.{k:02d}, 'lr': 1e-05, 'epoch': {k * 0.0317:.2f}}}\n" for k in range(80)]
    found = told_all(tmp_path, log="".join(lines))
    assert (found["conclusion"]["outcome"], found["logs"]["iteration"]) == ("running", 2)


def test_a_success_in_one_file_does_not_outweigh_the_codes_of_the_launchers_summary(tmp_path: Path) -> None:
    raised = ["Traceback (most recent call last):", '  File "/job/fit.py", line 61, in <module>', "    fit(data)"]
    summary = ["fit.py FAILED", "  exitcode  : 1 (pid: 4411)"]
    failed = [*raised, "ValueError: this model cannot do that", "failed (exitcode: 1) local_rank: 0", *summary]
    output = "{'train_runtime': 100.0}\n***** Training the next model *****\n"
    assert told(tmp_path, output=output, errors="\n".join([*failed, ""]))["outcome"] == "failed"


def test_nobody_outlived_an_error_below_the_last_step_though_the_next_line_states_an_earlier_time(
    tmp_path: Path,
) -> None:
    steps = [f"2026-03-01 14:{n:02d}:00 INFO step {n} loss 2.1" for n in range(1, 30)]
    raised = ["[rank0]: Traceback (most recent call last):", "[rank0]: ValueError: nothing is left to join"]
    elsewhere = "[rank0]:I0301 06:29:01.478000 171 torch/frame.py:6] tried to trace these"
    case = case_of_lines(tmp_path, *steps, *raised, elsewhere)
    assert case.ending.outcome == "failed"
