"""Traffic between machines of a private network that a firewall refused, as flow logs of clouds tell it.

A rule that refuses the port where the processes of a job meet looks like a hang of all of them.
"""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import polars as pl

from diagnosis import thresholds
from diagnosis.evidence import Check, Outcome, Result
from diagnosis.model import Parsed

THRESHOLDS: Final = thresholds.of("refused_traffic")
_REFUSED: Final = ("reject", "rejected", "deny", "denied", "drop", "dropped", "block", "blocked")
#: Pairs of a receiver and its port that are counted.
_MAX_PLACES: Final = 10_000
_OUTCOME: Final = Outcome(
    "refused",
    "a firewall or policy refuses the traffic of the job",
    1.0,
    categories={"network.packet_loss": THRESHOLDS.ratio},
    adds="network.packet_loss",
)
_CHECK: Final = Check("flow-log", "Flow log of the cloud", "", "", 0.0, "node", (), (), (_OUTCOME,))


@dataclass(slots=True)
class Refusals:
    """How many records of each receiver and port were refused, and which were let through."""

    refused: Counter[tuple[str, str]] = field(default_factory=Counter)
    passed: set[tuple[str, str]] = field(default_factory=set)

    def add(self, table: pl.DataFrame, action: pl.Series) -> None:
        """Counts the records of a table with ``src``, ``dst`` and ``dst_port``. O(rows)."""
        is_refused = action.cast(pl.String).str.to_lowercase().is_in(_REFUSED)
        receivers = (pl.col(name).cast(pl.String) for name in ("src", "dst", "dst_port"))
        rows = table.select(*receivers, refused=is_refused).drop_nulls()
        for source, receiver, port, refused in rows.unique(maintain_order=True).iter_rows():
            place = receiver, port
            if len(self.refused) + len(self.passed) > _MAX_PLACES:
                return
            if not refused:
                self.passed.add(place)
            elif _is_private(source) and _is_private(receiver):
                self.refused[place] += 1

    def places(self) -> list[tuple[str, str, int]]:
        """Receivers, ports and how many senders were refused where nobody passed, most first."""
        found = self.refused.most_common()
        return [(*place, senders) for place, senders in found if place not in self.passed]


def results(parsed: Sequence[Parsed]) -> Iterator[Result]:
    """The port of each file at which most senders were refused, if they are several."""
    for one in parsed:
        places: list[Any] = one.facts.get("flow", {}).get("refused", [])
        several = [place for place in places if place[2] >= THRESHOLDS.senders]
        for receiver, port, senders in several[:1]:
            words = f"{senders} machines to {receiver} port {port}: refused"
            yield Result(_CHECK, _OUTCOME, one.path, 0, words, receiver, "node")


def _is_private(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_private
    except ValueError:
        return False
