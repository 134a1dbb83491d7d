"""What the machine found: an immutable diagnosis, its incident, findings and suspects."""

from __future__ import annotations

import uuid
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db import models
from django.utils import timezone

from ingest.models import Attempt, Cluster, Job, Node, Team
from triage.lanes import unfold


class Diagnosis(models.Model):
    """One run of the engine over one revision of a job's evidence. It never changes; a new diagnosis follows it."""

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="diagnoses")
    attempt = models.ForeignKey(Attempt, on_delete=models.CASCADE, related_name="diagnoses")
    revision = models.PositiveIntegerField()
    engine = models.CharField(max_length=40)
    history_digest = models.CharField(max_length=64, blank=True)
    input_digests = models.JSONField(default=dict)
    #: the report of docs/report.md without logs.timeline, which may be large and which only one picture needs; its
    #: lanes are folded (triage.lanes)
    report = models.JSONField()
    timeline = models.JSONField(default=dict)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ("-created_at", "-id")
        verbose_name_plural = "diagnoses"
        constraints = (
            models.UniqueConstraint(fields=("attempt", "revision"), name="diagnosis_once_an_attempt_and_revision"),
        )

    def __str__(self) -> str:
        return f"{self.job} revision {self.revision}"

    @property
    def whole_report(self) -> dict[str, Any]:
        """The report as the engine wrote it."""
        logs = self.report.get("logs")
        return {**self.report, "logs": {**logs, "timeline": unfold(self.timeline)}} if logs is not None else self.report


class Group(models.Model):
    """Incidents that a person grouped. A new diagnosis does not change it; a person may dissolve it."""

    title = models.CharField(max_length=200, blank=True)
    made_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    made_at = models.DateTimeField(auto_now_add=True)
    #: the id of the merge a moment ago that this one repeats, as a double click does; not stored
    repeats: uuid.UUID | None = None

    class Meta:
        ordering = ("-made_at",)

    def __str__(self) -> str:
        return self.title or f"Group {self.pk}"


class GroupRule(models.Model):
    """A person's rule for incidents of one fingerprint: into a group, or (empty) kept apart. The last rule counts.

    It holds for one cluster: nobody decides for incidents of other clusters.
    """

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="+")
    fingerprint = models.CharField(max_length=64, db_index=True)
    group = models.ForeignKey(Group, on_delete=models.CASCADE, null=True, blank=True, related_name="rules")
    made_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    made_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ("made_at", "id")

    def __str__(self) -> str:
        return f"{self.fingerprint[:12]} {'joins' if self.group_id else 'is kept apart'}"


