"""What ran where: jobs, attempts and nodes."""

from __future__ import annotations

from django.conf import settings
from django.db import models

from ingest.models.access import Cluster, Team
from ingest.models.outcome import ENDS, Outcome, is_contradicted, outcome_note


def pool_of(family: str, framework: str, model: str) -> str:
    """The name under which jobs are comparable: the family, else the stated framework and model."""
    return family or "/".join(part for part in (framework, model) if part)


class Job(models.Model):
    """A training run. ``family`` names the pool of comparable jobs; if empty, framework and model do."""

    slug = models.SlugField(max_length=120, unique=True)
    name = models.CharField(max_length=200)
    family = models.CharField(max_length=120, blank=True, db_index=True)
    #: as people state it; ``framework`` is the one that the evidence shows if they state none
    declared_framework = models.CharField(max_length=40, blank=True, default="", db_default="")
    framework = models.CharField(max_length=40, blank=True)
    model = models.CharField(max_length=120, blank=True)
    cluster = models.ForeignKey(Cluster, on_delete=models.PROTECT, related_name="jobs")
    team = models.ForeignKey(Team, on_delete=models.SET_NULL, null=True, blank=True, related_name="jobs")
    nodes_text = models.TextField(blank=True, help_text="Node names as given, one a line or comma separated")
    layout = models.JSONField(default=dict, blank=True)
    time_zone = models.CharField(max_length=64, default="UTC")
    started_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    #: as people state it, as the evidence shows it, and the one of the two that stands
    declared_outcome = models.CharField(max_length=12, choices=Outcome.choices, default=Outcome.UNKNOWN)
    found_outcome = models.CharField(
        max_length=12, choices=Outcome.choices, default=Outcome.UNKNOWN, db_default=Outcome.UNKNOWN
    )
    outcome = models.CharField(max_length=12, choices=Outcome.choices, default=Outcome.UNKNOWN)
    comment = models.TextField(blank=True)
    #: increases with every change of evidence; a diagnosis belongs to one revision
    revision = models.PositiveIntegerField(default=0)
    #: the last revision that a diagnose run claimed (compare-and-set: one diagnosis per revision)
    diagnosing_revision = models.PositiveIntegerField(default=0)
    diagnosed_revision = models.PositiveIntegerField(default=0)
    #: a person requested it: diagnose as soon as all evidence is read, without the usual delay
    is_diagnosis_wanted = models.BooleanField(default=False)
    evidence_changed_at = models.DateTimeField(null=True, blank=True)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True, db_index=True)

    class Meta:
        ordering = ("-created_at", "-id")

    def __str__(self) -> str:
        return self.name

    @property
    def pool(self) -> str:
        """The name of the job's family, given or derived from the stated framework and model."""
        return pool_of(self.family, self.declared_framework, self.model)

    @property
    def has_ended(self) -> bool:
        """Whether it succeeded, failed or was cancelled, as far as anybody knows."""
        return self.outcome in ENDS

    @property
    def is_contradicted(self) -> bool:
        """Whether the evidence shows another end than the stated outcome."""
        return is_contradicted(self.declared_outcome, self.found_outcome)

    @property
    def outcome_note(self) -> str:
        """Where the outcome comes from, if statement and evidence differ; else empty."""
        has_evidence = bool(self.revision)
        return outcome_note(self.declared_outcome, self.found_outcome, self.outcome, has_evidence=has_evidence)


class Attempt(models.Model):
    """One launch of the job over all its nodes. A restart counter of one node (torchrun's ``attempt_N``) is not an
    attempt.
    """

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="attempts")
    number = models.PositiveIntegerField(default=0)
    started_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    #: seconds from start to end, stored so that statistics can sum them without date arithmetic
    ran_s = models.FloatField(null=True, blank=True)
    outcome = models.CharField(max_length=12, choices=Outcome.choices, default=Outcome.UNKNOWN)
    node_count = models.PositiveIntegerField(null=True, blank=True)
    #: of all nodes together, and where the number comes from: a word of
    #: ``diagnosis.facts.gpu_count.Source``
    gpus = models.PositiveIntegerField(null=True, blank=True)
    gpus_from = models.CharField(max_length=8, blank=True, default="", db_default="")
    #: when its first step began and its last one ended, and the numbers of both; empty if no log
    #: shows steps with times
    training_at = models.DateTimeField(null=True, blank=True)
    trained_until = models.DateTimeField(null=True, blank=True)
    first_step = models.BigIntegerField(null=True, blank=True)
    last_step = models.BigIntegerField(null=True, blank=True)
    #: SHA-256 of the digests of its files, in order: equal for the same evidence, whatever the
    #: paths
    evidence_digest = models.CharField(max_length=64, blank=True, default="", db_default="", db_index=True)
    #: the first attempt of the cluster with the same evidence: figures count that one
    duplicate_of = models.ForeignKey(
        "self", on_delete=models.SET_NULL, null=True, blank=True, related_name="duplicates"
    )

    class Meta:
        ordering = ("job", "number")
        constraints = (models.UniqueConstraint(fields=("job", "number"), name="attempt_number_once_a_job"),)
        # covers the sum of run times, so that it reads the index alone
        indexes = (models.Index(fields=("ended_at", "job", "ran_s", "node_count", "duplicate_of"), name="attempt_ran"),)

    def __str__(self) -> str:
        return f"{self.job} attempt {self.number}"


class Node(models.Model):
    """A machine of a cluster, created when evidence first names it."""

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="nodes")
    name = models.CharField(max_length=200)
    note = models.TextField(blank=True)
    drained_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ("name",)
        constraints = (models.UniqueConstraint(fields=("cluster", "name"), name="node_name_once_a_cluster"),)

    def __str__(self) -> str:
        return self.name
