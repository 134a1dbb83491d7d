"""Evidence: bytes, their paths, and the work on them."""

from __future__ import annotations

import uuid

from django.conf import settings
from django.db import models

from ingest import tracing
from ingest.models.job import Attempt, Job


class Blob(models.Model):
    """Immutable bytes in the ``blobs`` storage under their SHA-256, stored once."""

    sha256 = models.CharField(max_length=64, primary_key=True)
    size_bytes = models.BigIntegerField()
    created_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return self.sha256[:12]

    @property
    def key(self) -> str:
        return self.key_of(self.sha256)

    @staticmethod
    def key_of(sha256: str) -> str:
        """The key in the storage. Two levels of directories keep each of them small."""
        return f"{sha256[:2]}/{sha256[2:4]}/{sha256}"


class Artifact(models.Model):
    """A path within an attempt that points to a blob. The same path with the same bytes is the same artifact."""

    class State(models.TextChoices):
        RECEIVED = "received", "received"
        PARSING = "parsing", "parsing"
        PARSED = "parsed", "parsed"
        SKIPPED = "skipped", "skipped"
        FAILED = "failed", "failed"
        REMOVED = "removed", "removed"  # its bytes were deleted to free space; ``kept`` may have some of its lines

    attempt = models.ForeignKey(Attempt, on_delete=models.CASCADE, related_name="artifacts")
    path = models.CharField(max_length=1024)
    blob = models.ForeignKey(Blob, on_delete=models.PROTECT, related_name="artifacts")
    kind = models.CharField(max_length=12, blank=True)
    state = models.CharField(max_length=10, choices=State.choices, default=State.RECEIVED)
    lines = models.BigIntegerField(default=0)
    #: why nothing was read from it, or what failed, as a sentence for the uploader
    problem = models.TextField(blank=True)
    notes = models.JSONField(default=list, blank=True)
    #: directory in the ``parsed`` storage that holds storage.PARSED_FILES
    parsed_key = models.CharField(max_length=200, blank=True)
    #: its number in that directory, if several small files that were read together share it
    parsed_number = models.PositiveIntegerField(null=True, blank=True)
    #: the table of kept lines (:mod:`diagnosis.keeping`) of the job's condensed logs, and how many are of this one
    kept = models.ForeignKey(Blob, on_delete=models.PROTECT, null=True, blank=True, related_name="kept_artifacts")
    kept_lines = models.BigIntegerField(default=0, db_default=0)
    #: a later artifact of the same path with other bytes replaced this one
    is_superseded = models.BooleanField(default=False)
    #: the upload that brought it; members of one archive share it
    upload = models.ForeignKey("Upload", on_delete=models.SET_NULL, null=True, blank=True, related_name="artifacts")
    #: the parse run that reads it, alone or in a batch
    run = models.ForeignKey("Run", on_delete=models.SET_NULL, null=True, blank=True, related_name="artifacts")
    received_at = models.DateTimeField(auto_now_add=True)
    settled_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ("path", "id")
        constraints = (
            models.UniqueConstraint(fields=("attempt", "path", "blob"), name="artifact_once_an_attempt_path_and_blob"),
        )
        indexes = (
            models.Index(fields=("attempt", "state"), name="artifact_attempt_state"),
            models.Index(fields=("parsed_key",), name="artifact_parsed_key"),
        )

    def __str__(self) -> str:
        return self.path


