"""Parses many plain files on all cores, in separate processes, with the results in the order of the files.

The lines of small files are read in batches, as one block (``logs.prepared``): a call of compiled code or of a column
operation costs the same for a file of a thousand lines as for many of them.

Compiled loops and column operations release the interpreter's lock, but half of the cost of a small file is Python. The
processes are forked from a server that has loaded the engine and never used it, because a process with library threads
must not be forked. If a file crashes its process, only that file is lost.
"""

from __future__ import annotations

import codecs
import io
import multiprocessing
import os
import shutil
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final

from diagnosis import faults, sniff
from diagnosis.model import Kind, Parsed, ParseHints
from diagnosis.parsing import parse, time_zone
from diagnosis.recognise import log_kind

if TYPE_CHECKING:
    from diagnosis.logs.prepared import Prepared

#: Bytes of a file list from which further processes are started. Loading the engine again and learning the messages in
#: each process takes as long as reading about 100 MB.
LEAST_BYTES: Final = 256 << 20
#: Each process takes about 100 MB.
MOST_WORKERS: Final = 8
#: Number of batches that are read or wait, for each process.
_AHEAD: Final = 2
#: Maximum number of files of a batch, and of bytes of each and of all.
_FILES: Final = 256
_SMALL_BYTES: Final = 4 << 20
_BATCH_BYTES: Final = 16 << 20
_LOST: Final = "The process that read this file was ended by the system: it was left out. Split it or give more memory."


@dataclass(frozen=True, slots=True)
class Task:
    """One plain ``file``, called ``path``; its tables are written below ``work``."""

    file: Path
    path: str
    hints: ParseHints
    work: Path


@dataclass(frozen=True, slots=True)
class Ready:
    """The bytes of a plain log with already read lines, and its kind."""

    data: bytes
    kind: Kind
    lines: Prepared


def parse_one(task: Task, ready: Ready | None = None) -> Parsed | str:
    """The parsed file, or a sentence with the reason why it was left out. Raises if the machine caused the error."""
    try:
        stream = io.BytesIO(ready.data) if ready else task.file.open("rb")
    except OSError as error:
        return f"The file cannot be read ({error.strerror}): it was left out."
    with stream:
        try:
            if ready:
                return parse(stream, task.path, replace(task.hints, kind=ready.kind), task.work, prepared=ready.lines)
            return parse(stream, task.path, task.hints, task.work)
        except BaseException as error:  # an unexpected form of one file must not stop the job
            if faults.is_of_machine(error) or not faults.is_fault(error):
                raise
            return f"The file could not be read ({faults.words(error)}): it was left out. Please report it."


def workers_for(sizes: Sequence[int]) -> int:
    """The number of processes for files of these sizes (bytes); 1: only this one."""
    if sum(sizes) < LEAST_BYTES:
        return 1
    return min(len(os.sched_getaffinity(0)), MOST_WORKERS, len(sizes))


def parse_all(tasks: Iterable[Task], workers: int) -> Iterator[Parsed | str]:
    """:func:`parse_one` of each task, in order. At most ``workers * _AHEAD`` batches are held at a time."""
    if workers < 2:
        yield from chain.from_iterable(map(_parse, batches(tasks)))
        return
    source, waiting = batches(tasks), deque[tuple[list[Task], Future[list[Parsed | str]]]]()
    pool = _pool(workers)
    try:
        while True:
            while len(waiting) < workers * _AHEAD and (batch := next(source, None)) is not None:
                try:
                    future = pool.submit(_parse_batch, batch)
                except BrokenProcessPool:
                    pool = _pool(workers)
                    future = pool.submit(_parse_batch, batch)
                waiting.append((batch, future))
            if not waiting:
                return
            batch, future = waiting.popleft()
            try:
                yield from future.result()
            except BrokenProcessPool:
                yield from map(_alone, batch)
    finally:
        pool.shutdown(cancel_futures=True)


def batches(tasks: Iterable[Task]) -> Iterator[list[Task]]:
    """Large files alone, small ones together, in order."""
    batch, held = list[Task](), 0
    for task in tasks:
        try:
            size = task.file.stat().st_size
        except OSError:
            size = 0  # the reader reports why it cannot be read
        if batch and (size > _SMALL_BYTES or held + size > _BATCH_BYTES or len(batch) == _FILES):
            yield batch
            batch, held = [], 0
        batch.append(task)
        held += size
        if size > _SMALL_BYTES:
            yield batch
            batch, held = [], 0
    if batch:
        yield batch


def _parse(batch: list[Task]) -> Iterator[Parsed | str]:
    """Parses files one after another. The lines of several plain logs are read together."""
    ready = read_together(batch) if len(batch) > 1 else {}
    for number, task in enumerate(batch):
        yield parse_one(task, ready.pop(number, None))


def _parse_batch(batch: list[Task]) -> list[Parsed | str]:
    return list(_parse(batch))


def read_together(batch: Sequence[Task]) -> dict[int, Ready]:
    """The small plain logs of a batch by their place in it. Other files are parsed by :func:`parse_one` alone."""
    # Numba takes a second to import; a single file waits for it once, in parse.
    from diagnosis.logs import lines, prepared  # noqa: PLC0415

    found: dict[int, tuple[bytes, Kind]] = {}
    zone = batch[0].hints.time_zone
    for number, task in enumerate(batch):
        if task.hints.offset or task.hints.time_zone != zone:
            continue
        try:
            with task.file.open("rb") as stream:
                data = stream.read(_SMALL_BYTES + 1)
        except OSError:
            continue
        if not data or len(data) > _SMALL_BYTES or data.startswith(codecs.BOM_UTF8) or not lines.is_plain(data):
            continue
        kind = log_kind(data[: sniff.HEAD_BYTES], task.path)
        if kind is not None and task.hints.kind in (None, kind):
            found[number] = data, kind
    if not found:
        return {}
    try:
        read = prepared.prepare_files([data for data, _ in found.values()], time_zone(zone, []))
    except BaseException as error:  # parsed one by one, only the faulty file fails
        if faults.is_of_machine(error) or not faults.is_fault(error):
            raise
        return {}
    return {number: Ready(data, kind, one) for (number, (data, kind)), one in zip(found.items(), read, strict=True)}


def _alone(task: Task) -> Parsed | str:
    """Parses a file that was in progress when a process ended, in a separate process: this shows which file ended
    it.
    """
    shutil.rmtree(task.work, ignore_errors=True)
    with _pool(1) as pool:
        try:
            return pool.submit(parse_one, task).result()
        except BrokenProcessPool:
            return _LOST


def _pool(workers: int) -> ProcessPoolExecutor:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__, "diagnosis.logs.reader"])
    return ProcessPoolExecutor(workers, mp_context=context)
