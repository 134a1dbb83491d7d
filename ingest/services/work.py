"""What running work does with its run: it reports progress, yields to others and writes sentences to the run's log."""

from __future__ import annotations

import time
from datetime import timedelta

from django.conf import settings
from django.db.models import Q, QuerySet
from django.db.models.functions import Now
from django.utils import timezone

from ingest import slots
from ingest.models import Run, RunLog
from ingest.refusals import Refused
from ingest.services.ends import after_progress

#: work that takes longer than this delays other work
SHORT_S = 3.0
MAX_LOG_ROWS = 200
#: work that holds its turn for longer than this, while short work waits, is long
TURN_S = 10.0
#: and long work that can go on later gives its slot to other long work after this
LONG_TURN_S = 30.0
_PROGRESS_EVERY_S = 1.0
_CHECK_EVERY_S = 2.0

RUN_TOO_LONG = (
    "This took longer than the {seconds:,} seconds that one run may take: it was stopped. Send the evidence in smaller "
    "parts, or give runs more time, and retry."
)


class Superseded(Exception):
    """Another worker holds the run now: stop, write nothing."""


class Postponed(Exception):
    """The run goes back to the queue, not as a failed try: it used its share of time (others may be next), or, with
    ``is_long``, it is long and no slot for long work is free.
    """

    def __init__(self, *, is_long: bool) -> None:
        super().__init__()
        self.is_long = is_long


