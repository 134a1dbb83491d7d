"""Effective training time of the fleet as a chart."""

from __future__ import annotations

from typing import Any

from triage.selectors.cost_fleet import FleetCost


def fleet_chart(cost: FleetCost) -> dict[str, Any]:
    """The ratio over each last hour; gaps where no job ran."""
    x = [at.strftime("%Y-%m-%dT%H:%M:%S") for at, _ in cost.hours]
    y = [None if value is None else round(value, 4) for _, value in cost.hours]
    line = {
        "type": "scatter",
        "mode": "lines" if len(x) > 1 else "markers",
        "name": "last hour",
        "x": x,
        "y": y,
        "line": {"color": "#4f86c6", "width": 1.5},
        "hovertemplate": "%{y:.1%} in the hour to %{x}<extra></extra>",
    }
    layout = {
        "xaxis": {"type": "date", "ticks": "outside", "ticklen": 6},
        "yaxis": {"range": [0, 1.02], "tickformat": ".0%"},
        "showlegend": False,
        "margin": {"l": 52, "r": 12, "t": 12, "b": 32},
    }
    return {
        "data": [line],
        "layout": layout,
        "label": "Effective training time ratio of the fleet, over each last hour",
    }
