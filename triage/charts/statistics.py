"""Turns tables into plotly figures, which pages draw on demand.

They are written as plotly.js reads them: plotly.py validates each property, which takes longer than the database needs
to sum a month, so only a test does that.

A mark's ``customdata`` is the address that a click opens. The page's theme sets the colours of text, grid and
background; only the series are coloured here, and they differ in pattern as well.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, datetime, time, timedelta
from typing import Any

import pandas as pd

from diagnosis.values.plain import PER_CENT, percent

#: one colour and one fill pattern per top-level category, readable on light and dark background
_CATEGORY_LOOKS = {
    "hardware": ("#c2574f", ""),
    "network": ("#b9872f", "/"),
    "framework": ("#7a6bc4", "x"),
    "user": ("#4f86c6", "."),
    "platform": ("#3f9c86", "\\"),
    "performance": ("#a0699f", "-"),
    "unknown": ("#8a929c", "|"),
    "none": ("#aeb5be", "+"),
}
_VERDICT_LOOKS = {
    "right": ("#3f9c63", ""),
    "wrong": ("#c2574f", "/"),
    "unnamed": ("#7a6bc4", "x"),
    "awaiting": ("#9aa2ac", "."),
}
_VERDICT_TITLES = {
    "right": "verdict confirmed",
    "wrong": "corrected or rejected",
    "unnamed": "none given, named by people",
    "awaiting": "not judged yet",
}


_MAX_NAMED_WEEKS = 8
#: the width of a bar, in milliseconds: of one week alone plotly.js would draw a bar as wide as the chart
_BAR_MS = int(0.85 * 7 * 86_400_000)
#: the pattern is drawn over the colour, not instead of it
OVERLAY = {"solidity": 0.25, "size": 7, "fillmode": "overlay", "fgcolor": "rgba(255,255,255,0.75)"}


def _bar(look: tuple[str, str], **trace: Any) -> dict[str, Any]:
    colour, pattern = look
    marker = {"color": colour, "line": {"width": 0}, "pattern": {"shape": pattern, **OVERLAY}}
    return {"type": "bar", "marker": marker, **trace}


def _figure(data: list[dict[str, Any]], **layout: Any) -> dict[str, Any]:
    """``{"data": …, "layout": …}`` without a template: the page's theme styles it."""
    dressed = {
        "margin": {"l": 52, "r": 16, "t": 8, "b": 40},
        "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
        "bargap": 0.15,
    }
    return {"data": data, "layout": {**dressed, **layout}}


def weeks_chart(frame: pd.DataFrame, measure: str, links: dict[tuple[str, str], str]) -> dict[str, Any]:
    """Stacked bars per week; ``links`` maps (week, category) to the list that a bar opens."""
    parts: dict[str, tuple[list[str], list[float]]] = {}
    for week, name, value in zip(frame.week, frame.category, frame[measure], strict=True):
        weeks, values = parts.setdefault(name, ([], []))
        weeks.append(str(week))
        values.append(value)
    known = [name for name in _CATEGORY_LOOKS if name in parts]
    data = []
    for name in [*known, *sorted(parts.keys() - set(known))]:
        weeks, values = parts[name]
        look = _CATEGORY_LOOKS.get(name, _CATEGORY_LOOKS["unknown"])
        data.append(_week_bars(look, name, name, weeks, values, links))
    title = "GPU-hours lost" if measure == "gpu_hours" else "incidents"
    axis = {"title": {"text": title}, "rangemode": "tozero"}
    return _figure(data, barmode="stack", xaxis=_mondays(frame.week), yaxis=axis)


def _week_bars(
    look: Any, key: str, title: str, weeks: list[str], values: list[float], links: dict[tuple[str, str], str]
) -> Any:
    """A bar for each week. ``links`` maps (week, ``key``) to the list that a bar opens."""
    return _bar(
        look,
        x=weeks,
        y=values,
        width=_BAR_MS,
        name=title,
        customdata=[links.get((week, key), "") for week in weeks],
        hovertemplate=f"week of %{{x}}<br>{title}: %{{y:,}}<extra></extra>",
    )


