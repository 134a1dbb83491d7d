"""Sealed sets are the same for a seed, their truths name existing lines and machines, and the open sets share nothing
with them. The engine is not used here, and no check prints the content of a set, only a job's number.
"""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections import Counter
from collections.abc import Callable
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from lab.exams import clusters as clusters_folder
from lab.exams.clusters import exam as clusters
from lab.exams.clusters.voices import VOICES as CLUSTER_VOICES
from lab.exams.courses import courses, held_out
from lab.exams.courses.voices import VOICES as COURSE_VOICES
from lab.exams.job import Job
from lab.exams.sealed.common.case import Case
from lab.exams.sealed.first import exam as first
from lab.exams.sealed.second import exam as second
from lab.exams.sealed.second.courses import COURSES
from lab.exams.sealed.second.voices import VOICES
from lab.exams.sealed.third import exam as third
from lab.exams.tests.test_clusters import CATEGORIES, STAGES

pytestmark = pytest.mark.xdist_group("sealed exam")
EXAMS = Path(clusters_folder.__file__).parents[1]
SEED = 5
SETS = {"first": first, "second": second, "third": third}
#: What writes a job of every course.
EVERY = {"first": first.jobs, "second": second.every, "third": third.every}
#: Leaves that the open sets have no course for.
NEWER = {"process_stuck": "hardware"}


@cache
def exam(of: str) -> tuple[Job, ...]:
    """A job of every course of a set."""
    return tuple(EVERY[of](SEED))


@cache
def history(of: str) -> tuple[Job, ...]:
    return tuple(SETS[of].successes(SEED))


