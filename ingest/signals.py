"""Signals to the layers above."""

from django.dispatch import Signal

#: All evidence of a job's revision is read: diagnose it. Sent after commit with ``job_id``, ``revision`` and ``run_id``
#: (a queued diagnose run). It may be sent again for the same run; claiming the run ensures one diagnosis.
artifact_ready = Signal()

#: A job is about to be deleted, in this transaction. Sent with ``job``, ``user`` and ``reason``. A receiver that raises
#: ``Refused`` prevents it.
job_deleting = Signal()

#: A run failed for good. Sent after commit with ``run_id``.
run_failed = Signal()

#: A person cancelled a run, in this transaction. Sent with ``run`` and ``user``.
run_cancelled = Signal()

#: Sent every few seconds by some worker, for periodic work. Receivers must be quick.
swept = Signal()

#: Sent about every half hour by some worker, for periodic work.
tidied = Signal()

#: What was found out about a job, for its description in the API. Sent with ``job``; the one receiver returns
#: ``verdict`` and ``incident``.
verdict_asked = Signal()