def _mondays(weeks: Iterable[date]) -> dict[str, Any]:
    """An axis of at least eight weeks, of which at most eight are named, by their Monday; plotly.js alone would name
    Sundays.
    """
    first, last = min(weeks, default=None), max(weeks, default=None)
    if first is None or last is None:
        return {"type": "date"}
    count = (last - first).days // 7 + 1
    around = timedelta(days=3.5 * max(1, _MAX_NAMED_WEEKS - count + 1))
    step = timedelta(weeks=-(-count // _MAX_NAMED_WEEKS))
    named = [str(first + step * n) for n in range((last - first) // step + 1)]
    is_long = first.year != last.year
    return {
        "type": "date",
        "range": [str(datetime.combine(day, time()) + pad) for day, pad in ((first, -around), (last, around))],
        "tickvals": named,
        "tickformat": "%-d %b<br>%Y" if is_long else "%-d %b",
        "hoverformat": "%Y-%m-%d",
    }


def pareto_chart(frame: pd.DataFrame, links: list[str], *, rows: int = 12) -> dict[str, Any]:
    """The most expensive categories as bars, the cumulative share as a line on the right axis."""
    top = frame.head(rows)
    has_cost = bool(frame.gpu_hours.sum())
    measure = "gpu_hours" if has_cost else "incidents"
    titles = [title.rpartition(" › ")[2] for title in top.title]
    data = [
        _bar(
            ("#4f86c6", ""),
            x=titles,
            y=top[measure].tolist(),
            name="GPU-hours lost" if has_cost else "incidents",
            customdata=links[:rows],
            hovertemplate="%{x}: %{y:,}<extra></extra>",
        ),
        {
            "type": "scatter",
            "x": titles,
            "y": [round(value * 100, 1) for value in top.cumulative.tolist()],
            "name": "share so far",
            "yaxis": "y2",
            "mode": "lines+markers",
            "line": {"color": "#b9872f"},
            "hovertemplate": f"%{{y}}{PER_CENT} with %{{x}}<extra></extra>",
        },
    ]
    return _figure(
        data,
        yaxis={"rangemode": "tozero", "title": {"text": "GPU-hours lost" if has_cost else "incidents"}},
        yaxis2={
            "overlaying": "y",
            "side": "right",
            "range": [0, 105],
            "tickvals": [0, 25, 50, 75, 100],
            "ticksuffix": PER_CENT,
            "showgrid": False,
        },
        xaxis={"tickangle": -30, "automargin": True},
        height=360,
    )


def verdicts_chart(frame: pd.DataFrame, links: dict[tuple[str, str], str]) -> dict[str, Any]:
    """Results of the machine's verdicts, week by week."""
    weeks = [str(week) for week in frame.week]
    shown = {name: title for name, title in _VERDICT_TITLES.items() if name != "unnamed" or frame[name].any()}
    data = [
        _week_bars(_VERDICT_LOOKS[name], name, title, weeks, frame[name].tolist(), links)
        for name, title in shown.items()
    ]
    axis = {"rangemode": "tozero", "title": {"text": "incidents"}}
    return _figure(data, barmode="stack", xaxis=_mondays(frame.week), yaxis=axis)


def calibration_chart(frame: pd.DataFrame, links: list[str]) -> dict[str, Any]:
    """What was claimed against what people confirmed, with its interval; a true confidence lies on the diagonal."""
    shown = [
        (row, link) for row, link in zip(frame.to_dict("records"), links, strict=True) if row["share"] == row["share"]
    ]
    data: list[dict[str, Any]] = [
        {
            "type": "scatter",
            "mode": "lines",
            "x": [0, 1],
            "y": [0, 1],
            "name": "as claimed",
            "line": {"dash": "dot", "color": _CATEGORY_LOOKS["unknown"][0]},
            "hoverinfo": "skip",
        }
    ]
    if shown:
        data.append(
            {
                "type": "scatter",
                "mode": "markers+lines",
                "x": [row["claimed"] for row, _ in shown],
                "y": [row["share"] for row, _ in shown],
                "error_y": {
                    "type": "data",
                    "symmetric": False,
                    "array": [row["most"] - row["share"] for row, _ in shown],
                    "arrayminus": [row["share"] - row["least"] for row, _ in shown],
                },
                "name": "confirmed by people",
                "marker": {"color": _VERDICT_LOOKS["right"][0], "size": 9},
                "text": [f"{row['right']:.0f} of {row['judged']:.0f}" for row, _ in shown],
                "customdata": [link for _, link in shown],
                "hovertemplate": "claimed %{x:.0%}<br>confirmed %{y:.0%} (%{text})<extra></extra>",
            }
        )
    # Marks at the ends stay whole; ticks are written as all shares of the pages.
    ticks = [n / 5 for n in range(6)]
    axis = {"range": [-0.04, 1.04], "tickvals": ticks, "ticktext": [percent(t) for t in ticks], "zeroline": False}
    return _figure(
        data,
        xaxis={**axis, "title": {"text": "claimed"}},
        yaxis={**axis, "title": {"text": "confirmed"}},
        height=300,
    )
