"""A node that wrote regularly writes nothing, while the others go on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from diagnosis import thresholds
from diagnosis.live.attention import is_catching_up, open_alarm
from diagnosis.live.news import Alarm, News

THRESHOLDS: Final = thresholds.of("silent")

id: Final = "silent"
why: Final = "a machine that is lost writes nothing, and its own gaps say how long it is usually quiet"
category: Final = "hardware.host.lost"

#: Nodes that are kept.
MAX_NODES: Final = 4_096
MAX_NAMED: Final = 4


def learn(own: dict[str, Any], state: Mapping[str, Any], news: News) -> None:
    """Remember when each node wrote last, and its longest gap. Gaps are counted in counts of the job, so that
    evaluations and restarts, where all are quiet, do not lengthen them.
    """
    own["count"] = count = own.get("count", 0) + sum(1 for pause in news.pauses if pause.stage == "training")
    nodes = own.setdefault("nodes", {})
    for name in news.observation.get("writers", ()):
        last, _, gap, ranges = nodes.get(name, (count, news.now, 0, 0))
        if ranges or len(nodes) < MAX_NODES:
            nodes[name] = [count, news.now, max(gap, count - last), ranges + 1]


def look(own: Mapping[str, Any], state: Mapping[str, Any], now: float) -> Alarm | None:
    """Nodes that have been silent for long while the job goes on and most others write."""
    known = {name: row for name, row in own.get("nodes", {}).items() if row[3] >= THRESHOLDS.ranges}
    if is_catching_up(state, now):
        return open_alarm(state, id)
    if len(known) < THRESHOLDS.nodes or state["stage"] not in (None, "training"):
        return None
    count = own["count"]
    silent_nodes = sorted(
        name
        for name, (last, at, gap, _) in known.items()
        if count - last > THRESHOLDS.counts + THRESHOLDS.gaps * gap and now - at > THRESHOLDS.silence_s
    )
    if not silent_nodes or len(silent_nodes) > THRESHOLDS.share * len(known):
        return None
    since = min(known[name][1] for name in silent_nodes)
    writing = sum(1 for name, row in known.items() if name not in silent_nodes and row[1] > since)
    if writing < (len(known) - len(silent_nodes)) / 2:
        return None
    names = ", ".join(silent_nodes[:MAX_NAMED]) + (
        f" and {len(silent_nodes) - MAX_NAMED:,} more" if len(silent_nodes) > MAX_NAMED else ""
    )
    text = f"Nothing from {names} any more; {writing:,} of {len(known):,} nodes continue."
    return Alarm(id, text, since, category)
