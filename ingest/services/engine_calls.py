"""Calls of the engine from a run: in a separate reader, with the limits of the settings; progress goes to the run."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from django.conf import settings

from diagnosis import ParseHints
from ingest import spans, storage
from ingest.isolation import End, Limits, Lost, call
from ingest.models import Artifact
from ingest.services.ends import MOST_OUTSIDE, MOST_OWN
from ingest.services.work import Work


def engine_call(
    work: Work,
    name: str,
    handlers: dict[str, Callable[..., Any]] | None = None,
    begin_again: Callable[[], None] = lambda: None,
    /,
    **arguments: Any,
) -> Any:
    """Run ``ingest.isolation.inside.<name>`` for this run, with :func:`call_again`; ``begin_again`` is called before
    another try. Raises :class:`~ingest.services.work.Superseded` if another worker holds the run by then.
    """

    def again() -> None:
        work.write()
        begin_again()

    said: dict[str, Callable[..., Any]] = {"beat": work.beat, "stage": work.stage, **(handlers or {})}
    return call_again(name, said, again, **arguments)


def call_again(
    name: str, handlers: dict[str, Callable[..., Any]], again: Callable[[], None], /, **arguments: Any
) -> Any:
    """Run ``ingest.isolation.inside.<name>``. Raises :class:`~ingest.isolation.Lost` with a sentence.

    A reader that was ended from outside is started again, as often as a worker would be (:mod:`ingest.services.ends`).
    """
    ended: Counter[End] = Counter()
    while True:
        try:
            with spans.span(name):
                return call(name, handlers, limits(), **arguments)
        except Lost as lost:
            if lost.end is None:
                raise
            ended[lost.end] += 1
            if ended[lost.end] >= (MOST_OWN if lost.end == End.OWN else MOST_OUTSIDE):
                raise
        again()


def artifact_read(
    artifact: Artifact, work: Work, hints: ParseHints, folder: Path, *, length: int | None = None
) -> dict[str, Any]:
    """Parse an artifact, or ``length`` bytes of it from ``hints.offset`` on, into ``folder``."""
    near = folder.with_name(f"{folder.name}-source")
    source, start = storage.blob_local(artifact.blob_id, near, hints.offset, length)
    said = {"path": artifact.path, "hints": hints, "folder": str(folder)}
    try:
        found: dict[str, Any] = engine_call(work, "read_file", source=str(source), start=start, length=length, **said)
    finally:
        if source.parent == near:
            source.unlink(missing_ok=True)
    return found


def artifacts_read(
    wanted: Sequence[tuple[Artifact, ParseHints]], work: Work, folder: Path
) -> dict[int, dict[str, Any]]:
    """Parse small artifacts together, each into its own directory below ``folder``; returns the results by primary key.
    An artifact that is missing there must be read alone, by :func:`artifact_read`.
    """
    near = folder / "sources"
    files: list[dict[str, Any]] = []
    found: list[dict[str, Any] | None] = []
    try:
        for artifact, hints in wanted:
            source, _ = storage.blob_local(artifact.blob_id, near)
            said = {"path": artifact.path, "hints": hints, "folder": str(folder / str(artifact.pk))}
            files.append({"source": str(source), **said})
        found = engine_call(work, "read_files", files=files)
    except Lost:  # read alone, only the faulty file fails
        found = [None] * len(wanted)
    finally:
        shutil.rmtree(near, ignore_errors=True)
    for file, row in zip(files, found, strict=True):
        if row is None:
            shutil.rmtree(file["folder"], ignore_errors=True)
    return {one.pk: row for (one, _), row in zip(wanted, found, strict=True) if row is not None}


def limits() -> Limits | None:
    """The limits of one call, from the settings."""
    if not settings.READING_IS_APART:
        return None
    return Limits(settings.READING_MEMORY_BYTES, settings.READING_SILENCE_S, settings.READING_LIMIT_S)
