"""How an attempt ended, told from its messages: succeeded, failed, cancelled, running or unknown.

An end is told by what launchers, schedulers and frameworks print at it; success said before a kill stays a success.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import polars as pl

from diagnosis.logs.catalogue import Catalogue
from diagnosis.logs.clocks import SECOND
from diagnosis.model import Role

_SUCCESS: Final = (
    r"(?i)\btraining (is )?(completed?|done|finished)\b|after training is done|finished training\b|\"?run_stop\"?.{0,200}\"?status\"?: ?\"?success"
    r"|exits successfully|\bjob\b.{0,60}: ?completed$|\bsucceeded\b.{0,40}$|pytorchjob.{0,80}successfully completed|completed successfully|job (is )?successfully"
    r"|\bstate=?\s*completed\b|\|completed\||ending timing run|training complete\b|trainer\.fit.{0,20}stopped:? .?max_(steps|epochs)|`?max_(steps|epochs)=\d*<?n?u?m?>?`? reached"
    r"|\btrain_runtime\b|^result,.{0,80}\d|training has (completed|finished)|run finished|run succeeded"
)
_NOT_SUCCESS: Final = r"(?i)\bnot\b|unsuccess|fail|aborted|\"status\": ?\"abort|\bepoch \d|evaluation|checkpoint|download|install|compil"
_CANCELLED: Final = r"(?i)\bcancell?ed\b(.{0,30}\bby\b| at )|keyboardinterrupt|received sigint|user request|interrupted by (the )?user|read escape sequence|detached"
_TIME_LIMIT: Final = r"(?i)due to time ?limit|\b(?-i:DeadlineExceeded)\b|specified deadline|(walltime|time[ _-]?limit)\b.{0,24}\b(exceed|reach|hit|expire)|exceed\w*\b.{0,24}(walltime|time[ _-]?limit)|\bTIMEOUT\b.{0,12}\|"
#: Seconds of silence after which a job without an end marker is not running any more.
SILENCE_S: Final = 600.0


@dataclass(frozen=True, slots=True)
class Ending:
    """``outcome`` and what it was told from: messages of success, of cancelling, of a time limit."""

    outcome: str
    reason: str
    succeeded_at: int | None = None
    success: tuple[int, ...] = ()
    cancelled: tuple[int, ...] = ()
    time_limit: tuple[int, ...] = ()


def ending(
    catalogue: Catalogue,
    messages: pl.DataFrame,
    *,
    has_root: bool,
    root_at: int | None,
    last_beat_at: int | None,
    beat_s: float | None,
    as_of: float | None,
    unrecovered: set[int],
) -> Ending:
    """The outcome.

    Args:
        messages: ``masked``, ``text``, ``example`` of the job.
        has_root: whether a root candidate stands; ``root_at`` when (ns).
        last_beat_at: last progress (ns); ``beat_s`` the usual seconds between progress lines.
        as_of: seconds since the epoch at which the evidence was taken; None: its own last time.
        unrecovered: events of failure after which training did not go on.
    """
    text = pl.coalesce(pl.col("example"), pl.col("text"))
    hits = messages.select(
        "masked",
        success=text.str.contains(_SUCCESS) & ~text.str.contains(_NOT_SUCCESS),
        cancelled=text.str.contains(_CANCELLED),
        limit=text.str.contains(_TIME_LIMIT),
    )
    success = hits.filter("success")["masked"].to_list()
    limit = hits.filter("limit")["masked"].to_list()
    cancelled = hits.filter(pl.col("cancelled") & ~pl.col("limit"))["masked"].to_list()
    said_at = _last(catalogue, success)
    bad = catalogue.events.filter(pl.col("event").is_in(sorted(unrecovered)))
    terminal = bad.filter(pl.col("role").is_in([Role.TEARDOWN.value, Role.CASCADE.value, Role.ROOT.value]) | pl.col("is_exception"))
    made = Ending("unknown", "", said_at, tuple(success), tuple(cancelled), tuple(limit))
    exits = bad.filter(pl.col("role") == Role.TEARDOWN.value)
    if success and not _failed_before(root_at, said_at, has_root and not exits.is_empty()):
        return _as(made, "succeeded", "the job says that it completed")
    if limit:
        return _as(made, "failed", "the scheduler ended the job at its time limit")
    if has_root:
        return _as(made, "failed", "an error that training did not survive")
    if cancelled:
        return _as(made, "cancelled", "somebody cancelled the job")
    if not terminal.is_empty():
        return _as(made, "failed", "the job was torn down")
    last = catalogue.cells["last_at"].max()
    if last_beat_at is not None and last is not None:
        now = as_of * SECOND if as_of is not None else float(last)  # type: ignore[arg-type]
        quiet = max(10 * (beat_s or 0.0), SILENCE_S)
        if (now - last_beat_at) / SECOND <= quiet:
            return _as(made, "running", "progress up to the end of the evidence and no end marker")
    return _as(made, "unknown", "neither an end marker nor an error that explains an end")


def _as(made: Ending, outcome: str, reason: str) -> Ending:
    return Ending(outcome, reason, made.succeeded_at, made.success, made.cancelled, made.time_limit)


def _last(catalogue: Catalogue, masked: list[int]) -> int | None:
    mine = catalogue.cells.filter(pl.col("masked").is_in(pl.Series(masked, dtype=pl.UInt64).implode()))["last_at"].drop_nulls()
    return None if mine.is_empty() else int(mine.max())  # type: ignore[arg-type]


def _failed_before(root_at: int | None, said_at: int | None, is_torn_down: bool) -> bool:
    """A failure outweighs the word of success only if it came clearly first and launchers say that processes failed."""
    if not is_torn_down or root_at is None or said_at is None:
        return False
    return root_at < said_at
