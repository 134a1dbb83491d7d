"""How an attempt ended, from its messages: succeeded, failed, cancelled, running or unknown.
Launchers, schedulers and frameworks print messages at the end; success before a kill is still
success.
"""

from __future__ import annotations

from functools import reduce
from itertools import compress
from operator import or_
from typing import Final

import msgspec
import polars as pl

from diagnosis import taxonomy, thresholds
from diagnosis.kinds.logs.causes import survived, tracebacks
from diagnosis.kinds.logs.causes.failure_facts import FailureFacts
from diagnosis.kinds.logs.causes.lifecycles import WORKER_ENDED, Lifecycles
from diagnosis.kinds.logs.causes.root_events import roots
from diagnosis.kinds.logs.causes.root_events.roots import Roots
from diagnosis.kinds.logs.meaning import catalogue as catalogues
from diagnosis.kinds.logs.meaning.catalogue import NO_EVENT, Catalogue, EventRow
from diagnosis.kinds.logs.meaning.remembered import RememberedAnswers
from diagnosis.kinds.logs.meaning.signatures.model import Strength
from diagnosis.kinds.logs.rows.clocks import SECOND
from diagnosis.kinds.logs.text.patterns import Haystack
from diagnosis.knowledge import words
from diagnosis.model import Role
from diagnosis.taxonomy import UNKNOWN
from diagnosis.values.extremes import middle

THRESHOLDS: Final = thresholds.of("outcome")
#: A command line that was not accepted.
REFUSED: Final = "user.config.argument"
#: The meanings of messages about an end.
_MEANINGS: Final = ("success", "end", "cancelled", "time_limit")


class Ending(msgspec.Struct, frozen=True):
    """``outcome`` and its evidence: messages of success, of cancelling, of a time limit."""

    outcome: str
    reason: str
    success: tuple[int, ...] = ()
    cancelled: tuple[int, ...] = ()
    time_limit: tuple[int, ...] = ()


def end_messages(messages: pl.DataFrame) -> dict[str, list[int]]:
    """The messages (``masked``) of each meaning."""
    texts = messages.select(pl.coalesce("example", "text")).to_series()
    found: dict[str, list[int]] = {meaning: [] for meaning in _MEANINGS}
    for masked, has_meanings in zip(messages["masked"], _END_MEANINGS.of(texts), strict=True):
        for meaning in compress(_MEANINGS, has_meanings):
            found[meaning].append(masked)
    return found


def _end_meanings(texts: pl.Series) -> list[tuple[bool | None, ...]]:
    """Whether each text reports success, an end, that somebody cancelled the job, a time limit."""
    says = {meaning: has_meaning(texts, meaning) for meaning in _MEANINGS}
    successes = says["success"].arg_true()  # few: names of modules are removed from these alone
    told = texts.gather(successes)
    hay = Haystack.of(told)
    denied = hay.contains(hay.replace_all(told, words.MODULE, ""), words.pattern("outcome", "not_success"))
    says["success"] = says["success"].scatter(successes, ~denied)
    return list(zip(*says.values(), strict=True))


def has_meaning(texts: pl.Series, meaning: str) -> pl.Series:
    """Whether a row of a meaning matches each text. Row by row: joined, those of success are too
    large an expression for a fast search, and cost twenty times as much.
    """
    hay = Haystack.of(texts)
    return reduce(or_, (hay.contains(texts, row) for row in words.patterns("outcome", meaning)))


_END_MEANINGS: Final = RememberedAnswers(_end_meanings)


def find_ending(facts: FailureFacts, chosen: Roots, lives: Lifecycles) -> Ending:
    """The outcome: the first row that holds. O(events + messages)."""
    catalogue, ends = facts.catalogue, end_messages(facts.table.messages)
    lead = _open_lead(facts, chosen)
    bad = catalogue.bad.filter(~facts.is_survived)
    # a watchdog's limit is not the scheduler's time limit
    waited = set(catalogue.masked(*facts.events.filter(pl.col("role") == Role.CASCADE)["event"]))
    limit = [masked for masked in ends["time_limit"] if masked not in waited]
    over = {*catalogue.masked(*facts.survived), *ends["time_limit"]}
    stops = [masked for masked in ends["cancelled"] if masked not in over]
    cancelled = _without_launcher_stops(catalogue, bad, stops)
    # connections that break after the planned end are its shutdown
    ending_roles = [Role.TEARDOWN, Role.ROOT, *([] if facts.is_complete else [Role.CASCADE])]
    is_end = pl.col("role").is_in(ending_roles)
    success = [*ends["success"], *(catalogue.masked(*lives.well) if lives.has_ended_well else ())]
    is_over = _is_torn_down(bad) or lead.event in tracebacks.last_exceptions(catalogue)
    is_shut_down = is_over and _outweighs_success(catalogue, lead, success)
    is_outweighed = is_shut_down or lives.has_failed_code
    is_aside = _is_beside_the_program(lead) and not _is_torn_down(bad)
    has_ended_calmly = facts.is_complete and is_aside
    rows = (
        (bool(success) and not is_outweighed, "succeeded", "the job reports that it completed"),
        (bool(limit), "failed", "the scheduler ended the job at its time limit"),
        (lead.category == roots.CANCELLED, "cancelled", "somebody cancelled the job"),
        (has_ended_calmly, "succeeded", "training came to its planned end, and nothing ended badly"),
        (lead is not NO_EVENT, "failed", "an error that training did not survive"),
        (bool(cancelled), "cancelled", "somebody cancelled the job"),
        (bad.filter(is_end | catalogues.UNKNOWN_EXCEPTION).height > 0, "failed", "the job was torn down"),
        (facts.is_complete, "succeeded", "training came to its planned end, and nothing failed after it"),
        (bool(ends["end"]), "succeeded", "the job reports that it ended, and nothing shows a failure"),
        (_is_going_on(facts), "running", "progress up to the end of the evidence and no end marker"),
        (True, "unknown", "neither an end marker nor an error that explains an end"),
    )
    outcome, reason = next((outcome, reason) for is_so, outcome, reason in rows if is_so)
    return Ending(outcome, reason, tuple(success), tuple(cancelled), tuple(limit))


