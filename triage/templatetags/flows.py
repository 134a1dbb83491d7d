"""Rates and offsets of the Flows tab."""

from __future__ import annotations

from django import template

register = template.Library()


@register.filter
def bits(per_second: float | None) -> str:
    """Bits per second with a unit that keeps three digits."""
    if per_second is None:
        return "–"
    for unit, size in (("Tb/s", 1e12), ("Gb/s", 1e9), ("Mb/s", 1e6), ("kb/s", 1e3)):
        if per_second >= size:
            return f"{per_second / size:.3g} {unit}"
    return f"{per_second:.0f} b/s"


@register.filter
def milliseconds(seconds: float) -> str:
    """A clock's offset with its sign, in seconds if large."""
    return f"{seconds * 1e3:+,.1f} ms" if abs(seconds) < 10 else f"{seconds:+,.1f} s"
