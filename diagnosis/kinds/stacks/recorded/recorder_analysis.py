"""Reads what ``torchfrtrace``, PyTorch's own analyser of Flight Recorder dumps, prints: collectives
that ranks did not join, or joined with another call.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from diagnosis.kinds.stacks.recorded.flight_recorder import Collective, RecordedGroup, Recording, to_span

#: How the first line of a finding begins; group 1 is the number of the collective.
TEXT: Final = re.compile(
    r"^(?:Not all ranks joining collective[:,]? ?(?:sequence number: )?"
    r"|Collective sequence number: (?=\d{1,15} has errors))"
    r"(\d{1,15})",
    re.MULTILINE,
)
_FIELD: Final = re.compile(r"^(group info|collective|missing ranks|expected ranks|error msg): (.{1,400000})$")
#: Who joined with another call than the others, and theirs.
_CULPRIT: Final = re.compile(
    r"Culprit rank (\d{1,6}); Error type: (\w{1,60})(?:; Expected collective type: '(\w{1,80})')?"
)
_RANK: Final = re.compile(r"\d{1,6}")
#: Collectives of one output: the first ones explain the others.
_MAX_FINDINGS: Final = 64
#: Ranks of one collective.
_MAX_RANKS: Final = 1 << 16


class AnalysedCollective(msgspec.Struct):
    """A collective that ``missing`` ranks of its ``expected`` ones did not join. ``seq`` counts the
    calls of its ``group``. ``calls``: of ranks that joined with another call than ``op``.
    """

    seq: int
    group: str = ""
    op: str = ""
    missing: list[int] = []
    expected: list[int] = []
    calls: list[tuple[int, str]] = []

    def is_complete(self) -> bool:
        """Whether it says who is at fault, and beside whom."""
        return bool(self.expected and (self.missing or self.calls))


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
            own_op = dict(one.calls)
            for rank in one.expected:
                call = Collective(one.seq, own_op.get(rank, one.op))
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
    complete = list(filter(AnalysedCollective.is_complete, found))
    if not complete:
        raise ValueError("it names no ranks that are missing in a collective, or in another one")
    return RecorderAnalysis(complete)


def _take(one: AnalysedCollective, name: str, value: str) -> None:
    if name == "group info":
        one.group = value.strip()[:200]
    elif name == "collective":
        one.op = _name(value)
    elif name == "error msg":
        _take_calls(one, value)
    elif name == "missing ranks":
        one.missing = _ranks(value)
    else:
        one.expected = _ranks(value)


def _take_calls(one: AnalysedCollective, value: str) -> None:
    """The collective that is shown is that of the culprits; the others called the expected one."""
    for rank, error, expected in _CULPRIT.findall(value)[:_MAX_RANKS]:
        other = one.op if expected else f"{one.op} ({error.lower().replace('_', ' ')})"
        one.calls.append((int(rank), other))
        one.op = _name(expected) or one.op


def _name(collective: str) -> str:
    return collective.strip().removeprefix("nccl:").lstrip("_")[:80]


def _ranks(value: str) -> list[int]:
    return [int(rank) for rank in _RANK.findall(value)[:_MAX_RANKS]]
