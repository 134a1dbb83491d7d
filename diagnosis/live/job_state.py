"""The state of a running job, of bounded size. :mod:`diagnosis.live.stored_form` reads and writes
it.

An attribute whose stored name differs keeps the name under which former versions stored it.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from diagnosis.live.alarms import Alarm, AlarmRow
from diagnosis.live.observation import MAX_NUMBERS, Count, Measure, Stage, Stamp
from diagnosis.live.site_time import Moment, Seconds

TRAINING: Final = "training"
#: The stage after a message with which a program or a launcher says that it ends well.
SHUTDOWN: Final = "shutdown"
_SECOND_NS: Final = 1_000_000_000


class CounterState(msgspec.Struct):
    """The counter of one message. ``last_stamp`` and ``last_at``: when its last count was printed,
    in nanoseconds of its line, and read; ``since``: when its first was read; ``late_ranges``:
    ranges in turn that had nothing but lines that came late.
    """

    number: Count = msgspec.field(name="n")
    last_stamp: Stamp | None = msgspec.field(name="t")
    last_at: Moment = msgspec.field(name="at")
    since: Moment = 0.0
    first: Count | None = None
    advances: Count = 0
    late_ranges: Count = msgspec.field(name="late", default=0)


class NumberState(msgspec.Struct, array_like=True):
    """What a number of a message did: its ``last`` value, by how much it ``usual``ly grows, how
    often it has ``grown`` by that, by another amount (``uneven``), and with the clock.
    """

    last: Count
    usual: Count = 0
    grown: Count = 0
    uneven: Count = 0
    by_clock: Count = 0


class CandidateState(msgspec.Struct):
    """A message of which one number may count. ``measure``: a fraction of its first line;
    ``is_measured``: another line had another one; ``place``: of the number that counts.
    """

    numbers: Annotated[list[NumberState], msgspec.Meta(max_length=MAX_NUMBERS)] = []
    measure: Measure = ""
    is_measured: bool = False
    at: Stamp = 0
    place: Annotated[int, msgspec.Meta(ge=0, le=MAX_NUMBERS)] = MAX_NUMBERS


class StageEntry(msgspec.Struct, frozen=True, array_like=True):
    """A stage announced since the last count. ``stamp``: its line's; ``seen_at``: the site's."""

    stage: Stage
    stamp: Stamp | None
    seen_at: Moment

    def is_after(self, stamp: int | None) -> bool:
        """Whether its line may come after a moment; no where a time is not known. A time of whole
        seconds may be any moment of its second.
        """
        if stamp is None or self.stamp is None:
            return False
        is_whole = self.stamp % _SECOND_NS == 0
        return stamp < self.stamp + is_whole * (_SECOND_NS - 1)


class JobState(msgspec.Struct, kw_only=True):
    """What is known of one attempt of a job while it runs.

    ``since``: when the site began to follow it; ``sources``: file -> when it last had lines;
    ``counters``: file and message -> counter;
    ``candidates``: the same of messages without a known word -> what their numbers did;
    ``leader``: key of the counter with most advances, whose numbers are the job's iterations;
    ``interval``: iterations between two counts;
    ``is_last``: the last count is the last planned one; ``advanced_at``: the last progress of any
    counter; ``advances``: counts of the leader after its first; ``steps``: seconds of its last
    iterations; ``stage_stamp``: of the line that named the stage, in nanoseconds.

    ``longest_silence_s``: stage -> the longest time without any line since the last count;
    ``judged_at``: the last judgement; ``back_at``: when the site came back after it had been away;
    ``away_s``: how long it was away in all, ``away_before_line_s`` until the last line,
    ``away_before_progress_s`` until the last progress.

    ``watches``: id of a watch -> its own state; ``alarms``: open ones first.
    """

    since: Moment
    sources: dict[str, Moment] = {}
    counters: dict[str, CounterState] = {}
    candidates: dict[str, CandidateState] = {}
    leader: str | None = None
    iteration: Count | None = None
    interval: Annotated[int, msgspec.Meta(ge=1, le=10**15)] = 1
    is_last: bool = False
    advanced_at: Moment | None = None
    advances: Count = 0
    steps: list[Seconds] = []
    stage: Stage | None = None
    stage_stamp: Stamp | None = msgspec.field(name="stage_ns", default=None)
    marks: list[StageEntry] = []
    last_line_at: Moment | None = msgspec.field(name="heard_at", default=None)
    away_before_line_s: Seconds = msgspec.field(name="heard_away_s", default=0.0)
    longest_silence_s: dict[str, Seconds] = msgspec.field(name="quiets", default_factory=dict)
    judged_at: Moment | None = None
    back_at: Moment | None = None
    away_s: Seconds = 0.0
    away_before_progress_s: Seconds = msgspec.field(name="away_before_s", default=0.0)
    watches: dict[str, msgspec.Struct] = {}
    alarms: list[AlarmRow] = []

    @property
    def stage_now(self) -> str:
        """The stage that it is in: training if no line named one."""
        return self.stage or TRAINING

    @property
    def is_ending(self) -> bool:
        """Whether a file said that the job ends, and no count came after it."""
        return SHUTDOWN in [mark.stage for mark in self.marks]

    @property
    def last_progress_at(self) -> float:
        """The last progress of any counter, or when the site began to follow it."""
        return self.since if self.advanced_at is None else self.advanced_at

    @property
    def leading_counter(self) -> CounterState | None:
        """The counter whose numbers are the job's iterations."""
        return None if self.leader is None else self.counters.get(self.leader)

    def watch_state[State: msgspec.Struct](self, watch: str, record: type[State]) -> State:
        """The state of a watch; a new one is kept if it has none."""
        known = self.watches.get(watch)
        if isinstance(known, record):
            return known
        fresh = record()
        self.watches[watch] = fresh
        return fresh

    def open_alarm(self, kind: str) -> Alarm | None:
        """The alarm of this kind that holds."""
        for row in self.alarms:
            if row.kind == kind and row.is_open:
                return Alarm(kind, row.text, row.since, row.category)
        return None
