"""The one line that the log has of each turn of a run: what it did, how long it took, and how it ended."""

from __future__ import annotations

import logging

from diagnosis.values.plain import visible
from ingest.services.work import Work

log = logging.getLogger(__name__)

_MAX_SENTENCE_CHARS = 300


def run_log(work: Work, seconds: float) -> None:
    """Write the line. In JSON its figures are fields of their own (:class:`ingest.tracing.JsonFormatter`)."""
    run = work.run
    done = {name: count for name, count in work.done.items() if count}
    did = ", ".join(f"{count:,} {name}" for name, count in done.items())
    why = visible(" ".join(work.problem.split()))[:_MAX_SENTENCE_CHARS]
    details = ": ".join(filter(None, (did, why)))
    log.info(
        "run %s (%s of job %s) %s after %.2f s%s",
        run.pk,
        run.kind,
        run.job_id,
        work.outcome,
        seconds,
        f": {details}" if details else "",
        extra={
            "fields": {
                "run": run.pk,
                "kind": str(run.kind),
                "job": run.job_id,
                "try": run.tries,
                "outcome": work.outcome,
                "seconds": round(seconds, 3),
                **done,
            }
        },
    )
