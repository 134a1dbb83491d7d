"""The machines whose workers do the work."""

from __future__ import annotations

from django.db import models


class Machine(models.Model):
    """A machine or container (:func:`ingest.processes.machine`) and when one of its workers was last there, by the
    clock of the database.
    """

    name = models.CharField(max_length=150, unique=True)
    seen_at = models.DateTimeField()

    def __str__(self) -> str:
        return self.name
