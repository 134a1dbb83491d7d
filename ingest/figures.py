"""Figures that processes tell of themselves, for ``/metrics``: requests of web servers, workers, memory.

They are kept in the queue's server (Valkey or Redis), because the figures of all machines are asked of one web server.
Nothing depends on them: while that server is away they are missing, and when it loses its data they begin again at 0.
"""

from __future__ import annotations

import json
import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Final

import redis
from django.conf import settings

from ingest import processes

#: a process that has told nothing for so many seconds is gone
SILENT_AFTER_S: Final = 60
#: upper limits of the classes of durations, in seconds; the last class has none
BUCKETS_S: Final = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_PROCESSES, _REQUESTS = "faultline:processes", "faultline:requests"
_SUM, _NO_LIMIT = "sum", "+Inf"


@dataclass(frozen=True, slots=True)
class ProcessFigures:
    """What a process tells of itself: its part (``triage.serve.parts``), memory with its children, and of a worker how
    many processes do work, how many of them are busy.
    """

    part: str
    memory_bytes: int
    slots: int = 0
    busy: int = 0


class Requests:
    """Counts the requests of one process by route and duration, and adds them to those of all processes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[str, float] = {}

    def add(self, route: str, status: int, seconds: float) -> None:
        """One request. A route is the name of a view: there are as many as addresses in the code."""
        limit = next((str(limit) for limit in BUCKETS_S if seconds <= limit), _NO_LIMIT)
        self._add({f"{route} {limit}": 1, f"{route} {_SUM}": seconds, f"{route} {status // 100}xx": 1})

    def send(self) -> None:
        """Send what was counted since the last time. Raises ``redis.RedisError``; then it is sent the next time."""
        with self._lock:
            counts, self._counts = self._counts, {}
        if not counts:
            return
        try:
            with _client() as client:
                pipeline = client.pipeline(transaction=True)
                for field, count in counts.items():
                    pipeline.hincrbyfloat(_REQUESTS, field, count)
                pipeline.execute()
        except redis.RedisError:
            self._add(counts)
            raise

    def _add(self, counts: Mapping[str, float]) -> None:
        with self._lock:
            for field, count in counts.items():
                self._counts[field] = self._counts.get(field, 0) + count


@dataclass(frozen=True, slots=True)
class RouteFigures:
    """The requests of one route: how many within each limit of :data:`BUCKETS_S`, in all, their seconds, and how many
    of each class of status.
    """

    within: dict[float, int]
    count: int
    seconds: float
    statuses: dict[str, int]


def process_tell(figures: ProcessFigures) -> None:
    """State the figures of this process. Raises ``redis.RedisError``."""
    with _client() as client:
        row = {**asdict(figures), "at": client.time()[0]}
        client.hset(_PROCESSES, processes.process_name(), json.dumps(row))


def processes_told() -> list[ProcessFigures]:
    """The figures of the processes that are there. Raises ``redis.RedisError``."""
    with _client() as client:
        now, rows = client.time()[0], client.hgetall(_PROCESSES)
        told = {name: json.loads(row) for name, row in rows.items()}
        silent = [name for name, row in told.items() if row.pop("at") < now - SILENT_AFTER_S]
        if silent:
            client.hdel(_PROCESSES, *silent)
    return [ProcessFigures(**row) for name, row in told.items() if name not in silent]


def requests_told() -> dict[str, RouteFigures]:
    """The requests of all processes by route. Raises ``redis.RedisError``."""
    with _client() as client:
        fields = client.hgetall(_REQUESTS)
    by_route: dict[str, dict[str, float]] = defaultdict(dict)
    for field, value in fields.items():
        route, _, name = (field.decode() if isinstance(field, bytes) else field).rpartition(" ")
        by_route[route][name] = float(value)
    return {route: _route_figures(values) for route, values in sorted(by_route.items())}


def _route_figures(values: Mapping[str, float]) -> RouteFigures:
    within: dict[float, int] = {}
    count = 0
    for limit in BUCKETS_S:
        count += int(values.get(str(limit), 0))
        within[limit] = count
    statuses = {name: int(value) for name, value in values.items() if name.endswith("xx")}
    return RouteFigures(within, count + int(values.get(_NO_LIMIT, 0)), values.get(_SUM, 0.0), statuses)


def queue_memory_bytes() -> int:
    """What the queue's server takes of its machine's memory. Raises ``redis.RedisError``."""
    with _client() as client:
        return int(client.info("memory")["used_memory_rss"])


@contextmanager
def _client() -> Iterator[redis.Redis]:
    with redis.Redis.from_url(settings.REDIS_URL, socket_timeout=1, socket_connect_timeout=1) as client:
        yield client
