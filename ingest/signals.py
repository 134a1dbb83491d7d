"""The one word that goes upward."""

from django.dispatch import Signal

#: All evidence of a job's revision has settled: diagnose it. Sent after commit with ``job_id``, ``revision`` and
#: ``run_id`` (a queued diagnose run); may be sent again for the same run, whose claim sees to it that it is done once.
artifact_ready = Signal()
