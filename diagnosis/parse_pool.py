"""Parse many plain files on all cores, in processes of their own, with the results in the order of the files.

Small files are read in batches: what is new in all of them is thought about once (``logs.known``), since to compile the
patterns for a few new lines of one file costs more than to read it.

Compiled loops and column operations leave one interpreter's lock, but half of the cost of a small file is Python. The
processes are forked from a server that has loaded the engine and never used it, since a process whose libraries run
threads must not be forked. A file whose reading ends its process costs that file alone.
"""

from __future__ import annotations

import multiprocessing
import os
import shutil
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Final

from diagnosis import faults
from diagnosis.model import Parsed, ParseHints
from diagnosis.parsing import parse

#: Bytes of a file list from which on further processes are started. To load the engine once more and to learn the
#: messages in each process takes as long as to read about 100 MB.
LEAST_BYTES: Final = 256 << 20
#: Each process takes some 100 MB.
MOST_WORKERS: Final = 8
#: Batches that are being read or wait to be taken, for each process.
_AHEAD: Final = 2
#: Files of a batch, and bytes of each and of all.
_FILES: Final = 256
_SMALL_BYTES: Final = 4 << 20
_BATCH_BYTES: Final = 16 << 20
#: Bytes of a file that tell whether its lines are collectors' records.
_HEAD: Final = 64 << 10
_LOST: Final = "The process that read this file was ended by the system: it was left out. Split it or give more memory."


@dataclass(frozen=True, slots=True)
class Task:
    """One plain ``file``, called ``path``; its tables are written below ``work``."""

    file: Path
    path: str
    hints: ParseHints
    work: Path


def parse_one(task: Task) -> Parsed | str:
    """The parsed file, or a sentence that says why it was left out. Raises where the machine is at fault."""
    try:
        stream = task.file.open("rb")
    except OSError as error:
        return f"The file cannot be read ({error.strerror}): it was left out."
    with stream:
        try:
            return parse(stream, task.path, task.hints, task.work)
        except BaseException as error:  # an unforeseen shape of one file must not take the job down
            if faults.is_of_machine(error) or not faults.is_fault(error):
                raise
            return f"The file could not be read ({faults.words(error)}): it was left out. Please report it."


def workers_for(sizes: Sequence[int]) -> int:
    """How many processes read files of these sizes (bytes); 1: none but this one."""
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
            size = 0  # whoever reads it says why it cannot be read
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
    """Parses files one after another, after learning what is new in all of them."""
    if len(batch) > 1:
        _learn(batch)
    yield from map(parse_one, batch)


def _parse_batch(batch: list[Task]) -> list[Parsed | str]:
    return list(_parse(batch))


def _learn(batch: list[Task]) -> None:
    """Learns what is new in plain text files. :func:`parse_one` does so for others, such as collectors' records."""
    # Numba takes a second to import; whoever has one file waits for it once, in parse.
    from diagnosis.logs import known, lines  # noqa: PLC0415

    texts = []
    for task in batch:
        try:
            with task.file.open("rb") as stream:
                data = stream.read(_SMALL_BYTES)
        except OSError:
            continue
        if data and 2 * data.count(b"\n{", 0, _HEAD) <= data.count(b"\n", 0, _HEAD) and lines.is_plain(data):
            texts.append(data if data.endswith(b"\n") else data + b"\n")
    if texts:
        known.shared.get().learn(lines.read(lines.Block(b"".join(texts), 0, "utf-8")))


def _alone(task: Task) -> Parsed | str:
    """Parses a file that was in work when a process ended, in a process of its own: which file ended it shows here."""
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
