"""Charts of effective training time: of one job, and of the fleet."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from diagnosis import metrics
from diagnosis.plain import percent

#: points of a job's curve
POINTS = 240
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
    data = [
        {
            "type": "scatter",
            "mode": "lines",
            "name": name,
            "x": x,
            "y": [ratio(productive, started_at, at) for at in moments],
            "line": line,
        }
        for name, ratio, line in ratios
    ]
    layout = _AXES | {
        "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
        "margin": {"l": 52, "r": 12, "t": 24, "b": 32},
    }
    return {"data": data, "layout": layout, "label": "Effective training time ratio over time"}


def fleet_chart(hours: list[tuple[datetime, float | None]]) -> dict[str, Any]:
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
