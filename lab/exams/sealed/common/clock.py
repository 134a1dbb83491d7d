"""Times as machines print them."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from typing import NamedTuple

_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


class Clock(NamedTuple):
    """One second on a machine's clock; ``zone`` is its offset like ``+01:00``."""

    date: str
    time: str
    mmdd: str
    month: str
    day: int
    weekday: str
    year: int
    zone: str

    @property
    def iso(self) -> str:
        """Date and time with a ``T``."""
        return f"{self.date}T{self.time}"

    @property
    def both(self) -> str:
        """Date and time with a space."""
        return f"{self.date} {self.time}"


@lru_cache(maxsize=20_000)
def clock(second: int, zone: float) -> Clock:
    """The clock at a second since the epoch, ``zone`` hours ahead of UTC."""
    at = datetime.fromtimestamp(second + zone * 3600, UTC)
    minutes = abs(int(zone * 60))
    return Clock(
        f"{at.year}-{at.month:02d}-{at.day:02d}",
        f"{at.hour:02d}:{at.minute:02d}:{at.second:02d}",
        f"{at.month:02d}{at.day:02d}",
        _MONTHS[at.month - 1],
        at.day,
        _DAYS[at.weekday()],
        at.year,
        f"{'-' if zone < 0 else '+'}{minutes // 60:02d}:{minutes % 60:02d}",
    )
