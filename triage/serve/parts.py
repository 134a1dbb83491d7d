"""The command of each part of an installation. ``make run`` starts the same commands as ``faultline serve PART``."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from triage.serve.children import ServiceError

QUEUES = ("parse", "diagnose", "notify")
#: a part apart is stopped by an upgrade, whose proxy sends new requests elsewhere: less than the 30 s of Kubernetes
DRAIN_S = 25
PARTS = {
    "web": "pages and the API",
    "uploads": "the same server, for a proxy that sends uploads to machines of their own",
    "parse": "a worker that opens archives and reads evidence",
    "diagnose": "a worker that diagnoses jobs",
    "notify": "a worker that sends webhooks and e-mails",
    "worker": "a worker for all three queues",
}


def described(indent: str) -> str:
    return "\n".join(f"{indent}{part:10}{meaning}" for part, meaning in PARTS.items())


def command(part: str, env: Mapping[str, str]) -> list[str]:
    """The command of a part that runs apart from the others.

    Raises:
        ServiceError: there is no such part, or it could not reach the others.
    """
    if part not in PARTS:
        raise ServiceError(f"There is no part {part!r}; there are: {', '.join(PARTS)}")
    if not env.get("REDIS_URL") and not env.get("REDIS_URL_FILE"):
        raise ServiceError("Set REDIS_URL: parts that run apart need a queue that all of them reach.")
    if part in ("web", "uploads"):
        host = env.get("FAULTLINE_HOST", "127.0.0.1")
        return web_command(host, port_of(env), web_processes(env), drain_s=DRAIN_S)
    return worker_command(QUEUES if part == "worker" else (part,), worker_processes(env))


def port_of(env: Mapping[str, str]) -> int:
    """Raises ServiceError if ``FAULTLINE_PORT`` is no number."""
    try:
        return int(env.get("FAULTLINE_PORT", "8000"))
    except ValueError:
        raise ServiceError(f"FAULTLINE_PORT is {env['FAULTLINE_PORT']!r}: use a whole number") from None


def web_processes(env: Mapping[str, str]) -> str:
    return env.get("FAULTLINE_WEB_PROCESSES", str(min(os.cpu_count() or 2, 4)))


def worker_processes(env: Mapping[str, str]) -> str:
    """At least two by default, because one stays free of long work."""
    return env.get("FAULTLINE_WORKER_PROCESSES", str(max(2, min(os.cpu_count() or 2, 8))))


def web_command(host: str, port: int, processes: str, *, drain_s: int = 5) -> list[str]:
    """The web server's command. Connections are cheap, so many are allowed; one without a complete header is closed
    after ten seconds. The application limits bodies (triage/server/front.py). Asked to stop, it takes no more
    connections and answers the requests that it has, for ``drain_s`` seconds at most.
    """
    argv = [sys.executable, "-m", "granian", "triage.asgi:application", "--interface", "asginl", "--http", "1"]
    argv += ["--no-ws", "--host", host, "--port", str(port), "--workers", processes, "--respawn-failed-workers"]
    argv += ["--backlog", "4096", "--backpressure", "4096", "--http1-header-read-timeout", "10000"]
    return [*argv, "--workers-kill-timeout", str(drain_s)]


def worker_command(queues: tuple[str, ...], processes: str) -> list[str]:
    """A worker's command. Its name has this process: workers of one name on one machine answer for each other."""
    argv = [sys.executable, "-m", "celery", "-A", "triage.celery", "worker", "--queues", ",".join(queues)]
    name = f"{queues[0] if len(queues) == 1 else 'worker'}-{os.getpid()}@%h"
    return [
        *argv,
        "--hostname",
        name,
        "--concurrency",
        processes,
        "--loglevel",
        "info",
        "--without-gossip",
        "--without-mingle",
    ]
