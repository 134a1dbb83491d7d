"""The time axis of the causal strip: long quiet stretches are folded, so that events within seconds are visible."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

#: A quiet stretch that takes more than this share of the axis is folded; all folded ones together take FOLDED of it.
MIN_FOLDED_SHARE: Final = 0.9
FOLDS_SHARE: Final = 0.3
#: Minimum and maximum seconds of the axis.
MIN_SPAN_S: Final = 1.0
#: Ticks, and their minimum distance in percent.
MAX_TICKS: Final = 6
MIN_TICK_DISTANCE: Final = 14.0
#: On a shorter axis times have milliseconds, on a longer one the day.
SHORT_AXIS_S: Final = 10.0
DAY_S: Final = 86400.0
_STEPS: Final = (0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 28800, 86400)


@dataclass(frozen=True, slots=True)
class Tick:
    """``style`` is one of those of the ``utc`` tag."""

    x: str
    t: float
    style: str
    is_minor: bool

    @property
    def is_last(self) -> bool:
        """Whether its label would not fit to the right of it."""
        return float(self.x) > 100.0 - MIN_TICK_DISTANCE / 4


@dataclass(frozen=True, slots=True)
class Piece:
    """From ``t0`` to ``t1``, drawn from ``x0`` to ``x1`` (percent)."""

    t0: float
    t1: float
    x0: float
    x1: float
    is_folded: bool


@dataclass(frozen=True, slots=True)
class Axis:
    """A time axis of linear pieces."""

    pieces: tuple[Piece, ...]

    @classmethod
    def for_spans(cls, spans: Sequence[tuple[float | None, float | None]]) -> Axis:
        """An axis for these moments and stretches. O(n log n)."""
        stretches = sorted((t, until if until is not None else t) for t, until in spans if t is not None)
        if not stretches:
            return cls(())
        busy: list[list[float]] = []
        for t0, t1 in stretches:
            if busy and t0 <= busy[-1][1]:
                busy[-1][1] = max(busy[-1][1], t1)
            else:
                busy.append([t0, t1])
        first, last = busy[0][0], busy[-1][1]
        spare = max(0.0, MIN_SPAN_S - (last - first))
        gaps = sorted(((b[0] - a[1], a[1], b[0]) for a, b in pairwise(busy)), reverse=True)
        total, folded = last + spare - first, set()
        for length, begin, end in gaps:
            if length <= MIN_FOLDED_SHARE * total or total - length < MIN_SPAN_S:
                break
            folded.add((begin, end))
            total -= length
        edges = _edges(first, last + spare, sorted(folded))
        share = FOLDS_SHARE / len(folded) if folded else 0.0
        scale = 100.0 * (1.0 - share * len(folded)) / total
        pieces, x = [], 0.0
        for t0, t1, is_folded in edges:
            width = 100.0 * share if is_folded else (t1 - t0) * scale
            pieces.append(Piece(t0, t1, x, x + width, is_folded))
            x += width
        return cls(tuple(pieces))

    def contains(self, t: float) -> bool:
        """Whether the moment is on the axis."""
        return bool(self.pieces) and self.pieces[0].t0 <= t <= self.pieces[-1].t1

    def x(self, t: float) -> float:
        """Position of the moment in percent; moments outside are at the ends."""
        for piece in self.pieces:
            if t <= piece.t1:
                share = (t - piece.t0) / (piece.t1 - piece.t0) if piece.t1 > piece.t0 else 0.0
                return piece.x0 + (piece.x1 - piece.x0) * min(1.0, max(0.0, share))
        return 100.0 if self.pieces else 0.0

    def folds(self) -> list[tuple[float, float]]:
        """Middle (percent) and length (seconds) of each folded stretch."""
        return [((p.x0 + p.x1) / 2, p.t1 - p.t0) for p in self.pieces if p.is_folded]

    def ticks(self) -> tuple[Tick, ...]:
        """At round times, in the pieces that are not folded; every second one is minor."""
        open_s = sum(p.t1 - p.t0 for p in self.pieces if not p.is_folded)
        step = next((s for s in _STEPS if open_s / s <= MAX_TICKS), max(_STEPS[-1], open_s / MAX_TICKS))
        style = "milli" if step < 1 else "clock" if self._span() < DAY_S else "minute"
        ticks: list[Tick] = []
        last = -MIN_TICK_DISTANCE
        for piece in (p for p in self.pieces if not p.is_folded):
            first = -(-piece.t0 // step)
            for n in range(MAX_TICKS + 2):
                t = (first + n) * step
                if t > piece.t1:
                    break
                x = self.x(t)
                if x - last >= MIN_TICK_DISTANCE:
                    ticks.append(Tick(f"{x:.2f}", t, style, len(ticks) % 2 == 1))
                    last = x
        return tuple(ticks)

    def style(self, t: float) -> str:
        """The style of a moment: with a fraction only if the axis is short and the stamp has one."""
        if self._span() >= DAY_S:
            return "second"
        return "milli" if self._span() < SHORT_AXIS_S and t != int(t) else "clock"

    def _span(self) -> float:
        return self.pieces[-1].t1 - self.pieces[0].t0 if self.pieces else 0.0


def _edges(first: float, last: float, folded: Sequence[tuple[float, float]]) -> list[tuple[float, float, bool]]:
    out, at = [], first
    for begin, end in folded:
        out += [(at, begin, False), (begin, end, True)]
        at = end
    return [*out, (at, last, False)]
