"""On SQLite: a web request waits for a lock on the database for a moment only, and not at all while it is known to be
held, so that the few threads of a web process stay free for reading.

Readers never wait (write-ahead log). Workers and commands wait longer (``FAULTLINE_SQLITE_TIMEOUT_S``).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.db import OperationalError
from django.db.backends.signals import connection_created

_READING = ("SELECT", "PRAGMA", "EXPLAIN")


class ShortWaits:
    """Wraps the statements of a process's connections. While the lock is held, one of them waits at a time."""

    def __init__(self, wait_ms: int, now: Callable[[], float] = time.monotonic) -> None:
        self._wait_ms, self._now = wait_ms, now
        #: from one wait in vain to the next
        self._pause_s = 2 * wait_ms / 1000
        self._is_held = False
        self._wait_again_at = 0.0
        self._mutex = threading.Lock()

    def __call__(self, execute: Callable[..., Any], sql: str, params: Any, many: bool, context: dict[str, Any]) -> Any:
        if sql.lstrip().upper().startswith(_READING):
            return execute(sql, params, many, context)
        raw = context["connection"].connection
        if raw is not None:
            raw.execute(f"PRAGMA busy_timeout = {self._next_wait_ms()}")
        try:
            result = execute(sql, params, many, context)
        except OperationalError as error:
            if "locked" in str(error):
                self._note_held()
            raise
        self._is_held = False
        return result

    def _note_held(self) -> None:
        if not self._is_held:
            self._is_held, self._wait_again_at = True, self._now() + self._pause_s

    def _next_wait_ms(self) -> int:
        if not self._is_held:
            return self._wait_ms
        with self._mutex:
            if self._now() < self._wait_again_at:
                return 0
            self._wait_again_at = self._now() + self._pause_s
        return self._wait_ms


def install() -> None:
    """Let the connections that this process opens from now on wait shortly."""
    waits = ShortWaits(settings.SQLITE_WEB_TIMEOUT_MS)

    def wrap(connection: Any, **_: Any) -> None:
        if connection.vendor == "sqlite" and waits not in connection.execute_wrappers:
            connection.execute_wrappers.append(waits)

    connection_created.connect(wrap, weak=False, dispatch_uid="triage.short_waits")
