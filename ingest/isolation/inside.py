"""Calls that run in a reader: functions of the engine with paths as arguments and plain values as results.

The first argument of each is the connection to its worker (:class:`~ingest.isolation.forkserver.WorkerConnection`).
Without isolation the worker calls them directly, with a connection of its own. They do not know Django.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO, cast

import polars as pl

import diagnosis.kinds.logs.read.reader  # noqa: F401  # loaded once, before readers are forked
from diagnosis import merge, parse
from diagnosis.archive import archives
from diagnosis.files import parsed as parsed_files
from diagnosis.files.parse_pool import Task, read_together
from diagnosis.history import History
from diagnosis.keeping import condense
from diagnosis.kinds.evidence_kind import HEAD_BYTES
from diagnosis.kinds.logs.columns import physical
from diagnosis.kinds.logs.meaning import signatures
from diagnosis.learning import learn, unexplained_errors
from diagnosis.live import encode
from diagnosis.live.reading.observe import Range, observe
from diagnosis.model import Parsed, ParseHints
from diagnosis.pipeline import diagnose
from diagnosis.processing.budgets import CpuAlarm
from diagnosis.report import to_json
from diagnosis.runners import Dask
from ingest.isolation.offering import Parts, part_do

# A plan that nobody runs. A thread of polars sets up once what each plan needs: a reader that is
# forked in the middle of that would wait for it, and lose its file after the limit of silence.
pl.scan_lines(io.BytesIO(b"\n"))

_BLOCK_BYTES = 1 << 20
#: members reported in one message
_MAX_FILES_TOGETHER = 64
_MAX_BYTES_TOGETHER = 32 << 20
#: beginnings of files that are read in one message, the largest one, and how many files are passed
#: over between two that are read in turn
_BEGINNINGS_TOGETHER = 256
_MAX_BEGINNING_BYTES = 4_096
_MAX_PASSED_OVER = 8


class _ProgressFile:
    """A file (or its next ``length`` bytes) that reports progress while it is read."""

    def __init__(self, file: BinaryIO, worker: Any, length: int | None) -> None:
        self._file, self._worker, self._remaining = file, worker, length

    def read(self, size: int = -1) -> bytes:
        if self._remaining is not None:
            size = self._remaining if size is None or size < 0 else min(size, self._remaining)
        data = self._file.read(size)
        if self._remaining is not None:
            self._remaining -= len(data)
        self._worker.advance(len(data))
        return data


def read_file(
    worker: Any, *, source: str, start: int, length: int | None, path: str, hints: ParseHints, folder: str
) -> dict[str, Any]:
    """Parse the file ``source`` (from ``start`` on, ``length`` bytes) into ``folder``; returns its row's columns."""
    with Path(source).open("rb") as file:
        file.seek(start)
        stream = _ProgressFile(file, worker, length)
        result = parse(cast("BinaryIO", stream), path, hints, Path(folder))
    return _kept(result, folder)


def read_files(worker: Any, *, files: Sequence[dict[str, Any]], folder: str) -> list[dict[str, Any] | None]:
    """Parse several small files (``source``, ``path``, ``hints``) together, with common tables in
    ``folder``; returns the columns of each one's row, and its digest. None for a file that must be
    read alone.
    """
    tasks = [Task(Path(one["source"]), one["path"], one["hints"], Path(folder)) for one in files]
    found = read_together(tasks)
    worker.advance(len(found))
    if found:
        parsed_files.save_together(list(found.values()), Path(folder))
    rows: list[dict[str, Any] | None] = [None] * len(tasks)
    for number, (place, result) in enumerate(found.items()):
        rows[place] = {**_columns(result), "parsed_number": number, "sha256": result.sha256}
    return rows


def observe_ranges(worker: Any, *, ranges: Sequence[dict[str, Any]], time_zone: str) -> list[dict[str, Any]]:
    """The observations of ranges of growing logs (:func:`diagnosis.live.reading.observe`), each ``source``, ``start``,
    ``length`` and ``path``. Nothing of a file that was completed in between.
    """
    found = []
    for one in ranges:
        found.append(_range_of(**one))
        worker.advance(one["length"])
    return list(encode(observe(found, time_zone)))


def _range_of(*, source: str, start: int, length: int, path: str) -> Range:
    try:
        with Path(source).open("rb") as file:
            head = file.read(HEAD_BYTES)
            file.seek(start)
            return Range(path, head, file.read(length), start)
    except FileNotFoundError:
        return Range(path, b"", b"")


