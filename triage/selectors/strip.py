"""The causal strip: what followed what in one picture with one time axis, from a report's ``conclusion``.

Pure: no query, no clock, no address. Everything is bounded by the constants below, whatever a report holds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from diagnosis.conclusion.model import WHAT
from triage.selectors.strip_axis import Axis, Tick
from triage.services.reading import node_count_of
from triage.wording import duration

#: Findings of the chain that are looked at; lanes of places; marks of the picture.
FINDINGS: Final = 60
LANES: Final = 6
MARKS: Final = 16
#: Findings of one kind and source that get a mark of their own; the rest of them joins the last of these.
ALONE: Final = {"slow": 3, "root": 3, "silent": 3, "waited_for": 3, "flows_ceased": 3, "restart": 3}
#: Characters of one text.
TEXT: Final = 400
#: Places that a row lists.
PLACES: Final = 4
#: Marks of one lane that are closer than this share of the axis are drawn on several levels.
CLOSE: Final = 0.09
#: Height of one level, space between lanes and above the first, in pixels.
LEVEL: Final = 26
SPACE: Final = 8
#: The year 9999: later seconds have no date.
_LAST_SECOND: Final = 253_402_300_799.0
#: Marks that are kept where there are too many, first to last.
_KEPT_FIRST: Final = ("root", "progress", "waited_for", "slow", "restart", "silent", "flows_ceased", "outcome")
_ANOMALIES: Final = ("slow", "root", "silent", "waited_for", "flows_ceased", "consequence")
_NAMES: Final = {
    "slow": "slow",
    "progress": "last step",
    "root": "root cause",
    "silent": "fell silent",
    "waited_for": "waited for",
    "flows_ceased": "flows ceased",
    "stacks": "stacks taken",
    "outcome": "end",
}
_LANE_KINDS: Final = ("node", "switch", "link")


@dataclass(frozen=True, slots=True)
class Lane:
    """A row of the picture. ``p``: how probably it is at fault, None if it is not accused."""

    name: str
    kind: str
    note: str = ""
    p: float | None = None
    y: int = 0
    height: int = LEVEL

    @property
    def is_place(self) -> bool:
        """Whether it has a name of its own."""
        return self.kind not in ("job", "others")


@dataclass(frozen=True, slots=True)
class Entry:
    """One mark and one row: a finding, or several of one kind. ``more``: the texts and evidence of the others."""

    what: str
    source: str
    text: str
    at: float | None
    until: float | None
    nodes: tuple[str, ...]
    where: str
    evidence: dict[str, Any] | None
    more: tuple[Entry, ...] = ()
    number: int = 0
    is_first: bool = False
    #: in the picture: left end in percent of the axis, width, heights in pixels; lanes that it touches beside its own
    x: str = "0"
    width: str = "0"
    y: int = 0
    touches: tuple[int, ...] = ()
    #: how the time is written, a style of the ``utc`` tag
    style: str = "clock"

    @property
    def lasts_s(self) -> float | None:
        """How long it lasted; of the last step None, whose stretch is the silence after it."""
        if self.at is None or self.until is None or self.what == "progress":
            return None
        return self.until - self.at

    @property
    def name(self) -> str:
        return _NAMES.get(self.what, self.what.replace("_", " "))

    @property
    def bar_y(self) -> int:
        return self.y - 3

    @property
    def bottom(self) -> int:
        return max(self.touches, default=self.y)


@dataclass(frozen=True, slots=True)
class Strip:
    """The picture (``lanes``, ``marks``, ``ticks``, ``folds``), the rows without a time, and the sentences beside."""

    lanes: tuple[Lane, ...]
    marks: tuple[Entry, ...]
    undated: tuple[Entry, ...]
    ticks: tuple[Tick, ...]
    #: where quiet time was left out: place on the axis in percent, seconds
    folds: tuple[tuple[str, float], ...]
    height: int
    #: marks beyond MARKS
    left_out: int
    moment: dict[str, Any]
    moment_x: str
    #: (why, names) of where it was seen
    seen: tuple[tuple[str, str], ...]

    @property
    def rows(self) -> tuple[Entry, ...]:
        return (*self.marks, *self.undated)


def strip_of(report: Mapping[str, Any]) -> Strip | None:
    """The strip of a report; None where it has no conclusion or an empty chain. O(findings × lanes)."""
    told = report.get("conclusion") or {}
    found = [_entry(row, told) for row in (told.get("chain") or [])[:FINDINGS]]
    if not found:
        return None
    entries = _ordered(_joined(_stalled(found, str(told.get("condition")))))
    dated = [entry for entry in entries if entry.at is not None]
    shown = _most_telling(dated)
    undated = [entry for entry in entries if entry.at is None]
    first = next((entry for entry in shown if _is_anomaly(entry, told)), None)
    numbered = [replace(e, number=n, is_first=e is first) for n, e in enumerate([*shown, *undated], 1)]
    axis = Axis.over([(e.at, e.until) for e in shown if e.at is not None])
    lanes = _lanes(report, told, numbered)
    lanes, marks = _placed(lanes, numbered[: len(shown)], axis)
    moment = told.get("moment") or {}
    begun = _time(moment.get("t"))
    return Strip(
        lanes=tuple(lanes),
        marks=tuple(marks),
        undated=tuple(numbered[len(shown) :]),
        ticks=axis.ticks(),
        folds=tuple((f"{x:.2f}", seconds) for x, seconds in axis.folds()),
        height=lanes[-1].y + lanes[-1].height + SPACE if lanes else 0,
        left_out=len(dated) - len(shown),
        moment={**moment, "t": begun},
        moment_x="" if begun is None or not axis.holds(begun) else f"{axis.x(begun):.2f}",
        seen=_seen(told),
    )


def _entry(row: Mapping[str, Any], told: Mapping[str, Any]) -> Entry:
    places = [p for p in row.get("places") or () if isinstance(p, Mapping)]
    at, until = _time(row.get("t")), _time(row.get("until"))
    evidence = next((e for e in row.get("evidence") or () if isinstance(e, Mapping) and e.get("file")), None)
    what = str(row.get("what") or "")
    text = str(row.get("text") or "")[:TEXT].strip()
    if what == "outcome":
        text = f"The job's outcome: {text}" if row.get("source") != "uploader" else f"The uploader says: {text}"
    return Entry(
        what=what,
        source=str(row.get("source") or ""),
        text=text + _cost(row, told),
        at=at,
        until=until if at is not None and until is not None and until > at else None,
        nodes=tuple(dict.fromkeys(_lane_name(p) for p in places)),
        where=_where(places),
        evidence=dict(evidence) if evidence else None,
    )


def _stalled(entries: list[Entry], condition: str) -> list[Entry]:
    """Of a hung job the last step lasts until something ended it: the time in which nothing went on."""
    if condition != "hung":
        return entries
    out = []
    for entry in entries:
        ends = [e.at for e in entries if e.at is not None and e.what in ("teardown", "outcome", "restart")]
        later = [t for t in ends if entry.at is not None and t > entry.at]
        if entry.what != "progress" or not later:
            out.append(entry)
            continue
        stood = duration(min(later) - (entry.at or 0.0))
        out.append(replace(entry, until=min(later), text=f"{entry.text}; no step in the {stood} after it"))
    return out


def _cost(row: Mapping[str, Any], told: Mapping[str, Any]) -> str:
    """What a slow stretch cost, where the conclusion says it of the same steps."""
    steps = row.get("steps")
    if not steps:
        return ""
    for slow in told.get("slowdowns") or ():
        if [slow.get("first"), slow.get("last")] == list(steps) and slow.get("source") == row.get("source"):
            lost = slow.get("lost_gpu_s")
            return f"; it cost {lost:,.0f} GPU-seconds" if isinstance(lost, int | float) else ""
    return ""


def _joined(entries: Sequence[Entry]) -> list[Entry]:
    """Findings of one kind and source as few entries: the first ones alone, the others behind the last of these."""
    groups: dict[tuple[str, str, bool], list[Entry]] = {}
    for entry in entries:
        groups.setdefault((entry.what, entry.source, entry.at is None), []).append(entry)
    out: list[Entry] = []
    for (what, _, _), rows in groups.items():
        rows.sort(key=lambda e: e.at or 0.0)
        alone = ALONE.get(what, 1)
        out += rows[: alone - 1] if len(rows) > alone else rows[:alone]
        if len(rows) > alone:
            out.append(_group(rows[alone - 1 :]))
    return out


def _group(rows: Sequence[Entry]) -> Entry:
    ends = [e.until or e.at for e in rows if e.at is not None]
    last, lead = max((t for t in ends if t is not None), default=None), rows[0]
    nodes = tuple(dict.fromkeys(name for e in rows for name in e.nodes))
    until = last if lead.at is not None and last is not None and last > lead.at else None
    names = [name for name in nodes if not name.startswith("rank ")] or list(nodes)
    return replace(lead, until=until, nodes=nodes, where=_listed(names), more=tuple(rows[1:]))


def _ordered(entries: Iterable[Entry]) -> list[Entry]:
    """By time; within one second that any stamp gives without its fraction, in the order in which such things follow
    each other: a cause stamped .299 is not later than its consequence that says the second alone."""
    rows = list(entries)
    coarse = {e.at for e in rows if e.at is not None and e.at == math.floor(e.at)}
    order = {what: n for n, what in enumerate(WHAT)}

    def key(e: Entry) -> tuple[bool, float, int, float, int, str]:
        second, place = math.floor(e.at or 0.0), order.get(e.what, len(order))
        return (e.at is None, second, place if second in coarse else 0, e.at or 0.0, place, e.text)

    return sorted(rows, key=key)


def _is_anomaly(entry: Entry, told: Mapping[str, Any]) -> bool:
    """Whether the strip may call it the first anomaly: slow steps only within a stretch that the conclusion tells,
    because the flows of healthy jobs have slow steps too."""
    if entry.what != "slow" or entry.at is None:
        return entry.what in _ANOMALIES
    begin, end = entry.at, entry.until or entry.at
    spans = [(_time(row.get("t")), _time(row.get("until"))) for row in told.get("slowdowns") or ()]
    return any(t is not None and t <= end and (until or t) >= begin for t, until in spans)


def _most_telling(rows: Sequence[Entry]) -> list[Entry]:
    if len(rows) <= MARKS:
        return list(rows)
    worth = {what: n for n, what in enumerate(_KEPT_FIRST)}
    kept = sorted(range(len(rows)), key=lambda n: (worth.get(rows[n].what, len(worth)), n))[:MARKS]
    return [rows[n] for n in sorted(kept)]


def _lanes(report: Mapping[str, Any], told: Mapping[str, Any], entries: Sequence[Entry]) -> list[Lane]:
    """The job, who is at fault, where it was seen, and one lane for all other nodes."""
    fault, seen = list(told.get("fault") or ()), list(told.get("seen") or ())
    found: dict[str, Lane] = {}
    for row, p in [(row, _share(row.get("p"))) for row in fault] + [(row, None) for row in seen]:
        kind, name = str(row.get("kind") or ""), str(row.get("name") or "")[:200]
        if not name or kind not in _LANE_KINDS or name in found:
            continue
        note = f"rank {row['rank']}" if isinstance(row.get("rank"), int) else "" if p is not None else "seen there"
        found[name] = Lane(name, kind, note, p)
    if not found:  # nobody knows the nodes: the ranks are the places
        for row in [*fault, *seen]:
            if row.get("kind") == "rank":
                name = f"rank {str(row.get('name') or '')[:12]}"
                found.setdefault(name, Lane(name, "rank", "", _share(row.get("p"))))
    own = list(found.values())[:LANES]
    named = {lane.name for lane in own}
    beyond = {lane.name for lane in list(found.values())[LANES:] if lane.kind == "node"}
    others = beyond | {
        n for e in entries for one in (e, *e.more) for n in one.nodes if n not in named and not _is_rank(n)
    }
    total = node_count_of(dict(report)) or 0
    count = max(len(others), total - sum(lane.kind == "node" for lane in own))
    lanes = [Lane("job", "job"), *own]
    if count and not (own and own[0].kind == "rank" and not others):
        lanes.append(Lane(f"{count:,} {'other ' if own else ''}node{'' if count == 1 else 's'}", "others"))
    return lanes


def _placed(lanes: list[Lane], entries: Sequence[Entry], axis: Axis) -> tuple[list[Lane], list[Entry]]:
    """Lanes with their heights, entries with their places: marks of one lane that are close stand on levels."""
    of = {lane.name: n for n, lane in enumerate(lanes)}
    others = len(lanes) - 1 if lanes[-1].kind == "others" else 0
    rows: list[tuple[Entry, int, int, tuple[int, ...]]] = []
    ends: list[list[float]] = [[] for _ in lanes]
    for entry in entries:
        at = entry.at or 0.0
        all_own = sorted({of.get(n, others) for n in entry.nodes if n in of or not _is_rank(n)} or {0})
        lane, begin = all_own[0], axis.x(at) / 100
        end = axis.x(entry.until) / 100 if entry.until is not None else begin
        free = [n for n, taken in enumerate(ends[lane]) if taken + CLOSE <= begin]
        level = free[0] if free else len(ends[lane])
        if not free:
            ends[lane].append(end)
        ends[lane][level] = end
        rows.append((entry, lane, level, tuple(all_own[1:])))
    y = SPACE
    placed: list[Lane] = []
    for row, taken in zip(lanes, ends, strict=True):
        placed.append(replace(row, y=y, height=LEVEL * max(1, len(taken))))
        y += placed[-1].height + SPACE
    drawn = []
    for entry, own, level, also in rows:
        x = axis.x(entry.at or 0.0)
        width = axis.x(entry.until) - x if entry.until is not None else 0.0
        at_y = placed[own].y + LEVEL * level + LEVEL // 2
        touches = tuple(placed[n].y + placed[n].height - 5 for n in also)
        style = axis.style(entry.at or 0.0)
        drawn.append(replace(entry, x=f"{x:.2f}", width=f"{width:.2f}", y=at_y, touches=touches, style=style))
    return placed, drawn


def _seen(told: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Where it was seen and is not told by the suspects' own reasons: a row for each reason."""
    reasons = {str(r) for row in told.get("fault") or () for r in row.get("reasons") or ()}
    by: dict[str, list[str]] = {}
    for row in told.get("seen") or ():
        why = str(row.get("why") or "")
        if why not in reasons:
            by.setdefault(why[:160], []).append(_place(row))
    return tuple((why, _listed(names)) for why, names in list(by.items())[:LANES])


