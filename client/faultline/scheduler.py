"""``faultline watch slurm``: tells the site how jobs and their nodes fare, from a machine where Slurm's commands work.

Each change of a job becomes a line of its file ``scheduler/slurm.log`` and changes its description: outcome, times,
nodes. A requeue begins an attempt. Only jobs that the site has are told of, unless ``--all``. Needs no access to Slurm
beyond that of any user.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import signal
import subprocess
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Callable, Optional

from faultline.site import Problem, Site
from faultline.slurm import Job, Node, hosts_of, jobs_of, nodes_of
from faultline.words import DONE, Usage, Words

#: seconds that a command of Slurm may take
_COMMAND_S = 60.0
#: seconds until a job that the site does not have is asked for again
_AGAIN_S = 60.0
#: jobs that are remembered
_MOST = 50_000
_JOBS = (
    ("squeue", "--json", "-t", "all"),
    ("scontrol", "show", "job", "-o"),
    (
        "sacct",
        "-X",
        "-P",
        "-S",
        "now-1hour",
        "--format=JobID,JobName,State,ExitCode,Submit,Start,End,NodeList,Restarts",
    ),
)
_NODES = (("scontrol", "show", "node", "-o"), ("sinfo", "--json"))
FILE = "scheduler/slurm.log"


def watch(asked: argparse.Namespace, site: Site, say: Words) -> int:
    """Look every ``--every`` seconds until SIGTERM or SIGINT; once with ``--once``."""
    if asked.every < 1:
        raise Usage("--every is at least 1 second.")
    watcher = Watcher(
        site,
        state=Path(asked.state) if asked.state else None,
        prefix=asked.prefix,
        cluster=asked.cluster or "",
        is_all=asked.all,
        wanted=asked.name,
        note=say.note,
    )
    stop = threading.Event()
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda caught, frame: stop.set())
    while True:
        watcher.look()
        if asked.once or stop.wait(asked.every):
            return say.end(DONE)


class Watcher:
    """Knows what was told of each job. One thread; a look runs two commands."""

    def __init__(
        self,
        site: Site,
        *,
        state: Optional[Path] = None,  # noqa: UP045  # Python 3.9
        prefix: str = "",
        cluster: str = "",
        is_all: bool = False,
        wanted: str = "*",
        note: Callable[[str], None] = lambda words: None,
        ask: Optional[Callable[[tuple[str, ...]], str]] = None,  # noqa: UP045
    ) -> None:
        self._site, self._state, self._prefix, self._cluster = site, state, prefix, cluster
        self._is_all, self._wanted, self._note = is_all, wanted, note
        self._ask = ask or _run
        self._noted: set[str] = set()
        #: id -> {"job", "lost", "slug"}: what was told
        self._told: dict[str, dict[str, Any]] = {}
        #: slugs that the site does not have -> when it is asked again
        self._missing: dict[str, float] = {}
        self._load()

    def look(self) -> int:
        """Tell the site what changed; returns the number of changes. Raises the errors of the site's client."""
        jobs = jobs_of(self._first(_JOBS))
        bad = {node.name: node for node in nodes_of(self._first(_NODES))}
        changes = 0
        for job in jobs:
            if not fnmatch.fnmatch(job.name, self._wanted):
                continue
            before = self._before(job)
            if job.state == "PENDING" and before is None:
                continue
            # a requeued job has no nodes any more: those that it lost are of the attempt before
            ran = before if before is not None and before.restarts < job.restarts else job
            lost = [bad[name] for name in hosts_of(ran.nodes) if name in bad]
            told = lost if job.outcome is None or job.failed_node else []
            now: dict[str, Any] = {"job": list(job), "lost": [list(node) for node in told]}
            if before is not None and {**now, "slug": self._told[job.id]["slug"]} == self._told[job.id]:
                continue
            slug = self._slug(job, before)
            if slug is None:
                continue
            self._tell(slug, job, ran, told)
            self._told[job.id] = {**now, "slug": slug}
            changes += 1
        while len(self._told) > _MOST:
            self._told.pop(next(iter(self._told)))
        if changes:
            self._save()
        return changes

    def _before(self, job: Job) -> Optional[Job]:  # noqa: UP045
        """What was told of this job. A requeue changes the time of submission as a new job of the same id does, but
        counts a restart.
        """
        if job.id not in self._told:
            return None
        before = Job(*self._told[job.id]["job"])
        return before if before.submit == job.submit or before.restarts < job.restarts else None

    def _first(self, commands: tuple[tuple[str, ...], ...]) -> str:
        """The output of the first command that works here."""
        why = ""
        for command in commands:
            try:
                return self._ask(command)
            except (OSError, subprocess.SubprocessError) as error:  # noqa: PERF203
                why = f"{' '.join(command[:2])}: {error}"
        if why not in self._noted:
            self._noted.add(why)
            self._note(f"Slurm says nothing ({why})")
        return ""

    def _tell(self, slug: str, job: Job, ran: Job, lost: list[Node]) -> None:
        """Tell of the job, and of the nodes that it lost while it ``ran``: now, or in the attempt before."""
        now = int(time.time())
        at = job.end if job.outcome else job.start if job.state == "RUNNING" else now
        if job.failed_node and job.failed_node not in {node.name for node in lost}:
            lost = [*lost, Node(job.failed_node, "DOWN", "")]
        rows = [(at if 0 < at <= now else now, line_of(job, names_node=bool(lost)), job.restarts)]
        rows += [(now, node_line_of(node), ran.restarts) for node in lost]
        if ran.restarts < job.restarts:
            text = f"slurmctld: JobId={job.id} was requeued, NodeList={ran.nodes}"
            rows.append((now, text, ran.restarts))
        for attempt in sorted({row[2] for row in rows}):
            said = [{"file": FILE, "time": when, "message": text} for when, text, of in rows if of == attempt]
            headers = {
                "Content-Type": "application/x-ndjson",
                "Faultline-Job": slug,
                "Faultline-Attempt": str(attempt),
                "Faultline-Source-From": "file",
            }
            if self._cluster:
                headers["Faultline-Cluster"] = self._cluster
            self._site.ask("POST", "/lines/", "".join(f"{json.dumps(row)}\n" for row in said).encode(), headers)
        fields: dict[str, Any] = {"outcome": job.outcome or "running"}
        if job.start and job.state != "PENDING":
            fields["started_at"] = _iso(job.start)
        if job.outcome and job.end:
            fields["ended_at"] = _iso(job.end)
        if nodes := hosts_of(job.nodes):
            fields["nodes"] = nodes
        self._site.send("PATCH", f"/jobs/{slug}/", fields)

    def _slug(self, job: Job, before: Optional[Job]) -> Optional[str]:  # noqa: UP045
        """The id of the job on the site; None if it has none and none is to be made.

        Slurm uses ids again after some millions: another job of an id gets its date in the id.
        """
        if before is not None:
            return str(self._told[job.id]["slug"])
        slug = self._prefix + job.id.replace("_", "-").replace("+", "-")
        if job.id in self._told:
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
        self._missing[slug] = time.monotonic() + _AGAIN_S
        return None

    def _load(self) -> None:
        """Continue where a former process stopped. An unreadable state only repeats lines, which the site drops."""
        if self._state is not None:
            with suppress(OSError, ValueError, TypeError, AttributeError, KeyError):
                for key, row in json.loads(self._state.read_text()).items():
                    self._told[key] = {"job": list(Job(*row["job"])), "lost": row["lost"], "slug": str(row["slug"])}

    def _save(self) -> None:
        if self._state is None:
            return
        try:
            self._state.parent.mkdir(parents=True, exist_ok=True)
            near = self._state.with_name(self._state.name + ".new")
            near.write_text(json.dumps(self._told))
            near.replace(self._state)
        except OSError as error:
            self._note(f"{self._state} cannot be written ({error.strerror}): a restart tells these jobs again.")
            self._state = None


