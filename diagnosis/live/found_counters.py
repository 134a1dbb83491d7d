"""Counters without a known word in a growing log: numbers that grow evenly beside a measurement, as
:mod:`diagnosis.kinds.logs.pace.counters` finds them in whole files.

A range may hold one line of a message, so what its numbers did is kept with the job until one of
them has grown often enough. From then on the lines of its message are counts like any other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from diagnosis.kinds.logs.pace import counters
from diagnosis.live.job_state import CandidateState, JobState, NumberState
from diagnosis.live.observation import MAX_NUMBERS, CountRow, NumberRow, Observation

#: Maximum number of stored messages that may count.
MAX_CANDIDATES: Final = 64
#: What begins the names of counters without a known word.
FOUND: Final = "number "
_SECOND_NS: Final = 1e9


def with_found(job: JobState, source: str, observation: Observation) -> Observation:
    """The observation with the counts of numbers that are known to count by now. O(numbers)."""
    found: dict[str, tuple[CountRow, ...]] = {}
    for message, rows in observation.numbers.items():
        key = f"{source}\t{message}"
        if key in job.candidates or len(job.candidates) < MAX_CANDIDATES:
            state = job.candidates.setdefault(key, CandidateState())
            found[message] = _counts(state, rows)
    return msgspec.structs.replace(observation, counters=observation.counters | found)


def _counts(state: CandidateState, rows: Sequence[NumberRow]) -> tuple[CountRow, ...]:
    """The counts of these lines, once it is known which of their numbers counts."""
    counts: list[CountRow] = []
    for row in rows:
        if state.place == MAX_NUMBERS:
            _learn(state, row)
        number = row.numbers[state.place : state.place + 1]
        counts += [CountRow(n, row.at, row.announced) for n in number]
    return tuple(counts)


def _learn(state: CandidateState, row: NumberRow) -> None:
    """Add what the numbers of a line did since the one before; the place of the one that counts."""
    if len(state.numbers) != len(row.numbers):
        state.numbers = [NumberState(number) for number in row.numbers]
        state.measure = row.measure
    at = row.at or 0
    passed_s = (at - state.at) / _SECOND_NS
    for known, number in zip(state.numbers, row.numbers, strict=True):
        _grow(known, number, passed_s)
    state.is_measured |= row.measure != state.measure
    state.at = at
    state.place = _counting_place(state)


def _grow(known: NumberState, number: int, passed_s: float) -> None:
    """Note whether a number changed by its usual amount, by another one, or with the clock."""
    growth = number - known.last
    if not growth:
        return
    known.last = number
    known.usual = known.usual or max(growth, 0)
    known.grown += growth == known.usual
    known.uneven += growth != known.usual
    known.by_clock += counters.grows_with_time(growth, passed_s)


def _counting_place(state: CandidateState) -> int:
    """The number that grew evenly most often, if one did so often enough and another measures."""
    grown = [_grown_evenly(number) * state.is_measured for number in state.numbers]
    return grown.index(max(grown)) if any(grown) else MAX_NUMBERS


def _grown_evenly(number: NumberState) -> int:
    """How often a number grew, if evenly, often enough, and not with the clock."""
    is_often = number.grown >= counters.THRESHOLDS.least
    is_even = number.grown >= counters.THRESHOLDS.even * (number.grown + number.uneven)
    is_clock = 2 * number.by_clock > number.grown
    return number.grown * all((is_often, is_even, not is_clock))
