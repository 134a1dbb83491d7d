"""The place of a chart on a page, and its data."""

from __future__ import annotations

from typing import Any

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe

from triage.charts import chart_json, timeline_height

register = template.Library()
register.filter(timeline_height.__name__, timeline_height)


@register.simple_tag
def chart(*, of: str = "", url: str = "", height: int = 0, instead: str = "", is_zoomable: bool = False) -> SafeString:
    """Where `static/js/chart.js` draws the figure of the `chart_script` named ``of``, or of ``url``.

    The page has room for ``height`` pixels from the beginning, so that nothing moves when the chart
    is there; an unknown height is 0. ``instead`` is what to read without JavaScript.
    """
    source = format_html(' data-chart="{}"', of) if of else format_html(' data-chart-url="{}"', url)
    stated = format_html(' data-height="{}"', height) if height else ""
    zoom = mark_safe(" data-keys") if is_zoomable else ""
    # an SVG, because the page's policy forbids inline styles
    svg = '<svg class="chart-room" width="1" height="{}" aria-hidden="true"></svg>'
    room = format_html(svg, height) if height else ""
    otherwise = f"; without JavaScript, read {instead}" if instead else ""
    wait = f"The chart is drawn when it comes into view{otherwise}."
    body = format_html('{}<p class="chart-wait muted">{}</p>', room, wait)
    return format_html('<div class="chart"{}{}{}>{}</div>', source, stated, zoom, body)


@register.filter
def chart_script(figure: dict[str, Any], name: str) -> SafeString:
    """The figure in a ``<script>`` with this id, from which the page draws it."""
    body = mark_safe(chart_json(figure))  # noqa: S308  # nothing in it ends a script
    return format_html('<script id="{}" type="application/json">{}</script>', name, body)
