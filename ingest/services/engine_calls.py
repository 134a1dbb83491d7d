"""Calls of the engine from a run: in a separate reader, with the limits of the settings; progress goes to the run."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from django.conf import settings

from diagnosis import ParseHints
from diagnosis.model import Parsed
from ingest import spans, storage
from ingest.isolation import End, Limits, ReaderLost, call
from ingest.models import Artifact
from ingest.services.ends import MAX_OUTSIDE, MAX_OWN
from ingest.services.work import Work

#: of ``READING_CPU_S``, what a call gets that is no reading of one file. The engine limits each of the three parts of a
#: diagnosis itself; condensing diagnoses several times; files that were read together are read alone afterwards.
_SHARES: Final = {"diagnose_job": 3.0, "condense_job": 12.0, "read_files": 0.25}
#: calls whose memory grows with a whole job or file; all others read it in blocks
_OF_WHOLE_JOBS: Final = frozenset(("diagnose_job", "condense_job", "learn_job", "join_ranges", "do_part"))
#: compressed tables have few bytes for each row: a row counts as a line of text would
_BYTES_PER_ROW: Final = 100


def engine_call(
    work: Work,
    name: str,
    handlers: dict[str, Callable[..., Any]] | None = None,
    begin_again: Callable[[], None] = lambda: None,
    /,
    *,
    input_bytes: int,
    **arguments: Any,
) -> Any:
    """Run ``ingest.isolation.inside.<name>`` for this run, with :func:`call_again`; ``begin_again`` is called before
    another try. Raises :class:`~ingest.services.work.Superseded` if another worker holds the run by then.
    """

    def again() -> None:
        work.write()
        begin_again()

    answers: dict[str, Callable[..., Any]] = {"beat": work.beat, "check": work.check, "stage": work.stage}
    return call_again(name, {**answers, **(handlers or {})}, again, input_bytes=input_bytes, **arguments)


def call_again(
    name: str,
    handlers: dict[str, Callable[..., Any]],
    again: Callable[[], None],
    /,
    *,
    input_bytes: int,
    **arguments: Any,
) -> Any:
    """Run ``ingest.isolation.inside.<name>``. Raises :class:`~ingest.isolation.ReaderLost` with a sentence.

    ``input_bytes``: how much evidence the call reads, which limits its processor time. A reader that reached a limit is
    not started again, it would reach it again. One that was ended from outside is, as often as a worker would be
    (:mod:`ingest.services.ends`).
    """
    ended: Counter[End] = Counter()
    while True:
        try:
            with spans.span(name):
                return call(name, handlers, limits(name, input_bytes), **arguments)
        except ReaderLost as lost:
            if lost.end is None:
                raise
            ended[lost.end] += 1
            if ended[lost.end] >= (MAX_OWN if lost.end == End.OWN else MAX_OUTSIDE):
                raise
        again()


def artifact_read(
    artifact: Artifact, work: Work, hints: ParseHints, folder: Path, *, length: int | None = None
) -> dict[str, Any]:
    """Parse an artifact, or ``length`` bytes of it from ``hints.offset`` on, into ``folder``."""
    folder_of_source = folder.with_name(f"{folder.name}-source")
    source, start = storage.blob_local(artifact.blob_id, folder_of_source, hints.offset, length)
    arguments = {"path": artifact.path, "hints": hints, "folder": str(folder)}
    try:
        result: dict[str, Any] = engine_call(
            work,
            "read_file",
            input_bytes=artifact.blob.size_bytes if length is None else length,
            source=str(source),
            start=start,
            length=length,
            **arguments,
        )
    finally:
        if source.parent == folder_of_source:
            source.unlink(missing_ok=True)
    return result


def artifacts_read(
    artifacts_and_hints: Sequence[tuple[Artifact, ParseHints]], work: Work, folder: Path
) -> dict[int, dict[str, Any]]:
    """Parse small artifacts together, with common tables in ``folder``; returns the results by
    primary key. An artifact that is missing there must be read alone, by :func:`artifact_read`.
    """
    folder_of_sources = folder.with_name(f"{folder.name}-sources")
    files: list[dict[str, Any]] = []
    try:
        for artifact, hints in artifacts_and_hints:
            source, _ = storage.blob_local(artifact.blob_id, folder_of_sources)
            files.append({"source": str(source), "path": artifact.path, "hints": hints})
        size = sum(artifact.blob.size_bytes for artifact, _ in artifacts_and_hints)
        rows = engine_call(work, "read_files", input_bytes=size, files=files, folder=str(folder))
    except ReaderLost:  # read alone, only the faulty file fails
        return {}
    finally:
        shutil.rmtree(folder_of_sources, ignore_errors=True)
    read = zip(artifacts_and_hints, rows, strict=True)
    return {artifact.pk: row for (artifact, _), row in read if row is not None}


def input_bytes_of(parsed: Sequence[Parsed]) -> int:
    """How much evidence a diagnosis of these files reads."""
    return sum(max(one.bytes, one.lines * _BYTES_PER_ROW) for one in parsed)


def limits(name: str, input_bytes: int) -> Limits | None:
    """The limits of a call that reads so much evidence, from the settings."""
    if not settings.READING_IS_APART:
        return None
    cpu_s = settings.READING_CPU_S * _SHARES.get(name, 1.0) + settings.READING_CPU_S_PER_MB * input_bytes / 1_000_000
    silence_s, wall_s = settings.READING_SILENCE_S, settings.READING_LIMIT_S
    is_of_job = name in _OF_WHOLE_JOBS
    memory_bytes = settings.DIAGNOSING_MEMORY_BYTES if is_of_job else settings.READING_MEMORY_BYTES
    return Limits(memory_bytes, silence_s, wall_s, cpu_s if settings.READING_CPU_S else 0.0)
