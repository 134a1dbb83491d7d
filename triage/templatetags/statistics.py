"""Tags of the statistics page: figures with their units, addresses that keep the page's state."""

from __future__ import annotations

from typing import Any

from django import template
from django.urls import reverse
from django.utils.html import format_html
from django.utils.http import urlencode
from django.utils.safestring import SafeString

from ingest.roles import can
from triage.selectors.statistics import Figure
from triage.wording import duration, number

register = template.Library()


@register.filter
def figure_value(figure: Figure) -> str:
    """The value in its unit; a dash where nothing tells."""
    if figure.value is None:
        return "–"
    if figure.unit == "s":
        return duration(figure.value)
    if figure.unit == "%":
        return f"{figure.value * 100:.1f} %"
    return f"{number(figure.value)} {figure.unit}".rstrip()


@register.filter
def fine(seconds: float | None) -> str:
    """Seconds that may be very small: 12 µs, 3.4 ms, 20 s."""
    if seconds is None or seconds >= 1:
        return duration(seconds)
    value, unit = (seconds * 1e3, "ms") if seconds >= 1e-3 else (seconds * 1e6, "µs")
    return f"{value:.3g} {unit}"


@register.filter
def hours(value: float) -> str:
    """Hours in the unit that reads best."""
    return duration(value * 3600)


@register.filter
def figure_change(figure: Figure) -> str:
    """Against the period before, in words as well as by sign."""
    if figure.value is None:
        return "not known yet"
    if figure.before is None:
        return "no figure before"
    if figure.unit == "%":
        return f"{(figure.value - figure.before) * 100:+.1f} points"
    if figure.change is None:
        return "none before" if figure.value else "as before"
    arrow = "▲" if figure.change > 0 else "▼" if figure.change < 0 else "="
    return f"{arrow} {abs(figure.change) * 100:,.0f} % against before"


@register.simple_tag(takes_context=True)
def with_params(context: dict[str, Any], **changes: Any) -> str:
    """The page's own address with some parameters changed; None takes one out."""
    params = {**context["params"].dict(), **changes}
    return f"?{urlencode({name: value for name, value in params.items() if value not in (None, '')})}"


@register.simple_tag(takes_context=True)
def csv_link(context: dict[str, Any], table: str) -> SafeString | str:
    """A link to the table as CSV, for those who may export."""
    if not can(context["request"].user, "export"):
        return ""
    url = f"{reverse('statistics-csv', args=[table])}{with_params(context)}"
    return format_html('<a class="csv" href="{}" download>CSV</a>', url)
