"""The jobs of the exam, the answers of a tool, and the truth: records and their files."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, Literal

import msgspec

HERE: Final = Path(__file__).parent
VERSION: Final = 1

type Condition = Literal["healthy", "recovered", "degraded", "hung", "failed", "cancelled", "running", "unknown"]

#: Conditions that call somebody at night.
ALARMS: Final = ("degraded", "hung", "failed")


class Truth(msgspec.Struct, frozen=True, kw_only=True):
    """What is right of one job. A part that is empty is not scored.

    ``conditions``: accepted ones. ``categories``: accepted beginnings of a category. ``culprits``:
    accepted names of the first suspect. ``nobody``: no machine is at fault. ``first_lines``: file
    (empty where the job has one) and number of each accepted line. ``words``: patterns that the
    sentence must match.
    """

    archive: str
    what: str
    conditions: tuple[Condition, ...] = ()
    categories: tuple[str, ...] = ()
    culprits: tuple[str, ...] = ()
    nobody: bool = False
    first_lines: tuple[tuple[str, int], ...] = ()
    words: tuple[str, ...] = ()


class Answer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a tool says of one job. ``suspects``: the likeliest first, ``rank N`` for a rank.
    ``first_line``: file and number of the line that began it. ``confidence``: of the category,
    from 0 to 1.
    """

    condition: Condition = "unknown"
    category: str = ""
    suspects: tuple[str, ...] = ()
    sentence: str = ""
    first_line: tuple[str, int] | None = None
    confidence: float | None = None


class Paper(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All answers of one tool to one version of the exam."""

    exam: int
    tool: str
    answers: Mapping[str, Answer]


class _Truths(msgspec.Struct, frozen=True):
    exam: int
    jobs: Mapping[str, Truth]


class PaperError(ValueError):
    """A file that is no paper of this exam; the text says why."""


def truths() -> Mapping[str, Truth]:
    """The truth of each job, by its name."""
    return msgspec.json.decode((HERE / "truth.json").read_bytes(), type=_Truths).jobs


def read_paper(path: Path) -> Paper:
    """The answers in a file. Raises :class:`PaperError` for another form, another version of the
    exam or a job that it does not have.
    """
    try:
        paper = msgspec.json.decode(path.read_bytes(), type=Paper)
    except msgspec.DecodeError as error:
        raise PaperError(f"{path}: {error}") from error
    if paper.exam != VERSION:
        raise PaperError(f"{path} answers version {paper.exam} of the exam; this is {VERSION}")
    others = sorted(set(paper.answers) - set(truths()))
    if others:
        raise PaperError(f"{path} answers jobs that the exam does not have: {', '.join(others)}")
    return paper


def unpack(target: Path) -> Iterator[tuple[str, Path]]:
    """Write the evidence of all jobs below a directory; yields name and path of each."""
    for name, truth in truths().items():
        archive = HERE / truth.archive
        with tarfile.open(archive) as tar:
            chosen = [member for member in tar if _is_of(member.name, name)]
            tar.extractall(target, members=chosen, filter="data")
        yield name, target / name


def _is_of(member: str, job: str) -> bool:
    return member == job or member.startswith(f"{job}/")
