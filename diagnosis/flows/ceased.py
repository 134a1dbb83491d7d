"""Who fell silent first when a job stopped: who owes the next word.

When a job hangs, its members stand where they wait. On each connection that carries the training, the two ends speak in
turn (data, or words that they are ready); the one that was spoken to and did not answer again is the one that is waited
for. Bare acknowledgements do not count: kernels send them for a program that is frozen. O(records of the end).
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import polars as pl

from diagnosis.flows.capture import Capture
from diagnosis.flows.jobs import JobFlows
from diagnosis.flows.steps import Steps
from diagnosis.flows.waiting import last_words, shows_turns

#: The capture goes on for so many usual steps after the last one: the job did not end with the capture.
GOES_ON: Final = 3.0
#: Steps before the end that are looked at.
BEFORE: Final = 3
#: Who owes a word for this share of a usual step is waited for.
OWES: Final = 0.25
#: Rows told.
LISTED: Final = 64


def ceased(job: JobFlows, steps: Steps, capture: Capture) -> list[dict[str, Any]]:
    """One row a machine (or address), who owes most first: ``name``, ``last_at`` (epoch seconds of its last word),
    ``unanswered_s`` (for how long others went on speaking to it after its own last word to them), ``by`` (who did) and
    ``owes`` (long enough to be waited for). Empty where the capture ends with the job, or holds whole transfers alone.
    Of a crash it says little: whoever lives is spoken to until connections close.
    """
    usual = float(np.median(steps.seconds))
    if capture.span_s - float(steps.end[-1]) < GOES_ON * usual or not shows_turns(job, steps, capture):
        return []
    since = float(steps.start[-min(BEFORE, len(steps))])
    found: dict[str, dict[str, Any]] = {}
    words = last_words(job, since, capture).with_columns(pl.col("spoke", "heard").fill_null(since))
    for src, dst, spoke, heard in words.select("src", "dst", "spoke", "heard").iter_rows():
        name = capture.machine(src)
        row = found.setdefault(name, {"name": name, "last_at": since, "unanswered_s": 0.0, "by": ""})
        row["last_at"] = max(row["last_at"], spoke)
        if heard - spoke > row["unanswered_s"]:
            row["unanswered_s"], row["by"] = heard - spoke, capture.machine(dst)
    rows = sorted(found.values(), key=lambda r: (-r["unanswered_s"], r["last_at"], r["name"]))
    return [
        row
        | {
            "last_at": capture.at(row["last_at"]),
            "unanswered_s": round(row["unanswered_s"], 4),
            "owes": bool(row["unanswered_s"] >= OWES * usual),
        }
        for row in rows[:LISTED]
    ]
