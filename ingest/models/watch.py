"""The state of running jobs, from their growing files."""

from __future__ import annotations

from django.db import models

from ingest.models.job import Attempt


class Watch(models.Model):
    """The known state of one attempt while it runs: step times, stage, current alarm."""

    attempt = models.OneToOneField(Attempt, on_delete=models.CASCADE, related_name="watch")
    #: of :mod:`diagnosis.live.stored_form`, which alone reads and writes it; bounded
    state = models.JSONField(default=dict)
    iteration = models.BigIntegerField(null=True, blank=True)
    step_s = models.FloatField(null=True, blank=True)
    stage = models.CharField(max_length=24, blank=True)
    advanced_at = models.DateTimeField(null=True, blank=True)
    #: the most severe current alarm; empty: none. ``state["alarms"]`` has all of them, and former ones
    alarm = models.CharField(max_length=12, blank=True)
    alarm_text = models.TextField(blank=True)
    alarm_since = models.DateTimeField(null=True, blank=True)
    observed_at = models.DateTimeField(null=True, blank=True)
    #: a worker reads new ranges until then; only one worker at a time may
    claimed_until = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return f"watch of {self.attempt}"
