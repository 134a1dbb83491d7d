"""Figures as tables, for readers without JavaScript: the chart's data, reduced to a page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

#: rows of one table; a larger figure is thinned evenly
MAX_ROWS = 200


@dataclass(frozen=True, slots=True)
class Table:
    """Column heads and rows of text; ``left_out``: number of points without a row."""

    heads: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    left_out: int = 0


def steps_table(job: dict[str, Any], clock: Any) -> Table:
    """Every step with its start, its seconds and whether it was slow. Slow ones are never left out."""
    steps = list(enumerate(job.get("steps") or [], 1))
    slow = [row for row in steps if row[1].get("slow")][:MAX_ROWS]
    usual = [row for row in steps if not row[1].get("slow")]
    stride = max(1, -(-len(usual) // max(1, MAX_ROWS - len(slow))))
    shown = sorted([*slow, *usual[::stride]])
    rows = [
        (f"{n:,}", clock(step["start"]), f"{step['end'] - step['start']:.3f} s", "slow" if step.get("slow") else "")
        for n, step in shown
    ]
    return Table(("Step", "Begins (UTC)", "Takes", ""), rows, len(steps) - len(rows))


def pairs_table(job: dict[str, Any]) -> Table:
    """Sender, receiver, purpose and number of records of each pair; most first."""
    pairs = sorted(job.get("pairs") or [], key=lambda pair: -pair.get("records", 0))
    rows = [(str(p["a"]), str(p["b"]), str(p["type"]), f"{p.get('records', 0):,}") for p in pairs[:MAX_ROWS]]
    return Table(("Member", "Member", "For", "Records"), rows, len(pairs) - len(rows))


def port_table(lines: dict[str, list[float]], clock: Any) -> Table:
    """One port's traffic over time in Gb/s."""
    times = lines["times"]
    picked = range(0, len(times), max(1, -(-len(times) // MAX_ROWS)))
    rows = [(clock(times[n]), *(f"{lines[way][n] / 1e9:.3f}" for way in ("in_bps", "out_bps"))) for n in picked]
    return Table(("Time (UTC)", "In, Gb/s", "Out, Gb/s"), rows, len(times) - len(rows))
