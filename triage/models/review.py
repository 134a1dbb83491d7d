"""Decisions of people on the machine's claims, append-only, and the log of all activity."""

from __future__ import annotations

import uuid

from django.conf import settings
from django.db import models

from ingest.models import Job
from triage.models.incident import Diagnosis, Incident


class Decision(models.Model):
    """A person's decision on one claim, keyed (incident, claim, subject). Never overwritten; a later one follows it."""

    class Claim(models.TextChoices):
        CATEGORY = "category", "category"
        SUSPECT = "suspect", "suspect"
        STAGE = "stage", "stage"
        ITERATION = "iteration", "iteration"

    class Word(models.TextChoices):
        CONFIRM = "confirm", "confirmed"
        CORRECT = "correct", "corrected"
        REJECT = "reject", "rejected"
        INCONCLUSIVE = "inconclusive", "judged inconclusive"

    incident = models.ForeignKey(Incident, on_delete=models.CASCADE, related_name="decisions")
    claim = models.CharField(max_length=10, choices=Claim.choices)
    #: which of several: the suspect's entity; empty for category, stage and iteration
    subject = models.CharField(max_length=200, blank=True)
    word = models.CharField(max_length=12, choices=Word.choices)
    #: the machine's value, and the person's instead
    machine_value = models.CharField(max_length=200, blank=True)
    value = models.CharField(max_length=200, blank=True)
    reason = models.TextField(blank=True)
    diagnosis = models.ForeignKey(Diagnosis, on_delete=models.RESTRICT, related_name="decisions")
    made_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="decisions")
    made_at = models.DateTimeField(auto_now_add=True)
    #: undone by a further act, which is recorded, too
    undone_at = models.DateTimeField(null=True, blank=True)
    undone_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, blank=True, related_name="+"
    )
    #: set on what an act returns: this stood before, so that nothing was written
    is_repeat = False

    class Meta:
        ordering = ("made_at", "id")
        indexes = (models.Index(fields=("incident", "claim", "subject"), name="decision_incident_claim"),)

    def __str__(self) -> str:
        return f"{self.claim} {self.subject} {self.word}".replace("  ", " ")


class Activity(models.Model):
    """One act of a person or of the machine (``actor`` empty): append-only."""

    incident = models.ForeignKey(Incident, on_delete=models.CASCADE, null=True, blank=True, related_name="activities")
    job = models.ForeignKey(Job, on_delete=models.CASCADE, null=True, blank=True, related_name="activities")
    kind = models.CharField(max_length=40)
    actor = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, blank=True, related_name="+"
    )
    at = models.DateTimeField(auto_now_add=True, db_index=True)
    #: one bulk act writes many rows with one id
    request_id = models.UUIDField(default=uuid.uuid4, db_index=True)
    #: {"before": …, "after": …, "subject": …, "reason": …}; a comment is an activity with its Markdown as "body"
    data = models.JSONField(default=dict)

    class Meta:
        ordering = ("at", "id")
        verbose_name_plural = "activities"
        indexes = (models.Index(fields=("at",), condition=models.Q(kind="node_noted"), name="activity_noted"),)

    def __str__(self) -> str:
        return self.kind
