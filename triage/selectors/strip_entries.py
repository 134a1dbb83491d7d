"""Turns findings of a conclusion's chain into entries of the causal strip: read, joined by kind,
ordered.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any, Final

from diagnosis import taxonomy
from diagnosis.conclusion.ordering import causal_order
from diagnosis.conclusion.sentences.sentence import gpu_hours
from diagnosis.values.plain import times_as_long
from triage.wording import duration

#: Findings of one kind and source with marks of their own; the others join the last of these.
MAX_SINGLE: Final = {"slow": 3, "root": 3, "silent": 3, "waited_for": 3, "flows_ceased": 3, "restart": 3}
#: Characters of one text, and of one that may stand in the picture.
MAX_TEXT: Final = 400
MAX_LONG_NAME: Final = 70
#: A bar of this share of the axis, in percent, has room for a longer name; beside a mark each character of it needs
#: this share of the axis.
LONG_NAME_WIDTH: Final = 30.0
CHARACTER_WIDTH: Final = 0.011
#: Shorter stretches are moments.
MIN_DURATION_S: Final = 1e-3
#: Maximum places in a row.
MAX_PLACES: Final = 4
#: The year 9999: later seconds have no date.
_LAST_SECOND: Final = 253_402_300_799.0
_NAMES: Final = {
    "slow": "slow",
    "progress": "last step",
    "root": "root cause",
    "silent": "fell silent",
    "waited_for": "others wait",
    "flows_ceased": "flows ceased",
    "stacks": "stacks taken",
    "check": "check run",
    "setup": "set-up differs",
    "slow_place": "slower",
    "outcome": "end",
}


@dataclass(frozen=True, slots=True)
class Entry:
    """One mark and one row: a finding, or several of one kind. ``more``: the texts and evidence of
    the others.
    """

    what: str
    source: str
    text: str
    at: float | None
    until: float | None
    nodes: tuple[str, ...]
    #: names of places, the last of them perhaps "and 7 more"
    where: tuple[str, ...]
    evidence: dict[str, Any] | None
    more: tuple[Entry, ...] = ()
    number: int = 0
    is_first: bool = False
    #: in the picture: left end in percent of the axis, width, heights in pixels; lanes that it touches besides its own
    x: str = "0"
    width: str = "0"
    y: int = 0
    touches: tuple[int, ...] = ()
    #: side of the mark on which its name fits: "right", "left" or empty; the share of the axis that is free there
    side: str = ""
    name_room: float = 0.0
    #: its name in the picture if there is room for a longer one
    long_name: str = ""
    #: the category of a root line, by its own rule
    cause: str = ""
    #: how the time is written, a style of the ``utc`` tag
    style: str = "clock"
    #: its evidence gives no time, but it holds while the job makes no progress
    is_during: bool = False
    #: False: its lines state no time, and it stands at the last time before them
    is_stamped: bool = True

    @property
    def lasts_s(self) -> float | None:
        """Its duration from a millisecond on; None for the last step, whose stretch is the silence
        after it.
        """
        if self.at is None or self.until is None or self.what == "progress":
            return None
        return self.until - self.at if self.until - self.at >= MIN_DURATION_S else None

    @property
    def is_line(self) -> bool:
        """Whether one line of a file shows it, not a page of flows or stacks."""
        return self.evidence is not None and self.source not in ("flows", "stacks")

    @property
    def name(self) -> str:
        return _NAMES.get(self.what, self.what.replace("_", " "))

    @property
    def label(self) -> str:
        """Its name in the picture: the longer one if there is room for it."""
        fits = float(self.width) >= LONG_NAME_WIDTH or self.name_room >= CHARACTER_WIDTH * len(self.long_name)
        return self.long_name if self.long_name and fits else self.name

    @property
    def bar_y(self) -> int:
        return self.y - 3

    @property
    def name_y(self) -> int:
        """The baseline of its name: above its bar, if that is longer than the mark."""
        return self.y - 7 if float(self.width) > 1.0 else self.y + 4

    @property
    def bottom(self) -> int:
        return max(self.touches, default=self.y)


def entries_of(conclusion: Mapping[str, Any], max_findings: int) -> list[Entry]:
    """The first ``max_findings`` findings as marks and rows, by time, those without a time last.
    O(n log n).
    """
    entries = [_entry(row, conclusion) for row in (conclusion.get("chain") or [])[:max_findings]]
    own_names = {str(row.get("name")) for row in conclusion.get("fault") or conclusion.get("seen") or ()}
    return causal_order(
        _join_entries(_extend_stall(entries, str(conclusion.get("condition"))), own_names),
        lambda e: (e.at, e.what, e.text),
    )


def _entry(row: Mapping[str, Any], conclusion: Mapping[str, Any]) -> Entry:
    places = [p for p in row.get("places") or () if isinstance(p, Mapping)]
    at, until = time_of(row.get("t")), time_of(row.get("until"))
    evidence = next((e for e in row.get("evidence") or () if isinstance(e, Mapping) and e.get("file")), None)
    what = str(row.get("what") or "")
    text = str(row.get("text") or "")[:MAX_TEXT].strip()
    long_name = _long_name(row, what, text, str(conclusion.get("id") or ""))
    text = _sentence(text, what, long_name, str(row.get("source") or ""), [str(place.get("name")) for place in places])
    return Entry(
        what=what,
        source=str(row.get("source") or ""),
        text=text + _cost(row, conclusion),
        at=at,
        until=until if at is not None and until is not None and until > at else None,
        nodes=tuple(dict.fromkeys(lane_name(p) for p in places)),
        where=_place_names(places),
        evidence=dict(evidence) if evidence else None,
        long_name=long_name,
        cause=str(row.get("category") or "") if what == "root" else "",
        is_stamped=at is None or row.get("is_stamped") is not False,
    )


def _sentence(text: str, what: str, long_name: str, source: str, names: Sequence[str]) -> str:
    """What a mark says: its cause or its speaker before the text; a clause begins with a capital, a
    name does not.
    """
    if what == "slow":
        begins = text.partition(" ")[0]
        is_clause = begins.isalpha() and begins not in names
        return text[:1].upper() + text[1:] if is_clause else text
    if what == "root" and long_name:
        return f"{long_name.partition(': ')[2]}: {text}"
    if what == "outcome":
        speaker = "The uploader says" if source == "uploader" else "The job's outcome"
        return f"{speaker}: {text}"
    return text


def _long_name(row: Mapping[str, Any], what: str, text: str, verdict: str) -> str:
    """A name that tells more: the cause, its consequence, the outcome, what a slow stretch is. A
    root line that a rule puts into another category than the ``verdict`` names no cause: the page
    has one.
    """
    leaf = taxonomy.load().categories.get(str(row.get("category") or ""))
    if what == "root" and leaf is not None and leaf.id != verdict:
        return ""
    if what in ("root", "consequence"):
        name = _NAMES.get(what, what)
        return f"{name}: {leaf.title}" if leaf is not None and leaf.id != taxonomy.UNKNOWN else ""
    if what == "outcome":
        return text
    return _slowness(row) if what == "slow" else ""


def _slowness(row: Mapping[str, Any]) -> str:
    """The steps and factor of a slow stretch, or the kind of slowness of the places that caused it."""
    steps, longer = row.get("steps"), _factor_words(row.get("amount"))
    if isinstance(steps, list | tuple) and len(steps) == 2 and longer:
        which = f"step {steps[0]}" if steps[0] == steps[1] else f"steps {steps[0]} to {steps[1]}"
        return f"{which} took {longer}"
    leaf = taxonomy.load().categories.get(str(row.get("category") or ""))
    return leaf.title.lower() if leaf is not None and row.get("places") else ""


def _extend_stall(entries: list[Entry], condition: str) -> list[Entry]:
    """The last step of a hung job lasts until something ended it: the time without progress. Who
    was waited for then has no time in stacks, but this time.
    """
    last = next((e for e in entries if e.what == "progress" and e.at is not None), None)
    if condition != "hung" or last is None or last.at is None:
        return entries
    ends = [e.at for e in entries if e.at is not None and e.what in ("teardown", "outcome", "restart")]
    until = min((t for t in ends if t > last.at), default=None)
    if until is None:
        return entries
    stall = duration(until - last.at)
    out = [e for e in entries if e is not last]
    for n, entry in enumerate(out):
        if entry.what == "waited_for" and entry.at is None:
            long_name = f"{entry.name}: {entry.text}" if len(entry.text) <= MAX_LONG_NAME else ""
            out[n] = replace(entry, at=last.at, until=until, long_name=long_name, is_during=True)
    text, long_name = f"{last.text}; no step in the {stall} after it", f"last step, then none for {stall}"
    return [replace(last, until=until, text=text, long_name=long_name), *out]


def _cost(row: Mapping[str, Any], conclusion: Mapping[str, Any]) -> str:
    """The cost of a slow stretch and whether it ended, if the conclusion has one of the same steps."""
    steps = row.get("steps")
    if not steps:
        return ""
    for slow in conclusion.get("slowdowns") or ():
        if [slow.get("first"), slow.get("last")] == list(steps) and slow.get("source") == row.get("source"):
            lost = slow.get("lost_gpu_s")
            cost = f"; it cost {gpu_hours(lost)}" if isinstance(lost, int | float) else ""
            return f"{cost}; then usual speed again" if slow.get("is_over") else cost
    return ""


def _join_entries(entries: Sequence[Entry], own_names: Set[str]) -> list[Entry]:
    """Findings of one kind and source as few entries: the first ones alone, the others in the last
    of these. Root lines that state one cause are one. ``own_names``: the accused, or where it was
    seen if nobody is; the silence of other nodes is one.
    """
    groups: dict[tuple[str, str, bool, bool, str], list[Entry]] = {}
    for entry in entries:
        is_other_silence = entry.what == "flows_ceased" and bool(own_names) and not own_names & set(entry.nodes)
        kind = (entry.what, entry.source, entry.at is None, is_other_silence, entry.cause)
        groups.setdefault(kind, []).append(entry)
    out: list[Entry] = []
    for (what, _, _, is_other_silence, cause), rows in groups.items():
        rows.sort(key=lambda e: e.at or 0.0)
        max_single = 1 if is_other_silence or cause else MAX_SINGLE.get(what, 1)
        out += rows[: max_single - 1] if len(rows) > max_single else rows[:max_single]
        if len(rows) > max_single:
            out.append(_group(rows[max_single - 1 :]))
    return out


def _group(rows: Sequence[Entry]) -> Entry:
    ends = [e.until or e.at for e in rows if e.at is not None]
    last, lead = max((t for t in ends if t is not None), default=None), rows[0]
    # of a heading and the lines below it, a line says more
    spokesman = next((e for e in rows if not e.text.endswith(":")), lead)
    nodes = tuple(dict.fromkeys(itertools.chain.from_iterable(row.nodes for row in rows)))
    until = last if lead.at is not None and last is not None and last > lead.at else None
    names = [name for name in nodes if not name.startswith("rank ")] or list(nodes)
    more = tuple(e for e in rows if e is not spokesman)
    where = shorten_names(names)
    return replace(spokesman, at=lead.at, until=until, is_stamped=lead.is_stamped, nodes=nodes, where=where, more=more)


def _place_names(places: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    names = [place_of(p) for p in places if p.get("kind") != "rank"]
    ranks = [place_of(p) for p in places if p.get("kind") == "rank"]
    if len(names) <= 1 and len(ranks) == 1:
        return (*names, *ranks)
    return shorten_names(names or ranks)


def shorten_names(names: Sequence[str]) -> tuple[str, ...]:
    """The first names, each once, and how many more there are."""
    unique = list(dict.fromkeys(names))
    more = len(unique) - MAX_PLACES
    return (*unique[:MAX_PLACES], f"and {more:,} more") if more > 0 else tuple(unique)


def place_of(place: Mapping[str, Any]) -> str:
    name = str(place.get("name") or "?")[:120]
    return f"rank {name}" if place.get("kind") == "rank" else name


def lane_name(place: Mapping[str, Any]) -> str:
    return f"rank {str(place.get('name') or '')[:12]}" if place.get("kind") == "rank" else str(place.get("name"))[:200]


def is_rank(name: str) -> bool:
    return name.startswith("rank ")


def share_of(value: Any) -> float | None:
    return min(1.0, max(0.0, float(value))) if isinstance(value, int | float) and math.isfinite(value) else None


def _factor_words(value: Any) -> str:
    """A factor in words, empty for what is no factor."""
    is_factor = isinstance(value, int | float) and math.isfinite(value) and 1.0 < value < 1000
    return times_as_long(value) if is_factor else ""


def time_of(value: Any) -> float | None:
    """Seconds since the epoch within the calendar, else None."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _LAST_SECOND:
        return None
    return float(value)
