"""Evidence on disk: a directory, an archive or a single file, parsed artifact by artifact in
bounded memory. The command line uses this instead of an upload. Directories are walked in order of
their paths; archives go through :mod:`diagnosis.archive.archives`, which trusts nothing of them.
Links are not followed. Only members of archives are copied to the working directory, since raw
lines are read again by offset when the diagnosis quotes them.
"""

from __future__ import annotations

import io
import itertools
import os
import stat
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import msgspec
from msgspec.structs import replace

from diagnosis.archive import archives
from diagnosis.files import parse_pool
from diagnosis.files.member_copies import Copies, Place
from diagnosis.model import Kind, OnStage, Parsed, ParseHints, ignore_progress


class _File(NamedTuple):
    """A file below an argument: its name there, and its bytes."""

    name: str
    file: Path
    size: int


class Evidence(msgspec.Struct):
    """The parsed evidence. ``read`` gives raw bytes of any artifact; ``problems`` are sentences about omitted files."""

    parsed: list[Parsed] = msgspec.field(default_factory=list)
    problems: list[tuple[str, str]] = msgspec.field(default_factory=list)
    _places: dict[str, Place] = msgspec.field(default_factory=dict)
    _taken: int = 0  # artifacts that have a number
    # the file that was read last: often thousands of lines of one file are read
    _opened: tuple[Path, io.FileIO] | None = None

    def _reserve(self, name: str, argument: str, place: Place) -> tuple[int, str]:
        """A number and a name for the artifact at ``place``: ``name``, or with the argument's name before it if another
        artifact has that name already.
        """
        path = f"{argument}/{name}" if name in self._places else name
        self._places[path] = place
        self._taken += 1
        return self._taken - 1, path

    def read(self, path: str, offset: int, length: int) -> bytes:
        """At most ``length`` bytes of the artifact ``path`` from ``offset`` on; none for an unknown one."""
        place = self._places.get(path)
        if place is None:
            return b""
        if self._opened is None or self._opened[0] is not place.file:  # equality of paths is slow
            self.close()
            self._opened = place.file, place.file.open("rb", buffering=0)
        if place.size is not None:
            length = min(length, max(place.size - offset, 0))
        return os.pread(self._opened[1].fileno(), length, place.begin + offset)

    def __reduce__(self) -> tuple[type[Evidence], tuple[Any, ...]]:
        """What another process needs to read bytes."""
        return Evidence, ([], [], self._places)

    def close(self) -> None:
        """Closes the file that was read last; a later ``read`` opens it again."""
        if self._opened is not None:
            self._opened[1].close()
            self._opened = None


def gather(
    paths: Sequence[Path],
    work: Path,
    *,
    hints: ParseHints | None = None,
    on_stage: OnStage = ignore_progress,
    meanwhile: Callable[[], None] | None = None,
) -> Evidence:
    """Parses everything below ``paths``; tables and copies lie in ``work``, which the caller removes. ``meanwhile`` is
    done while other processes read, if files are so large.

    Artifacts are named by their path inside the directory or archive; where two of several ``paths`` hold the same
    name, by the argument's own name in front. Raises ``FileNotFoundError`` for a path that does not exist.
    """
    evidence = Evidence()
    for path in paths:
        if not path.exists():
            raise FileNotFoundError(f"{path} does not exist: give a directory, an archive or a file that does")
        files = sorted(_files(path, evidence), key=attrgetter("name"))
        done = 0
        for is_archive, group in itertools.groupby(files, key=_is_archive):
            read = _parse_archives if is_archive else partial(_parse_plain, meanwhile)
            for _ in read(evidence, list(group), path.name, hints or ParseHints(), work):
                on_stage("parse", done, len(files))
                done += 1
        on_stage("parse", len(files), len(files))
    return evidence