class Work:
    """What running work may do with its run: report progress, write to its log."""

    def __init__(self, run: Run, slot: slots.Slot | None = None) -> None:
        self.run = run
        self.slot = slot
        #: for the run's line in the log: what was done in this turn, how it ended, and why not well
        self.done = {"files": 0, "bytes": 0, "lines": 0}
        self.outcome, self.problem = "succeeded", ""
        self._began = self._told_at = time.monotonic()
        self._checked_at = 0.0
        #: the stage that was reached and is not stored yet, with what is done of it
        self._reached: tuple[str, int, int] | None = None
        self._rows = 0

    def count(self, *, files: int = 0, size_bytes: int = 0, lines: int = 0) -> None:
        """State what was done and recorded, for the run's line in the log."""
        for name, more in (("files", files), ("bytes", size_bytes), ("lines", lines)):
            self.done[name] += more

    def stage(self, stage: str, done: int = 0, total: int = 0) -> None:
        """Report the progress; stored at most once a second, so that short work stores none. Fits the engine's
        ``on_stage``.
        """
        if self.run.kind == Run.Kind.UNPACK and self.is_share_used:  # the size of an archive's content shows late
            self.take_slot()
        self._reached = stage, done, total
        self._tell_stage()

    def _tell_stage(self) -> None:
        now = time.monotonic()
        if self._reached is None or now - self._told_at < _PROGRESS_EVERY_S:
            return
        (stage, done, total), self._reached = self._reached, None
        self._told_at = now
        self.write(stage=stage[:60], done=done, total=total)

    @property
    def is_share_used(self) -> bool:
        """Whether the work has taken so long that it delays other work."""
        return time.monotonic() - self._began > SHORT_S

    def take_slot(self) -> None:
        """Take a slot for long work. Raises :class:`Postponed` if none is free."""
        if self.slot is None:
            self.slot = slots.take()
        if self.slot is None:
            raise Postponed(is_long=True)
        if not self.run.is_long:
            self.run.is_long = True
            self.write(is_long=True)

    def beat(self) -> None:
        """Report that the work continues, stored at most every few seconds."""
        now = time.monotonic()
        if now - self._told_at > 5 * _PROGRESS_EVERY_S:
            self._told_at = now
            self.write()

    def check(self) -> None:
        """Look at the run from outside while its reader works, which may say nothing. Renews nothing, but stores the
        stage that was reported last.

        Raises :class:`Superseded` if somebody cancelled the run or took it, :class:`Postponed` if it keeps others from
        a process that is for short work.
        """
        self._tell_stage()
        now = time.monotonic()
        if now - self._checked_at < _CHECK_EVERY_S:
            return
        self._checked_at = now
        if not self.is_held():
            raise Superseded
        if self.slot is None and now - self._began > TURN_S and self._is_short_work_waiting():
            self.take_slot()

    def _is_short_work_waiting(self) -> bool:
        """Whether others have work in the queue that needs no slot: another job, or of the same job
        what is not of the archive that this run opens or reads.
        """
        waiting = Run.objects.filter(state=Run.State.QUEUED, is_long=False).exclude(kind=Run.Kind.PART)
        own = Q(job_id=self.run.job_id)
        if self.run.upload_id is not None:
            own &= Q(upload_id=self.run.upload_id)
        return waiting.exclude(own).exists()

    def give_way(self, overhead_s: float = 0.0) -> None:
        """Raises :class:`Postponed` if others wait that this work keeps from their turn: short work where a single
        process does all, or long work that needs its slot. ``overhead_s``: what beginning again costs; a turn is
        longer than that.
        """
        worked_s = time.monotonic() - self._began - overhead_s
        is_alone = slots.is_alone() and worked_s > max(SHORT_S, overhead_s)
        if is_alone and self._is_short_work_waiting():
            raise Postponed(is_long=True)
        if self.slot is not None and worked_s > max(LONG_TURN_S, overhead_s) and self._is_long_work_waiting():
            raise Postponed(is_long=True)

    def _is_long_work_waiting(self) -> bool:
        waiting = Run.objects.filter(state=Run.State.QUEUED, is_long=True)
        return waiting.exclude(job_id=self.run.job_id).exists()

    def write(self, **values: object) -> None:
        if "stage" in values:  # it is newer than what was reported
            self._reached = None
        if self.run.started_at is not None and is_overdue(self.run):
            raise Refused(RUN_TOO_LONG.format(seconds=settings.RUN_LIMIT_S))
        if not self._held().update(heartbeat_at=Now(), **values):
            raise Superseded

    def is_held(self) -> bool:
        """Whether nobody cancelled the run or took it."""
        return self._held().exists()

    def _held(self) -> QuerySet[Run]:
        """The run while this work holds its claim."""
        return Run.objects.filter(pk=self.run.pk, state=Run.State.RUNNING, tries=self.run.tries)

    def record(self) -> None:
        """State that something was recorded for good: earlier ends and waits of the run are forgotten."""
        parameters = after_progress(self.run.parameters)
        if parameters == self.run.parameters:
            self.write()
            return
        self.run.parameters = parameters
        self.write(parameters=parameters)

    def log(self, message: str, *, level: str = RunLog.Level.INFO, path: str = "") -> None:
        """Write one sentence to the run's log; after a few hundred, only their number is stored. Raises
        :class:`Superseded` if another worker holds the run now.
        """
        self._rows += 1
        if self._rows <= MAX_LOG_ROWS:
            self.write()
            RunLog.objects.create(run=self.run, level=level, message=message, path=path[:1000])

    @property
    def log_rows(self) -> int:
        """How many sentences it wrote, or left out because there were too many."""
        return self._rows

    def forget_log(self, keep: int = 0) -> None:
        """Delete its sentences, except the first ``keep``: the work begins again where it had written those."""
        self._rows = keep
        rows = RunLog.objects.filter(run=self.run).order_by("pk")
        kept = list(rows.values_list("pk", flat=True)[: min(keep, MAX_LOG_ROWS)])
        rows.exclude(pk__in=kept).delete()

    def close_log(self) -> None:
        if self._rows > MAX_LOG_ROWS:
            message = f"{self._rows - MAX_LOG_ROWS:,} more messages like these were left out."
            RunLog.objects.create(run=self.run, level=RunLog.Level.WARNING, message=message)


def is_overdue(run: Run) -> bool:
    """Whether this try of the run has taken longer than allowed."""
    return run.started_at is not None and run.started_at < timezone.now() - timedelta(seconds=settings.RUN_LIMIT_S)
