"""A file system that fills, as lines about its use say."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from diagnosis.live.news import Alarm, News
from diagnosis.plain import PER_CENT

id: Final = "disk"
why: Final = "a full file system ends the job at the next checkpoint, and its growth says when"
category: Final = "hardware.disk.full"

#: File systems that are kept, and statements about each.
MAX_DISKS: Final = 32
MAX_STATEMENTS: Final = 16
#: Percent from which it is an alarm, and from which growth counts; seconds to full that are an alarm.
FULL_PERCENT: Final = 95.0
HIGH_PERCENT: Final = 80.0
MAX_LEFT_S: Final = 3_600.0
#: Statements that show a growth, and its percent.
MIN_STATEMENTS: Final = 3
MIN_GROWTH_PERCENT: Final = 1.5


def learn(own: dict[str, Any], state: Mapping[str, Any], news: News) -> None:
    """Remember the last statements ``[name, percent]`` of each file system."""
    disks = own.setdefault("disks", {})
    for name, percent in news.observation.get("disks", ()):
        key = f"{news.source}\t{name}"
        if key in disks or len(disks) < MAX_DISKS:
            disks[key] = [*disks.get(key, ()), [news.now, percent]][-MAX_STATEMENTS:]


def look(own: Mapping[str, Any], state: Mapping[str, Any], now: float) -> Alarm | None:
    """The fullest one."""
    for key, rows in sorted(own.get("disks", {}).items(), key=lambda item: -item[1][-1][1]):
        source, name = key.split("\t", 1)
        (first_at, first), (at, percent) = rows[0], rows[-1]
        growth = (percent - first) / (at - first_at) if at > first_at else 0.0
        is_growing = (
            len(rows) >= MIN_STATEMENTS
            and percent - first >= MIN_GROWTH_PERCENT
            and rows == sorted(rows, key=lambda row: row[1])
        )
        left = (100.0 - percent) / growth if is_growing else math.inf
        if percent >= FULL_PERCENT or (percent >= HIGH_PERCENT and left < MAX_LEFT_S):
            soon = f", full in {left / 60:,.0f} min at this pace" if 0 < left < math.inf else ""
            return Alarm(id, f"{name or 'A file system'} is {percent:g}{PER_CENT} full{soon} ({source}).", at, category)
    return None