def _where(places: Sequence[Mapping[str, Any]]) -> str:
    names = [_place(p) for p in places if p.get("kind") != "rank"]
    ranks = [_place(p) for p in places if p.get("kind") == "rank"]
    if len(names) <= 1 and len(ranks) == 1:
        return ", ".join([*names, *ranks])
    return _listed(names or ranks)


def _listed(names: Sequence[str]) -> str:
    unique = list(dict.fromkeys(names))
    more = len(unique) - PLACES
    return ", ".join(unique[:PLACES]) + (f" and {more:,} more" if more > 0 else "")


def _place(place: Mapping[str, Any]) -> str:
    name = str(place.get("name") or "?")[:120]
    return f"rank {name}" if place.get("kind") == "rank" else name


def _lane_name(place: Mapping[str, Any]) -> str:
    return f"rank {str(place.get('name') or '')[:12]}" if place.get("kind") == "rank" else str(place.get("name"))[:200]


def _is_rank(name: str) -> bool:
    return name.startswith("rank ")


def _share(value: Any) -> float | None:
    return min(1.0, max(0.0, float(value))) if isinstance(value, int | float) and math.isfinite(value) else None


def _time(value: Any) -> float | None:
    """Seconds since the epoch that a calendar holds, else None."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _LAST_SECOND:
        return None
    return float(value)
