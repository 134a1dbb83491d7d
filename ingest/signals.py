"""The words that go upward."""

from django.dispatch import Signal

#: All evidence of a job's revision has settled: diagnose it. Sent after commit with ``job_id``, ``revision`` and
#: ``run_id`` (a queued diagnose run); may be sent again for the same run, whose claim sees to it that it is done once.
artifact_ready = Signal()

#: A job is about to be deleted, in this transaction. Sent with ``job``, ``user`` and ``reason``; a receiver that raises
#: ``Refused`` keeps it.
job_deleting = Signal()

#: A run was given up for good. Sent after commit with ``run_id``.
run_failed = Signal()

#: Sent every few seconds by some worker, for whatever must be looked after now and then. Receivers must be quick.
swept = Signal()

#: The same every half hour or so.
tidied = Signal()
