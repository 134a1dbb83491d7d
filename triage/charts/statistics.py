"""Tables into charts: plotly.py builds the JSON, the page draws it where it is shown.

A mark's ``customdata`` is the address that a click opens. Colours of text, grid and background come from the page's
theme; only what tells series apart is chosen here, and series differ in pattern as well as in colour.
"""

from __future__ import annotations

from typing import Any

import pandas as pd
import plotly.graph_objects as go

#: one colour and one fill pattern a top-level category, readable on light and on dark ground
_LOOKS = {
    "hardware": ("#c2574f", ""),
    "network": ("#b9872f", "/"),
    "framework": ("#7a6bc4", "x"),
    "user": ("#4f86c6", "."),
    "platform": ("#3f9c86", "\\"),
    "performance": ("#a0699f", "-"),
    "unknown": ("#8a929c", "|"),
    "none": ("#aeb5be", "+"),
}
_VERDICT_LOOKS = {"right": ("#3f9c63", ""), "wrong": ("#c2574f", "/"), "awaiting": ("#9aa2ac", ".")}
_VERDICT_TITLES = {"right": "verdict left standing", "wrong": "corrected or rejected", "awaiting": "not judged yet"}


#: a pattern is laid over the colour, not instead of it
OVERLAY = {"solidity": 0.25, "size": 7, "fillmode": "overlay", "fgcolor": "rgba(255,255,255,0.75)"}


def _bar(**kwargs: Any) -> go.Bar:
    colour, pattern = kwargs.pop("look")
    marker = {"color": colour, "line": {"width": 0}, "pattern": {"shape": pattern, **OVERLAY}}
    return go.Bar(marker=marker, **kwargs)


def _drawn(figure: go.Figure, **layout: Any) -> dict[str, Any]:
    """``{"data": …, "layout": …}`` without plotly's own template: the page's theme dresses it."""
    figure.update_layout(
        template=None,
        margin={"l": 52, "r": 16, "t": 8, "b": 40},
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
        bargap=0.15,
        **layout,
    )
    drawn: dict[str, Any] = figure.to_plotly_json()
    drawn["layout"].pop("template", None)
    return drawn


def weeks_chart(frame: pd.DataFrame, measure: str, links: dict[tuple[str, str], str]) -> dict[str, Any]:
    """Stacked bars a week; ``links`` maps (week, category) to the list that a bar opens."""
    figure = go.Figure()
    present = [name for name in _LOOKS if name in set(frame.category)]
    for name in [*present, *sorted(set(frame.category) - set(_LOOKS))]:
        part = frame[frame.category == name]
        weeks = [str(week) for week in part.week]
        figure.add_trace(
            _bar(
                x=weeks,
                y=[round(value, 1) for value in part[measure]],
                name=name,
                look=_LOOKS.get(name, _LOOKS["unknown"]),
                customdata=[links.get((week, name), "") for week in weeks],
                hovertemplate=f"week of %{{x}}<br>{name}: %{{y:,}}<extra></extra>",
            )
        )
    title = "GPU-hours lost" if measure == "gpu_hours" else "incidents"
    return _drawn(
        figure, barmode="stack", xaxis={"type": "date"}, yaxis={"title": {"text": title}, "rangemode": "tozero"}
    )


def pareto_chart(frame: pd.DataFrame, links: list[str], *, rows: int = 12) -> dict[str, Any]:
    """Dearest categories as bars, the running share as a line on the right axis."""
    top = frame.head(rows)
    has_cost = bool(frame.gpu_hours.sum())
    measure = "gpu_hours" if has_cost else "incidents"
    titles = [title.rpartition(" › ")[2] for title in top.title]
    figure = go.Figure(
        [
            _bar(
                x=titles,
                y=[round(value, 1) for value in top[measure]],
                name="GPU-hours lost" if has_cost else "incidents",
                look=("#4f86c6", ""),
                customdata=links[:rows],
                hovertemplate="%{x}: %{y:,}<extra></extra>",
            ),
            go.Scatter(
                x=titles,
                y=[round(value * 100, 1) for value in top.cumulative],
                name="share so far",
                yaxis="y2",
                mode="lines+markers",
                line={"color": "#b9872f"},
                hovertemplate="%{y} % with %{x}<extra></extra>",
            ),
        ]
    )
    return _drawn(
        figure,
        yaxis={"rangemode": "tozero", "title": {"text": "GPU-hours lost" if has_cost else "incidents"}},
        yaxis2={
            "overlaying": "y",
            "side": "right",
            "range": [0, 105],
            "tickvals": [0, 25, 50, 75, 100],
            "ticksuffix": " %",
            "showgrid": False,
        },
        xaxis={"tickangle": -30, "automargin": True},
        height=360,
    )


def verdicts_chart(frame: pd.DataFrame, links: dict[tuple[str, str], str]) -> dict[str, Any]:
    """What became of the machine's verdicts, week by week."""
    figure = go.Figure()
    weeks = [str(week) for week in frame.week]
    for name, title in _VERDICT_TITLES.items():
        figure.add_trace(
            _bar(
                x=weeks,
                y=list(frame[name]),
                name=title,
                look=_VERDICT_LOOKS[name],
                customdata=[links.get((week, name), "") for week in weeks],
                hovertemplate=f"week of %{{x}}<br>{title}: %{{y:,}}<extra></extra>",
            )
        )
    return _drawn(
        figure, barmode="stack", xaxis={"type": "date"}, yaxis={"rangemode": "tozero", "title": {"text": "incidents"}}
    )