def join_ranges(
    worker: Any, *, parts: Sequence[str], files: Sequence[str], sha256: str, folder: str
) -> dict[str, Any] | None:
    """Join the parsed ranges of one file in ``folder``; ``files`` are where their columns are, seen from where the
    result will be stored. None if a range has no line, or was read by an older version.
    """
    loaded = [parsed_files.load(Path(part)) for part in parts]
    worker.advance(len(loaded))
    try:
        result = merge(loaded, Path(folder), files)
    except ValueError:
        return None
    return _kept(Parsed(**{**_shallow(result), "sha256": sha256}), folder)


def _shallow(result: Parsed) -> dict[str, Any]:
    return {name: getattr(result, name) for name in Parsed.__struct_fields__}


def _kept(result: Parsed, folder: str) -> dict[str, Any]:
    parsed_files.save(result, Path(folder))
    return _columns(result)


def _columns(result: Parsed) -> dict[str, Any]:
    return {
        "kind": str(result.kind),
        "lines": physical.lines(result),
        "skipped": result.skipped,
        "notes": list(result.notes),
    }


def unpack(
    worker: Any,
    *,
    source: str,
    path: str,
    limits: archives.Limits,
    folder: str,
    begin: int = 0,
    spent_bytes: int = 0,
) -> None:
    """Copy every member of an archive into ``folder`` and report it: ``taken`` gets rows ``["member", number, path,
    file, sha256, bytes, note]`` and ``["problem", path, sentence]`` in the archive's order, some at a time. Of a small
    member whose bytes were reported before, the file is empty: nothing was copied.

    The first ``begin`` members, which had ``spent_bytes``, were reported before: they are passed over.
    """
    rows: list[list[Any]] = []
    copied: set[str] = set()
    waiting = count = 0

    def problem(name: str, sentence: str) -> None:
        if count >= begin:
            rows.append(["problem", name, sentence])

    def hand_over() -> None:
        nonlocal waiting
        worker.advance(len(rows))
        worker.ask("taken", rows)
        rows.clear()
        waiting = 0

    with Path(source).open("rb") as file:
        for member in archives.walk(
            cast("BinaryIO", _SeekableProgressFile(file, worker)),
            path,
            limits=limits,
            on_problem=problem,
            spent_bytes=spent_bytes,
        ):
            number, count = count, count + 1
            worker.advance(1)
            if number < begin:
                continue
            copy = Path(folder) / f"{number:09d}"
            try:
                name, sha256, size = _copy(member, copy, copied, worker)
            except archives.Refused as refusal:
                copy.unlink(missing_ok=True)
                problem(member.path, str(refusal))
                continue
            rows.append(["member", number, member.path, name, sha256, size, member.note])
            waiting += size
            if len(rows) >= _MAX_FILES_TOGETHER or waiting > _MAX_BYTES_TOGETHER:
                hand_over()
    if rows:
        hand_over()


def _copy(member: archives.Member, copy: Path, copied: set[str], worker: Any) -> tuple[str, str, int]:
    """Copy a member; its file, digest and size. A small one (a block) with the bytes of one that was ``copied`` has no
    file: making one takes longer than all else. Raises ``Refused``.
    """
    block = member.stream.read(_BLOCK_BYTES)
    further = member.stream.read(_BLOCK_BYTES) if block else b""
    digest, size = hashlib.sha256(block), len(block)
    worker.advance(size)
    if not further and digest.hexdigest() in copied:
        return "", digest.hexdigest(), size
    with copy.open("wb") as out:
        out.write(block)
        while further:
            out.write(further)
            digest.update(further)
            size += len(further)
            worker.advance(len(further))
            further = member.stream.read(_BLOCK_BYTES)
    copied.add(digest.hexdigest())
    return str(copy), digest.hexdigest(), size


class _SeekableProgressFile(_ProgressFile):
    """A watched file that is read in any order."""

    def __init__(self, file: BinaryIO, worker: Any) -> None:
        super().__init__(file, worker, None)

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()


