"""Parses many plain files on all cores, in separate processes, with the results in the order of
the files.

Small files are read in batches, as one block (``logs.prepared``), and share their tables: a call
of compiled code or of a column operation costs the same for a file of a thousand lines as for many
of them.

Compiled loops and column operations release the interpreter's lock, but half of the cost of a
small file is Python. The processes are forked from this one once it has loaded the engine, whose
memory they share. A process in which the column library has threads must not be forked: then new
ones load the engine themselves. One more process is forked with the readers, for :func:`aside`. If
a file crashes its process, only that file is lost.
"""

from __future__ import annotations

import codecs
import ctypes
import gc
import io
import multiprocessing
import os
import shutil
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO, Final

import msgspec

from diagnosis.files.parsing import parse
from diagnosis.files.recognise import LogKinds, OrdinaryLines
from diagnosis.kinds.evidence_kind import HEAD_BYTES
from diagnosis.kinds.logs.log_parsing import SmallLog, parse_together
from diagnosis.kinds.logs.read import lines
from diagnosis.kinds.logs.text import hashing
from diagnosis.model import Parsed, ParseHints
from diagnosis.processing import faults

#: Bytes of a file list from which further processes are started. Loading the engine again and learning the messages in
#: each process takes as long as reading about 100 MB.
MIN_PARALLEL_BYTES: Final = 256 << 20
#: Each process takes about 100 MB.
MAX_WORKERS: Final = 8
#: Number of batches that are read or wait, for each process.
_BATCHES_PER_WORKER: Final = 2
#: Maximum number of files of a batch, and of bytes of each and of all.
_MAX_BATCH_FILES: Final = 1024
MAX_SMALL_BYTES: Final = 4 << 20
_MAX_BATCH_BYTES: Final = 20 << 20
_LOST_PROCESS: Final = (
    "The process that read this file was ended by the system: it was left out. Split it or give more memory."
)
#: Options of glibc's mallopt.
_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3

#: First lines of the job's logs that this process has read.
_ordinary: Final[list[OrdinaryLines]] = [OrdinaryLines()]
#: A process that was forked with the readers and waits, at most one.
_spare: Final[list[ProcessPoolExecutor]] = []


class Task(msgspec.Struct, frozen=True):
    """One plain ``file`` of ``size`` bytes, called ``path``; its tables are written below ``work``. ``data``: its bytes
    if they are in memory already; then ``file`` is not read.
    """

    file: Path
    path: str
    hints: ParseHints
    work: Path
    size: int = 0
    data: bytes | None = None

    def open(self) -> BinaryIO:
        """Its bytes as a stream. Raises ``OSError``."""
        return self.file.open("rb") if self.data is None else io.BytesIO(self.data)


def parse_one(task: Task) -> Parsed | str:
    """The parsed file, or a sentence with the reason why it was left out. Raises if the machine caused the error."""
    try:
        stream = task.open()
    except OSError as error:
        return f"The file cannot be read ({error.strerror}): it was left out."
    with stream:
        try:
            return parse(stream, task.path, task.hints, task.work)
        except BaseException as error:  # an unexpected form of one file must not stop the job
            if faults.is_of_machine(error) or not faults.is_fault(error):
                raise
            return f"The file could not be read ({faults.error_text(error)}): it was left out. Please report it."


def workers_for(sizes: Sequence[int]) -> int:
    """The number of processes for files of these sizes (bytes); 1: only this one."""
    if sum(sizes) < MIN_PARALLEL_BYTES:
        return 1
    return min(processes(), len(sizes))


def processes() -> int:
    """The number of processes that large evidence may have: one a core that this process may use."""
    return min(len(os.sched_getaffinity(0)), MAX_WORKERS)


def parse_all(
    tasks: Iterable[Task], workers: int, meanwhile: Callable[[], None] | None = None
) -> Iterator[Parsed | str]:
    """:func:`parse_one` of each task, in order. At most ``workers * _BATCHES_PER_WORKER`` batches are held at a time;
    ``meanwhile`` is done while other processes read the first ones.
    """
    _ordinary[0] = OrdinaryLines()
    if workers < 2:
        yield from chain.from_iterable(map(_parse, batches(tasks)))
        return
    source, waiting = batches(tasks), deque[tuple[list[Task], Future[list[Parsed | str]]]]()
    hashing.warm_up()  # the readers share it, and the diagnosis of so many lines needs it
    gc.freeze()  # memory that is shared until a search for cycles writes into it
    if not _spare and can_fork():
        _spare.append(_pool(1))
        _spare[0].submit(int).result()
    pool = _pool(workers)
    try:
        while True:
            for batch in islice(source, workers * _BATCHES_PER_WORKER - len(waiting)):
                try:
                    future = pool.submit(_parse, batch)
                except BrokenProcessPool:
                    pool = _pool(workers)
                    future = pool.submit(_parse, batch)
                waiting.append((batch, future))
            if not waiting:
                return
            if meanwhile:
                meanwhile()
                meanwhile = None
            batch, future = waiting.popleft()
            try:
                yield from future.result()
            except BrokenProcessPool:
                yield from map(_parse_alone, batch)
    finally:
        pool.shutdown(cancel_futures=True)


