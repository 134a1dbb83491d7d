"""The causal strip: the chain of findings on one time axis, from a report's ``conclusion``.

Pure: no query, no clock, no address. The constants below limit the size for every report.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from diagnosis.evidence import COURSE_KINDS
from triage.domain.report_facts import node_count_of
from triage.selectors.strip_axis import Axis, Tick
from triage.selectors.strip_entries import Entry, entries_of, is_rank, place_of, share_of, shorten_names, time_of

#: Maximum findings of the chain that are read; lanes of places; marks of the picture.
MAX_FINDINGS: Final = 60
MAX_LANES: Final = 6
MAX_MARKS: Final = 16
#: Marks of one lane that are closer than this share of the axis are drawn on several levels.
MIN_MARK_DISTANCE: Final = 0.09
#: A name beside its mark needs this share of the axis.
MIN_NAME_ROOM: Final = 0.1
#: Height of one level, space between lanes and above the first, in pixels.
LEVEL_PX: Final = 28
SPACE_PX: Final = 8
#: Marks to keep if there are too many, most important first.
_KINDS_BY_IMPORTANCE: Final = ("root", "progress", "waited_for", "slow", "restart", "silent", "flows_ceased", "outcome")
_ANOMALY_KINDS: Final = ("slow", "root", "silent", "waited_for", "flows_ceased", "consequence")
_LANE_KINDS: Final = ("node", "switch", "link")
#: Kinds of one colour, in the order of the key; all others are grey.
_COLOURS: Final = (
    ("root",),
    ("consequence",),
    ("slow",),
    ("progress",),
    ("waited_for", "stacks"),
    ("flows_ceased",),
    ("silent", "restart"),
)


@dataclass(frozen=True, slots=True)
class Lane:
    """A row of the picture. ``p``: the probability that it is at fault, None if it is not accused."""

    name: str
    kind: str
    note: str = ""
    p: float | None = None
    y: int = 0
    height: int = LEVEL_PX

    @property
    def prefix(self) -> str:
        """Its kind, where the name alone looks like a machine's."""
        return self.kind if self.kind in ("link", "switch") else ""

    @property
    def is_place(self) -> bool:
        """Whether it has a name of its own."""
        return self.kind not in ("job", "others")


@dataclass(frozen=True, slots=True)
class Strip:
    """The picture (``lanes``, ``marks``, ``ticks``, ``folds``), the rows without a time, and sentences."""

    lanes: tuple[Lane, ...]
    marks: tuple[Entry, ...]
    undated: tuple[Entry, ...]
    ticks: tuple[Tick, ...]
    #: folded quiet time: position on the axis in percent, seconds
    folds: tuple[tuple[str, float], ...]
    height: int
    #: marks beyond MARKS
    left_out: int
    moment: dict[str, Any]
    moment_x: str
    #: (why, names) of the places where it was seen
    seen: tuple[tuple[str, tuple[str, ...]], ...]

    @property
    def rows(self) -> tuple[Entry, ...]:
        return (*self.marks, *self.undated)

    @property
    def key(self) -> tuple[tuple[str, str], ...]:
        """A kind and the names of all marks of its colour, for each colour of the picture."""
        shown = {mark.what: mark.name for mark in self.marks}
        named = set(itertools.chain.from_iterable(_COLOURS))
        rows = []
        for colour in (*_COLOURS, tuple(what for what in shown if what not in named)):
            kinds = [what for what in colour if what in shown]
            if kinds:
                rows.append((kinds[0], ", ".join(map(shown.__getitem__, kinds))))
        return tuple(rows)

    @property
    def unstamped(self) -> tuple[Entry, ...]:
        """The marks whose lines state no time."""
        return tuple(mark for mark in self.marks if not mark.is_stamped)

    @property
    def has_bars(self) -> bool:
        """Whether a mark has a duration."""
        return any(mark.until is not None for mark in self.marks)

    @property
    def is_drawn(self) -> bool:
        """Whether an axis shows more than how the job went."""
        return self.has_bars or any(mark.what not in COURSE_KINDS for mark in self.marks)

    @property
    def has_accused(self) -> bool:
        """Whether a lane is coloured as that of somebody at fault."""
        return any(lane.p is not None for lane in self.lanes)


