"""The sentences of the stacks' part of a report: its reason, its headline, and notes on dumps that are missing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from diagnosis import thresholds
from diagnosis.evidence.rank_names import fold_ranks, ranks_text
from diagnosis.kinds.stacks.blame.accusations import Accusation, Findings, ShownRound
from diagnosis.kinds.stacks.blame.collectives import Verdict
from diagnosis.kinds.stacks.ranks.dumped_processes import Process, with_ranks
from diagnosis.kinds.stacks.read.stack_frames import TRUNCATED
from diagnosis.values.plain import listed

#: Ranks that are missing are judged alike everywhere.
BLAME: Final = thresholds.of("blame")
LIMITS: Final = thresholds.limits("stack_report")
#: Sentences of NCCL's own reports in the reason.
_MAX_RAS_SENTENCES: Final = 3
_NOT_COMPARED: Final = "The stacks show a moment and could not be compared. Dump every rank, twice, some seconds apart."
_FIRST_CLAUSE_END = re.compile(r"(?<=\w\))\.|[;.](?:\s|$)")


def reason_of(found: Findings) -> str:
    """Why these ranks are accused, or why nobody is."""
    parts: list[str] = []
    if found.outcome is not None:
        parts.append(found.outcome.verdict.reason)
    if found.collectives is not None:
        parts += _collective_sentences(found.collectives, is_recorded=bool(found.recorded))
    by_ras = [accusation for accusation in found.accused.values() if accusation.scores.get("ras")]
    parts += [f"RAS: {accusation.node or ''} {accusation.reasons[-1]}." for accusation in by_ras[:_MAX_RAS_SENTENCES]]
    parts += [f"RAS: {sentence}." for sentence in found.ahead[:_MAX_RAS_SENTENCES]]
    return " ".join(parts) or _reason_of_nobody(found.common_wait)


def _reason_of_nobody(wait: str) -> str:
    told = [f"The dump is {wait} and waits for its peers."] if wait else []
    return " ".join([*told, _NOT_COMPARED])


def _collective_sentences(verdict: Verdict, *, is_recorded: bool) -> list[str]:
    source = "Flight Recorder" if is_recorded else "Watchdog lines"
    stuck = [("host", verdict.host), ("device", verdict.device)]
    parts = [_stuck_sentence(source, what, reasons) for what, reasons in stuck if reasons]
    if not parts and verdict.mismatch:
        first = min(verdict.mismatch)
        parts.append(f"{source}: {ranks_text(verdict.mismatch)} {verdict.mismatch[first]}.")
    if not verdict.ranks and is_recorded:
        parts.append("Flight Recorder: no rank is missing from a collective or behind its peers.")
    return parts


def _stuck_sentence(source: str, what: str, reasons: dict[int, str]) -> str:
    first = min(reasons)
    verb = "is stuck on its" if len(reasons) == 1 else "are stuck on their"
    return f"{source}: {ranks_text(reasons)} {verb} {what}: rank {first} {reasons[first]}."


def headline_of(reason: str, nodes: Sequence[str]) -> str:
    """The first clause of the reason, with the nodes: the title of an incident."""
    clause = _FIRST_CLAUSE_END.split(reason, maxsplit=1)[0].rstrip(".")
    if not nodes:
        return f"{clause}."
    return f"{clause} ({listed(nodes, LIMITS.nodes)})."


def notes_on_missing(found: Findings, shown: ShownRound) -> list[str]:
    """Which ranks have no dump, or none that could be read whole."""
    every = (
        _note_on_rounds(found),
        _note_on_absent(shown, found.layout.world_size),
        _note_on_cut(found.processes),
        _note_on_failed(shown),
        _note_on_empty(shown),
    )
    return [note for note in every if note]


def _note_on_rounds(found: Findings) -> str:
    """The ranks that are missing in some rounds: rounds are compared in their common ranks."""
    if found.rounds < 2:
        return ""
    seen: dict[int, set[int]] = {}
    for p in found.processes:
        seen.setdefault(p.round, set()).add(-1 if p.rank is None else p.rank)
    everyone = set().union(*seen.values())
    partial = [
        f"round {number + 1} lacks {ranks_text(everyone - ranks)}"
        for number, ranks in sorted(seen.items())
        if everyone - ranks
    ]
    if not partial:
        return ""
    listed = "; ".join(partial[: LIMITS.rounds])
    rest = len(partial) - LIMITS.rounds
    more = f"; {rest} more rounds lack some" if rest > 0 else ""
    return f"The {found.rounds} rounds are not of the same ranks: {listed}{more}."


def _note_on_absent(shown: ShownRound, world_size: int | None) -> str:
    if not shown.missing:
        return ""
    share = f"{shown.absent} of {world_size} ranks"
    is_listed = shown.absent <= LIMITS.absent
    text = f"No dump of rank {fold_ranks(shown.missing)} ({share})." if is_listed else f"No dump of {share}."
    if shown.absent <= BLAME.missing_share * (world_size or 1):
        return text
    return f"{text} So many are not accused: the upload is not complete, or the layout is another job's."


def _note_on_cut(processes: Iterable[Process]) -> str:
    every = list(processes)
    cut = {rank for rank, p in with_ranks(every) if p.dump.status == TRUNCATED}
    if not cut:
        return ""
    total = len({p.rank for p in every})
    which = f" (rank {fold_ranks(cut)})" if len(cut) <= LIMITS.cut else ""
    return f"{len(cut)} of {total} dumps break off in the middle of a stack{which}; what is there was compared."


def _note_on_failed(shown: ShownRound) -> str:
    if not shown.failed:
        return ""
    which = f"The dump of rank {fold_ranks(shown.failed)}"
    return f"{which} failed in the tool itself; that proves nothing about the rank."


def _note_on_empty(shown: ShownRound) -> str:
    if not shown.empty:
        return ""
    which = f"The dump of rank {fold_ranks(shown.empty)}"
    return f"{which} is empty: the process may have been gone, or the tool was not allowed to read it."


def reasons_of(accusations: Iterable[Accusation]) -> list[str]:
    """The reasons against one node: each once, with all the node's ranks that share it."""
    ranks: dict[str, list[int]] = {}
    for accusation in accusations:
        for reason in accusation.reasons:
            own = [] if accusation.rank is None else [accusation.rank]
            ranks.setdefault(reason, []).extend(own)
    return [reason_sentence(sharing, reason) for reason, sharing in ranks.items()]


def reason_sentence(ranks: Sequence[int], reason: str) -> str:
    """A reason with its ranks in front."""
    subject = ranks_text(ranks) if ranks else "a process"
    return f"{subject}: {reason}" if reason.startswith("its ") else f"{subject} {reason}"