def _run(command: tuple[str, ...]) -> str:
    done = subprocess.run(  # noqa: S603  # fixed commands
        list(command),
        capture_output=True,
        timeout=_COMMAND_S,
        check=True,
        env={**os.environ, "SLURM_TIME_FORMAT": "standard", "LC_ALL": "C"},
    )
    return done.stdout.decode("utf-8", "replace")


def line_of(job: Job, *, names_node: bool = False) -> str:
    """One line in Slurm's own words, which the engine reads. ``names_node``: another line says which node was lost."""
    state = "ended" if job.state == "NODE_FAIL" and (names_node or job.failed_node) else f"State={job.state}"
    said = [f"slurmctld: JobId={job.id} {state}", f"Reason={job.reason.replace(' ', '_') or 'None'}"]
    said.append(f"Restarts={job.restarts}")
    if job.nodes:
        said.append(f"NodeList={job.nodes}")
    line = " ".join(said)
    if job.outcome and job.signal:
        return f"{line}: exited on signal {job.signal}"
    return f"{line}: Exited with exit code {job.exit_code}" if job.outcome and job.exit_code else line


def node_line_of(node: Node) -> str:
    """One line about a node that a job lost, or soon will."""
    why = f": {node.reason}" if node.reason else ""
    if "*" in node.state or "NOT_RESPONDING" in node.state:
        return f"slurmctld: error: Nodes {node.name} not responding, setting DOWN{why}"
    if "DOWN" in node.state or "FAIL" in node.state:
        return f"slurmctld: error: Node {node.name} went down{why}"
    return f"slurmctld: drain node {node.name} State={node.state}{why}"


def _iso(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