class Incident(models.Model):
    """One failed, hung or slow episode of one attempt. The primary key is the number that people use."""

    #: of the answer of an act that was done a moment ago: the id of the former act, which stands
    repeats: uuid.UUID | None = None

    class State(models.TextChoices):
        AWAITING_REVIEW = "awaiting_review", "awaiting review"
        CONFIRMED = "confirmed", "confirmed"
        CORRECTED = "corrected", "corrected"
        REJECTED = "rejected", "rejected"
        INCONCLUSIVE = "inconclusive", "inconclusive"
        ACTIONED = "actioned", "actioned"
        RESOLVED = "resolved", "resolved"

    #: the category is not judged, or was judged inconclusive
    OPEN = (State.AWAITING_REVIEW, State.INCONCLUSIVE)
    #: a person confirmed or corrected the category
    STOOD = (State.CONFIRMED, State.CORRECTED, State.ACTIONED, State.RESOLVED)

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="incidents")
    attempt = models.ForeignKey(Attempt, on_delete=models.CASCADE, related_name="incidents")
    ordinal = models.PositiveIntegerField(default=0)
    cluster = models.ForeignKey(Cluster, on_delete=models.PROTECT, related_name="incidents")
    #: the job's team, copied so that lists need no join
    team = models.ForeignKey(Team, on_delete=models.SET_NULL, null=True, blank=True, related_name="incidents")
    diagnosis = models.ForeignKey(Diagnosis, on_delete=models.RESTRICT, related_name="incidents")
    state = models.CharField(max_length=16, choices=State.choices, default=State.AWAITING_REVIEW, db_index=True)
    headline = models.CharField(max_length=500)
    #: the machine's verdict …
    category = models.CharField(max_length=120, db_index=True)
    confidence = models.FloatField(default=0)
    runner_up = models.CharField(max_length=120, blank=True)
    runner_up_confidence = models.FloatField(null=True, blank=True)
    #: … and the one that stands after review (the same until a person corrects it)
    standing_category = models.CharField(max_length=120, db_index=True)
    #: the condition of the job by all evidence: a word of ``diagnosis.conclusion.model.CONDITIONS``; empty if the
    #: report is of an older version
    condition = models.CharField(max_length=16, blank=True, default="")
    symptom = models.CharField(max_length=40, blank=True)
    stage = models.CharField(max_length=40, blank=True)
    iteration = models.BigIntegerField(null=True, blank=True)
    fingerprint = models.CharField(max_length=64, blank=True, db_index=True)
    node_count = models.PositiveIntegerField(null=True, blank=True)
    #: names of the accused, so that a list needs no further query
    accused = models.JSONField(default=list)
    #: when it happened by the evidence, else when Faultline first saw it; and the Monday of that week
    happened_at = models.DateTimeField(default=timezone.now, db_index=True)
    is_time_known = models.BooleanField(default=True)
    week = models.DateField()
    opened_at = models.DateTimeField(default=timezone.now)
    #: without progress until the attempt ended; of slow steps the time beyond the usual
    lost_s = models.FloatField(null=True, blank=True)
    #: the whole known cost (triage.domain.costs): lost until the attempt ended, waited for until
    #: training ran again, and steps computed a second time; the latter two are also stored by
    #: themselves
    node_hours = models.FloatField(null=True, blank=True)
    gpu_hours = models.FloatField(null=True, blank=True)
    waited_gpu_hours = models.FloatField(null=True, blank=True)
    repeated_gpu_hours = models.FloatField(null=True, blank=True)
    #: no evidence shows how many GPUs the job had: they are those that nodes of the cluster
    #: usually have
    is_cost_assumed = models.BooleanField(default=False, db_default=False)
    #: seconds from the failure to the machine's verdict; empty if the evidence came long after the
    #: end
    detected_s = models.FloatField(null=True, blank=True)
    #: from the failure to "resolved", in seconds
    repaired_s = models.FloatField(null=True, blank=True)
    reviewed_at = models.DateTimeField(null=True, blank=True)
    resolved_at = models.DateTimeField(null=True, blank=True)
    assignee = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, blank=True, related_name="assigned_incidents"
    )
    regressed_from = models.ForeignKey(
        "self", on_delete=models.SET_NULL, null=True, blank=True, related_name="regressions"
    )
    snoozed_until = models.DateTimeField(null=True, blank=True)
    group = models.ForeignKey(Group, on_delete=models.SET_NULL, null=True, blank=True, related_name="incidents")
    #: the first incident that the same evidence showed: figures, nodes and scores count that one
    duplicate_of = models.ForeignKey(
        "self", on_delete=models.SET_NULL, null=True, blank=True, related_name="duplicates"
    )
    #: the latest diagnosis found no failure; the row stays because people's decisions belong to it
    is_withdrawn = models.BooleanField(default=False)
    #: a fault recorded elsewhere: it counts as a fault, but Faultline did not see the job or name the cause
    is_imported = models.BooleanField(default=False)

    class Meta:
        ordering = ("-opened_at", "-id")
        constraints = (models.UniqueConstraint(fields=("attempt", "ordinal"), name="incident_ordinal_once_an_attempt"),)
        indexes = (
            # the queue, newest first and by age, is read and counted from the index
            models.Index(
                fields=("state", "is_withdrawn", "-opened_at", "-id", "cluster", "snoozed_until"),
                name="incident_state_opened",
            ),
            models.Index(fields=("cluster", "-opened_at", "-id"), name="incident_cluster_opened"),
            # a search walks it, newest first, and reads no row of what its facets exclude
            models.Index(
                fields=(
                    *("-opened_at", "-id", "is_withdrawn", "cluster", "state", "standing_category", "symptom", "team"),
                ),
                name="incident_opened",
            ),
            # what the list counts, and the time that searches limit
            models.Index(
                fields=("is_withdrawn", "cluster", "state", "standing_category", "symptom", "team", "opened_at"),
                name="incident_facets",
            ),
            # all columns that statistics sum, in the order of grouping: read from the index, without sorting and
            # without the wide rows
            models.Index(
                fields=(
                    *("week", "standing_category", "happened_at", "cluster", "is_withdrawn", "category", "state"),
                    *("gpu_hours", "waited_gpu_hours", "repeated_gpu_hours", "is_cost_assumed", "node_hours"),
                    *("lost_s", "detected_s", "repaired_s", "is_imported", "duplicate_of"),
                    *("confidence", "id"),
                ),
                name="incident_statistics",
            ),
            models.Index(
                fields=("snoozed_until",), condition=models.Q(snoozed_until__isnull=False), name="incident_snoozed"
            ),
        )

    def __str__(self) -> str:
        return f"#{self.pk} {self.headline}"

    def set_resolved(self, at: datetime | None) -> None:
        """Set or clear the time of resolution, and with it the time to repair."""
        self.resolved_at = at
        self.repaired_s = max(0.0, (at - self.happened_at).total_seconds()) if at else None