def strip_of(report: Mapping[str, Any]) -> Strip | None:
    """The strip of a report; None without a conclusion or with an empty chain. O(findings × lanes)."""
    conclusion = report.get("conclusion") or {}
    entries = entries_of(conclusion, MAX_FINDINGS)
    if not entries:
        return None
    dated = [entry for entry in entries if entry.at is not None]
    shown = _most_important(dated)
    undated = [entry for entry in entries if entry.at is None]
    first = next((entry for entry in shown if _is_anomaly(entry, conclusion)), None)
    numbered = [replace(e, number=n, is_first=e is first) for n, e in enumerate([*shown, *undated], 1)]
    axis = Axis.for_spans([(e.at, e.until) for e in shown if e.at is not None])
    lanes = _lanes(report, conclusion, numbered)
    lanes, marks = _place_entries(lanes, numbered[: len(shown)], axis)
    moment = conclusion.get("moment") or {}
    began_at = time_of(moment.get("t"))
    return Strip(
        lanes=tuple(lanes),
        marks=tuple(marks),
        undated=tuple(numbered[len(shown) :]),
        ticks=axis.ticks(),
        folds=tuple((f"{x:.2f}", seconds) for x, seconds in axis.folds()),
        height=lanes[-1].y + lanes[-1].height + SPACE_PX if lanes else 0,
        left_out=len(dated) - len(shown),
        moment={**moment, "t": began_at},
        moment_x="" if began_at is None or not axis.contains(began_at) else f"{axis.x(began_at):.2f}",
        seen=_seen_places(conclusion),
    )


