"""Tags of the log viewer: bars of the file map, and marked search words."""

from __future__ import annotations

import re

from django import template
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from triage.selectors.logmap import HEIGHT, Bin
from triage.wording import duration

register = template.Library()
#: units of the map's width
WIDTH = 1000


@register.simple_tag
def map_bars(part: Bin, number: int, of: int) -> SafeString:
    """A part of the file as rectangles: the area to point at, then warnings above errors, which begin at the bottom."""
    x, width = WIDTH * number / of, WIDTH / of
    rows = [
        ("hit", 0.0, float(HEIGHT)),
        ("warnings", HEIGHT - part.error_height - part.warning_height, part.warning_height),
        ("errors", HEIGHT - part.error_height, part.error_height),
    ]
    return format_html_join(
        "",
        '<rect class="{}" x="{}" y="{}" width="{}" height="{}"/>',
        ((name, round(x, 1), round(y, 1), round(width * 0.86, 1), tall) for name, y, tall in rows if tall),
    )


@register.filter
def found(text: str, words: str) -> SafeString:
    """The text with the searched words marked, ignoring case. Log text is data: all is escaped."""
    if not words:
        return format_html("{}", text)
    parts = re.split(f"({re.escape(words)})", text, flags=re.IGNORECASE)
    return format_html_join(
        "", "{}", ((format_html("<mark>{}</mark>", part) if n % 2 else part,) for n, part in enumerate(parts))
    )


@register.filter
def after(seconds: float) -> str:
    """Seconds after the chosen line, with the significant digits: ``+0.350 s``, ``−12.0 s``, ``0``."""
    size = abs(seconds)
    if size < 0.0005:
        return "0"
    digits = 3 if size < 10 else 1
    return f"{'−' if seconds < 0 else '+'}{size:,.{digits}f} s"


@register.filter
def later(seconds: float) -> str:
    """A distance in time with the unit that fits: ``+344 ms``, ``+12.0 s``, ``+5 min``."""
    if 1 <= seconds < 60:
        return f"+{seconds:.1f} s"
    return f"+{duration(seconds)}"


@register.filter
def file_name(path: str) -> str:
    """The last part of a path."""
    return path.rsplit("/", 1)[-1]
