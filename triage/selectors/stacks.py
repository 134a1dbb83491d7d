"""The Stacks tab of a job, from the report."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from triage.charts.stacks import icicle_chart, unfold

MAX_GROUPS = 60


@dataclass(frozen=True, slots=True)
class StacksView:
    """Groups that match the words, the icicle, and the address of each rank's dump."""

    stacks: dict[str, Any]
    groups: list[dict[str, Any]]
    hidden: int
    icicle: dict[str, Any] | None
    dumps: list[dict[str, Any]]


def stacks_view(report: dict[str, Any], *, words: str, link: Callable[[str, int], str]) -> StacksView | None:
    """None without stacks. ``link(path, line)`` is the address of a dump; ``words`` must all be in a group's frames."""
    stacks = report.get("stacks")
    if not stacks:
        return None
    dumps = [
        {**row, "link": link(row["path"], row.get("line") or 1)} for row in stacks.get("ranks", []) if row.get("path")
    ]
    first: dict[int, str] = {}
    for row in dumps:
        first.setdefault(row["rank"], row["link"])
    suspects, outliers = (set(stacks.get(name) or []) for name in ("suspect_ranks", "outlier_ranks"))
    search_words = words.lower().split()
    groups = []
    for group in stacks.get("groups", []):
        frames = [str(frame) for frame in group["frames"]]
        if all(word in " ".join(frames).lower() or word in str(group.get("what", "")).lower() for word in search_words):
            ranks = group["ranks"]
            is_suspect = bool(suspects & set(ranks))
            groups.append(
                {
                    **group,
                    "is_suspect": is_suspect,
                    "link": first.get(ranks[0], "") if ranks else "",
                    "depth": len(frames),
                }
            )
    groups.sort(key=lambda group: not group["is_suspect"])
    rows = stacks.get("icicle") or []
    if search_words:
        found = set(itertools.chain.from_iterable(group["ranks"] for group in groups))
        rows = _branch(rows, found)
    machines = {row["rank"]: str(row["node"]) for row in dumps if row.get("node")}
    chart = None
    if len(rows) > 1:
        chart = icicle_chart(rows, outliers, first, suspects=suspects, machines=machines)
    return StacksView(stacks, groups[:MAX_GROUPS], max(0, len(groups) - MAX_GROUPS), chart, dumps)


def _branch(rows: list[dict[str, Any]], ranks: set[int]) -> list[dict[str, Any]]:
    """The frames of ``ranks``; a child is kept only below a kept parent."""
    kept_ids: set[int] = set()
    branch = []
    for row in rows:
        if (row["parent"] is None or row["parent"] in kept_ids) and ranks & set(unfold(row["ranks"])):
            kept_ids.add(row["id"])
            branch.append(row)
    return branch
