"""Reads what ``torchfrtrace``, PyTorch's own analyser of Flight Recorder dumps, prints: collectives
that ranks did not join.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from diagnosis.kinds.stacks.recorded.flight_recorder import Collective, RecordedGroup, Recording, to_span

#: How the first line of a finding begins; group 1 is the number of the collective.
TEXT: Final = re.compile(r"^Not all ranks joining collective[:,]? ?(?:sequence number: )?(\d{1,15})", re.MULTILINE)
_FIELD: Final = re.compile(r"^(group info|collective|missing ranks|expected ranks): (.{1,400000})$")
_RANK: Final = re.compile(r"\d{1,6}")
#: Collectives of one output: the first ones explain the others.
_MAX_FINDINGS: Final = 64
#: Ranks of one collective.
_MAX_RANKS: Final = 1 << 16


class AnalysedCollective(msgspec.Struct):
    """A collective that ``missing`` ranks of its ``expected`` ones did not join. ``seq`` counts the
    calls of its ``group``.
    """

    seq: int
    group: str = ""
    op: str = ""
    missing: list[int] = []
    expected: list[int] = []


class RecorderAnalysis(msgspec.Struct):
    """All findings of one output, in its order."""

    collectives: list[AnalysedCollective]

    def recordings(self) -> dict[int, Recording]:
        """The same as dumps of the ranks: who joined waits in the collective, who is missing has completed
        the one before it. Linear in ranks.
        """
        groups: dict[int, dict[str, RecordedGroup]] = {}
        for one in reversed(self.collectives):
            runs = to_span(sorted(one.expected))
            call = Collective(one.seq, one.op)
            for rank in one.expected:
                group = RecordedGroup(one.group, one.group, runs, enqueued=one.seq - 1, completed=one.seq - 1)
                if rank not in one.missing:
                    group.open, group.last, group.enqueued = [call], call, one.seq
                groups.setdefault(rank, {})[one.group] = group
        return {rank: Recording("", 1, list(own.values())) for rank, own in sorted(groups.items())}


def read_text(text: str) -> RecorderAnalysis:
    """The findings of an output. Linear.

    :raises ValueError: it holds none.
    """
    found: list[AnalysedCollective] = []
    for line in text.splitlines():
        if begun := TEXT.match(line):
            if len(found) == _MAX_FINDINGS:
                break
            found.append(AnalysedCollective(int(begun[1])))
        elif found and (stated := _FIELD.match(line)):
            _take(found[-1], stated[1], stated[2])
    complete = [one for one in found if one.missing and one.expected]
    if not complete:
        raise ValueError("it names no ranks that are missing in a collective")
    return RecorderAnalysis(complete)


def _take(one: AnalysedCollective, name: str, value: str) -> None:
    if name == "group info":
        one.group = value.strip()[:200]
    elif name == "collective":
        one.op = value.strip().removeprefix("nccl:").lstrip("_")[:80]
    elif name == "missing ranks":
        one.missing = _ranks(value)
    else:
        one.expected = _ranks(value)


def _ranks(value: str) -> list[int]:
    return [int(rank) for rank in _RANK.findall(value)[:_MAX_RANKS]]
