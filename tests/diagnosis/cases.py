"""Cases of made-up jobs, for tests of one detector or rule."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from diagnosis.evidence import inventory
from diagnosis.kinds.logs.causes.case import Case, collect_facts, decide
from diagnosis.kinds.logs.causes.failure_facts import Given
from diagnosis.model import JobHints, Parsed
from tests.diagnosis.synthetic import Job, read_files


def case_of(job: Job, work: Path, without: frozenset[str] = frozenset()) -> Case:
    """The case of a made-up job without history."""
    parsed, read = read_files(job.files(), work / "job")
    hints = job.hints()
    known = inventory.read(parsed, hints)
    return _case(parsed, Given(inventory=known, hints=hints, read=read, without=without))


def case_of_files(work: Path, files: dict[str, list[str]], nodes: tuple[str, ...] = ()) -> Case:
    """The case of these logs, by path; ``nodes``: the job's machines, if they are known."""
    parsed, read = read_files({path: "\n".join([*lines, ""]).encode() for path, lines in files.items()}, work)
    hints = JobHints(nodes=nodes)
    return _case(parsed, Given(inventory=inventory.read(parsed, hints), hints=hints, read=read))


def _case(parsed: Sequence[Parsed], given: Given) -> Case:
    facts = collect_facts(parsed, given)
    assert facts is not None
    return decide(facts)


def case_of_lines(work: Path, *lines: str) -> Case:
    """The case of one log, alone."""
    return case_of_files(work, {"train.log": list(lines)})
