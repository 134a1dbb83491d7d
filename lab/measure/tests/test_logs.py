"""The exam of made-up jobs: it is the same for a seed, its truth points at the lines that it quotes, and the engine
answers some of it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from diagnosis import report
from diagnosis.model import JobHints
from diagnosis.pipeline import diagnose
from lab.exams.logs.exam import fits, made
from lab.exams.logs.job import Job
from lab.exams.logs.model import CAUSES, FRAMEWORKS
from lab.measure.evidence import parse_files

FRAMEWORK = {f.name: f for f in FRAMEWORKS}
CAUSE = {c.subcategory: c for c in CAUSES}


def test_the_same_seed_makes_the_same_bytes_and_another_seed_others() -> None:
    one, again, other = (Job(seed, FRAMEWORK["maxtext"], CAUSE["kernel_panic"]).files() for seed in ("1", "1", "2"))
    assert one == again
    assert one != other


def test_every_cause_fits_a_framework_and_a_third_of_them_is_held_out() -> None:
    assert all(any(fits(f, c) for f in FRAMEWORKS) for c in CAUSES)
    held_out = sum(c.is_held_out for c in CAUSES)
    assert 0.25 * len(CAUSES) <= held_out <= 0.4 * len(CAUSES)
    assert sum(f.is_held_out for f in FRAMEWORKS) == 2


def test_the_truth_of_every_failed_job_points_at_lines_that_exist_and_that_its_templates_quote() -> None:
    for name, job, _ in made(3):
        truth = job.truth()
        if truth["healthy"]:
            continue
        lines = {path: data.decode().splitlines() for path, data in job.files().items()}
        roots = truth["lines"]["root"]
        quoted = [e for t in truth["templates"] if t["role"] == "root" for e in t["examples"]]
        texts = [
            lines[path][n - 1]
            for path, ids in roots.items()
            for spans in ids.values()
            for low, high in spans
            for n in range(low, high + 1)
        ]
        assert texts, name
        assert set(quoted) <= set(texts), name


def answered(tmp_path: Path, framework: str, cause: str | None, seed: str = "7") -> tuple[Job, dict[str, object]]:
    job = Job(seed, FRAMEWORK[framework], CAUSE[cause] if cause else None)
    parsed, read = parse_files(job.files(), tmp_path)
    return job, report.to_json(diagnose(parsed, job=JobHints(), read=read))["logs"]


@pytest.mark.parametrize("framework", ["paddlenlp", "nemo2"])
def test_a_broken_gpu_is_found_in_a_framework_nobody_wrote_rules_for(tmp_path: Path, framework: str) -> None:
    job, logs = answered(tmp_path, framework, "gpu_ecc")
    assert [n["node"] for n in logs["nodes"] if n["suspect"]] == [job.nodes[job.victim]]  # type: ignore[attr-defined]
    assert logs["subcategory"] == "gpu_ecc"
    assert logs["stage"] == "training"


def test_a_healthy_job_of_an_unknown_framework_raises_no_alarm(tmp_path: Path) -> None:
    _, logs = answered(tmp_path, "mindformers", None)
    assert not logs["is_failure"]
    assert logs["nodes"] == []
