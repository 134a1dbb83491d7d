"""Evidence on disk: a directory, an archive or a single file, parsed artifact by artifact in bounded memory.

This is what the command line does instead of an upload. Directories are walked in order of their paths; archives go
through
:mod:`diagnosis.archives`, which trusts nothing of them. Links are not followed. Only members of archives are copied to
the working directory, since raw lines are read again by offset when the diagnosis quotes them.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO, cast

from diagnosis import archives
from diagnosis.model import Kind, OnStage, Parsed, ParseHints, silent
from diagnosis.parsing import parse

#: Opens the bytes of one artifact.
Opener = Callable[[], BinaryIO]


@dataclass(slots=True)
class Evidence:
    """What was found and parsed. ``read`` gives raw bytes of any artifact; ``problems`` are sentences about what
    was left out.
    """

    parsed: list[Parsed] = field(default_factory=list)
    problems: list[tuple[str, str]] = field(default_factory=list)
    _files: dict[str, Path] = field(default_factory=dict)

    def read(self, path: str, offset: int, length: int) -> bytes:
        """At most ``length`` bytes of the artifact ``path`` from ``offset`` on; none for an unknown one."""
        file = self._files.get(path)
        if file is None:
            return b""
        with file.open("rb") as stream:
            stream.seek(offset)
            return stream.read(length)


def gather(
    paths: Sequence[Path], work: Path, *, hints: ParseHints | None = None, on_stage: OnStage = silent
) -> Evidence:
    """Parses everything below ``paths``; tables and copies lie in ``work``, which the caller removes.

    Artifacts are named by their path inside the directory or archive; where two of several ``paths`` hold the same
    name, by the argument's own name in front. Raises ``FileNotFoundError`` for a path that does not exist.
    """
    evidence = Evidence()
    for path in paths:
        if not path.exists():
            raise FileNotFoundError(f"{path} does not exist: give a directory, an archive or a file that does")
        files = sorted(_files(path, evidence))
        for number, (name, file) in enumerate(files):
            on_stage("parse", number, len(files))
            _one(evidence, name, file, path.name, hints or ParseHints(), work)
        on_stage("parse", len(files), len(files))
    return evidence


def _files(path: Path, evidence: Evidence) -> Iterator[tuple[str, Path]]:
    """(name, file) of the regular files at or below ``path``."""
    if not path.is_dir():
        yield path.name, path
        return

    def closed(error: OSError) -> None:
        inside = Path(error.filename or path).relative_to(path).as_posix()
        evidence.problems.append((inside, f"The directory cannot be looked into ({error.strerror}): it was left out."))

    for folder, below, names in os.walk(path, onerror=closed):
        for name in [name for name in below if (Path(folder) / name).is_symlink()]:
            inside = (Path(folder) / name).relative_to(path).as_posix()
            evidence.problems.append((inside, "This is a link to a directory: it was not followed. Give it as well."))
            below.remove(name)
        below.sort()
        for name in sorted(names):
            file = Path(folder) / name
            inside = file.relative_to(path).as_posix()
            try:
                mode = file.lstat().st_mode
            except OSError as error:
                evidence.problems.append((inside, f"The file cannot be looked at ({error.strerror}): it was left out."))
                continue
            if stat.S_ISREG(mode):
                yield inside, file
            else:
                evidence.problems.append((inside, "This is a link or a device, not a file: it was left out."))


def _one(evidence: Evidence, name: str, file: Path, argument: str, hints: ParseHints, work: Path) -> None:
    """Parses one file, or each member of it if it is an archive."""
    try:
        stream = file.open("rb")
    except OSError as error:
        evidence.problems.append((name, f"The file cannot be read ({error.strerror}): it was left out."))
        return
    with stream:
        kind = archives.format_of(stream.read(archives.HEAD_BYTES), name)
        stream.seek(0)
        if not kind:
            _parse(evidence, stream, _free(evidence, name, argument), hints, work, file)
            return

        def problem(path: str, sentence: str) -> None:
            evidence.problems.append((path, sentence))

        for member in archives.walk(stream, name, on_problem=problem):
            path = _free(evidence, member.path, argument)
            copy = work / f"copy-{len(evidence.parsed):06d}"
            with copy.open("wb") as out:
                copied = _Copied(member.stream, out)
                parsed = _parse(evidence, cast("BinaryIO", copied), path, hints, work, copy)
            if copied.refusal:
                evidence.parsed.pop()
                problem(path, copied.refusal)
            elif member.note:
                evidence.parsed[-1] = replace(parsed, notes=(*parsed.notes, member.note))


def _free(evidence: Evidence, name: str, argument: str) -> str:
    """``name``, or with the argument's name before it if another artifact has that name already."""
    if all(parsed.path != name for parsed in evidence.parsed[-1:]) and name not in evidence._files:
        return name
    return f"{argument}/{name}"


def _parse(evidence: Evidence, stream: BinaryIO, path: str, hints: ParseHints, work: Path, file: Path) -> Parsed:
    parsed = parse(stream, path, hints, work / f"artifact-{len(evidence.parsed):06d}")
    evidence.parsed.append(parsed)
    evidence._files[path] = file
    return parsed


class _Copied:
    """A stream that writes what is read through it to ``out``; it ends where the archive's limits do."""

    def __init__(self, stream: BinaryIO, out: BinaryIO) -> None:
        self._stream = stream
        self._out = out
        self.refusal = ""

    def read(self, size: int = -1) -> bytes:
        try:
            data = self._stream.read(size) or b""
        except archives.Refused as refusal:
            self.refusal = str(refusal)
            return b""
        self._out.write(data)
        return data


def is_readable(parsed: Parsed) -> bool:
    """Whether an artifact yielded anything to diagnose."""
    return parsed.skipped is None and (parsed.lines > 0 or parsed.kind in (Kind.FLOW, Kind.STACK))
