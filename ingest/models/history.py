"""Event tables of healthy jobs, for the comparison across jobs."""

from __future__ import annotations

from django.db import models

from ingest.models.job import Job


class HistoryEntry(models.Model):
    """The event table of one healthy job, a file in the ``parsed`` storage. People can exclude a job."""

    job = models.OneToOneField(Job, on_delete=models.CASCADE, related_name="history_entry")
    family = models.CharField(max_length=120, db_index=True)
    framework = models.CharField(max_length=40, blank=True, db_index=True)
    mask_version = models.CharField(max_length=20)
    digest = models.CharField(max_length=64)
    key = models.CharField(max_length=200)
    node_hours = models.FloatField(default=0)
    is_excluded = models.BooleanField(default=False)
    learned_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ("-learned_at",)
        verbose_name_plural = "history entries"

    def __str__(self) -> str:
        return f"{self.job} in {self.family}"
