"""The icicle chart of a job's stacks: depth downwards, ranks as width, outliers marked.

Drawn with bars, because the plotly bundle of the pages has no icicle chart.
"""

from __future__ import annotations

from typing import Any

#: fill and pattern of a frame that every rank has, that most have, that only outliers have, that only suspects have: a
#: rank that only waits elsewhere must never look like a suspect
_COMMON, _SPLIT, _OUTLIER, _SUSPECT = ("#7d8ca3", ""), ("#4f86c6", ""), ("#b9872f", "."), ("#c2574f", "/")
MAX_FRAMES = 4000
_ROW = 24


def icicle_chart(
    nodes: list[dict[str, Any]], outliers: set[int], links: dict[int, str], *, suspects: set[int]
) -> dict[str, Any]:
    """``{"data", "layout", "label"}`` of an icicle.

    Args:
        nodes: the report's ``icicle`` (``id, parent, label, value, ranks, lacks``), parents before their children.
        outliers: ranks that differ from their peers.
        links: from a rank to its raw dump.
        suspects: ranks that are to blame for it, as far as the stacks tell.
    """
    placed: dict[int, tuple[float, int]] = {}
    used: dict[int, float] = {}
    columns: dict[tuple[str, str], list[tuple[float, float, int, str, str]]] = {}
    total = next((node["value"] for node in nodes if node["parent"] is None), 0)
    deepest = 0
    for node in nodes[:MAX_FRAMES]:
        parent = node["parent"]
        left, depth = (0.0, 0) if parent is None else (used[parent], placed[parent][1] + 1)
        if parent is not None:
            used[parent] = left + node["value"]
        placed[node["id"]] = (left, depth)
        used[node["id"]] = left
        deepest = max(deepest, depth)
        ranks = unfold(node["ranks"])
        look = _look(set(ranks), suspects, outliers, is_common=node["value"] == total)
        lacks = f"<br>lacks {node['lacks']}" if node["lacks"] else ""
        text = f"{node['label']}<br>{node['value']} ranks: {node['ranks']}{lacks}"
        link = next((links[rank] for rank in ranks if rank in links), "")
        columns.setdefault(look, []).append((left, node["value"], depth, text, link))
    data = [_bars(look, rows) for look, rows in columns.items()]
    height = max(160, _ROW * (deepest + 1) + 40)
    layout = {
        "barmode": "overlay",
        "bargap": 0.04,
        "showlegend": False,
        "height": height,
        "margin": {"l": 8, "r": 8, "t": 4, "b": 28},
        "xaxis": {"range": [0, total], "title": {"text": "ranks"}, "fixedrange": True, "zeroline": False},
        "yaxis": {"autorange": "reversed", "visible": False, "fixedrange": True},
    }
    return {"data": data, "layout": layout, "label": f"Icicle of the stacks of {total} ranks"}


def _look(ranks: set[int], suspects: set[int], outliers: set[int], *, is_common: bool) -> tuple[str, str]:
    if ranks and ranks <= suspects:
        return _SUSPECT
    if ranks and ranks <= outliers | suspects:
        return _OUTLIER
    return _COMMON if is_common else _SPLIT


def unfold(text: str) -> list[int]:
    """The ranks of ``0-2/5``, as the engine folds them."""
    ranks: list[int] = []
    for part in text.split("/"):
        low, dash, high = part.partition("-")
        if low.isdigit():
            ranks.extend(range(int(low), int(high if dash else low) + 1))
    return ranks


def _bars(look: tuple[str, str], rows: list[tuple[float, float, int, str, str]]) -> dict[str, Any]:
    colour, pattern = look
    return {
        "type": "bar",
        "orientation": "h",
        "base": [row[0] for row in rows],
        "x": [row[1] for row in rows],
        "y": [row[2] for row in rows],
        "text": [row[3].partition("<br>")[0] for row in rows],
        "textposition": "inside",
        "insidetextanchor": "start",
        "insidetextfont": {"color": "#ffffff", "size": 11},
        "hovertext": [row[3] for row in rows],
        "hoverinfo": "text",
        "customdata": [row[4] for row in rows],
        "marker": {
            "color": colour,
            "pattern": {"shape": pattern, "solidity": 0.12, "size": 9, "fillmode": "overlay", "fgcolor": "#ffffff"},
            "line": {"width": 1, "color": "rgba(255,255,255,0.5)"},
        },
    }
