"""A file system that fills, as lines about its use say."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from diagnosis import thresholds
from diagnosis.live.news import Alarm, News
from diagnosis.plain import PER_CENT

THRESHOLDS: Final = thresholds.of("disk")

id: Final = "disk"
why: Final = "a full file system ends the job at the next checkpoint, and its growth says when"
category: Final = "hardware.disk.full"

#: File systems that are kept, and statements about each.
MAX_DISKS: Final = 32
MAX_STATEMENTS: Final = 16


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
            len(rows) >= THRESHOLDS.statements
            and percent - first >= THRESHOLDS.growth_percent
            and rows == sorted(rows, key=lambda row: row[1])
        )
        left = (100.0 - percent) / growth if is_growing else math.inf
        if percent >= THRESHOLDS.full_percent or (percent >= THRESHOLDS.high_percent and left < THRESHOLDS.left_s):
            soon = f", full in {left / 60:,.0f} min at this pace" if 0 < left < math.inf else ""
            return Alarm(id, f"{name or 'A file system'} is {percent:g}{PER_CENT} full{soon} ({source}).", at, category)
    return None