@pytest.fixture(params=SETS)
def of(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def wrong(of: str, is_right: Callable[[Job], bool]) -> list[int]:
    """The numbers of the failed jobs that do not pass a check."""
    return [k for k, job in enumerate(exam(of)) if not job.truth["healthy"] and not is_right(job)]


def digest(job: Job) -> str:
    held = hashlib.sha256(json.dumps(job.truth, sort_keys=True).encode())
    for path, data in sorted(job.files.items()):
        held.update(path.encode() + data)
    return held.hexdigest()


def lines_of(truth: dict[str, Any], role: str) -> list[tuple[str, str, int]]:
    """Path, template and line of every line that has a role."""
    return [
        (path, tid, n)
        for path, by_template in truth["lines"].get(role, {}).items()
        for tid, ranges in by_template.items()
        for low, high in ranges
        for n in range(low, high + 1)
    ]


def test_the_same_seed_writes_the_same_bytes_and_another_seed_others(of: str) -> None:
    here = [digest(job) for job in exam(of)[:2]]
    assert [digest(job) for job in islice(EVERY[of](SEED), 2)] == here
    assert digest(next(iter(EVERY[of](SEED + 1)))) not in here


def test_every_line_that_a_truth_names_is_there_and_is_what_its_template_says(of: str) -> None:
    def is_right(job: Job) -> bool:
        rows = {path: data.decode().split("\n") for path, data in job.files.items()}
        only = {(t["role"], t["id"]): t["examples"][0] for t in job.truth["templates"] if len(t["examples"]) == 1}
        for role in ("root", "secondary", "context"):
            for path, tid, n in lines_of(job.truth, role):
                if not 1 <= n < len(rows[path]) or only.get((role, tid), rows[path][n - 1]) != rows[path][n - 1]:
                    return False
        return all(re.search(r"\w{3}", rows[path][n - 1]) for path, _, n in lines_of(job.truth, "root"))

    assert not wrong(of, is_right)


def test_no_line_has_two_roles(of: str) -> None:
    def is_right(job: Job) -> bool:
        told = Counter((p, n) for role in job.truth["lines"] for p, _, n in lines_of(job.truth, role))
        return max(told.values(), default=1) == 1

    assert not wrong(of, is_right)


def test_every_machine_that_a_truth_names_is_found_in_the_files(of: str) -> None:
    def is_right(job: Job) -> bool:
        everything = "\n".join(job.files) + b"\n".join(job.files.values()).decode()
        return all(node in everything for who in ("faulty", "origin", "affected") for node in job.truth[f"{who}_nodes"])

    assert not wrong(of, is_right)


def test_truths_use_the_words_of_the_report(of: str) -> None:
    leaves = {leaf: category for category, names in CATEGORIES.items() for leaf in names.split()} | NEWER

    def is_right(job: Job) -> bool:
        truth = job.truth
        return (
            leaves[truth["subcategory"]] == truth["category"]
            and set(truth["category_accept"]) <= set(CATEGORIES)
            and set(truth["subcategory_accept"]) <= {*leaves, "storage_io"}
            and {truth["symptom"], *truth["symptom_accept"]} <= {"launch_failure", "crash", "hang", "slow"}
            and {truth["stage"], *truth["stage_accept"]} <= STAGES
        )

    assert not wrong(of, is_right)


def test_an_iteration_is_told_by_the_logs_and_is_the_last_before_a_failure(of: str) -> None:
    def is_right(job: Job) -> bool:
        iteration = job.truth["iteration"]
        if not iteration["applicable"] or iteration["last_logged"] is None:
            return True
        text = b"\n".join(data for path, data in job.files.items() if path != "job.json").decode()
        is_told = re.search(rf"(?<![\d.]){iteration['last_logged']}(?!\d)", text) is not None
        return is_told and 0 <= iteration["failed"] - iteration["last_logged"] <= 11

    assert not wrong(of, is_right)


def test_no_text_keeps_an_unfilled_field(of: str) -> None:
    field = re.compile(rb"\{[a-z][a-z0-9_]*\}")
    kept = [k for k, job in enumerate((*exam(of), *history(of))) if any(map(field.search, job.files.values()))]
    kept += [k for k, job in enumerate(exam(of)) if any("{" in path for path in job.files)]
    assert not kept


def test_nothing_has_the_name_of_something_open() -> None:
    texts = first.texts()
    frameworks = tomllib.loads((EXAMS / "logs" / "frameworks.toml").read_text())["framework"]
    voices = {v.name for v in (*COURSE_VOICES, *CLUSTER_VOICES)} | {f["name"] for f in frameworks}
    practised = {"megatron", "nemo", "deepspeed", "torchtitan", "torchrun", "mlperf", "mindspeed", "hf"}
    assert not set(texts["voices"]) & (voices | practised)
    told = voices | practised | set(texts["voices"])
    shared = (len(told & set(VOICES)), len((told | set(VOICES)) & set(third.SET.voices)))
    assert shared == (0, 0)
    assert not set(texts["courses"]) & {*courses.COURSES, *held_out.HELD, *clusters.COURSES}
    told = {*texts["courses"], *courses.COURSES, *held_out.HELD, *clusters.COURSES}
    shared = (len(told & set(COURSES)), len((told | set(COURSES)) & set(third.SET.courses)))
    assert shared == (0, 0)


def test_the_set_is_as_wide_as_it_claims() -> None:
    texts = first.texts()
    failing = [c for c in texts["courses"].values() if "truth" in c]
    assert len(texts["voices"]) >= 8
    assert len({way for v in texts["voices"].values() for way in v["ways"]}) >= 6
    able = {name: set(first.voices_of(course)) for name, course in texts["courses"].items()}
    assert all(able.values())
    assert set().union(*able.values()) == set(texts["voices"])
    assert len(failing) >= 24
    assert len(texts["courses"]) - len(failing) >= 8
    assert {c["truth"]["category"] for c in failing} == set(CATEGORIES)
    assert {c["truth"]["stage"] for c in failing} >= STAGES - {"shutdown"}
    assert {c["truth"]["symptom"] for c in failing} == {"launch_failure", "crash", "hang", "slow"}


def test_the_second_set_is_as_wide_as_it_claims() -> None:
    failed = [job.truth for job in exam("second") if not job.truth["healthy"]]
    kinds, drawn = (
        Counter(truth["category"] for truth in failed),
        {j.name.rpartition("-")[0] for j in second.jobs(SEED)},
    )
    leaves = len({truth["subcategory"] for truth in failed})
    speakers = len({name for course in COURSES.values() for name in course.able} & set(VOICES))
    failing = sum(COURSES[name].is_failing for name in drawn)
    others = sum(not COURSES[name].is_failing for name in drawn)
    assert (speakers, len(VOICES), failing, others) == (12, 12, 50, 15)
    assert leaves >= 40
    assert set(kinds) == set(CATEGORIES) - {"unknown"}
    assert {truth["stage"] for truth in failed} >= STAGES - {"shutdown"}
    assert {truth["symptom"] for truth in failed} == {"launch_failure", "crash", "hang", "slow"}


def test_the_third_set_is_as_wide_as_it_claims() -> None:
    failed = [job.truth for job in exam("third") if not job.truth["healthy"]]
    speakers = {name for course in third.SET.courses.values() for name in course.able}
    others = sum(job.truth["healthy"] for job in exam("third"))
    leaves = len({truth["subcategory"] for truth in failed})
    assert (len(speakers & set(third.SET.voices)), len(speakers), others) == (10, 10, 15)
    assert len(failed) >= 55
    assert leaves >= 44
    assert {truth["category"] for truth in failed} == set(CATEGORIES) - {"unknown"}
    assert {truth["stage"] for truth in failed} >= STAGES - {"shutdown", "model_build"}
    assert {truth["symptom"] for truth in failed} == {"launch_failure", "crash", "hang", "slow"}


def test_machines_of_the_second_set_stand_behind_two_leaves_at_least() -> None:
    cases = [Case(voice, f"job {k}", "family") for voice in VOICES.values() for k in range(20)]
    assert min(len(set(case.leaf)) for case in cases) >= 2


def test_every_family_has_a_history_of_successes(of: str) -> None:
    voices = {"first": set(first.texts()["voices"]), "second": set(VOICES), "third": set(third.SET.voices)}[of]
    assert Counter(job.family for job in history(of)) == dict.fromkeys(voices, 3)
    assert all(job.truth["healthy"] for job in history(of))


def test_jobs_are_of_a_size_that_can_be_read(of: str) -> None:
    counts = [sum(data.count(b"\n") for data in job.files.values()) for job in exam(of)]
    assert not [k for k, count in enumerate(counts) if not 20 <= count <= 60_000]
