"""The icicle chart of a job's stacks: depth downwards, ranks as width, outliers marked.

Drawn with bars, because the plotly bundle of the pages has no icicle chart.
"""

from __future__ import annotations

from typing import Any, NamedTuple

#: fill and pattern of a frame that every rank has, that most have, that only outliers have, that only suspects have: a
#: rank that only waits elsewhere must never look like a suspect
_COMMON, _SPLIT, _OUTLIER, _SUSPECT = ("#7d8ca3", ""), ("#4f86c6", ""), ("#b9872f", "."), ("#c2574f", "/")
MAX_FRAMES = 4000
#: names of suspects in the picture; all are in the table below it
MAX_NAMES, MAX_RANKS_NAMED = 4, 4
_ROW = 24


def icicle_chart(
    nodes: list[dict[str, Any]],
    outliers: set[int],
    links: dict[int, str],
    *,
    suspects: set[int],
    machines: dict[int, str] | None = None,
) -> dict[str, Any]:
    """``{"data", "layout", "label"}`` of an icicle.

    Args:
        nodes: the report's ``icicle`` (``id, parent, label, value, ranks, lacks``), parents before their children.
        outliers: ranks that differ from their peers.
        links: from a rank to its raw dump.
        suspects: ranks that are to blame for it, as far as the stacks tell.
        machines: from a rank to the name of its node, for the names beneath the frames of suspects.
    """
    placed: dict[int, tuple[float, int]] = {}
    used: dict[int, float] = {}
    columns: dict[tuple[str, str], list[tuple[float, float, int, str, str]]] = {}
    total = next((node["value"] for node in nodes if node["parent"] is None), 0)
    deepest = 0
    accused: list[_Accused] = []
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
        if look == _SUSPECT:
            middle = left + node["value"] / 2
            _accuse(accused, frozenset(ranks), middle, depth)
        lacks = f"<br>lacks {node['lacks']}" if node["lacks"] else ""
        text = f"{node['label']}<br>{node['value']} ranks: {node['ranks']}{lacks}"
        link = next((links[rank] for rank in ranks if rank in links), "")
        columns.setdefault(look, []).append((left, node["value"], depth, text, link))
    data = [_bars(look, rows) for look, rows in columns.items()]
    names = _names(accused, machines or {}, deepest, total / 2)
    height = max(160, _ROW * (deepest + 1 + len(names)) + 40)
    layout = {
        "barmode": "overlay",
        "bargap": 0.04,
        "showlegend": False,
        "annotations": names,
        "height": height,
        "margin": {"l": 8, "r": 8, "t": 4, "b": 28},
        "xaxis": {"range": [0, total], "title": {"text": "ranks"}, "fixedrange": True, "zeroline": False},
        "yaxis": {"autorange": "reversed", "visible": False, "fixedrange": True},
    }
    return {"data": data, "layout": layout, "label": f"Icicle of the stacks of {total} ranks"}


class _Accused(NamedTuple):
    """Suspects that share their frames: where the lowest of these is."""

    ranks: frozenset[int]
    middle: float
    depth: int


def _accuse(accused: list[_Accused], ranks: frozenset[int], middle: float, depth: int) -> None:
    """Add a frame of suspects: of frames above each other the one of most ranks names them."""
    for n, known in enumerate(accused):
        if ranks <= known.ranks:
            accused[n] = known._replace(depth=max(depth, known.depth))
            return
    if len(accused) < MAX_NAMES:
        accused.append(_Accused(ranks, middle, depth))


def _names(accused: list[_Accused], machines: dict[int, str], deepest: int, middle: float) -> list[Any]:
    """Rank and node of the suspects, each in a row beneath all frames, with a line to them."""
    return [
        {
            "x": one.middle,
            "y": one.depth + 0.5,
            "axref": "x",
            "ayref": "y",
            "ax": one.middle,
            "ay": deepest + 1 + row,
            # bold words need a style attribute, which the page's policy forbids
            "text": _who(sorted(one.ranks), machines),
            "font": {"color": _SUSPECT[0], "size": 12},
            "xanchor": "right" if one.middle > middle else "left",
            "arrowcolor": _SUSPECT[0],
            "arrowhead": 0,
            "arrowwidth": 1,
        }
        for row, one in enumerate(accused)
    ]


def _who(ranks: list[int], machines: dict[int, str]) -> str:
    shown = ", ".join(str(rank) for rank in ranks[:MAX_RANKS_NAMED])
    more = f" and {len(ranks) - MAX_RANKS_NAMED} more" if len(ranks) > MAX_RANKS_NAMED else ""
    known = [machines[rank] for rank in ranks[:MAX_RANKS_NAMED] if rank in machines]
    where = f" on {', '.join(dict.fromkeys(known))}" if known else ""
    text = f"rank{'s' if len(ranks) > 1 else ''} {shown}{more}{where}"
    return text.replace("<", "&lt;")


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
