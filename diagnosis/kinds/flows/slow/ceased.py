"""Finds the members that fell silent first when a job stopped: they should have sent next.

When a job hangs, its members wait. On each training connection the two ends send in turn (data, or small messages that
they are ready). The end that received data and never answered is the one that the other waits for. Bare
acknowledgements do not count: kernels send them even for a frozen program. O(records of the end).
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import polars as pl

from diagnosis import thresholds
from diagnosis.kinds.flows.capture.capture import Capture
from diagnosis.kinds.flows.jobs.jobs import JobFlows
from diagnosis.kinds.flows.steps.steps import Steps
from diagnosis.kinds.flows.steps.waiting import last_messages, shows_turns

THRESHOLDS: Final = thresholds.of("ceased")

#: Maximum number of rows.
MAX_LISTED: Final = 64


def silent_members(job: JobFlows, steps: Steps, capture: Capture) -> list[dict[str, Any]]:
    """One row a machine (or address), those that owe first, in the order in which they fell silent: who waits for
    another falls silent later, though it may owe for longer. ``name``, ``last_at`` (epoch seconds of its last
    message), ``unanswered_s`` (how long others continued to send to it after its last message to them), ``by`` (these
    senders) and ``owes`` (long enough to block them). Empty if the capture ends with the job, or has only whole
    transfers. It shows little about a crash: survivors receive data until connections close.
    """
    usual = float(np.median(steps.seconds))
    if capture.span_s - float(steps.end[-1]) < THRESHOLDS.steps_after * usual or not shows_turns(job, steps, capture):
        return []
    since = float(steps.start[-min(THRESHOLDS.steps_before, len(steps))])
    found: dict[str, dict[str, Any]] = {}
    until = float(steps.end[-1]) + THRESHOLDS.steps_after * usual  # what comes later closes connections
    words = last_messages(job, since, until, capture).with_columns(pl.col("spoke", "heard").fill_null(since))
    for src, dst, sent, received in words.select("src", "dst", "spoke", "heard").iter_rows():
        name = capture.machine(src)
        row = found.setdefault(name, {"name": name, "last_at": since, "unanswered_s": 0.0, "by": ""})
        row["last_at"] = max(row["last_at"], sent)
        if received - sent > row["unanswered_s"]:
            row["unanswered_s"], row["by"] = received - sent, capture.machine(dst)
    for row in found.values():
        row["owes"] = bool(row["unanswered_s"] >= THRESHOLDS.owed * usual)
    rows = sorted(found.values(), key=lambda r: (not r["owes"], r["last_at"], -r["unanswered_s"], r["name"]))
    return [
        row | {"last_at": capture.at(row["last_at"]), "unanswered_s": round(row["unanswered_s"], 4)}
        for row in rows[:MAX_LISTED]
    ]
