"""Charts of effective training time: of one job, and of the fleet."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from diagnosis.values.plain import percent
from triage import metrics

#: points of a job's curve
POINTS = 240
#: moments and ratios; None where no job ran
type Points = list[tuple[datetime, float | None]]
#: color and dash of each line, so that it can be told without its color too
_LINES = (
    ("#4f86c6", "solid"),
    ("#b9872f", "dash"),
    ("#7d6bb0", "dot"),
    ("#3d8f87", "dashdot"),
    ("#a8577e", "longdash"),
)
_AXES = {
    "xaxis": {"type": "date", "ticks": "outside", "ticklen": 6},
    "yaxis": {
        "range": [0, 1.02],
        "tickvals": [0, 0.25, 0.5, 0.75, 1],
        "ticktext": [percent(n / 4) for n in range(5)],
    },
}


def job_chart(productive: list[tuple[float, float]], started_at: float, ended_at: float) -> dict[str, Any] | None:
    """The ratio over time, since the start and over the last hour; None for a job without run time.

    ``productive`` has the spans (from, to), in seconds, in which each step was done for the first time.
    """
    span = ended_at - started_at
    if span <= 0:
        return None
    moments = [started_at + span * (n + 1) / POINTS for n in range(POINTS)]
    x = [datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S") for at in moments]
    ratios = (
        ("since the start", metrics.ettr_cumulative, {"color": "#4f86c6", "dash": "solid"}),
        ("last hour", metrics.ettr_sliding, {"color": "#b9872f", "dash": "dot"}),
    )
    data = []
    for name, ratio, line in ratios:
        y = [ratio(productive, started_at, at) for at in moments]
        data.append({"type": "scatter", "mode": "lines", "name": name, "x": x, "y": y, "line": line})
    layout = _AXES | {
        "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
        "margin": {"l": 52, "r": 12, "t": 24, "b": 32},
    }
    return {"data": data, "layout": layout, "label": "Effective training time ratio over time"}


def families_chart(families: list[tuple[str, Points]]) -> dict[str, Any]:
    """A line for each of the first families: (name, its ratio by day); gaps where no job ran."""
    data = [
        _family_line(name, points, {"color": color, "dash": dash, "width": 1.5})
        for (name, points), (color, dash) in zip(families, _LINES, strict=False)
    ]
    layout = _AXES | {
        "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
        "margin": {"l": 52, "r": 12, "t": 24, "b": 32},
    }
    label = "Effective training time ratio of job families by day"
    return {"data": data, "layout": layout, "label": label}


def _family_line(name: str, points: Points, line: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name or "no family stated",
        "x": [at.strftime("%Y-%m-%dT%H:%M:%S") for at, _ in points],
        "y": [None if value is None else round(value, 4) for _, value in points],
        "line": line,
        "hovertemplate": "%{y:.1%}<extra>%{fullData.name}</extra>",
    }


def fleet_chart(hours: Points) -> dict[str, Any]:
    """The ratio of each last hour, by the end of the hour; gaps where no job ran."""
    x = [at.strftime("%Y-%m-%dT%H:%M:%S") for at, _ in hours]
    y = [None if value is None else round(value, 4) for _, value in hours]
    line = {
        "type": "scatter",
        "mode": "lines" if len(x) > 1 else "markers",
        "name": "last hour",
        "x": x,
        "y": y,
        "line": {"color": "#4f86c6", "width": 1.5},
        "hovertemplate": "%{y:.1%} in the hour to %{x}<extra></extra>",
    }
    layout = _AXES | {"showlegend": False, "margin": {"l": 52, "r": 12, "t": 12, "b": 32}}
    return {
        "data": [line],
        "layout": layout,
        "label": "Effective training time ratio of the fleet, over each last hour",
    }
