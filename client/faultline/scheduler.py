"""``faultline watch slurm`` and ``kubernetes``: tell the site how jobs and their nodes fare, from within the cluster.

Each change of a job becomes a line of its file ``scheduler/….log`` and changes its description: outcome, times, nodes.
A requeue begins an attempt. Only jobs that the site has are told of, unless ``--all``. The site needs no access to the
cluster, and this program only the right to read.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import signal
import threading
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Callable, Optional, Protocol

from faultline.kubernetes import Kubernetes
from faultline.scheduled import OUTCOMES, Job, JobLine, Node, Snapshot
from faultline.site import Problem, Site
from faultline.slurm import Slurm, hosts_of
from faultline.words import DONE, UsageError, Words

#: seconds until a job that the site does not have is asked for again
_ASK_AGAIN_S = 60.0
#: jobs that are remembered
_MAX_JOBS = 50_000
#: lines of a job that are remembered as told
_MAX_KEYS = 500


def watch(args: argparse.Namespace, site: Site, say: Words) -> int:
    """Look every ``--every`` seconds until SIGTERM or SIGINT; once with ``--once``."""
    if args.every < 1:
        raise UsageError("--every is at least 1 second.")
    if args.scheduler == "slurm":
        source: Scheduler = Slurm(note=say.note)
    else:
        source = Kubernetes.of(args.objects, args.namespace, note=say.note)
    watcher = Watcher(
        site,
        source,
        state=Path(args.state) if args.state else None,
        prefix=args.prefix,
        cluster=args.cluster or "",
        is_all=args.all,
        name_pattern=args.name,
        note=say.note,
    )
    stop = threading.Event()
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda caught, frame: stop.set())
    while True:
        watcher.tell_changes()
        if args.once or stop.wait(args.every):
            return say.end(DONE)


class Scheduler(Protocol):
    """A scheduler: what it has, and how it says it. ``take_snapshot`` gets the jobs of which no end was told."""

    @property
    def file(self) -> str: ...
    def take_snapshot(self, running: list[Job]) -> Snapshot: ...
    def slug_of(self, job: Job) -> str: ...
    def line_of(self, job: Job, *, names_node: bool) -> str: ...
    def node_line_of(self, node: Node) -> str: ...
    def restart_line_of(self, ran: Job) -> str: ...


class Watcher:
    """Knows what was told of each job. One thread."""

    def __init__(
        self,
        site: Site,
        source: Scheduler,
        *,
        state: Optional[Path] = None,  # noqa: UP045  # Python 3.9
        prefix: str = "",
        cluster: str = "",
        is_all: bool = False,
        name_pattern: str = "*",
        note: Callable[[str], None] = lambda words: None,
    ) -> None:
        self._site, self._state, self._prefix, self._cluster = site, state, prefix, cluster
        self._is_all, self._name_pattern, self._note = is_all, name_pattern, note
        self._source = source
        #: id -> {"job", "lost", "slug"}: what was told
        self._reported: dict[str, dict[str, Any]] = {}
        #: slugs that the site does not have -> when it is asked again
        self._missing: dict[str, float] = {}
        self._load()

    def tell_changes(self) -> int:
        """Tell the site what changed; returns the number of changes. Raises the errors of the site's client."""
        running = [Job(*row["job"]) for row in self._reported.values() if row["job"][2] not in OUTCOMES]
        snapshot = self._source.take_snapshot(running)
        bad = {node.name: node for node in snapshot.nodes}
        named = [job for job in snapshot.jobs if fnmatch.fnmatch(job.name, self._name_pattern)]
        changes = sum(self._tell_of(job, snapshot.lines.get(job.id, ()), bad) for job in named)
        while len(self._reported) > _MAX_JOBS:
            self._reported.pop(next(iter(self._reported)))
        if changes:
            self._save()
        return changes

    def _tell_of(self, job: Job, lines: Iterable[JobLine], bad: Mapping[str, Node]) -> bool:
        """Tell what is new of one job; whether anything was told. ``bad``: nodes that cannot be used, by name."""
        former = self._reported_job(job)
        if job.state == "PENDING" and former is None:
            return False
        reported = self._reported[job.id] if former is not None else {}
        # a requeued job has no nodes any more: those that it lost are of the attempt before
        ran = former if former is not None and former.restarts < job.restarts else job
        lost_nodes = [bad[name] for name in hosts_of(ran.nodes) if name in bad]
        lost = lost_nodes if job.outcome is None or job.failed_node else []
        keys = reported.get("keys", [])
        fresh = [line for line in lines if line.key not in keys]
        now: dict[str, Any] = {"job": list(job), "lost": [list(node) for node in lost if ran is job]}
        is_same = former is not None and {**reported, **now} == reported
        if is_same and not fresh:
            return False
        slug = self._slug(job, former)
        if slug is None:
            return False
        self._report(slug, job, ran, lost, fresh, is_same=is_same)
        told = [*keys, *(line.key for line in fresh)][-_MAX_KEYS:]
        self._reported[job.id] = {**now, "slug": slug, "keys": told}
        return True

    def _reported_job(self, job: Job) -> Optional[Job]:  # noqa: UP045
        """What was told of this job. A requeue changes the time of submission as a new job of the same id does, but
        counts a restart.
        """
        if job.id not in self._reported:
            return None
        former = Job(*self._reported[job.id]["job"])
        return former if former.submit == job.submit or former.restarts < job.restarts else None

    def _report(self, slug: str, job: Job, ran: Job, lost: list[Node], more: list[JobLine], *, is_same: bool) -> None:
        """Tell of the job, and of the nodes that it lost while it ``ran``: now, or in the attempt before. ``more``:
        further lines; ``is_same``: there is nothing else.
        """
        now = int(time.time())
        at = job.end if job.outcome else job.start if job.state == "RUNNING" else now
        if job.failed_node and job.failed_node not in {node.name for node in lost}:
            lost = [*lost, Node(job.failed_node, "DOWN", "")]
        rows = [(line.at if 0 < line.at <= now else now, line.text, line.attempt) for line in more]
        if not is_same:
            text = self._source.line_of(job, names_node=bool(lost))
            rows.append((at if 0 < at <= now else now, text, job.restarts))
            rows += [(now, self._source.node_line_of(node), ran.restarts) for node in lost]
        if ran.restarts < job.restarts:
            rows.append((now, self._source.restart_line_of(ran), ran.restarts))
        for attempt in sorted({row[2] for row in rows}):
            lines = [
                {"file": self._source.file, "time": when, "message": text} for when, text, of in rows if of == attempt
            ]
            headers = {
                "Content-Type": "application/x-ndjson",
                "Faultline-Job": slug,
                "Faultline-Attempt": str(attempt),
                "Faultline-Source-From": "file",
            }
            if self._cluster:
                headers["Faultline-Cluster"] = self._cluster
            self._site.ask("POST", "/lines/", "".join(f"{json.dumps(row)}\n" for row in lines).encode(), headers)
        if is_same:
            return
        fields: dict[str, Any] = {"outcome": job.outcome or "running"}
        if job.start and job.state != "PENDING":
            fields["started_at"] = _iso(job.start)
        if job.outcome and job.end:
            fields["ended_at"] = _iso(job.end)
        if nodes := hosts_of(job.nodes):
            fields["nodes"] = nodes
        self._site.send("PATCH", f"/jobs/{slug}/", fields)

    def _slug(self, job: Job, former: Optional[Job]) -> Optional[str]:  # noqa: UP045
        """The id of the job on the site; None if it has none and none is to be made.

        Schedulers use ids again: another job of an id gets its date in the id.
        """
        if former is not None:
            return str(self._reported[job.id]["slug"])
        slug = self._prefix + self._source.slug_of(job)
        if job.id in self._reported:
            slug += time.strftime("-%Y%m%d", time.gmtime(job.submit))
        if self._missing.get(slug, 0.0) > time.monotonic():
            return None
        for candidate in ([f"{self._cluster}--{slug}"] if self._cluster else []) + [slug]:
            with suppress(Problem):
                return str(self._site.get(f"/jobs/{candidate}/").data["slug"])
        fields = {"name": f"{job.name or 'job'} {job.id}"[:200], "slug": slug, "outcome": "running"}
        if self._cluster:
            fields["cluster"] = self._cluster
        if self._is_all:
            try:
                return str(self._site.send("POST", "/jobs/", fields).data["slug"])
            except Problem as problem:
                self._note(f"job {job.id} cannot be made: {problem.detail}")
        self._missing[slug] = time.monotonic() + _ASK_AGAIN_S
        return None

    def _load(self) -> None:
        """Continue where a former process stopped. An unreadable state only repeats lines, which the site drops."""
        if self._state is not None:
            with suppress(OSError, ValueError, TypeError, AttributeError, KeyError):
                for key, row in json.loads(self._state.read_text()).items():
                    job, keys = list(Job(*row["job"])), [str(key) for key in row.get("keys", [])]
                    self._reported[key] = {"job": job, "lost": row["lost"], "slug": str(row["slug"]), "keys": keys}

    def _save(self) -> None:
        if self._state is None:
            return
        try:
            self._state.parent.mkdir(parents=True, exist_ok=True)
            new_state = self._state.with_name(self._state.name + ".new")
            new_state.write_text(json.dumps(self._reported))
            new_state.replace(self._state)
        except OSError as error:
            self._note(f"{self._state} cannot be written ({error.strerror}): a restart sends these jobs again.")
            self._state = None


def _iso(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
