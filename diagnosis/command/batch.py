"""The jobs of a batch, each with a line of its own, on all cores.

Processes are forked once the engine is loaded, whose memory they share, and each does whole jobs. A
small job takes about as long with one thread as with several, so each process has one. Large jobs,
which use all cores themselves, are done by this process meanwhile.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path
from typing import Final, NamedTuple

from diagnosis.files import parse_pool

#: Jobs that are done or wait, for each process: their lines are held in memory.
_JOBS_PER_PROCESS: Final = 4


class Line(NamedTuple):
    """What is told of one job."""

    text: str
    is_unusable: bool = False
    is_accused: bool = False


type Answer = Callable[[Path], Line]
#: What the processes do with a job, since they were forked.
_answers: Final[list[Answer]] = []


def lines(jobs: Sequence[Path], answer: Answer) -> Iterator[Line]:
    """``answer`` of each job, in their order, each as soon as those before it are there. If the
    system ends a process, this one does what is left.
    """
    many = min(parse_pool.processes(), len(jobs))
    if many < 2 or not parse_pool.can_fork():
        yield from map(answer, jobs)
        return
    fork = get_context("fork")
    with ProcessPoolExecutor(many, fork, initializer=_begin, initargs=(answer,)) as pool:
        waiting = deque[tuple[Path, Future[Line] | None]]()
        for job in jobs:
            waiting.append((job, _begun(pool, job)))
            if len(waiting) == many * _JOBS_PER_PROCESS:
                yield _line(*waiting.popleft(), answer)
        while waiting:
            yield _line(*waiting.popleft(), answer)


def _begun(pool: ProcessPoolExecutor, job: Path) -> Future[Line] | None:
    """None: this process does it. O(files)."""
    try:
        files = job.rglob("*") if job.is_dir() else [job]
        sizes = [file.stat().st_size for file in files if file.is_file()]
        return pool.submit(_done, job) if parse_pool.workers_for(sizes) < 2 else None
    except (BrokenProcessPool, OSError):
        return None


def _line(job: Path, begun: Future[Line] | None, answer: Answer) -> Line:
    try:
        return answer(job) if begun is None else begun.result()
    except BrokenProcessPool:
        return answer(job)


def _begin(answer: Answer) -> None:
    """In each process, before its first job."""
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
    _answers.append(answer)


def _done(job: Path) -> Line:
    return _answers[0](job)
