"""Finds the member whose next message was due first when a job stopped in the middle of a step.

For records of whole transfers, which show no turns (:mod:`ceased`). Each member sends the same
messages in every step. In the step that broke off, everybody sent until it needed what another did
not send: who stopped first in the usual order is the one that all wait for. Other traffic of the
job must go on, else all were ended at once. O(records of the last steps).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from diagnosis import thresholds
from diagnosis.kinds.flows.capture.capture import Bools, Capture
from diagnosis.kinds.flows.jobs.jobs import JobFlows
from diagnosis.kinds.flows.steps.steps import Steps
from diagnosis.values.stats import MAD_TO_SIGMA

THRESHOLDS: Final = thresholds.of("overdue")


@dataclass(frozen=True, slots=True)
class Overdue:
    """A machine, when it sent its last training message, in seconds of the capture, and when the
    next one was due; ``lives``: whether other messages of it came later.
    """

    name: str
    last_at: float
    due_at: float
    lives: bool


def overdue_member(job: JobFlows, steps: Steps, capture: Capture) -> Overdue | None:
    """The machine whose message the others wait for; None if no step broke off or none tells."""
    first = max(1, len(steps) - THRESHOLDS.steps)
    usual = _messages(job, steps, capture, first)
    if len(steps) - first < THRESHOLDS.least_steps or not _is_steady(usual, len(steps)):
        return None
    due = _due(usual, len(steps))
    if due is None:
        return None
    last_of_all = float(np.max(due["last_at"].to_numpy()))
    lasting = _later_senders(job, capture, last_of_all, float(np.median(steps.seconds)))
    name, at, _ = due.select("name", "due", "last_at").row(0)
    others = due["name"].n_unique() - 1
    if others < 1 or len(lasting - {name}) < THRESHOLDS.living * others:
        return None
    last_at = float(np.max(due.filter(pl.col("name") == name)["last_at"].to_numpy()))
    return Overdue(name, last_at, float(steps.end[-1]) + at, name in lasting)


def _messages(job: JobFlows, steps: Steps, capture: Capture, first: int) -> pl.DataFrame:
    """The training messages since step ``first``, the broken one included: src, dst, name, step,
    number in the step, offset from the end of the step before, start.
    """
    flows = job.flows
    begin = int(np.searchsorted(flows.start, float(steps.end[first - 1])))
    part = flows.take(slice(begin, len(flows)))
    step = np.searchsorted(steps.end, part.start, side="right")
    table = pl.DataFrame(
        {
            "src": part.src,
            "dst": part.dst,
            "start": part.start,
            "size": np.nan_to_num(part.size),
            "step": step,
            "offset": part.start - steps.end[step - 1],
        }
    ).filter(~pl.Series(part.control))
    is_whole = pl.col("size") >= THRESHOLDS.bytes * pl.col("size").median().over("src", "dst")
    names = {int(member): capture.machine(int(member)) for member in job.members}
    return (
        table.filter(is_whole)
        .sort("start")
        .with_columns(
            name=pl.col("src").replace_strict(names, default="", return_dtype=pl.String),
            number=pl.int_range(pl.len()).over("src", "step"),
        )
        .filter(pl.col("name") != "")
    )


def _is_steady(messages: pl.DataFrame, count: int) -> bool:
    """Whether most members send equally many messages in every whole step."""
    counts = messages.filter(pl.col("step") < count).group_by("src", "step").len()
    per_member = counts.group_by("src").agg(
        steady=(pl.col("len") == pl.col("len").median()).mean(), steps=pl.col("step").n_unique()
    )
    steady = (per_member["steady"] >= THRESHOLDS.steady).mean()
    return isinstance(steady, float) and steady >= THRESHOLDS.steady


def _due(messages: pl.DataFrame, count: int) -> pl.DataFrame | None:
    """When the next message of each member was due in the broken step, after the end of the last
    whole one, earliest first: columns src, name, number, due, last_at; None if no step broke off, or
    it is not clear who was first.
    """
    whole, broken = _whole_and_broken(messages, count)
    sent = broken.group_by("src").agg(number=pl.len().cast(pl.Int64))
    middle = pl.col("offset").median()
    scatter = (pl.col("offset") - middle).abs().median()
    usual = whole.group_by("src", "name", "number").agg(due=middle, scatter=scatter)
    members = usual.select("src", "name").unique()
    members = members.join(sent, on="src", how="left").fill_null(0)
    is_begun = (members["number"] > 0).mean()
    if not isinstance(is_begun, float) or is_begun < THRESHOLDS.begun:
        return None
    last = messages.group_by("src").agg(last_at=pl.col("start").max())
    next_ones = members.join(usual.drop("name"), on=["src", "number"], how="left")
    never = pl.col("due").fill_null(np.inf)
    due = next_ones.join(last, on="src").with_columns(due=never).sort("due", "src")
    first_name = due["name"][0]
    others = due.filter(pl.col("name") != first_name)
    step_s = float(np.max(whole["offset"].to_numpy()))
    noise_s = MAD_TO_SIGMA * float(due["scatter"][0] or 0.0)
    clear_s = max(THRESHOLDS.apart * step_s, THRESHOLDS.noise * noise_s)
    is_clear = bool(len(others)) and float(others["due"][0] - due["due"][0]) >= clear_s
    if not is_clear or _went_on(messages, due, count, clear_s):
        return None
    return due


def _went_on(messages: pl.DataFrame, due: pl.DataFrame, count: int, clear_s: float) -> bool:
    """Whether the receiver of the first overdue message sent what it usually sends only after it."""
    first = due.row(0, named=True)
    whole, broken = _whole_and_broken(messages, count)
    usual = whole.group_by("src", "number").agg(offset=pl.col("offset").median())
    is_overdue = (pl.col("src") == first["src"]) & (pl.col("number") == first["number"])
    receivers = whole.filter(is_overdue)["dst"].unique()
    sent = broken.filter(pl.col("src").is_in(receivers.implode())).select("src", "number")
    known = sent.join(usual, on=["src", "number"])
    return bool((known["offset"] > first["due"] + clear_s).any())


def _whole_and_broken(messages: pl.DataFrame, count: int) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The messages of the whole steps, and those of the one that broke off."""
    is_whole = pl.col("step") < count
    return messages.filter(is_whole), messages.filter(pl.col("step") == count)


def _later_senders(job: JobFlows, capture: Capture, since: float, usual_s: float) -> set[str]:
    """Machines of the job that sent something to another one well after the last training message."""
    flows = capture.flows
    begin = int(np.searchsorted(flows.start, since + THRESHOLDS.later * usual_s))
    part = flows.take(slice(begin, len(flows)))
    member = np.zeros(len(capture.names), dtype=bool)
    member[job.members] = True
    is_between: Bools = np.asarray(member[part.src] & member[part.dst])
    return {capture.machine(int(src)) for src in np.unique(part.src[is_between])}
