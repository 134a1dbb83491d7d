"""Charts of switch port counters: ports × time, and one port in both directions."""

from __future__ import annotations

from typing import Any

from triage.charts.flows import iso

_IN, _OUT = "#4f86c6", "#b9872f"


def ports_height(ports: int) -> int:
    """Pixels of the chart of so many ports."""
    return max(200, min(520, 14 * ports + 80))


def ports_chart(view: dict[str, Any]) -> dict[str, Any]:
    """How busy each port was over time, the busiest at the top; darker is more."""
    names = view["ports"]
    ticks = list(range(0, len(names), max(1, len(names) // 16)))
    data = [
        {
            "type": "heatmap",
            "x": [iso(t) for t in view["times"]],
            "y": list(range(len(names))),
            "z": [_in_gigabits(row) for row in view["bps"]],
            "text": [[name] * len(view["times"]) for name in names] if len(names) * len(view["times"]) < 5000 else None,
            "zmin": 0,
            "colorscale": [[0, "rgba(128,140,160,0.10)"], [0.5, "#4f86c6"], [1, "#c2574f"]],
            # A colour bar and rows without a gap need style attributes, which the page's policy forbids.
            "showscale": False,
            "ygap": 1,
            "hovertemplate": "%{x}<br>%{z} Gb/s in and out<extra></extra>",
        }
    ]
    layout = {
        "height": ports_height(len(names)),
        "xaxis": {"type": "date"},
        "yaxis": {
            "tickvals": ticks,
            "ticktext": [names[n] for n in ticks],
            "autorange": "reversed",
            "fixedrange": True,
            "automargin": True,
            "zeroline": False,
        },
        "margin": {"l": 52, "r": 12, "t": 12, "b": 32},
    }
    return {"data": data, "layout": layout, "label": f"Traffic of {len(names)} ports over time"}


def _in_gigabits(row: list[float | None]) -> list[float | None]:
    return [None if bits is None else round(bits / 1e9, 2) for bits in row]


def port_chart(name: str, lines: dict[str, list[float]]) -> dict[str, Any]:
    """One port's traffic in and out over time, in Gb/s."""
    x = [iso(t) for t in lines["times"]]
    data = []
    for title, column, colour, dash in (("in", "in_bps", _IN, "solid"), ("out", "out_bps", _OUT, "dot")):
        data.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": title,
                "x": x,
                "y": [round(v / 1e9, 3) for v in lines[column]],
                "line": {"color": colour, "width": 1.3, "dash": dash},
                "hovertemplate": f"%{{y}} Gb/s {title}<extra></extra>",
            }
        )
    layout = {
        "xaxis": {"type": "date"},
        "yaxis": {"title": {"text": "Gb/s"}, "rangemode": "tozero"},
        "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
        "margin": {"l": 52, "r": 12, "t": 24, "b": 32},
    }
    return {"data": data, "layout": layout, "label": f"Traffic of port {name} over time"}