def tracks_of(report: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The lanes of the strip with their marks, for an export: ``name``, ``marks`` (``t``, ``until``, ``name``,
    ``text``). Empty without a strip.
    """
    strip = strip_of(report)
    if strip is None:
        return []
    rows = []
    for lane in strip.lanes:
        marks = [mark for mark in strip.marks if lane.y <= mark.y < lane.y + lane.height]
        if marks:
            rows.append({"name": lane.name, "marks": [_exported(mark) for mark in marks]})
    return rows


def _exported(mark: Entry) -> dict[str, Any]:
    return {"t": mark.at, "until": mark.until, "name": mark.name, "text": mark.text}


def _is_anomaly(entry: Entry, conclusion: Mapping[str, Any]) -> bool:
    """Whether it may be called the first anomaly: slow steps only within a stretch of the conclusion, because flows of
    healthy jobs have slow steps, too.
    """
    if entry.is_during:  # when it began is not known
        return False
    if entry.what == "flows_ceased" and conclusion.get("fault"):  # the nodes that only waited fall silent too
        return bool({str(row.get("name")) for row in conclusion["fault"]} & set(entry.nodes))
    if entry.what != "slow" or entry.at is None:
        return entry.what in _ANOMALY_KINDS
    begin, end = entry.at, entry.until or entry.at
    spans = [(time_of(row.get("t")), time_of(row.get("until"))) for row in conclusion.get("slowdowns") or ()]
    return any(t is not None and t <= end and (until or t) >= begin for t, until in spans)


def _most_important(rows: Sequence[Entry]) -> list[Entry]:
    if len(rows) <= MAX_MARKS:
        return list(rows)
    worth = {what: n for n, what in enumerate(_KINDS_BY_IMPORTANCE)}
    kept = sorted(range(len(rows)), key=lambda n: (worth.get(rows[n].what, len(worth)), n))[:MAX_MARKS]
    return [rows[n] for n in sorted(kept)]


def _lanes(report: Mapping[str, Any], conclusion: Mapping[str, Any], entries: Sequence[Entry]) -> list[Lane]:
    """The job, who is at fault, where it was seen, and one lane for all other nodes."""
    fault, seen = list(conclusion.get("fault") or ()), list(conclusion.get("seen") or ())
    places = _place_lanes(fault, seen) or _rank_lanes([*fault, *seen])
    own_lanes = places[:MAX_LANES]
    named = {lane.name for lane in own_lanes}
    beyond = {lane.name for lane in places[MAX_LANES:] if lane.kind == "node"}
    parts = itertools.chain.from_iterable((entry, *entry.more) for entry in entries)
    mentioned = set(itertools.chain.from_iterable(part.nodes for part in parts))
    others = beyond | {name for name in mentioned - named if not is_rank(name)}
    total = node_count_of(dict(report)) or 0
    count = max(len(others), total - sum(lane.kind == "node" for lane in own_lanes))
    lanes = [Lane("job", "job"), *own_lanes]
    if count and not (own_lanes and own_lanes[0].kind == "rank" and not others):
        other = "other " if any(lane.kind in ("node", "rank") for lane in own_lanes) else ""
        lanes.append(Lane(f"{count:,} {other}node{'' if count == 1 else 's'}", "others"))
    return lanes


def _place_lanes(fault: Sequence[Mapping[str, Any]], seen: Sequence[Mapping[str, Any]]) -> list[Lane]:
    """One for each place at fault, with its probability, then one for each where it was seen."""
    found = [_lane_of(row, share_of(row.get("p"))) for row in fault] + [_lane_of(row, None) for row in seen]
    lanes: dict[str, Lane] = {}
    for lane in filter(None, found):
        lanes.setdefault(lane.name, lane)
    return list(lanes.values())


def _lane_of(row: Mapping[str, Any], p: float | None) -> Lane | None:
    """None for what has no lane of its own, such as a rank."""
    kind, name = str(row.get("kind") or ""), str(row.get("name") or "")[:200]
    if not name or kind not in _LANE_KINDS:
        return None
    if isinstance(row.get("rank"), int):
        return Lane(name, kind, f"rank {row['rank']}", p)
    return Lane(name, kind, "seen there" if p is None else "", p)


def _rank_lanes(rows: Sequence[Mapping[str, Any]]) -> list[Lane]:
    """The places where no node is known."""
    lanes: dict[str, Lane] = {}
    for row in rows:
        if row.get("kind") == "rank":
            name = f"rank {str(row.get('name') or '')[:12]}"
            lanes.setdefault(name, Lane(name, "rank", "", share_of(row.get("p"))))
    return list(lanes.values())


def _place_entries(lanes: list[Lane], entries: Sequence[Entry], axis: Axis) -> tuple[list[Lane], list[Entry]]:
    """Lanes with their heights, entries with their positions: close marks of one lane get different levels."""
    of = {lane.name: n for n, lane in enumerate(lanes)}
    others = len(lanes) - 1 if lanes[-1].kind == "others" else 0
    rows: list[tuple[Entry, float, int, int, tuple[int, ...]]] = []
    ends: list[list[float]] = [[] for _ in lanes]
    for entry, at in zip(entries, _axis_times(entries), strict=True):
        own_lanes = sorted({of.get(n, others) for n in entry.nodes if n in of or not is_rank(n)} or {0})
        lane, begin = own_lanes[0], axis.x(at) / 100
        end = max(begin, axis.x(entry.until) / 100) if entry.until is not None else begin
        free = [n for n, occupied in enumerate(ends[lane]) if occupied + MIN_MARK_DISTANCE <= begin]
        level = free[0] if free else len(ends[lane])
        if not free:
            ends[lane].append(end)
        ends[lane][level] = end
        rows.append((entry, at, lane, level, tuple(own_lanes[1:])))
    y = SPACE_PX
    placed: list[Lane] = []
    for row, occupied in zip(lanes, ends, strict=True):
        placed.append(replace(row, y=y, height=LEVEL_PX * max(1, len(occupied))))
        y += placed[-1].height + SPACE_PX
    drawn = []
    for entry, at, lane, level, also in rows:
        x = axis.x(at)
        width = max(0.0, axis.x(entry.until) - x) if entry.until is not None else 0.0
        at_y = placed[lane].y + LEVEL_PX * level + LEVEL_PX // 2
        touches = tuple(placed[n].y + placed[n].height - 5 for n in also)
        style = axis.style(entry.at or 0.0)
        drawn.append(replace(entry, x=f"{x:.2f}", width=f"{width:.2f}", y=at_y, touches=touches, style=style))
    return placed, _place_names(drawn)


def _axis_times(entries: Sequence[Entry]) -> list[float]:
    """Where the entries, in their order, stand on the axis. A stamp without a fraction says only the second: its mark
    is not drawn before that of its cause in this second.
    """
    out: list[float] = []
    for entry in entries:
        at = entry.at or 0.0
        is_whole = at == math.floor(at)
        out.append(out[-1] if is_whole and out and math.floor(out[-1]) == at else at)
    return out


def _place_names(marks: Sequence[Entry]) -> list[Entry]:
    """The marks with the side on which their names fit between their neighbours at the same height."""
    out: list[Entry] = []
    occupied: dict[int, float] = {}
    for n, mark in enumerate(marks):
        x = float(mark.x) / 100
        right_neighbour = min(
            (float(m.x) / 100 for m in marks[n + 1 :] if m.y == mark.y), default=1.0 + MIN_MARK_DISTANCE / 3
        )
        left_room = x - occupied.get(mark.y, -MIN_MARK_DISTANCE)
        side = "right" if right_neighbour - x >= MIN_NAME_ROOM else "left" if left_room >= MIN_NAME_ROOM else ""
        ends = x + float(mark.width) / 100
        room = right_neighbour - x if side == "right" else left_room
        occupied[mark.y] = max(ends, x + MIN_NAME_ROOM if side == "right" else x)
        out.append(replace(mark, side=side, name_room=room if side else 0.0))
    return out


def _seen_places(conclusion: Mapping[str, Any]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Where it was seen, except what the suspects' own reasons say: one row per reason."""
    stated = itertools.chain.from_iterable(row.get("reasons") or () for row in conclusion.get("fault") or ())
    reasons = set(map(str, stated))
    by: dict[str, list[str]] = {}
    for row in conclusion.get("seen") or ():
        why = str(row.get("why") or "")
        if why not in reasons:
            by.setdefault(why[:160], []).append(place_of(row))
    return tuple((why, shorten_names(names)) for why, names in list(by.items())[:MAX_LANES])
