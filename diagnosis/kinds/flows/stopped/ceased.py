"""Finds the members that fell silent first when a job stopped: they should have sent next.

When a job hangs, its members wait. On each training connection the two ends send in turn (data, or small messages that
they are ready). The end that received data and never answered is the one that the other waits for. Bare
acknowledgements do not count: kernels send them even for a frozen program. O(records of the end).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from diagnosis import thresholds
from diagnosis.evidence import SilentMember
from diagnosis.kinds.flows.capture.capture import Capture
from diagnosis.kinds.flows.jobs.jobs import JobFlows
from diagnosis.kinds.flows.steps.steps import Steps
from diagnosis.kinds.flows.steps.waiting import last_messages, shows_turns
from diagnosis.kinds.flows.stopped.overdue import overdue_member

THRESHOLDS: Final = thresholds.of("ceased")

#: Maximum number of rows.
MAX_LISTED: Final = 64


@dataclass(slots=True)
class _LastWord:
    """Of one machine, in seconds of the capture: its last message; how long ``by`` continued to send to it after its
    last message to them."""

    name: str
    at: float
    unanswered_s: float = 0.0
    by: str = ""


def silent_members(job: JobFlows, steps: Steps, capture: Capture) -> list[SilentMember]:
    """One row a machine (or address), those that owe first, in the order in which they fell silent: who waits for
    another falls silent later, though it may owe for longer. Empty if the capture ends with the job, or has only whole
    transfers. It shows little about a crash: survivors receive data until connections close.
    """
    usual = float(np.median(steps.seconds))
    after_s = THRESHOLDS.steps_after * usual
    last_step_at = float(steps.end[-1])
    if capture.span_s - last_step_at < after_s:
        return []
    if not shows_turns(job, steps, capture):
        return _first_overdue(job, steps, capture)
    since = float(steps.start[-min(THRESHOLDS.steps_before, len(steps))])
    until = last_step_at + after_s  # what comes later closes connections
    words = _last_words(job, since, until, capture)
    owed_s = THRESHOLDS.owed * usual
    words.sort(key=lambda word: (word.unanswered_s < owed_s, word.at, -word.unanswered_s, word.name))
    return [
        SilentMember(
            word.name,
            capture.at(word.at),
            round(word.unanswered_s, 4),
            word.by,
            bool(word.unanswered_s >= owed_s),
        )
        for word in words[:MAX_LISTED]
    ]


def _first_overdue(job: JobFlows, steps: Steps, capture: Capture) -> list[SilentMember]:
    """Who did not send what was due in the step that broke off."""
    found = overdue_member(job, steps, capture)
    if found is None:
        return []
    waited_s = round(capture.span_s - found.due_at, 4)
    at = capture.at(found.last_at)
    return [SilentMember(found.name, at, waited_s, owes=True, lives=found.lives)]


def _last_words(job: JobFlows, since: float, until: float, capture: Capture) -> list[_LastWord]:
    """The last message of each machine between two times."""
    found: dict[str, _LastWord] = {}
    messages = last_messages(job, since, until, capture).with_columns(pl.col("spoke", "heard").fill_null(since))
    for src, dst, sent, received in messages.select("src", "dst", "spoke", "heard").iter_rows():
        name = capture.machine(src)
        word = found.setdefault(name, _LastWord(name, since))
        word.at = max(word.at, sent)
        if received - sent > word.unanswered_s:
            word.unanswered_s = received - sent
            word.by = capture.machine(dst)
    return list(found.values())
