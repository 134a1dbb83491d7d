"""The causal strip: the chain of findings on one time axis, from a report's ``conclusion``.

Pure: no query, no clock, no address. The constants below limit the size for every report.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from triage.domain.report_facts import node_count_of
from triage.selectors.strip_axis import Axis, Tick
from triage.selectors.strip_entries import Entry, entries_of, is_rank, place_of, share_of, shortened, time_of

#: Maximum findings of the chain that are read; lanes of places; marks of the picture.
FINDINGS: Final = 60
LANES: Final = 6
MARKS: Final = 16
#: Marks of one lane that are closer than this share of the axis are drawn on several levels.
CLOSE: Final = 0.09
#: A name beside its mark needs this share of the axis.
NAME: Final = 0.1
#: Height of one level, space between lanes and above the first, in pixels.
LEVEL: Final = 28
SPACE: Final = 8
#: Marks to keep if there are too many, most important first.
_KEPT_FIRST: Final = ("root", "progress", "waited_for", "slow", "restart", "silent", "flows_ceased", "outcome")
_ANOMALIES: Final = ("slow", "root", "silent", "waited_for", "flows_ceased", "consequence")
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
    height: int = LEVEL

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
        named = {what for colour in _COLOURS for what in colour}
        colours = [*_COLOURS, tuple(what for what in shown if what not in named)]
        groups = [[what for what in colour if what in shown] for colour in colours]
        return tuple((own[0], ", ".join(shown[what] for what in own)) for own in groups if own)

    @property
    def unstamped(self) -> tuple[Entry, ...]:
        """The marks whose lines state no time."""
        return tuple(mark for mark in self.marks if not mark.is_stamped)

    @property
    def has_bars(self) -> bool:
        """Whether a mark has a duration."""
        return any(mark.until is not None for mark in self.marks)

    @property
    def has_accused(self) -> bool:
        """Whether a lane is coloured as that of somebody at fault."""
        return any(lane.p is not None for lane in self.lanes)


def strip_of(report: Mapping[str, Any]) -> Strip | None:
    """The strip of a report; None without a conclusion or with an empty chain. O(findings × lanes)."""
    told = report.get("conclusion") or {}
    entries = entries_of(told, FINDINGS)
    if not entries:
        return None
    dated = [entry for entry in entries if entry.at is not None]
    shown = _most_telling(dated)
    undated = [entry for entry in entries if entry.at is None]
    first = next((entry for entry in shown if _is_anomaly(entry, told)), None)
    numbered = [replace(e, number=n, is_first=e is first) for n, e in enumerate([*shown, *undated], 1)]
    axis = Axis.over([(e.at, e.until) for e in shown if e.at is not None])
    lanes = _lanes(report, told, numbered)
    lanes, marks = _placed(lanes, numbered[: len(shown)], axis)
    moment = told.get("moment") or {}
    begun = time_of(moment.get("t"))
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


def tracks_of(report: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The lanes of the strip with their marks, for an export: ``name``, ``marks`` (``t``, ``until``, ``name``,
    ``text``). Empty without a strip.
    """
    strip = strip_of(report)
    if strip is None:
        return []
    rows = [
        {
            "name": lane.name,
            "marks": [
                {"t": e.at, "until": e.until, "name": e.name, "text": e.text}
                for e in strip.marks
                if lane.y <= e.y < lane.y + lane.height
            ],
        }
        for lane in strip.lanes
    ]
    return [row for row in rows if row["marks"]]


def _is_anomaly(entry: Entry, told: Mapping[str, Any]) -> bool:
    """Whether it may be called the first anomaly: slow steps only within a stretch of the conclusion, because flows of
    healthy jobs have slow steps, too.
    """
    if entry.is_during:  # when it began is not known
        return False
    if entry.what == "flows_ceased" and told.get("fault"):  # the nodes that only waited fall silent too
        return bool({str(row.get("name")) for row in told["fault"]} & set(entry.nodes))
    if entry.what != "slow" or entry.at is None:
        return entry.what in _ANOMALIES
    begin, end = entry.at, entry.until or entry.at
    spans = [(time_of(row.get("t")), time_of(row.get("until"))) for row in told.get("slowdowns") or ()]
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
    for row, p in [(row, share_of(row.get("p"))) for row in fault] + [(row, None) for row in seen]:
        kind, name = str(row.get("kind") or ""), str(row.get("name") or "")[:200]
        if not name or kind not in _LANE_KINDS or name in found:
            continue
        note = f"rank {row['rank']}" if isinstance(row.get("rank"), int) else "" if p is not None else "seen there"
        found[name] = Lane(name, kind, note, p)
    if not found:  # no node is known: the ranks are the places
        for row in [*fault, *seen]:
            if row.get("kind") == "rank":
                name = f"rank {str(row.get('name') or '')[:12]}"
                found.setdefault(name, Lane(name, "rank", "", share_of(row.get("p"))))
    own = list(found.values())[:LANES]
    named = {lane.name for lane in own}
    beyond = {lane.name for lane in list(found.values())[LANES:] if lane.kind == "node"}
    others = beyond | {
        n for e in entries for one in (e, *e.more) for n in one.nodes if n not in named and not is_rank(n)
    }
    total = node_count_of(dict(report)) or 0
    count = max(len(others), total - sum(lane.kind == "node" for lane in own))
    lanes = [Lane("job", "job"), *own]
    if count and not (own and own[0].kind == "rank" and not others):
        other = "other " if any(lane.kind in ("node", "rank") for lane in own) else ""
        lanes.append(Lane(f"{count:,} {other}node{'' if count == 1 else 's'}", "others"))
    return lanes


