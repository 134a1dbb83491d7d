"""A line that a decisive rule knows, until training continues after it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from diagnosis.live.beat import count_interval_s
from diagnosis.live.news import Alarm, News
from diagnosis.live.watches import hang

id: Final = "error"
why: Final = "its words name a cause that jobs do not survive"
category: Final = "unknown"

#: Maximum number of stored errors.
MAX_ERRORS: Final = 20


def learn(own: dict[str, Any], state: Mapping[str, Any], news: News) -> None:
    """Remember the first line of each rule."""
    rows = own.setdefault("rows", [])
    known = {row["signature"] for row in rows}
    for row in news.observation["errors"]:
        if row["signature"] not in known and len(rows) < MAX_ERRORS:
            rows.append({**row, "source": news.source, "seen_at": news.now})


def look(own: Mapping[str, Any], state: Mapping[str, Any], now: float) -> Alarm | None:
    """The first error after which the job made no progress for some time."""
    usual = count_interval_s(state) or 0.0
    for row in own.get("rows", ()):
        survived = (state["advanced_at"] or 0.0) > row[
            "seen_at"
        ] + hang.THRESHOLDS.counts * usual + hang.THRESHOLDS.slack_s
        if not survived:
            return Alarm(id, f"{row['title']}: {row['text']}", row["seen_at"], row["category"])
    return None