def diagnose_job(
    worker: Any,
    *,
    parsed: Sequence[Parsed],
    tables: str,
    are_far: bool = False,
    dask: str = "",
    rule_texts: Sequence[str] = (),
    **options: Any,
) -> dict[str, Any]:
    """The report of all ``parsed`` artifacts; ``options`` are those of the engine, ``rule_texts``
    the site's own rules.

    Requests bytes of evidence with ``read``, reports ``stage``, offers parts to other workers with ``offer``, ``take``
    and ``took`` (``are_far``: also to those of other machines), or gives them to the cluster at ``dask``. Tells with
    ``step`` which stage with a budget runs (:mod:`diagnosis.processing.budgets`).
    """
    alarm = CpuAlarm(lambda stage: worker.tell("step", stage))
    held = _Held(worker, alarm)

    reached = ("", 0)

    def on_stage(stage: str, done: int = 0, total: int = 0) -> None:
        nonlocal reached
        held.advance((stage, done) != reached)
        reached = stage, done
        held.tell("stage", stage, done, total)

    read = _Reading(held, [part.path for part in parsed])
    runner = Dask(dask) if dask else Parts(held, is_far=are_far)
    diagnosis = diagnose(
        parsed,
        read=read,
        on_stage=on_stage,
        tables=Path(tables),
        runner=runner,
        alarm=alarm,
        rules=signatures.load_with(rule_texts),
        **options,
    )
    return to_json(diagnosis)


class _Held:
    """A worker to whom no message is cut by an alarm."""

    def __init__(self, worker: Any, alarm: CpuAlarm) -> None:
        self._worker, self._alarm = worker, alarm

    def ask(self, name: str, *arguments: Any) -> Any:
        with self._alarm.held():
            return self._worker.ask(name, *arguments)

    def tell(self, name: str, *arguments: Any) -> None:
        with self._alarm.held():
            self._worker.tell(name, *arguments)

    def advance(self, amount: int) -> None:
        with self._alarm.held():
            self._worker.advance(amount)


class _Reading:
    """Gives the engine bytes of evidence: of a path, from a position on, so many. Whoever reads the
    beginnings of one file after another gets those of the next ones in the same message: a message
    for each of many small files would take longer than reading them.
    """

    def __init__(self, worker: Any, paths: Sequence[str]) -> None:
        self._worker = worker
        self._paths = sorted(paths)
        self._place_of = {path: place for place, path in enumerate(self._paths)}
        self._last_place = -1
        self._beginnings: dict[tuple[str, int], bytes] = {}

    def __call__(self, path: str, offset: int, length: int) -> bytes:
        if offset or length > _MAX_BEGINNING_BYTES or path not in self._place_of:
            return self._ask([path], offset, length)[0]
        if (path, length) not in self._beginnings:
            self._read_beginnings(path, length)
        return self._beginnings.pop((path, length))

    def _read_beginnings(self, path: str, length: int) -> None:
        place = self._place_of[path]
        is_next = 0 <= place - self._last_place <= _MAX_PASSED_OVER
        paths = self._paths[place : place + (_BEGINNINGS_TOGETHER if is_next else 1)]
        self._last_place = place + len(paths) - 1
        read = self._ask(paths, 0, length)
        self._beginnings = {(path, length): data for path, data in zip(paths, read, strict=True)}

    def _ask(self, paths: Sequence[str], offset: int, length: int) -> list[bytes]:
        found = cast("list[bytes]", self._worker.ask("read", paths, offset, length))
        self._worker.advance(sum(map(len, found)))
        return found


def do_part(worker: Any, *, function: str, part: str, folder: str) -> None:
    """Do a part of another worker's diagnosis: the file ``part`` of the folder (:mod:`ingest.isolation.offering`)."""
    part_do(function, part, Path(folder))


def condense_job(
    worker: Any,
    *,
    parsed: Sequence[Parsed],
    hints: dict[str, ParseHints],
    out: str,
    rule_texts: Sequence[str] = (),
    **options: Any,
) -> dict[str, int] | None:
    """Write the lines of a job that are worth keeping to ``out`` (:func:`diagnosis.keeping.condense`); how many of
    each path. None: every choice of lines would change the verdict. ``options`` are those of the engine, ``rule_texts``
    the site's own rules.
    """
    return condense(
        parsed,
        read=_Reading(worker, [part.path for part in parsed]),
        hints=hints,
        out=Path(out),
        rules=signatures.load_with(rule_texts),
        **options,
    )


def learn_job(
    worker: Any, *, parsed: Sequence[Parsed], is_certain: bool, file: str, **names: str
) -> dict[str, Any] | None:
    """Write the messages of a healthy job to ``file``; its row's columns. ``names`` are those of the engine.

    None: it printed nothing, or (unless it is certain that the job succeeded) errors that no rule calls harmless.
    """
    if not is_certain and unexplained_errors(parsed):
        return None
    worker.advance(len(parsed))
    events = learn(parsed, **names)
    if not events.counts:
        return None
    history = History((events,))
    history.save(Path(file))
    return {"digest": history.digest, "node_hours": events.node_hours}
