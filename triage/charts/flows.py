"""Charts of network flows: step times with their limit, a communication map, ranks × time in phases."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime
from typing import Any

from diagnosis.values.plain import PER_CENT

_COLOURS = {"DP": "#4f86c6", "PP": "#3f9c86", "EP": "#b9872f", "other": "#8a929c"}
_TITLES = {"DP": "gradient sync (DP)", "PP": "pipeline exchange (PP)", "EP": "expert exchange (EP)", "other": "other"}
_SLOW = "#c2574f"
MAX_POINTS = 4000
MAX_MEMBERS = 512
MAX_BOXES = 400
MAX_STEP_ENDS = 120


def iso(moment: float) -> str:
    """UTC without an offset, so that plotly shows UTC in every time zone of the browser."""
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3]


def steps_chart(job: dict[str, Any], iterations: list[dict[str, Any]]) -> dict[str, Any]:
    """Seconds of every step over time; slow ones with another shape, the limit and the logs' iterations as lines."""
    steps = job.get("steps") or []
    stride = max(1, -(-len(steps) // MAX_POINTS))
    shown = [(n, step) for n, step in enumerate(steps, 1) if n % stride == 0 or step.get("slow")]
    usual = [(n, step) for n, step in shown if not step.get("slow")]
    slow = [(n, step) for n, step in shown if step.get("slow")]
    data = [
        _points("step", usual, {"color": _COLOURS["DP"], "size": 5}),
        _points("slow step", slow, {"color": _SLOW, "size": 9, "symbol": "triangle-up"}),
    ]
    limit = (job.get("step_s") or {}).get("limit")
    if limit and steps and not (job.get("step_s") or {}).get("varies"):
        ends = [iso(steps[0]["start"]), iso(steps[-1]["end"])]
        line = {"color": _SLOW, "dash": "dash", "width": 1}
        data.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": f"limit {limit:.3g} s",
                "x": ends,
                "y": [limit] * 2,
                "line": line,
            }
        )
    if iterations:
        data.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": "iteration, by the logs",
                "x": [iso(row["t"]) for row in iterations],
                "y": [row["seconds"] for row in iterations],
                "line": {"color": "#8a929c", "width": 1},
                "hovertemplate": "%{y:.3f} s by the logs<extra></extra>",
            }
        )
    layout = {
        "xaxis": {"type": "date"},
        "yaxis": {"title": {"text": "seconds a step"}, "rangemode": "tozero"},
        "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
        "margin": {"l": 52, "r": 12, "t": 24, "b": 32},
    }
    return {"data": data, "layout": layout, "label": f"Time of {len(steps)} steps, {len(slow)} slow"}


def _points(name: str, rows: list[tuple[int, dict[str, Any]]], marker: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "x": [iso(step["start"]) for _, step in rows],
        "y": [round(step["end"] - step["start"], 6) for _, step in rows],
        "text": [f"step {n}, confidence {step.get('confidence', 1):.0%}" for n, step in rows],
        "hovertemplate": "%{text}<br>%{y:.3f} s<extra></extra>",
        "marker": marker,
    }


