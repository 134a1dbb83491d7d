"""What processes tell of themselves (:mod:`ingest.figures`), in Prometheus' text format."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from redis import RedisError

from ingest import figures
from triage.serve.parts import QUEUES

#: the queues that a part serves; others are web servers
_QUEUES = {queue: (queue,) for queue in QUEUES} | {"worker": QUEUES}


def process_lines(*, is_queue_there: bool) -> list[str]:
    """Workers, memory and requests of all machines. Names alone if the server that has them does not answer."""
    try:
        told = figures.processes_told() if is_queue_there else []
        requests = figures.requests_told() if is_queue_there else {}
        queue_bytes = figures.queue_memory_bytes() if is_queue_there else 0
    except RedisError:
        is_queue_there, told, requests, queue_bytes = False, [], {}, 0
    workers, slots = Counter(dict.fromkeys(QUEUES, 0)), Counter[tuple[str, str]]()
    processes, memory = Counter[str](), Counter[str]({"queue": queue_bytes})
    for row in told:
        processes[row.part] += 1
        memory[row.part] += row.memory_bytes
        workers.update(_QUEUES.get(row.part, ()))
        if row.slots:
            slots[row.part, "busy"] += row.busy
            slots[row.part, "idle"] += max(0, row.slots - row.busy)
    lines = [
        *_heading("workers", "gauge", "Workers that are there, by queue that they serve"),
        *(f'faultline_workers{{queue="{queue}"}} {n}' for queue, n in workers.items() if is_queue_there),
        *_heading("worker_processes", "gauge", "Processes of workers, by part and whether they do work now"),
        *(f'faultline_worker_processes{{part="{part}",state="{state}"}} {n}' for (part, state), n in slots.items()),
        *_heading("web_processes", "gauge", "Processes of web servers that are there, by part"),
        *(f'faultline_web_processes{{part="{part}"}} {n}' for part, n in processes.items() if part not in _QUEUES),
        *_heading("memory_bytes", "gauge", "Memory of all processes of a part, readers of evidence with their workers"),
        *(f'faultline_memory_bytes{{part="{part}"}} {n}' for part, n in memory.items() if is_queue_there),
    ]
    return [*lines, *_request_lines(requests)]


def _request_lines(requests: dict[str, figures.RouteFigures]) -> Iterator[str]:
    yield from _heading("http_request_seconds", "histogram", "Seconds from a whole request to its answer, by view")
    for route, row in requests.items():
        name = "faultline_http_request_seconds"
        for limit, count in row.within.items():
            yield f'{name}_bucket{{route="{route}",le="{limit}"}} {count}'
        yield f'{name}_bucket{{route="{route}",le="+Inf"}} {row.count}'
        yield f'{name}_sum{{route="{route}"}} {row.seconds:.6f}'
        yield f'{name}_count{{route="{route}"}} {row.count}'
    yield from _heading("http_responses_total", "counter", "Answers by view and class of status")
    for route, row in requests.items():
        for status, count in sorted(row.statuses.items()):
            yield f'faultline_http_responses_total{{route="{route}",status="{status}"}} {count}'


def _heading(name: str, kind: str, text: str) -> list[str]:
    return [f"# HELP faultline_{name} {text}", f"# TYPE faultline_{name} {kind}"]
