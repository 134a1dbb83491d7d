"""Turns tables and reports into plotly figures, which pages draw on demand. All figures are written here."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse

from diagnosis.values.plain import visible_json

#: whether plotly.py validates every property: in tests; it is too slow for pages
IS_CHECKED = False


def chart_json(figure: dict[str, Any]) -> str:
    """The figure (``data``, ``layout`` and what the page's own script reads) as plotly.py writes it.

    Accepts numbers of numpy and pandas; writes null for anything that is not a number; the text may be inside
    ``<script>``.
    """
    import plotly.graph_objects as go  # noqa: PLC0415  # heavy: half a second, once a process with charts
    from plotly.io import to_json  # noqa: PLC0415  # heavy

    if IS_CHECKED:
        go.Figure({name: figure[name] for name in ("data", "layout") if name in figure})
    return visible_json(to_json(figure, validate=False))


def timeline_height(nodes: int | None) -> int:
    """Pixels of the timeline of so many nodes: names are as close as they are readable."""
    lanes = nodes or 1
    return min(640, 160 + max(80, 25 * min(8, lanes), 13 * lanes))


def chart_response(figure: dict[str, Any]) -> HttpResponse:
    """The figure as an HTTP answer."""
    return HttpResponse(chart_json(figure), content_type="application/json")