def map_chart(job: dict[str, Any]) -> dict[str, Any]:
    """The communication map: one square per pair, with the colour and shape of the pair's purpose."""
    members = job.get("members") or []
    place = {member: n for n, member in enumerate(members[:MAX_MEMBERS])}
    symbols = {"DP": "square", "PP": "diamond", "EP": "circle", "other": "x"}
    data = []
    size = max(3, min(14, 360 // max(1, len(place))))
    for kind, colour in _COLOURS.items():
        pairs = [p for p in job.get("pairs") or [] if p["type"] == kind and p["a"] in place and p["b"] in place]
        if not pairs:
            continue
        both = [(p["a"], p["b"], p) for p in pairs] + [(p["b"], p["a"], p) for p in pairs]
        data.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": _TITLES[kind],
                "x": [place[a] for a, _, _ in both],
                "y": [place[b] for _, b, _ in both],
                "text": [f"{a} ↔ {b}<br>{kind}, {p.get('records', 0):,} records" for a, b, p in both],
                "hovertemplate": "%{text}<extra></extra>",
                "marker": {
                    "color": colour,
                    "symbol": symbols[kind],
                    "size": size,
                },
            }
        )
    ticks = list(range(0, len(place), max(1, len(place) // 12)))
    names = [members[n] for n in ticks]
    axis = {"tickvals": ticks, "ticktext": names, "range": [-0.5, len(place) - 0.5], "zeroline": False}
    layout = {
        "xaxis": {**axis, "tickangle": -45},
        "yaxis": {**axis, "autorange": "reversed"},
        "height": 420,
        "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
        "margin": {"l": 52, "r": 12, "t": 24, "b": 60},
    }
    return {"data": data, "layout": layout, "label": f"Pairs among {len(members)} members by what they are for"}


#: percent of the time sending; a capture of idle machines must not look busy
_MIN_SHARE = 5


def ranks_height(lanes: int) -> int:
    """Pixels of the chart of so many ranks."""
    return max(220, min(560, 18 * lanes + 90))


def _busy_shares(pipeline: list[float], data: list[float]) -> list[float | None]:
    """Shares of time that one rank sent, for both ways together; None where nothing is known (below 0)."""
    pairs = zip(pipeline, data, strict=True)
    return [None if max(pair) < 0 else max(0, pair[0]) + max(0, pair[1]) for pair in pairs]


def ranks_chart(
    view: dict[str, Any], marks: list[dict[str, Any]], found: list[dict[str, Any]] | None = None
) -> dict[str, Any]:
    """One window of ranks × time: bars of phases if they can be told apart, else shares of time as a heat map.

    ``found`` is what was slow: ``t0``, ``t1``, ``text`` and ``lanes`` (indices into the view's; empty: all of them).
    """
    names = view["lanes"]
    data, notes = _heat_map(view, names) if view["heat"] else ([], [])
    for kind in ("PP", "DP", "EP"):
        rows = [segment for segment in view["segments"] if segment["kind"] == kind]
        if rows:
            data.append(_phase(kind, rows, names))
    if marks:
        log_events = _triangles("log event", [mark["t"] for mark in marks], marks, symbol="triangle-down", size=10)
        data.append(log_events | {"customdata": [mark.get("url", "") for mark in marks]})
    shapes = [_step_end(step["end"]) for step in view["steps"]] if len(view["steps"]) <= MAX_STEP_ENDS else []
    if found:
        middles = [max(view["t0"], min(view["t1"], (row["t0"] + row["t1"]) / 2)) for row in found]
        data.append(_triangles("slow", middles, found, symbol="triangle-up", size=9))
        shapes += _boxes(found)
    ticks = list(range(0, len(names), max(1, len(names) // 16)))
    layout = {
        "barmode": "overlay",
        "bargap": 0.2,
        "dragmode": "zoom",
        "shapes": shapes,
        "annotations": notes,
        "height": ranks_height(len(names)),
        "xaxis": {"type": "date", "range": [iso(view["t0"]), iso(view["t1"])]},
        "yaxis": {
            "tickvals": ticks,
            "ticktext": [names[n] for n in ticks],
            "range": [len(names) - 0.5, -1.0],
            "fixedrange": True,
            "zeroline": False,
        },
        "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
        "margin": {"l": 52, "r": 12, "t": 24, "b": 32},
    }
    return {"data": data, "layout": layout, "label": f"{len(names)} lanes, {len(view['steps'])} steps"}


def _heat_map(view: dict[str, Any], names: list[str]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Shares of time that each rank sent, and the note that says what the full colour is."""
    heat = view["heat"]
    width = (view["t1"] - view["t0"]) / heat["columns"]
    busy = list(map(_busy_shares, heat["pp"], heat["dp"]))
    known = filter(None, itertools.chain.from_iterable(busy))
    # most of a step is computing: with a scale to 100 % the picture would be pale
    busiest = max([_MIN_SHARE, *known])
    note = {
        "text": f"full colour: sending {busiest:.0f}{PER_CENT} of the time",
        "showarrow": False,
        "font": {"size": 11},
        "xref": "paper",
        "yref": "paper",
        "x": 1,
        "y": 1.02,
        "xanchor": "right",
        "yanchor": "bottom",
    }
    trace = {
        "type": "heatmap",
        "x": [iso(view["t0"] + (n + 0.5) * width) for n in range(heat["columns"])],
        "y": list(range(len(names))),
        "z": busy,
        "zmin": 0,
        "zmax": busiest,
        "colorscale": [[0, "rgba(128,140,160,0.08)"], [1, "#4f86c6"]],  # red is only for problems
        # A colour bar and unsmoothed pixels need style attributes, which the page's policy forbids.
        "showscale": False,
        "zsmooth": "fast",
        "meta": names,
        "hovertemplate": f"%{{text}}<br>%{{z}}{PER_CENT} of the time sending<extra></extra>",
    }
    return [trace], [note]


def _triangles(name: str, times: list[float], rows: list[dict[str, Any]], *, symbol: str, size: int) -> dict[str, Any]:
    """Triangles above the lanes, each with the text of its row."""
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "x": [iso(at) for at in times],
        "y": [-0.6] * len(rows),
        "text": [str(row["text"]).replace("<", "&lt;")[:160] for row in rows],
        "hovertemplate": "%{text}<extra></extra>",
        "marker": {"color": _SLOW, "symbol": symbol, "size": size},
    }


def _step_end(at: float) -> dict[str, Any]:
    line = {"width": 0.5, "color": "rgba(128,140,160,0.7)"}
    return {"type": "line", "x0": iso(at), "x1": iso(at), "yref": "paper", "y0": 0, "y1": 1, "line": line}


def _boxes(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    boxes: list[dict[str, Any]] = []
    for row in found:
        boxes += [_box(row, lane) for lane in row["lanes"] or [None]]
    return boxes[:MAX_BOXES]


def _box(row: dict[str, Any], lane: int | None) -> dict[str, Any]:
    """What was slow, as a translucent red area over its time and its lane, or over all lanes."""
    box = {"type": "rect", "x0": iso(row["t0"]), "x1": iso(row["t1"]), "fillcolor": "rgba(194,87,79,0.3)"}
    if lane is None:
        return box | {"yref": "paper", "y0": 0, "y1": 1, "line": {"width": 0}}
    return box | {"yref": "y", "y0": lane - 0.5, "y1": lane + 0.5, "line": {"width": 1.5, "color": _SLOW}}


def _phase(kind: str, rows: list[dict[str, Any]], names: list[str]) -> dict[str, Any]:
    return {
        "type": "bar",
        "orientation": "h",
        "name": _TITLES[kind],
        "base": [iso(row["t0"]) for row in rows],
        "x": [round((row["t1"] - row["t0"]) * 1000, 3) for row in rows],
        "y": [row["lane"] for row in rows],
        "text": [
            f"{names[row['lane']]}<br>step {row['step']}: {_TITLES[kind]}, {(row['t1'] - row['t0']) * 1000:.1f} ms"
            for row in rows
        ],
        "textposition": "none",
        "hovertemplate": "%{text}<extra></extra>",
        "marker": {"color": _COLOURS[kind], "opacity": 0.85},
    }
