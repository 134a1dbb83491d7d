"""Statistics for SQLite's query planner. PostgreSQL's autovacuum makes its own."""

from __future__ import annotations

import logging

from django.core.cache import cache
from django.db import OperationalError, connection

log = logging.getLogger(__name__)

_KEPT_S = 30 * 86_400
#: Growth of the database since the last statistics at which they are made again: plans depend on
#: orders of magnitude.
_GROWTH = 1.25
#: Size from which a database gets statistics. Those of a site's first job say that an index chooses
#: nothing: with them each poll of a job with 50,000 files read the files of all jobs, and its
#: diagnosis took six times as long.
LEAST_BYTES = 64 << 20
_SIZE_THEN = "planner-statistics-bytes"


def statistics_refresh() -> None:
    """Run ANALYZE on SQLite if the database has grown by a quarter: 0.8 s for 1 M findings.

    Without statistics the list of incidents takes the wrong index: a search in 1 M findings takes
    twice as long. A small database has none; those that it was given are deleted, and each process
    forgets them when it connects again.
    """
    if connection.vendor != "sqlite":
        return
    size_bytes = _number("PRAGMA page_count") * _number("PRAGMA page_size")
    try:
        if size_bytes < LEAST_BYTES:
            _delete()
        elif size_bytes >= _GROWTH * cache.get(_SIZE_THEN, 0):
            _make()
            cache.set(_SIZE_THEN, size_bytes, _KEPT_S)
    except OperationalError as error:  # a writer holds the database: the next turn tries again
        log.info("statistics of the database were not refreshed: %s", error)


def _delete() -> None:
    if _number("SELECT count(*) FROM sqlite_master WHERE name = 'sqlite_stat1'"):
        with connection.cursor() as cursor:
            cursor.execute("DELETE FROM sqlite_stat1")


def _make() -> None:
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")


def _number(statement: str) -> int:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return int(cursor.fetchone()[0])
