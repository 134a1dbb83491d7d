"""Numbers and times as text, equal on every page."""

from __future__ import annotations

import math
from datetime import datetime

from django.conf import settings
from django.utils import timezone

from diagnosis.values import plain

_UNITS = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))


def ago(moment: datetime) -> str:
    seconds = (timezone.now() - moment).total_seconds()
    return f"{duration(seconds)} ago" if seconds >= 60 else "just now"


def elapsed(moment: datetime) -> str:
    """The time since a moment as a clock shows it: ``0:43``, ``12:05``, ``3:07:22``; a day and more
    in words.
    """
    seconds = max(0, int((timezone.now() - moment).total_seconds()))
    if seconds >= _UNITS[0][0]:
        return duration(seconds)
    hours, minutes = divmod(seconds // 60, 60)
    return f"{hours}:{minutes:02d}:{seconds % 60:02d}" if hours else f"{minutes}:{seconds % 60:02d}"


def duration(seconds: float | None) -> str:
    """``14 min``, ``3.2 h``, ``12 d``: one unit, two or three digits."""
    if seconds is None:
        return "–"
    seconds = abs(float(seconds))
    for size, unit in _UNITS:
        if seconds >= size:
            value = seconds / size
            return f"{value:.1f} {unit}" if value < 10 and unit in "hd" else f"{value:.0f} {unit}"
    return f"{seconds * 1000:.0f} ms" if seconds else "0 s"


def number(value: float | None, digits: int = 0) -> str:
    """With thousands separators; a dash if unknown."""
    return "–" if value is None else f"{value:,.{digits}f}"


def amount(value: float | None) -> str:
    """A cost in hours: a whole number if large, two digits if rounding would hide it; a dash if it is not known."""
    return "–" if value is None or math.isnan(value) else plain.amount(value)


def money(gpu_hours: float | None) -> str:
    """What GPU-hours cost at the price of the settings, such as “189,785 EUR”; empty without a
    price or hours.
    """
    price = settings.GPU_HOUR_PRICE
    if price is None or gpu_hours is None or math.isnan(gpu_hours):
        return ""
    value = gpu_hours * price[0]
    return f"{value:,.0f} {price[1]}" if value >= 100 else f"{value:.2f} {price[1]}"


def percent(value: float | None) -> str:
    return "–" if value is None else plain.percent(value)


def ratio(value: float | None) -> str:
    """A ratio in which tenths of a per cent matter, as all pages show it."""
    return "–" if value is None else plain.percent(value, 1)


#: A probability in words, from these on: what a reader who sees no figure may rely on.
_SURETY = ((0.9, "almost sure"), (0.7, "likely"), (0.6, "more likely than not"))


def surety(value: float) -> str:
    """How sure a probability is, in words."""
    return next((words for least, words in _SURETY if value >= least), "uncertain")


def score(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}".removeprefix("0")


def gigabytes(count: int | None) -> str:
    """The number of GB (10^9 bytes), as a field shows it; empty for none."""
    return "" if count is None else f"{count / 1e9:.9f}".rstrip("0").rstrip(".")


def size(count: int | None) -> str:
    """A number of bytes for people."""
    value = float(count or 0)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 999.5:  # what rounds to 1000 gets the next unit
            return f"{value:.0f} {unit}" if unit == "B" or value >= 100 else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"
