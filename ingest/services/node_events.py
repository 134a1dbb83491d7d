"""Statements about nodes become evidence of the jobs that ran on them at that time: a file of each node and monitor.

A monitor repeats what still holds; each statement is a batch of its own, so that it is stored once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from django.db.models import Q
from django.utils import timezone

from ingest.models import Attempt, Cluster, Job, Upload
from ingest.models.outcome import Outcome
from ingest.services.appending import rows_append
from ingest.services.clusters import cluster_choose
from ingest.services.collecting import MAX_SENTENCES, BatchResult
from ingest.services.jobs import attempt_get
from ingest.wire.node_events import NodeEvent
from ingest.wire.routing import Rules
from ingest.wire.rows import Rows, no_rows

#: jobs of a cluster that are looked at, and jobs that one statement reaches
_MAX_JOBS, _MAX_JOBS_A_NODE = 500, 4
#: statements of one monitor about one node in one request
_MAX_EVENTS_A_NODE: Final = 50
#: a monitor sees a failure a little before the job begins, and some time after it ended
_MAX_EARLY, _MAX_LATE = timedelta(minutes=5), timedelta(minutes=15)
_MAX_NAMES = 5


def node_events_take(*, user: Any, events: Sequence[NodeEvent], problems: Counter[str], rules: Rules) -> BatchResult:
    """Store each statement with the jobs of the caller's cluster that ran on its node then. O(events + jobs).

    Raises :class:`Refused`: the cluster is not the caller's, or (503) other requests hold the files.
    """
    cluster = cluster_choose(user=user, name=rules.cluster)
    now = timezone.now()
    ran = _RecentJobs(cluster, now)
    stored = repeated = 0
    strangers: Counter[str] = Counter()
    rounds: dict[Attempt, dict[str, Rows]] = {}
    for event in events:
        at = _moment(event.at, now)
        places = ran.on(event.node, at)
        if not places:
            strangers[event.node] += 1
        for attempt, node in places:
            rows = rounds.setdefault(attempt, {}).setdefault(f"{node}/health/{event.source}.log", no_rows())
            if len(rows) >= _MAX_EVENTS_A_NODE:
                problems[f"more than {_MAX_EVENTS_A_NODE} about one node: send fewer at a time."] += 1
            else:
                ns = int(at.timestamp() * 1e6) * 1000
                rows.add(ns, f"{event.level} ", f"{event.source}: {event.text}".encode("utf-8", "replace"))
    for attempt, files in rounds.items():
        for turn in range(max(map(len, files.values()))):
            batches = {path: rows[turn : turn + 1] for path, rows in files.items() if turn < len(rows)}
            appended = rows_append(attempt=attempt, batches=batches, user=user)
            stored, repeated = stored + appended.stored, repeated + appended.repeated
            problems.update(appended.problems)
    if strangers:
        names = ", ".join(list(strangers)[:_MAX_NAMES]) + (" …" if len(strangers) > _MAX_NAMES else "")
        problems[f"no job of the cluster {cluster.slug} ran then on {names}."] += strangers.total()
    sentences = [f"{count:,} refused: {sentence}" for sentence, count in problems.most_common(MAX_SENTENCES)]
    return BatchResult(stored, repeated, problems.total(), " ".join(sentences))


class _RecentJobs:
    """The jobs of a cluster that run or have just ended, by the names of their nodes."""

    def __init__(self, cluster: Cluster, now: datetime) -> None:
        recent = Q(ended_at__gt=now - timedelta(days=1)) | Q(declared_outcome=Outcome.RUNNING)
        rows = list(Job.objects.filter(recent, cluster=cluster).order_by("-created_at")[:_MAX_JOBS])
        self._jobs = [(job, _NodeNames(job.nodes_text.replace(",", "\n").split())) for job in rows]
        self._unlisted = [job.pk for job, nodes in self._jobs if not nodes.exact]
        self._attempts: dict[int, Attempt] = {}
        self._seen: dict[str, dict[int, str]] = {}

    def on(self, node: str, at: datetime) -> list[tuple[Attempt, str]]:
        """Attempts that ran on the node then, each with the node's name in that job."""
        attempts = []
        host = _host(node)
        names_by_job = self._senders(host)
        for job, nodes in self._jobs:
            name = nodes.of(host) or names_by_job.get(job.pk)
            if name and _ran_at(job, at):
                attempts.append((self._attempt(job), name))
            if len(attempts) == _MAX_JOBS_A_NODE:
                break
        return attempts

    def _senders(self, host: str) -> dict[int, str]:
        """Of jobs without a list of nodes: those with a file of this node."""
        if host not in self._seen:
            of = Q(path__startswith=f"{host}/") | Q(path__startswith=f"{_short_name(host)}/")
            files = Upload.objects.filter(of, job__in=self._unlisted).values_list("job_id", "path")[:_MAX_JOBS]
            self._seen[host] = {job: path.partition("/")[0] for job, path in files}
        return self._seen[host]

    def _attempt(self, job: Job) -> Attempt:
        if job.pk not in self._attempts:
            attempt = job.attempts.order_by("-number").first() or attempt_get(job=job)
            attempt.job = job
            self._attempts[job.pk] = attempt
        return self._attempts[job.pk]


class _NodeNames:
    """A job's nodes by name. A name with a domain and one without may be the same node; two domains never are."""

    def __init__(self, names: Sequence[str]) -> None:
        self.exact = {name.lower(): name for name in names}
        counts = Counter(map(_short_name, self.exact))
        self._short = {_short_name(key): name for key, name in self.exact.items() if counts[_short_name(key)] == 1}

    def of(self, host: str) -> str:
        if host in self.exact:
            return self.exact[host]
        name = self._short.get(_short_name(host), "")
        return name if "." not in host or "." not in name else ""


def _host(name: str) -> str:
    """The host of an exporter's address, in lower case: without brackets and port."""
    name = name.lower()
    if name.startswith("["):
        return name[1:].partition("]")[0]
    return name.partition(":")[0] if name.count(":") == 1 else name


def _short_name(host: str) -> str:
    """A host name without its domain; an address as it is."""
    first = host.partition(".")[0]
    return host if ":" in host or first.isdecimal() else first


def _ran_at(job: Job, at: datetime) -> bool:
    began = job.started_at or job.created_at
    return began - _MAX_EARLY <= at and (job.ended_at is None or at <= job.ended_at + _MAX_LATE)


def _moment(ns: int, now: datetime) -> datetime:
    """The stated time; now for one that is missing or lies in the future."""
    try:
        at = datetime.fromtimestamp(ns / 1e9, UTC) if ns else now
    except (ValueError, OverflowError, OSError):
        return now
    return at if at <= now else now