class Finding(models.Model):
    """One event of an incident's evidence: a template with its role, spread and example lines."""

    incident = models.ForeignKey(Incident, on_delete=models.CASCADE, related_name="findings")
    position = models.PositiveIntegerField()
    role = models.CharField(max_length=14)
    template_id = models.CharField(max_length=64, blank=True)
    template = models.TextField()
    signature = models.CharField(max_length=120, blank=True)
    count = models.BigIntegerField(default=0)
    nodes = models.PositiveIntegerField(default=0)
    of_nodes = models.PositiveIntegerField(default=0)
    jobs_with_it = models.PositiveIntegerField(default=0)
    healthy_jobs = models.PositiveIntegerField(default=0)
    level = models.PositiveSmallIntegerField(default=0)
    example = models.TextField(blank=True)
    node_names = models.JSONField(default=list)
    is_recovered = models.BooleanField(default=False)
    #: first lines with file, line, offset, length, node, rank, time
    lines = models.JSONField(default=list)
    #: words to highlight in the example: [{"text": …, "parameters": {…}}]
    indicators = models.JSONField(default=list)

    class Meta:
        ordering = ("position",)

    def __str__(self) -> str:
        return self.template[:80]


class Suspect(models.Model):
    """A node, rank, group, switch, code or data that the machine ranks; accused or only ranked."""

    incident = models.ForeignKey(Incident, on_delete=models.CASCADE, related_name="suspects", db_index=False)
    position = models.PositiveIntegerField()
    entity = models.CharField(max_length=200, db_index=True)
    kind = models.CharField(max_length=10)
    node = models.ForeignKey(
        Node, on_delete=models.SET_NULL, null=True, blank=True, related_name="suspicions", db_index=False
    )
    score = models.FloatField()
    is_accused = models.BooleanField(default=True)
    reasons = models.JSONField(default=list)
    sources = models.JSONField(default=list)
    #: the decision (``Decision.Word``) that stands on this suspect; a decision on the category is not one on suspects
    word = models.CharField(max_length=12, blank=True)

    #: decisions that clear a suspect: it was not this one
    CLEARED = ("reject", "correct")

    class Meta:
        ordering = ("position",)
        # the accused of an incident and the incidents of a machine: read from the indexes, never from the rows
        indexes = (
            models.Index(fields=("incident", "is_accused", "node"), name="suspect_of_incident"),
            models.Index(fields=("node", "is_accused", "word", "incident"), name="suspect_of_node"),
        )

    def __str__(self) -> str:
        return self.entity