def _is_beside_the_program(lead: EventRow) -> bool:
    """Whether a root says only vaguely that something failed, or a kernel or a daemon says it, and
    no process died of it and no device is gone: training that came to its planned end did so in
    spite of it.
    """
    traits = taxonomy.load().get(lead.category or UNKNOWN).traits
    is_fatal = "death" in traits or "gone" in traits
    is_vague = lead.strength in (None, Strength.WEAK)
    is_of_machine = lead.is_system and not is_fatal
    return (is_vague or is_of_machine) and not lead.is_exception


def _open_lead(facts: FailureFacts, chosen: Roots) -> EventRow:
    """The leading event, if it is a root and training did not survive it; else ``NO_EVENT``."""
    leader = chosen.leader
    if leader is None or leader in facts.survived:
        return NO_EVENT
    is_root = chosen.weights[leader] >= roots.THRESHOLDS.least
    return facts.event(leader) if is_root else NO_EVENT


def _is_torn_down(bad: pl.DataFrame) -> bool:
    """Whether the job may have failed after a message of success: processes were ended, or a root
    error was raised (a final save) or refused a command line (a later launch).
    """
    is_raised = pl.col("is_exception") & (pl.col("strength") != Strength.WEAK)
    is_refused = pl.col("category") == REFUSED
    is_bad_root = (pl.col("role") == Role.ROOT) & (is_raised | is_refused)
    return bad.filter((pl.col("role") == Role.TEARDOWN) | is_bad_root).height > 0


def _is_going_on(facts: FailureFacts) -> bool:
    """Whether the last progress is so near to the end of the evidence that the job may run."""
    point_at, last_at = facts.pace.last_at, facts.last_at
    if facts.inventory is not None and facts.inventory.ended_at is not None:
        return False
    if point_at is None or last_at is None:
        return _runs_to_the_last_line(facts)
    now = last_at if facts.as_of is None else facts.as_of * SECOND
    quiet_s = max(THRESHOLDS.quiet_intervals * (facts.pace.usual_s or 0.0), THRESHOLDS.silence_s)
    return bool((now - point_at) / SECOND <= quiet_s)


def _runs_to_the_last_line(facts: FailureFacts) -> bool:
    """The same without times: the last progress is as near to its file's end as to others."""
    points = facts.progress.points if facts.progress is not None else None
    if points is None or points.is_empty() or points["at"].drop_nulls().len():
        return False
    by_file = points.group_by("file").agg(pl.len(), pl.col("line").sort())
    file, _, lines = by_file.sort("len", "file", descending=[True, False]).row(0)
    apart = middle(pl.Series(lines).diff()) or 1.0
    height = int(facts.table.spans.filter(pl.col("file") == file)["lines"].sum())
    return bool(height - lines[-1] <= THRESHOLDS.quiet_intervals * apart)


def _without_launcher_stops(catalogue: Catalogue, bad: pl.DataFrame, cancelled: list[int]) -> list[int]:
    """Without the messages that a launcher prints as it ends a job of which a worker has failed: in
    their file, the worker's end is told before. O(occurrences).
    """
    if not cancelled:
        return []
    is_end = (pl.col("role") == Role.TEARDOWN) & catalogue.says(WORKER_ENDED)
    ends = bad.filter(is_end & ~pl.col("is_told_to_stop"))["event"]
    occurrences = catalogue.occurrences.select("file", "masked", "event", "first_line")
    end_lines = occurrences.filter(pl.col("event").is_in(ends.implode()))
    ended = end_lines.group_by("file").agg(since=pl.col("first_line").min())
    cancelling = occurrences.filter(pl.col("masked").is_in(pl.Series(cancelled, dtype=pl.UInt64).implode()))
    own = cancelling.join(ended, on="file", how="left").filter(
        pl.col("since").is_null() | (pl.col("first_line") <= pl.col("since"))
    )
    stays = set(own["masked"].to_list())
    return [masked for masked in cancelled if masked in stays]


def _outweighs_success(catalogue: Catalogue, lead: EventRow, success: list[int]) -> bool:
    """Whether the root outweighs a message of success: it is a well-known cause, and comes after it
    in the same file. A job that reports success and then dies in a known way has failed in its
    shutdown; a job that reports success after an error has survived it. An exception of a thread
    ends that thread only.
    """
    if not success or lead.signature is None or lead.own_role != Role.ROOT:
        return False
    words = catalogue.occurrences.filter(pl.col("masked").is_in(pl.Series(success, dtype=pl.UInt64).implode()))
    lead_occurrences = catalogue.occurrences.filter(pl.col("event") == lead.event)
    both = lead_occurrences.join(
        words.group_by("file").agg(said_line=pl.col("last_line").max()), on="file", how="inner"
    )
    is_later = bool((both["first_line"] > both["said_line"]).any())
    return is_later and lead.event not in survived.exceptions_below(catalogue, survived.IN_THREAD)
