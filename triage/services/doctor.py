"""Checks of an installation. Each is one function: it states a fact, and what to do if there is a problem.

A check changes nothing but one small object in each store, which it deletes again. An exception is a problem with its
text, so that one broken part hides no other.
"""

from __future__ import annotations

import itertools
import os
import platform
import shutil
import stat
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit
from uuid import uuid4

import redis
from celery import current_app
from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.files.base import ContentFile
from django.core.files.storage import storages
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.db.models import Min
from django.utils import timezone

from ingest import storage, sums
from ingest.models import Artifact, Run
from ingest.services import machines
from triage.environment import env_bool, env_str
from triage.places import installed_version
from triage.selectors.health import LONG_S
from triage.serve.newer import TODO, newer_sentence, unknown_migration
from triage.serve.parts import QUEUES
from triage.services.resealing import unreadable_secrets

type State = Literal["ok", "warning", "problem"]

MIN_FREE_BYTES = 1 << 30
MIN_FREE_SHARE = 0.1
#: clocks that differ by more make lines of the timeline and leases of runs wrong
CLOCK_WARNING_S, CLOCK_PROBLEM_S = 2.0, 30.0
WAITING_WARNING_S = 600
#: Seconds that workers have to answer; if a queue seems to have none, busy ones get more.
ANSWER_S = (2.0, 8.0)
MIN_SECRET_CHARS = 32
_MAX_NAMED = 20
_LOCAL = {"localhost", "127.0.0.1", "::1", "[::1]"}


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check found; ``todo`` is empty if all is well."""

    state: State
    sentence: str
    todo: str = ""


def versions() -> Finding:
    return Finding("ok", f"Faultline {installed_version()}, Python {platform.python_version()}")


def database() -> Finding:
    began = time.perf_counter()
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    took_ms = (time.perf_counter() - began) * 1000
    version = ".".join(map(str, connection.get_database_version()))
    sentence = f"{connection.display_name} {version} answers in {took_ms:.0f} ms"
    if connection.vendor == "sqlite" and env_str("FAULTLINE_S3_BUCKET"):
        return Finding(
            "warning",
            f"{sentence}; it serves one machine only",
            "Set DATABASE_URL to a PostgreSQL before a part runs on another machine.",
        )
    return Finding("ok", sentence)


def migrations() -> Finding:
    executor = MigrationExecutor(connection)
    missing = executor.migration_plan(executor.loader.graph.leaf_nodes())
    if newer := unknown_migration():
        return Finding("problem", newer_sentence(newer), TODO)
    if missing:
        sentence = "a migration is missing" if len(missing) == 1 else f"{len(missing)} migrations are missing"
        return Finding("problem", sentence, "Run: faultline manage prepare")
    return Finding("ok", "the database is up to date")


def queue() -> Finding:
    with _redis() as client:
        about: dict[str, Any] = client.info("server")
    name = "Valkey" if "valkey_version" in about else "Redis"
    return Finding("ok", f"{name} {about.get('valkey_version') or about.get('redis_version')} answers")


def workers() -> Finding:
    with _redis() as client:
        client.ping()  # otherwise Celery waits long for a queue that is down
    queues_by_worker: dict[str, Any] = {}
    idle = list(QUEUES)
    for timeout_s in ANSWER_S:
        queues_by_worker |= current_app.control.inspect(timeout=timeout_s).active_queues() or {}
        served = {row["name"] for row in itertools.chain.from_iterable(queues_by_worker.values())}
        if not (idle := [name for name in QUEUES if name not in served]):
            break
    if idle:
        return Finding(
            "problem",
            f"no worker serves {', '.join(idle)}",
            f"Start: faultline serve {idle[0] if len(idle) < len(QUEUES) else 'worker'}",
        )
    return Finding("ok", f"{len(queues_by_worker)} workers serve {', '.join(QUEUES)}")


def waiting() -> Finding:
    since = Run.objects.filter(state=Run.State.QUEUED).aggregate(at=Min("created_at"))["at"]
    age_s = (timezone.now() - since).total_seconds() if since else 0.0
    if age_s > WAITING_WARNING_S:
        return Finding(
            "warning",
            f"the oldest work has waited for {age_s / 60:.0f} minutes",
            "Add workers for its queue (/metrics says which), or see why theirs fail in their log.",
        )
    return Finding("ok", "no work waits long")


def running() -> Finding:
    since = timezone.now() - timedelta(seconds=LONG_S)
    old = Run.objects.filter(state=Run.State.RUNNING, started_at__lt=since).select_related("job").order_by("started_at")
    names = [f"{run.kind} run {run.pk} of job {run.job.slug} ({_minutes_of(run)} minutes)" for run in old[:5]]
    if names:
        return Finding(
            "warning",
            f"{old.count()} runs take longer than {LONG_S // 60} minutes: {', '.join(names)}",
            "Large evidence takes long. Otherwise cancel the work on the page of the job.",
        )
    return Finding("ok", "no work takes long")


def _minutes_of(run: Run) -> int:
    assert run.started_at is not None
    return int((timezone.now() - run.started_at).total_seconds() // 60)


def store() -> Finding:
    for name in ("blobs", "parsed"):
        storage, content = storages[name], uuid4().hex.encode()
        key = storage.save(f"doctor/{uuid4().hex}", ContentFile(content))
        try:
            with storage.open(key) as file:
                if file.read() != content:
                    raise OSError(f"{name} returns other bytes than it was given")
        finally:
            storage.delete(key)
    place = f"bucket {env_str('FAULTLINE_S3_BUCKET')}" if env_str("FAULTLINE_S3_BUCKET") else "the data directory"
    return Finding("ok", f"{place} stores, returns and deletes")


def clocks() -> Finding:
    offsets: dict[str, float] = {}
    with _redis() as client:
        seconds, micros = client.time()
        offsets["the queue"] = seconds + micros / 1e6 - time.time()
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT clock_timestamp()")
            offsets["the database"] = cursor.fetchone()[0].timestamp() - time.time()
    name, offset_s = max(offsets.items(), key=lambda pair: abs(pair[1]))
    if abs(offset_s) <= CLOCK_WARNING_S:
        return Finding("ok", f"the clocks of {' and '.join(offsets)} agree with this machine's")
    return Finding(
        "problem" if abs(offset_s) > CLOCK_PROBLEM_S else "warning",
        f"the clock of {name} is {abs(offset_s):.0f} s {'ahead' if offset_s > 0 else 'behind'}",
        "Let NTP (chrony, systemd-timesyncd) set the clocks of both machines.",
    )


def secrets() -> Finding:
    if len(settings.SECRET_KEY) < MIN_SECRET_CHARS:
        return Finding(
            "problem", "the secret key is short", "Set FAULTLINE_SECRET_KEY, for instance: openssl rand -hex 32"
        )
    is_given = bool(env_str("FAULTLINE_SECRET_KEY"))
    if not is_given and connection.vendor == "postgresql":
        return Finding(
            "warning",
            "the secret key is this machine's own",
            "Give all machines the same FAULTLINE_SECRET_KEY, or sessions of one end at the next.",
        )
    file = Path(settings.DATA_DIR) / "secret_key"
    if not is_given and file.exists() and file.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        return Finding("problem", f"others can read {file}", f"Run: chmod 600 {file}")
    return Finding("ok", "the secret key is long and private")


def seals() -> Finding:
    """Whether the secret key opens the secrets that the database holds."""
    names = unreadable_secrets()
    if names:
        return Finding(
            "problem",
            f"another FAULTLINE_SECRET_KEY encrypted {len(names)} secrets: {_named(names)}",
            "Set that key as FAULTLINE_SECRET_KEY_FORMER and run: faultline manage prepare. If it is lost, enter the "
            "secrets of these routes again, and delete these second steps at /admin/.",
        )
    return Finding("ok", "the secret key opens all secrets in the database")


def _named(names: list[str]) -> str:
    return ", ".join(names[:_MAX_NAMED]) + (" …" if len(names) > _MAX_NAMED else "")


def exposure() -> Finding:
    """What must not be on where others reach the site."""
    listens = env_str("FAULTLINE_HOST", "127.0.0.1")
    answers_to_local = set(settings.ALLOWED_HOSTS) <= _LOCAL
    is_local = answers_to_local and listens in _LOCAL
    if settings.DEBUG:
        return Finding(
            "warning" if is_local else "problem", "FAULTLINE_DEBUG shows tracebacks", "Unset FAULTLINE_DEBUG"
        )
    if is_local:
        return Finding("ok", "the site answers to this machine alone")
    people = get_user_model().objects.filter(username__in=("engineer", "manager"), is_active=True)
    if (Path(settings.DATA_DIR) / "demo-sign-in.txt").exists() and people.exists():
        return Finding(
            "problem",
            "the demonstration's people can sign in",
            "Deactivate engineer and manager at /admin/, and set FAULTLINE_DEMO=0.",
        )
    if answers_to_local:  # in a container: which of its ports are published is not known here
        return Finding("ok", f"the site listens at {listens} and answers to the name localhost alone")
    if not settings.IS_BEHIND_TLS:
        return Finding(
            "warning", "passwords cross the network in readable form", "End TLS in a proxy and set FAULTLINE_TLS=1."
        )
    return Finding("ok", "TLS is on, debugging and the demonstration's people are off")


def transport() -> Finding:
    """Whether what crosses a network between the parts is encrypted."""
    open_to = []
    if _is_elsewhere(settings.DATABASES["default"].get("HOST", "")) and not _is_database_encrypted():
        open_to.append("the database (DATABASE_URL: ?sslmode=verify-full)")
    queue_url = urlsplit(settings.REDIS_URL)
    if queue_url.scheme == "redis" and _is_elsewhere(queue_url.hostname or ""):
        open_to.append("the queue (REDIS_URL: rediss://)")
    for name, what in (("FAULTLINE_S3_ENDPOINT", "the store"), ("FAULTLINE_SUMMARY_URL", "the language model")):
        url = urlsplit(env_str(name))
        if url.scheme == "http" and _is_elsewhere(url.hostname or ""):
            open_to.append(f"{what} ({name}: https://)")
    if _is_elsewhere(env_str("FAULTLINE_SMTP_HOST")) and not env_bool("FAULTLINE_SMTP_TLS", True):
        open_to.append("the mail server (FAULTLINE_SMTP_TLS: 1)")
    if not open_to:
        return Finding("ok", "what other machines get is encrypted on its way")
    return Finding(
        "warning",
        f"without TLS on a network: {', '.join(open_to)}",
        "Set what stands in brackets (/help/operations/#tls-between-the-parts). Containers of one machine need it not.",
    )


def _is_elsewhere(host: str) -> bool:
    """Whether this host is another one; an empty name or a path is a socket of this machine."""
    return bool(host) and not host.startswith("/") and host not in _LOCAL and not host.startswith("127.")


def _is_database_encrypted() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()")
        row = cursor.fetchone()
    return bool(row and row[0])


def disk() -> Finding:
    folder = Path(settings.DATA_DIR)
    if not os.access(folder, os.W_OK):
        return Finding("problem", f"{folder} cannot be written", f"Let the user {os.getuid()} own it.")
    usage = shutil.disk_usage(folder)
    sentence = f"{usage.free / 2**30:.1f} GiB of {usage.total / 2**30:.0f} are free below {folder}"
    todo = "Free space, set FAULTLINE_EVIDENCE_DAYS, or move evidence to a store (FAULTLINE_S3_BUCKET)."
    if usage.free < MIN_FREE_BYTES:
        return Finding("problem", sentence, todo)
    return Finding("warning", sentence, todo) if usage.free < MIN_FREE_SHARE * usage.total else Finding("ok", sentence)


def directory() -> Finding:
    """Uploads grow in the data directory while workers read them, also with an S3 store: all machines share it."""
    elsewhere = machines.hosts_elsewhere()
    if elsewhere:
        return Finding(
            "problem",
            f"{', '.join(elsewhere[:5])} {'works' if len(elsewhere) == 1 else 'work'} in another data directory",
            f"Mount one directory that all machines share, here at {settings.DATA_DIR} (FAULTLINE_DATA_DIR).",
        )
    return Finding("ok", f"all machines with workers work in {settings.DATA_DIR}")


def traces() -> Finding:
    if not settings.TRACES_ENDPOINT:
        return Finding("ok", "no traces are sent")
    if find_spec("opentelemetry.sdk") is None:
        return Finding("warning", "traces are wanted, but cannot be sent", "pip install 'faultline-triage[otel]'")
    return Finding("ok", f"traces go to {settings.TRACES_ENDPOINT}")


def evidence() -> Finding:
    """Reads all stored evidence: a gigabyte takes seconds, more from a remote store."""
    rows = Artifact.objects.exclude(state=Artifact.State.REMOVED).order_by("pk")
    columns = ("attempt__job__slug", "path", "blob_id", "blob__size_bytes", "parsed_key")
    count, changed = 0, []
    for job, path, sha256, size_bytes, key in rows.values_list(*columns).iterator():
        count += 1
        try:
            storage.blob_check(sha256, size_bytes, max_bytes=sums.ANY_BYTES, is_remote_read=True)
            storage.directory_check(key, max_bytes=sums.ANY_BYTES, is_remote_read=True)
        except FileNotFoundError as error:
            what = "changed" if isinstance(error, sums.Changed) else "lost"
            changed.append(f"{path} of {job} ({what})")
    if not changed:
        return Finding("ok", f"{count:,} files of evidence are what was stored")
    return Finding(
        "problem",
        f"{len(changed):,} of {count:,} files of evidence are not what was stored: {_named(changed)}",
        "Send these files again, or restore them from a backup; then read them again on the pages of their jobs.",
    )


def pages() -> Finding:
    if not (Path(settings.STATIC_ROOT) / "staticfiles.json").exists():
        return Finding("problem", "static files are not collected", "Run: faultline manage prepare")
    return Finding("ok", "static files are collected")


def _redis() -> redis.Redis:
    return redis.Redis.from_url(settings.REDIS_URL, socket_timeout=2, socket_connect_timeout=2)


#: in the order of the report: the cause of a failure is above its consequences
CHECKS: tuple[Callable[[], Finding], ...] = (
    versions, database, migrations, queue, workers, waiting, running, store, clocks, secrets, seals, exposure,
    transport, disk, directory, traces, pages,
)  # fmt: skip
#: what to do if a check itself fails, by its name
_REMEDIES = {
    "database": "Start it, or correct DATABASE_URL.",
    "queue": "Start it, or correct REDIS_URL.",
    "store": "Correct FAULTLINE_S3_BUCKET, FAULTLINE_S3_ENDPOINT and the keys, or the rights of the data directory.",
}


def examine(*, is_evidence_read: bool = False) -> dict[str, Finding]:
    """All checks by name, and :func:`evidence` if it shall be read. Takes seconds: each connection has a limit."""
    os.environ.setdefault("PGCONNECT_TIMEOUT", "5")
    checks = (*CHECKS, evidence) if is_evidence_read else CHECKS
    return {check.__name__: _run_check(check) for check in checks}


def _run_check(check: Callable[[], Finding]) -> Finding:
    try:
        return check()
    except Exception as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        return Finding("problem", lines[0], _REMEDIES.get(check.__name__, "See the other problems first."))
