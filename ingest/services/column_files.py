"""Column files in the ``parsed`` storage. Small files that were read together share them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

from django.db import DatabaseError, transaction

from ingest import storage
from ingest.models import Artifact


def column_files_free(keys: Iterable[str]) -> None:
    """Delete the directories among ``keys`` that no artifact needs. Call it after rows are written."""
    known = {key for key in keys if key}
    needed = Artifact.objects.filter(parsed_key__in=known).exclude(state=Artifact.State.REMOVED)
    for key in known.difference(needed.values_list("parsed_key", flat=True)):
        storage.parsed_delete(key)


@contextlib.contextmanager
def column_files_kept(key: str) -> Iterator[None]:
    """What the block stores under ``key`` is deleted if it raises, unless an artifact has it."""
    try:
        yield
    except BaseException:
        with contextlib.suppress(DatabaseError, OSError):  # the first error is the one to know
            column_files_free_left(key)
        raise


def column_files_delete(instance: Artifact, **_: Any) -> None:
    """Delete the column files of a deleted artifact, which was deleted alone or with its job."""
    key = instance.parsed_key
    if not key:
        return
    if instance.parsed_number is None:
        transaction.on_commit(lambda: storage.parsed_delete(key))
    else:
        transaction.on_commit(lambda: column_files_free_left(key))


def column_files_free_left(key: str) -> None:
    """Delete the directory if it is there and no artifact needs it. Most of the files that share a directory find it
    gone when they are deleted together.
    """
    if storage.directory_names(key):
        column_files_free([key])
