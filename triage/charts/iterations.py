"""A chart of the iteration times of two runs."""

from __future__ import annotations

from typing import Any

from triage.models import Diagnosis

#: red is for what failed, and neither run is always the one that did
_THIS_RUN, _OTHER_RUN = {"color": "#4f86c6"}, {"color": "#8a929c", "dash": "dash"}
#: points of a curve; more than a screen shows
MAX_POINTS = 600


def iteration_curves(here: Diagnosis, there: Diagnosis, names: tuple[str, str]) -> dict[str, Any]:
    """Seconds per iteration of both runs over the iteration number, as a plotly figure."""
    data = []
    for diagnosis, name, look in ((here, names[0], _THIS_RUN), (there, names[1], _OTHER_RUN)):
        points = [row for row in diagnosis.timeline.get("iterations") or [] if row.get("seconds") is not None]
        step = max(1, -(-len(points) // MAX_POINTS))
        kept = [max(points[at : at + step], key=lambda row: row["seconds"]) for at in range(0, len(points), step)]
        data.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": name,
                "line": look,
                "x": [row["n"] for row in kept],
                "y": [row["seconds"] for row in kept],
            }
        )
    layout = {
        "showlegend": True,
        "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
        "margin": {"l": 8, "r": 12, "t": 28, "b": 44},
        "xaxis": {"title": {"text": "iteration"}},
        "yaxis": {"title": {"text": "seconds"}, "rangemode": "tozero"},
    }
    return {"data": data, "layout": layout, "label": f"Seconds per iteration of {names[0]} and {names[1]}"}
