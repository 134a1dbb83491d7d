"""Turns tables and reports into plotly figures, which pages draw on demand. All figures are written here."""

from __future__ import annotations

import re
from typing import Any

from django.http import HttpResponse

from diagnosis.plain import visible

#: whether plotly.py validates every property: in tests; it is too slow for pages
IS_CHECKED = False
#: a character that JSON writes as a number; the number of backslashes before it is odd
_ESCAPE = re.compile(r"((?<!\\)(?:\\\\)*)\\u(00[0189][0-9a-f]|007f|202[a-e]|206[6-9])", re.IGNORECASE)


def chart_json(figure: dict[str, Any]) -> str:
    """The figure (``data``, ``layout`` and what the page's own script reads) as plotly.py writes it.

    Accepts numbers of numpy and pandas; writes null for anything that is not a number; the text may be inside
    ``<script>``.
    """
    import plotly.graph_objects as go  # noqa: PLC0415  # heavy: half a second, once a process with charts
    from plotly.io import to_json  # noqa: PLC0415  # heavy

    if IS_CHECKED:
        go.Figure({name: figure[name] for name in ("data", "layout") if name in figure})
    return _ESCAPE.sub(lambda found: found[1] + visible(chr(int(found[2], 16))), to_json(figure, validate=False))


def chart_response(figure: dict[str, Any]) -> HttpResponse:
    """The figure as an HTTP answer."""
    return HttpResponse(chart_json(figure), content_type="application/json")