def _files(path: Path, evidence: Evidence) -> Iterator[_File]:
    """The regular files at or below ``path``."""
    if not path.is_dir():
        yield _File(path.name, path, path.stat().st_size)
        return

    def problem(file: str | Path, sentence: str) -> None:
        evidence.problems.append((Path(file).relative_to(path).as_posix(), sentence))

    def closed(error: OSError) -> None:
        problem(error.filename or path, f"The directory cannot be looked into ({error.strerror}): it was left out.")

    for folder, below, names in os.walk(path, onerror=closed):
        for name in [name for name in below if Path(folder, name).is_symlink()]:
            problem(f"{folder}/{name}", "This is a link to a directory: it was not followed. Give it as well.")
            below.remove(name)
        below.sort()
        inside = Path(folder).relative_to(path)
        for name in sorted(names):
            file = f"{folder}/{name}"
            found = _look_at(file, name if inside == Path() else f"{inside}/{name}")
            if isinstance(found, str):
                problem(file, found)
            else:
                yield found


def _look_at(file: str, name: str) -> _File | str:
    """A regular file, or why it was left out."""
    try:
        status = os.lstat(file)
    except OSError as error:
        return f"The file cannot be looked at ({error.strerror}): it was left out."
    if not stat.S_ISREG(status.st_mode):
        return "This is a link or a device, not a file: it was left out."
    return _File(name, Path(file), status.st_size)


def _is_archive(found: _File) -> bool:
    try:
        with found.file.open("rb") as stream:
            return bool(archives.format_of(stream.read(archives.HEAD_BYTES), found.name))
    except OSError:
        return False  # the reader reports why it cannot be read


def _parse_plain(
    meanwhile: Callable[[], None] | None,
    evidence: Evidence,
    files: Sequence[_File],
    argument: str,
    hints: ParseHints,
    work: Path,
) -> Iterator[None]:
    """Parses files that are no archives, on all cores if their total size is large."""
    tasks = []
    for name, file, size in files:
        number, path = evidence._reserve(name, argument, Place(file))
        tasks.append(parse_pool.Task(file, path, hints, _tables(work, number), size))
    results = parse_pool.parse_all(tasks, parse_pool.workers_for([task.size for task in tasks]), meanwhile)
    for found, result in zip(files, results, strict=True):
        yield
        if isinstance(result, str):
            evidence.problems.append((found.name, result))
        else:
            evidence.parsed.append(result)


def _parse_archives(
    evidence: Evidence, files: Sequence[_File], argument: str, hints: ParseHints, work: Path
) -> Iterator[None]:
    """Parses each member of each archive."""
    for name, file, _ in files:
        yield
        with file.open("rb") as stream:
            _parse_members(evidence, stream, name, argument, hints, work)


def _parse_members(
    evidence: Evidence, stream: BinaryIO, name: str, argument: str, hints: ParseHints, work: Path
) -> None:
    """Copies the members and parses the copies, small ones together: 50,000 of a few bytes each cost little more than
    one file of their size.
    """

    def problem(path: str, sentence: str) -> None:
        evidence.problems.append((path, sentence))

    copied: deque[tuple[str, str]] = deque()  # path and note of the members that wait for their result

    def tasks(copies: Copies) -> Iterator[parse_pool.Task]:
        for member in archives.walk(stream, name, on_problem=problem):
            try:
                copy = copies.take(member)
            except archives.Refused as refusal:
                problem(member.path, str(refusal))
                continue
            number, path = evidence._reserve(member.path, argument, copy.place)
            copied.append((path, member.note))
            yield parse_pool.Task(copy.place.file, path, hints, _tables(work, number), copy.size, copy.data)

    with Copies(work, f"copies-{evidence._taken:06d}") as copies:
        for result in parse_pool.parse_all(tasks(copies), workers=1):
            path, note = copied.popleft()
            if isinstance(result, str):
                problem(path, result)
            else:
                evidence.parsed.append(replace(result, notes=(*result.notes, note)) if note else result)


def _tables(work: Path, number: int) -> Path:
    return work / f"artifact-{number:06d}"


def is_readable(parsed: Parsed) -> bool:
    """Whether an artifact yielded anything to diagnose."""
    return parsed.skipped is None and (parsed.lines > 0 or parsed.kind in (Kind.FLOW, Kind.STACK))
