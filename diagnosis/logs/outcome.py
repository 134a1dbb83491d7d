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
    r"(?i)(^|[\]>:|)-]\s*)(the )?training (is |has |was )?(been )?(successfully )?(completed?|done|finished)\b"
    r"|after training is done|finished training\W*$|\"?run_stop\"?.{0,200}\"?status\"?: ?\"?success"
    r"|exits successfully|\bjob\b.{0,60}: ?completed$|\bsucceeded\b.{0,40}$|pytorchjob.{0,80}successfully "
    r"completed|completed successfully|job (is )?successfully"
    r"|\bstate=?\s*completed\b|\|completed\||trainer\.fit.{0,20}stopped:? .?max_(steps|epochs)|`?max_(steps"
    r"|epochs)=\d*<?n?u?m?>?`? reached"
    r"|\btrain_runtime\b|^result,.{0,80}\d|run finished|run succeeded"
)
#: Said at the end by scripts that run whatever happened before; counts only where nothing speaks against it.
_END: Final = r"(?i)ending timing run|\bend of (job|run|training)\b|job finished at|script finished"
_NOT_SUCCESS: Final = (
    r"(?i)\bnot\b|unsuccess|fail|aborted|\"status\": ?\"abort|\bepoch \d|evaluation|checkpoint|download|install|compil"
    r"|\breset\b"
)
_CANCELLED: Final = (
    r"(?i)\b(cancell?ed|stopped|aborted|terminated|ended|deleted)\b.{0,20}\bby (its |the |an? )?(user|owner"
    r"|operator|admin)"
    r"|\bcancell?ed\b(.{0,30}\bby\b| at )|keyboardinterrupt|received sigint|user request|interrupted by (the "
    r")?user|read escape sequence|detached"
)
_TIME_LIMIT: Final = (
    r"(?i)due to time ?limit|\b(?-i:DeadlineExceeded)\b|specified deadline|(walltime|time[ "
    r"_-]?limit)\b.{0,24}\b(exceed|reach|hit|expire)"
    r"|\b(exceed|reach|hit|ran out of|used up|out ?of|over)\w*\b.{0,24}(wall[ -]?(clock[ -]?)?time"
    r"|(time|run[ -]?time|duration)[ _-]?(limit|budget|allowance|quota)"
    r"|(maximum|allowed|allotted|granted|requested) (run[ -]?)?(time|duration))"
    r"|\bTIMEOUT\b.{0,12}\|"
)
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


def success_messages(messages: pl.DataFrame) -> list[int]:
    """Messages by which a job says that it completed."""
    text = pl.coalesce(pl.col("example"), pl.col("text"))
    return messages.filter(text.str.contains(_SUCCESS) & ~text.str.contains(_NOT_SUCCESS))["masked"].to_list()


def ending(
    catalogue: Catalogue,
    messages: pl.DataFrame,
    *,
    has_root: bool,
    root_outweighs: bool,
    last_beat_at: int | None,
    beat_s: float | None,
    as_of: float | None,
    unrecovered: set[int],
) -> Ending:
    """The outcome.

    Args:
        messages: ``masked``, ``text``, ``example`` of the job.
        has_root: whether a root candidate stands; ``root_outweighs`` whether it stands against the job's own word of
            success.
        last_beat_at: last progress (ns); ``beat_s`` the usual seconds between progress lines.
        as_of: seconds since the epoch at which the evidence was taken; None: its own last time.
        unrecovered: events of failure after which training did not go on.
    """
    text = pl.coalesce(pl.col("example"), pl.col("text"))
    hits = messages.select(
        "masked",
        ended=text.str.contains(_END),
        cancelled=text.str.contains(_CANCELLED),
        limit=text.str.contains(_TIME_LIMIT),
    )
    success = success_messages(messages)
    ended = hits.filter("ended")["masked"].to_list()
    # a watchdog's patience is no grant of the scheduler
    waited = catalogue.events.filter(pl.col("role") == Role.CASCADE.value)["event"]
    others = catalogue.of.filter(pl.col("event").is_in(waited.implode()))["masked"]
    limit = hits.filter(pl.col("limit") & ~pl.col("masked").is_in(others.implode()))["masked"].to_list()
    cancelled = hits.filter(pl.col("cancelled") & ~pl.col("limit"))["masked"].to_list()
    said_at = _last(catalogue, success)
    bad = catalogue.events.filter(pl.col("event").is_in(sorted(unrecovered)))
    terminal = bad.filter(
        pl.col("role").is_in([Role.TEARDOWN.value, Role.CASCADE.value, Role.ROOT.value]) | pl.col("is_exception")
    )
    made = Ending("unknown", "", said_at, tuple(success), tuple(cancelled), tuple(limit))
    is_torn_down = not bad.filter(pl.col("role") == Role.TEARDOWN.value).is_empty()
    if success and not (has_root and is_torn_down and root_outweighs):
        return _as(made, "succeeded", "the job says that it completed")
    if limit:
        return _as(made, "failed", "the scheduler ended the job at its time limit")
    if has_root:
        return _as(made, "failed", "an error that training did not survive")
    if cancelled:
        return _as(made, "cancelled", "somebody cancelled the job")
    if not terminal.is_empty():
        return _as(made, "failed", "the job was torn down")
    if ended:
        return _as(made, "succeeded", "the job says that it ended, and nothing speaks of a failure")
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
    mine = catalogue.cells.filter(pl.col("masked").is_in(pl.Series(masked, dtype=pl.UInt64).implode()))[
        "last_at"
    ].drop_nulls()
    return None if mine.is_empty() else int(mine.max())  # type: ignore[arg-type]