def _placed(lanes: list[Lane], entries: Sequence[Entry], axis: Axis) -> tuple[list[Lane], list[Entry]]:
    """Lanes with their heights, entries with their positions: close marks of one lane get different levels."""
    of = {lane.name: n for n, lane in enumerate(lanes)}
    others = len(lanes) - 1 if lanes[-1].kind == "others" else 0
    rows: list[tuple[Entry, float, int, int, tuple[int, ...]]] = []
    ends: list[list[float]] = [[] for _ in lanes]
    for entry, at in zip(entries, _drawn_at(entries), strict=True):
        all_own = sorted({of.get(n, others) for n in entry.nodes if n in of or not is_rank(n)} or {0})
        lane, begin = all_own[0], axis.x(at) / 100
        end = max(begin, axis.x(entry.until) / 100) if entry.until is not None else begin
        free = [n for n, taken in enumerate(ends[lane]) if taken + CLOSE <= begin]
        level = free[0] if free else len(ends[lane])
        if not free:
            ends[lane].append(end)
        ends[lane][level] = end
        rows.append((entry, at, lane, level, tuple(all_own[1:])))
    y = SPACE
    placed: list[Lane] = []
    for row, taken in zip(lanes, ends, strict=True):
        placed.append(replace(row, y=y, height=LEVEL * max(1, len(taken))))
        y += placed[-1].height + SPACE
    drawn = []
    for entry, at, own, level, also in rows:
        x = axis.x(at)
        width = max(0.0, axis.x(entry.until) - x) if entry.until is not None else 0.0
        at_y = placed[own].y + LEVEL * level + LEVEL // 2
        touches = tuple(placed[n].y + placed[n].height - 5 for n in also)
        style = axis.style(entry.at or 0.0)
        drawn.append(replace(entry, x=f"{x:.2f}", width=f"{width:.2f}", y=at_y, touches=touches, style=style))
    return placed, _named(drawn)


def _drawn_at(entries: Sequence[Entry]) -> list[float]:
    """Where the entries, in their order, stand on the axis. A stamp without a fraction says only the second: its mark
    is not drawn before that of its cause in this second.
    """
    out: list[float] = []
    for entry in entries:
        at = entry.at or 0.0
        is_whole = at == math.floor(at)
        out.append(out[-1] if is_whole and out and math.floor(out[-1]) == at else at)
    return out


def _named(marks: Sequence[Entry]) -> list[Entry]:
    """The marks with the side on which their names fit between their neighbours at the same height."""
    out: list[Entry] = []
    taken: dict[int, float] = {}
    for n, mark in enumerate(marks):
        x = float(mark.x) / 100
        after = min((float(m.x) / 100 for m in marks[n + 1 :] if m.y == mark.y), default=1.0 + CLOSE / 3)
        before = x - taken.get(mark.y, -CLOSE)
        side = "right" if after - x >= NAME else "left" if before >= NAME else ""
        ends = x + float(mark.width) / 100
        room = after - x if side == "right" else before
        taken[mark.y] = max(ends, x + NAME if side == "right" else x)
        out.append(replace(mark, named=side, room=room if side else 0.0))
    return out


def _seen(told: Mapping[str, Any]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Where it was seen, except what the suspects' own reasons say: one row per reason."""
    reasons = {str(r) for row in told.get("fault") or () for r in row.get("reasons") or ()}
    by: dict[str, list[str]] = {}
    for row in told.get("seen") or ():
        why = str(row.get("why") or "")
        if why not in reasons:
            by.setdefault(why[:160], []).append(place_of(row))
    return tuple((why, shortened(names)) for why, names in list(by.items())[:LANES])