class Run(models.Model):
    """A piece of background work with stages, progress, a log and retries."""

    class Kind(models.TextChoices):
        UNPACK = "unpack", "unpack"
        PARSE = "parse", "parse"
        DIAGNOSE = "diagnose", "diagnose"
        CONDENSE = "condense", "condense"  # of an old job, keep only the lines that are worth their space
        PART = "part", "part"  # of a diagnosis that runs (ingest.services.parts)

    class State(models.TextChoices):
        QUEUED = "queued", "queued"
        RUNNING = "running", "running"
        SUCCEEDED = "succeeded", "succeeded"
        FAILED = "failed", "failed"
        CANCELLED = "cancelled", "cancelled"  # by a person

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="runs")
    attempt = models.ForeignKey(Attempt, on_delete=models.CASCADE, null=True, blank=True, related_name="runs")
    kind = models.CharField(max_length=10, choices=Kind.choices)
    #: the archive that an unpack run opens, or whose members a parse run reads
    upload = models.ForeignKey("Upload", on_delete=models.CASCADE, null=True, blank=True, related_name="runs")
    #: the large plain file of which a parse run reads one range or joins the ranges
    artifact = models.ForeignKey(Artifact, on_delete=models.CASCADE, null=True, blank=True, related_name="range_runs")
    state = models.CharField(max_length=10, choices=State.choices, default=State.QUEUED, db_index=True)
    stage = models.CharField(max_length=60, blank=True)
    done = models.BigIntegerField(default=0)
    total = models.BigIntegerField(default=0)
    #: it delays short work, so that it needs a slot (:mod:`ingest.slots`)
    is_long = models.BooleanField(default=False)
    #: {"revision": 3} of a diagnose run; {"offset": …, "length": …, "part": 1, "parts": 4} of a range
    parameters = models.JSONField(default=dict, blank=True)
    error = models.TextField(blank=True)
    #: counts claims; also the fencing token: only the latest claim may record an outcome
    tries = models.PositiveIntegerField(default=0)
    #: host, process and its start time: they tell a dead worker from a slow one
    worker = models.CharField(max_length=200, blank=True)
    #: of the request or run that made it (:mod:`ingest.tracing`)
    trace = models.CharField(max_length=32, blank=True, default=tracing.current_trace, db_default="")
    span = models.CharField(max_length=16, blank=True, default=tracing.current_span, db_default="")
    #: when its message was last sent to the broker; empty if the broker could not be reached
    sent_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    started_at = models.DateTimeField(null=True, blank=True)
    heartbeat_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ("-created_at", "-id")
        indexes = (
            models.Index(fields=("job", "state"), name="run_job_state"),
            models.Index(fields=("state", "sent_at"), name="run_state_sent"),
        )

    #: in ``parameters``: number of claims after which it went back to the queue without a failure of its own, …
    WAITS = "waits"
    #: … how often in a row because a database, a store or a disk was away, …
    HOLDS = "holds"
    #: … how far an archive was opened (:mod:`ingest.services.unpacking`), …
    UNPACKED = "unpacked"
    #: … how its workers ended (:mod:`ingest.services.ends`), …
    ENDS = "ends"
    #: … and how many processes its worker's machine had ended for lack of memory when it was claimed
    OOM_KILLS = "oom_kills"

    def __str__(self) -> str:
        return f"{self.kind} {self.pk} ({self.state})"

    @property
    def own_tries(self) -> int:
        """How often the work began and did not end, except when it yielded, waited, or lost its worker."""
        return self.tries - int(self.parameters.get(self.WAITS, 0))


class RunLog(models.Model):
    """One sentence of a run's log: what happened, and with which path."""

    class Level(models.TextChoices):
        INFO = "info", "info"
        WARNING = "warning", "warning"
        ERROR = "error", "error"

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="log")
    at = models.DateTimeField(auto_now_add=True)
    level = models.CharField(max_length=8, choices=Level.choices, default=Level.INFO)
    path = models.CharField(max_length=1024, blank=True)
    message = models.TextField()

    class Meta:
        ordering = ("id",)

    def __str__(self) -> str:
        return self.message


class Upload(models.Model):
    """Bytes that are being received: a part file until it is complete, then a blob."""

    class State(models.TextChoices):
        RECEIVING = "receiving", "receiving"
        RECEIVED = "received", "received"
        SETTLED = "settled", "settled"
        REFUSED = "refused", "refused"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="uploads")
    attempt = models.ForeignKey(Attempt, on_delete=models.CASCADE, related_name="uploads")
    path = models.CharField(max_length=1024)
    size_bytes = models.BigIntegerField(null=True, blank=True)
    offset_bytes = models.BigIntegerField(default=0)
    #: of a live upload: how many bytes the monitoring of running jobs has read
    observed_bytes = models.BigIntegerField(default=0)
    #: of lines that collectors push: the name that routing gave them. ``offset_bytes`` is what was acknowledged; the
    #: part file may have more for a moment. Empty: the sender knows the positions of its bytes
    source = models.CharField(max_length=1024, blank=True)
    #: how pushed rows become lines (:mod:`ingest.wire.rows`)
    line_form = models.CharField(max_length=8, blank=True)
    #: digests of the last pushed batches, 8 bytes each: the same batch again is not stored again
    recent_batches = models.BinaryField(default=bytes, blank=True)
    #: of the bytes as sent: stated while they arrive, verified when they are complete
    sha256 = models.CharField(max_length=64, blank=True)
    #: the bytes as sent; cleared when all members of the archive are artifacts
    blob = models.ForeignKey(Blob, on_delete=models.SET_NULL, null=True, blank=True, related_name="uploads")
    is_archive = models.BooleanField(default=False)
    state = models.CharField(max_length=10, choices=State.choices, default=State.RECEIVING)
    problem = models.TextField(blank=True)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ("-created_at",)
        # every sweep asks for the growing ones, of all that ever came
        # and who is about to send files asks who has them already
        indexes = (
            models.Index(fields=("state", "attempt"), name="upload_state_attempt"),
            models.Index(fields=("sha256",), name="upload_sha256"),
        )
        constraints = (
            models.UniqueConstraint(
                fields=("attempt", "path", "sha256"),
                condition=models.Q(state__in=("received", "settled")),
                name="upload_once_an_attempt_path_and_digest",
            ),
            models.UniqueConstraint(
                fields=("attempt", "source"),
                condition=models.Q(state="receiving") & ~models.Q(source=""),
                name="upload_open_once_an_attempt_and_source",
            ),
        )

    def __str__(self) -> str:
        return self.path
