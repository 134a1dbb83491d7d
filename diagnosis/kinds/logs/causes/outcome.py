"""How an attempt ended, from its messages: succeeded, failed, cancelled, running or unknown. Launchers, schedulers and
frameworks print messages at the end; success before a kill is still success.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Final

import polars as pl

from diagnosis import thresholds
from diagnosis.kinds.logs.causes import roots
from diagnosis.kinds.logs.causes.failure_facts import FailureFacts
from diagnosis.kinds.logs.causes.roots import STOP_RECEIVED, WORKER_ENDED, Roots
from diagnosis.kinds.logs.meaning import catalogue as catalogues
from diagnosis.kinds.logs.meaning import words
from diagnosis.kinds.logs.meaning.catalogue import NO_EVENT, Catalogue, EventRow
from diagnosis.kinds.logs.meaning.remembered import RememberedAnswers
from diagnosis.kinds.logs.meaning.signatures.model import Strength
from diagnosis.kinds.logs.rows.clocks import SECOND
from diagnosis.model import Role

THRESHOLDS: Final = thresholds.of("outcome")
#: A command line that was not accepted.
REFUSED: Final = "user.config.argument"
#: The meanings of messages about an end.
_MEANINGS: Final = ("success", "end", "cancelled", "time_limit")


@dataclass(frozen=True, slots=True)
class Ending:
    """``outcome`` and its evidence: messages of success, of cancelling, of a time limit."""

    outcome: str
    reason: str
    success: tuple[int, ...] = ()
    cancelled: tuple[int, ...] = ()
    time_limit: tuple[int, ...] = ()


def end_messages(messages: pl.DataFrame) -> dict[str, list[int]]:
    """The messages (``masked``) of each meaning."""
    texts = messages.select(pl.coalesce("example", "text")).to_series()
    told = list(zip(messages["masked"], _END_MEANINGS.of(texts), strict=True))
    return {meaning: [masked for masked, has in told if has[place]] for place, meaning in enumerate(_MEANINGS)}


def _end_meanings(texts: pl.Series) -> list[tuple[bool | None, ...]]:
    """Whether each text reports success, an end, that somebody cancelled the job, a time limit."""
    says = {meaning: has_meaning(texts, meaning) for meaning in _MEANINGS}
    successes = says["success"].arg_true()  # few: names of modules are removed from these alone
    denied = (
        texts.gather(successes).str.replace_all(words.MODULE, "").str.contains(words.pattern("outcome", "not_success"))
    )
    says["success"] = says["success"].scatter(successes, ~denied)
    return list(zip(*says.values(), strict=True))


def has_meaning(texts: pl.Series, meaning: str) -> pl.Series:
    """Whether a row of a meaning matches each text. Row by row: joined, those of success are too large an expression
    for a fast search, and cost twenty times as much.
    """
    return reduce(or_, (texts.str.contains(row) for row in words.patterns("outcome", meaning)))


_END_MEANINGS: Final = RememberedAnswers(_end_meanings)


def find_ending(facts: FailureFacts, chosen: Roots) -> Ending:
    """The outcome."""
    catalogue, survived, told = facts.catalogue, facts.survived, end_messages(facts.table.messages)
    leader = chosen.leader if chosen.leader not in survived else None
    has_root = leader is not None and chosen.weights[leader] >= roots.THRESHOLDS.least
    lead = catalogue.event(leader) if leader is not None and has_root else NO_EVENT
    bad = facts.events.filter(catalogues.failure_events(facts.events), ~facts.is_survived)
    # a watchdog's limit is not the scheduler's time limit
    waited = set(catalogue.masked(*catalogue.events.filter(pl.col("role") == Role.CASCADE)["event"]))
    limit = [masked for masked in told["time_limit"] if masked not in waited]
    over = {*catalogue.masked(*survived), *told["time_limit"]}
    cancelled = [masked for masked in told["cancelled"] if masked not in over]
    cancelled = _without_launcher_stops(catalogue, bad, cancelled)
    is_end = pl.col("role").is_in([Role.TEARDOWN, Role.CASCADE, Role.ROOT])
    terminal = bad.filter(is_end | catalogues.UNKNOWN_EXCEPTION)
    # a final save that raises a known error has failed, whatever was said of the training before
    is_raised = (pl.col("role") == Role.ROOT) & pl.col("is_exception") & (pl.col("strength") != Strength.WEAK)
    # a later launch that was refused has failed, whatever an earlier one said
    is_refused = (pl.col("role") == Role.ROOT) & (pl.col("category") == REFUSED)
    is_torn_down = not bad.filter((pl.col("role") == Role.TEARDOWN) | is_raised | is_refused).is_empty()
    is_going_on = False
    if facts.pace.last_at is not None and facts.last_at is not None:
        now = facts.last_at if facts.as_of is None else facts.as_of * SECOND
        quiet_s = max(THRESHOLDS.quiet_beats * (facts.pace.usual_s or 0.0), THRESHOLDS.silence_s)
        is_going_on = (now - facts.pace.last_at) / SECOND <= quiet_s
    messages_told = (
        (bool(told["success"]) and not (is_torn_down and _outweighs_success(catalogue, lead, told["success"])),
         "succeeded", "the job reports that it completed"),
        (bool(limit), "failed", "the scheduler ended the job at its time limit"),
        (lead.category == roots.CANCELLED, "cancelled", "somebody cancelled the job"),
        (has_root, "failed", "an error that training did not survive"),
        (bool(cancelled), "cancelled", "somebody cancelled the job"),
        (not terminal.is_empty(), "failed", "the job was torn down"),
        (facts.is_complete, "succeeded", "training came to its planned end, and nothing failed after it"),
        (bool(told["end"]), "succeeded", "the job reports that it ended, and nothing shows a failure"),
        (is_going_on, "running", "progress up to the end of the evidence and no end marker"),
        (True, "unknown", "neither an end marker nor an error that explains an end"),
    )  # fmt: skip
    outcome, reason = next((outcome, reason) for is_so, outcome, reason in messages_told if is_so)
    return Ending(outcome, reason, tuple(told["success"]), tuple(cancelled), tuple(limit))


def _without_launcher_stops(catalogue: Catalogue, bad: pl.DataFrame, cancelled: list[int]) -> list[int]:
    """Without the messages that a launcher prints as it ends a job of which a worker has failed: in their file, the
    worker's end is told before. O(cells).
    """
    is_end = (pl.col("role") == Role.TEARDOWN) & pl.col("example").str.contains(WORKER_ENDED)
    ends = bad.filter(is_end & ~pl.col("example").str.contains(STOP_RECEIVED))["event"]
    cells = catalogue.cells.select("file", "masked", "event", "first_line")
    ended = cells.filter(pl.col("event").is_in(ends.implode())).group_by("file").agg(since=pl.col("first_line").min())
    cancel_cells = cells.filter(pl.col("masked").is_in(pl.Series(cancelled, dtype=pl.UInt64).implode()))
    own = cancel_cells.join(ended, on="file", how="left").filter(
        pl.col("since").is_null() | (pl.col("first_line") <= pl.col("since"))
    )
    stays = set(own["masked"].to_list())
    return [masked for masked in cancelled if masked in stays]


def _outweighs_success(catalogue: Catalogue, lead: EventRow, success: list[int]) -> bool:
    """Whether the root outweighs a message of success: it is a well-known cause, and comes after it in the same
    file. A job that reports success and then dies in a known way has failed in its shutdown; a job that reports
    success after an error has survived it.
    """
    if lead.signature is None or lead.own_role != Role.ROOT:
        return False
    words = catalogue.cells.filter(pl.col("masked").is_in(pl.Series(success, dtype=pl.UInt64).implode()))
    lead_cells = catalogue.cells.filter(pl.col("event") == lead.event)
    both = lead_cells.join(words.group_by("file").agg(said_line=pl.col("last_line").max()), on="file", how="inner")
    return bool((both["first_line"] > both["said_line"]).any())