def aside[R](function: Callable[..., R], /, *args: Any) -> Callable[[], R]:
    """Starts a pure function in the process that waits, if one does, behind those that it was given before; returns
    what waits for its result.
    """
    here = partial(function, *args)
    if not _spare:
        return here
    try:
        future = _spare[0].submit(function, *args)
    except BrokenProcessPool:
        return here

    def result() -> R:
        try:
            return future.result()
        except BrokenProcessPool:  # the system ended it: this process has the memory that it had not
            return here()

    return result


def end_aside() -> None:
    """Ends the process that waits."""
    while _spare:
        _spare.pop().shutdown(cancel_futures=True)


def batches(tasks: Iterable[Task]) -> Iterator[list[Task]]:
    """Large files alone, small ones together, in order."""
    batch, size_so_far = list[Task](), 0
    for task in tasks:
        is_large = task.size > MAX_SMALL_BYTES
        if batch and (is_large or size_so_far + task.size > _MAX_BATCH_BYTES or len(batch) == _MAX_BATCH_FILES):
            yield batch
            batch, size_so_far = [], 0
        batch.append(task)
        size_so_far += task.size
        if is_large:
            yield batch
            batch, size_so_far = [], 0
    if batch:
        yield batch


def _parse(batch: list[Task]) -> list[Parsed | str]:
    """Parses files one after another; several small logs together."""
    together = read_together(batch, _ordinary[0], is_brief=True) if len(batch) > 1 else {}
    return [together[number] if number in together else parse_one(task) for number, task in enumerate(batch)]


def read_together(
    batch: Sequence[Task], ordinary: OrdinaryLines | None = None, *, is_brief: bool = False
) -> dict[int, Parsed]:
    """The parsed small plain logs of a batch by their place in it, with common tables in the ``work`` of the first.
    :func:`parse_one` parses other files. ``ordinary``: first lines of earlier logs of the job;
    ``is_brief``: the tables are removed after the diagnosis.
    """
    zone, kinds = batch[0].hints.time_zone, LogKinds(ordinary)
    found = {
        number: small
        for number, task in enumerate(batch)
        if not task.hints.offset and task.hints.time_zone == zone and (small := _read_small(task, kinds))
    }
    try:
        parsed = parse_together(list(found.values()), zone, is_brief=is_brief) if found else []
    except BaseException as error:  # parsed one by one, only the faulty file fails
        if faults.is_of_machine(error) or not faults.is_fault(error):
            raise
        return {}
    return dict(zip(found, parsed, strict=True))


def _read_small(task: Task, kinds: LogKinds) -> SmallLog | None:
    """A file that can be read together with others."""
    try:
        with task.open() as stream:
            data = stream.read(MAX_SMALL_BYTES + 1)
    except OSError:
        return None
    if not data or len(data) > MAX_SMALL_BYTES or data.startswith(codecs.BOM_UTF8) or not lines.is_plain(data):
        return None
    kind = kinds.of(data[:HEAD_BYTES], task.path)
    is_so = kind is not None and task.hints.kind in (None, kind)
    return SmallLog(task.path, kind, data, task.hints.node, task.work) if kind and is_so else None


def _parse_alone(task: Task) -> Parsed | str:
    """Parses a file again in a process of its own: this shows whether it ended the last one."""
    shutil.rmtree(task.work, ignore_errors=True)
    with _pool(1) as pool:
        try:
            return pool.submit(parse_one, task).result()
        except BrokenProcessPool:
            return _LOST_PROCESS


def _pool(workers: int) -> ProcessPoolExecutor:
    context = multiprocessing.get_context("fork" if can_fork() else "spawn")
    return ProcessPoolExecutor(workers, mp_context=context, initializer=_keep_memory)


def can_fork() -> bool:
    """Whether the column library has not started its threads: a forked process would not have them."""
    threads = [path.read_text("utf-8") for path in Path("/proc/self/task").glob("*/comm")]
    return bool(threads) and not any(name.startswith("polars-0") for name in threads)


def _keep_memory() -> None:
    """Makes the C library keep the memory of a batch for the next one, instead of giving it back."""
    c_library = ctypes.CDLL(None)
    if hasattr(c_library, "mallopt"):
        c_library.mallopt(_M_MMAP_THRESHOLD, 32 << 20)
        c_library.mallopt(_M_TRIM_THRESHOLD, 256 << 20)
