"""What is known when the causes of a failure are weighed: the events in time, before one of them is chosen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import polars as pl

from diagnosis import stats, thresholds
from diagnosis.logs.catalogue import Catalogue
from diagnosis.logs.clocks import SECOND
from diagnosis.logs.pacing import Pace
from diagnosis.model import Role

THRESHOLDS: Final = thresholds.of("scene")


@dataclass(frozen=True)
class Scene:
    """``survived``: events that training survived, ``undated``: those without a time that it may have survived;
    ``healthy``: jobs for comparison; ``named``: nodes that the lines of a node-less event name; ``without``: ids of
    rules that are switched off. Times in ns.
    """

    catalogue: Catalogue
    pace: Pace
    survived: frozenset[int]
    undated: frozenset[int]
    healthy: int
    without: frozenset[str] = frozenset()
    named: Mapping[int, tuple[str, ...]] = field(default_factory=dict)

    @property
    def events(self) -> pl.DataFrame:
        return self.catalogue.events

    @property
    def stopped_at(self) -> int | None:
        """The last progress."""
        return self.pace.last_at

    @property
    def has_times(self) -> bool:
        return bool(self.events["is_stamped"].any())

    @property
    def total(self) -> int:
        """Nodes of the job."""
        return len(self.catalogue.nodes)

    @property
    def is_few(self) -> pl.Expr:
        """Events of a minority of the nodes."""
        return pl.col("n_nodes").is_between(1, stats.most_of_few(self.total))

    @property
    def is_survived(self) -> pl.Expr:
        return pl.col("event").is_in(sorted(self.survived))

    @property
    def consequence_at(self) -> int | None:
        """The time of the first consequence: not before the last progress, because training that goes on has no
        consequences yet.
        """
        return self._consequence[0]

    @property
    def is_dated(self) -> bool:
        """Whether the lines of consequences state their time; otherwise ``consequence_at`` is a lower bound."""
        return self._consequence[1]

    @cached_property
    def _consequence(self) -> tuple[int | None, bool]:
        is_decided = self.events.filter(self.catalogue.has("decision") & (pl.col("role") == Role.ROOT.value)).height > 0
        # orders to stop are part of a decision, also if its reason is stated later: at the end of a grace period
        roles = (Role.CASCADE,) if is_decided else (Role.CASCADE, Role.TEARDOWN)
        found = self.catalogue.consequences(self.survived, roles)
        # a time taken from an earlier line is only a lower bound
        stamped = found.filter("is_stamped")
        rows = (stamped if stamped.height else found)["first_at"].drop_nulls()
        if self.stopped_at is not None:
            if not stamped.height and rows.len():
                rows = pl.Series([max(int(rows.max()), self.stopped_at)])  # type: ignore[arg-type]
            rows = rows.filter(rows >= self.stopped_at)
        return (None if rows.is_empty() else int(rows.min())), stamped.height > 0  # type: ignore[arg-type]

    @property
    def since(self) -> int | None:
        """Start of the period in which an unknown line may belong to the failure: shortly before the last progress, or
        the beginning of a slowdown; without progress, shortly before the first consequence.
        """
        if self.pace.slow_at is not None:
            return self.pace.slow_at - near(self.pace)
        if self.stopped_at is not None:
            return self.stopped_at - int((self.pace.usual_s or THRESHOLDS.near_s) * SECOND)
        return (
            self.consequence_at - int(THRESHOLDS.before_s * SECOND) if self.consequence_at and self.is_dated else None
        )


def near(pace: Pace) -> int:
    """Time (ns) within which an event belongs to the beginning of a slowdown."""
    return int(max(THRESHOLDS.near_s, THRESHOLDS.near_beats * (pace.usual_s or 0.0)) * SECOND)
