"""A job's files for their page: kind, state, what was read, and what was not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from posixpath import commonprefix
from typing import Any, Final

from django.db.models import Count, OuterRef, Q, Subquery

from diagnosis.kinds import kind_table
from diagnosis.model import LOG_KINDS, Kind
from ingest import storage
from ingest.models import Artifact, Job
from triage.models import Diagnosis
from triage.selectors.jobs import JobView

PAGE_SIZE: Final = 200
#: choice of the page: files from which nothing was concluded
UNUSED: Final = "unused"
#: state on the page of a file that was read as a log, and in which the diagnosis recognised nothing
UNREAD: Final = "not_recognised"
#: a page computes no digest of a larger file
_MAX_DIGEST_BYTES: Final = 256 << 10
#: kind -> its words, and what its lines are called
_KINDS: Final[Mapping[str, tuple[str, str]]] = {
    Kind.LOG: ("log", "line"),
    Kind.KERNEL: ("kernel log", "line"),
    Kind.SCHEDULER: ("messages of the scheduler", "line"),
    Kind.FLOW: ("network flows", "record"),
    Kind.STACK: ("stacks", "line"),
    Kind.INVENTORY: ("list of nodes", "line"),
    Kind.LAYOUT: ("layout of ranks", "line"),
    Kind.STATE: ("report of a machine", "line"),
    Kind.OTHER: ("no text", "line"),
}


@dataclass(frozen=True, slots=True)
class FileRow:
    """One file. ``state``: its own, or :data:`UNREAD`; ``unread``: why nothing was concluded from
    it, else empty; ``notes``: what was read of it, and how; ``read_as``: the kind as which the
    diagnosis read it, empty where it says none.
    """

    artifact: Artifact
    unread: str
    notes: Sequence[str] = ()
    read_as: str = ""

    @property
    def folder(self) -> str:
        """The folders of its path with the last slash; empty for a file beside none."""
        return self.artifact.path[: self.artifact.path.rfind("/") + 1]

    @property
    def name(self) -> str:
        return str(self.artifact.path).rpartition("/")[2]

    @property
    def state(self) -> str:
        return UNREAD if self.unread else str(self.artifact.state)

    @property
    def kind(self) -> str:
        kind = self.read_as or self.artifact.kind
        if self.unread and kind in LOG_KINDS:
            return "unknown"
        if not kind or kind in _KINDS:
            return _KINDS.get(kind, ("", ""))[0]
        return next((row.name for row in kind_table.TABLE if kind in row.ids), kind)

    @property
    def unit(self) -> str:
        return _KINDS.get(self.artifact.kind, ("", "line"))[1]


@dataclass(frozen=True, slots=True)
class FilePage:
    """One page of files; ``total``: how many match; ``tally``: how many of each state match the words."""

    rows: list[FileRow]
    total: int
    tally: Mapping[str, int]

    @property
    def folder(self) -> str:
        """The folder that all of these rows are in, with its slash; empty for a single row."""
        if len(self.rows) < 2:
            return ""
        shared = commonprefix([row.folder.split("/")[:-1] for row in self.rows])
        return "".join(f"{part}/" for part in shared)


def file_page(job: Job, view: JobView, *, words: str = "", state: str = "", page: int = 1) -> FilePage:
    """A job's files by path. Two queries, one more for a job with several attempts."""
    inputs = _inputs(job, view)
    is_unread = Q(pk__in=())
    for attempt, rows in inputs.items():
        paths = tuple(path for path, row in rows.items() if row.get("unread"))
        is_unread |= Q(attempt=attempt, path__in=paths, state=Artifact.State.PARSED)
    files = Artifact.objects.filter(attempt__job=job, is_superseded=False)
    if words:
        files = files.filter(path__icontains=words)
    by_state = files.order_by().values_list("state")
    counts = list(by_state.annotate(n=Count("pk"), kept=Count("kept"), odd=Count("pk", filter=is_unread)))
    tally = {name: n - odd for name, n, _, odd in counts}
    tally["condensed"] = sum(kept for _, _, kept, _ in counts)
    tally[UNUSED] = sum(odd for _, _, _, odd in counts) + tally.get(Artifact.State.SKIPPED, 0)
    total = tally.get(state, 0) if state else sum(n for _, n, _, _ in counts)
    if state == UNUSED:
        files = files.filter(is_unread | Q(state=Artifact.State.SKIPPED))
    elif state:
        files = files.filter(state=state).exclude(is_unread)
    start = (max(page, 1) - 1) * PAGE_SIZE
    shown = files.select_related("attempt", "blob").order_by("attempt__number", "path")[start : start + PAGE_SIZE]
    return FilePage([_row(artifact, inputs) for artifact in shown], total, tally)


def _row(artifact: Artifact, inputs: Mapping[int, Mapping[str, Any]]) -> FileRow:
    if artifact.state != Artifact.State.REMOVED:
        artifact.problem = _changed_bytes(artifact) or artifact.problem
    told = inputs.get(artifact.attempt_id, {}).get(artifact.path, {})
    if artifact.state != Artifact.State.PARSED:
        return FileRow(artifact, "", artifact.notes)
    notes = told.get("notes") or artifact.notes
    return FileRow(artifact, told.get("unread") or "", notes, told.get("kind", ""))


def _inputs(job: Job, view: JobView) -> dict[int, dict[str, Any]]:
    """Of each attempt what its latest diagnosis says of each file, by path."""
    if view.attempt is None:
        return {}
    inputs = {view.attempt.pk: view.report.get("inputs")}
    if len(view.attempts) > 1:
        newest = Diagnosis.objects.filter(attempt=OuterRef("attempt")).values("pk")[:1]
        others = Diagnosis.objects.filter(job=job, pk=Subquery(newest)).exclude(attempt=view.attempt)
        inputs |= dict(others.values_list("attempt_id", "report__inputs"))
    return {attempt: _by_path(rows or ()) for attempt, rows in inputs.items()}


def _by_path(rows: Any) -> dict[str, Any]:
    return {row["path"]: row for row in rows}


def _changed_bytes(row: Artifact) -> str:
    """A sentence if the stored bytes are not those that arrived. Of a larger file it is known by its size, or once it
    was read."""
    return storage.blob_problem(row.blob_id, row.blob.size_bytes, max_bytes=_MAX_DIGEST_BYTES)
