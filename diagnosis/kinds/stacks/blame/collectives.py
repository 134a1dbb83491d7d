"""Compares Flight Recorder dumps and watchdog counters: who is missing in which collective.

Two signals (found on labelled dumps, see ``docs/stacks.md``):

* host-stuck: peers of its group have scheduled a collective, this rank has not, and it waits in none itself;
* device-stuck: the last collective that it *completed* is behind its group's, although its host continued (except in
  pipeline groups, whose counters mix sends and receives).

A third needs no counter: two ranks with one number for different collectives are mismatched.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Final

import msgspec

from diagnosis import thresholds
from diagnosis.evidence.rank_names import fold_ranks
from diagnosis.kinds.stacks.recorded.flight_recorder import Collective

THRESHOLDS: Final = thresholds.of("collectives")

_PIPELINE = ("PIPELINE", "PP", "EMBEDDING")
#: collectives whose sizes differ between ranks by nature
_UNEVEN_OPS = ("all_to_all", "alltoall")
#: What a call of unknown name is called.
_ANY_OP: Final = "collective"


class State(msgspec.Struct):
    """One rank in one process group. ``enqueued`` and ``completed``: number of its last such collective, -1 if unknown.
    ``open``: its calls that did not complete; ``last``: its newest call.
    """

    rank: int
    group: str
    desc: str = ""
    members: tuple[int, ...] = ()
    enqueued: int = -1
    completed: int = -1
    open: Sequence[Collective] = ()
    last: Collective | None = None

    @property
    def is_behind(self) -> bool:
        """Whether it scheduled more than it completed, by its counters."""
        return self.enqueued > self.completed >= 0

    @property
    def is_waiting(self) -> bool:
        return bool(self.open) or self.is_behind

    @property
    def open_collectives(self) -> list[Collective]:
        """Its open calls that the whole group takes part in."""
        return [call for call in self.open if not call.is_p2p]

    @property
    def last_sequence(self) -> int:
        """The number of the last collective that it scheduled."""
        numbers = [call.seq for call in self.open_collectives]
        return max(self.enqueued, self.completed, *numbers, -1)


class HungCollective(msgspec.Struct, frozen=True):
    """The collective that hangs, as the report shows it. ``missing`` ranks have not come to it or do not finish it;
    ``ranks`` of its group, folded.
    """

    group: str
    op: str
    seq: int
    missing: list[int]
    ranks: str


class Verdict(msgspec.Struct):
    """Ranks by signal, each with its reason; ``collective`` the first one that hangs, for the sentence."""

    host: dict[int, str] = msgspec.field(default_factory=dict)
    device: dict[int, str] = msgspec.field(default_factory=dict)
    mismatch: dict[int, str] = msgspec.field(default_factory=dict)
    collective: HungCollective | None = None

    @property
    def ranks(self) -> dict[int, str]:
        """All accused with their reasons. A mismatch counts only if nobody is stuck."""
        stuck = {**self.device, **self.host}
        return stuck or dict(self.mismatch)


def is_pipeline(desc: str) -> bool:
    """Whether a process group's description is that of pipeline stages."""
    name = desc.upper()
    words = name.replace("-", "_").split("_")
    has_long_word = any(word in name for word in _PIPELINE if len(word) > 2)
    return has_long_word or not set(words).isdisjoint(_PIPELINE)


_KINDS = (
    ("ep", re.compile(r"^EXPERT_MODEL_PARALLEL_GROUP$|^(?:mesh_)?ep$", re.IGNORECASE)),
    ("tp", re.compile(r"^TENSOR_MODEL_PARALLEL_GROUP$|^(?:mesh_)?tp$", re.IGNORECASE)),
    ("pp", re.compile(r"^PIPELINE_MODEL_PARALLEL_GROUP$|^(?:mesh_)?pp$", re.IGNORECASE)),
    ("cp", re.compile(r"^CONTEXT_PARALLEL_GROUP$|^(?:mesh_)?cp$", re.IGNORECASE)),
    (
        "dp",
        re.compile(r"^DATA_PARALLEL_GROUP(?:_WITH_CP)?$|^(?:mesh_)?(?:dp|dp_shard|fsdp|dp_replicate)$", re.IGNORECASE),
    ),
)


def parallel_groups(states: Iterable[State]) -> dict[str, list[tuple[int, ...]]]:
    """The job's own parallel groups, by the descriptions that Megatron-LM and torchtitan give their process groups."""
    found: dict[str, set[tuple[int, ...]]] = defaultdict(set)
    for state in states:
        kind = _kind_of(state.desc)
        if kind and state.members:
            found[kind].add(state.members)
    # Groups of one kind never overlap; two descriptions of one kind (with and without context parallelism) may.
    return {kind: sorted(groups) for kind, groups in sorted(found.items()) if _are_disjoint(groups)}


def _kind_of(desc: str) -> str:
    return next((kind for kind, pattern in _KINDS if pattern.search(desc)), "")


def _are_disjoint(groups: Iterable[tuple[int, ...]]) -> bool:
    ranks = list(chain.from_iterable(groups))
    return len(set(ranks)) == len(ranks)


class _Group(msgspec.Struct, frozen=True):
    """The states of one process group, by rank. ``label`` names it in sentences; ``ranks``: all its ranks."""

    label: str
    states: Mapping[int, State]
    ranks: frozenset[int]


def compare(states: Iterable[State], *, dumped: Iterable[int] = ()) -> Verdict:
    """Compare all ranks' states; ``dumped`` are the ranks that wrote a dump at all, empty ones included. Linear in
    states."""
    every = list(states)
    present = {*dumped, *(state.rank for state in every)}
    waiting = {state.rank for state in every if state.is_waiting}
    verdict = Verdict()
    for group in _groups(every):
        if not is_pipeline(group.label):
            _find_device_stuck(group, verdict)
            _find_mismatches(group, verdict)
        _find_host_stuck(group, present - waiting, verdict)
    return verdict


def _groups(states: Iterable[State]) -> Iterable[_Group]:
    """The process groups by name."""
    by_name: dict[str, dict[int, State]] = defaultdict(dict)
    for state in states:
        by_name[state.group][state.rank] = state
    for name, members in sorted(by_name.items()):
        sample = max(members.values(), key=lambda state: len(state.members))
        is_described = sample.desc not in {"", "undefined"}
        yield _Group(sample.desc if is_described else name, members, frozenset(sample.members or members))


def _find_host_stuck(group: _Group, idle: set[int], verdict: Verdict) -> None:
    """Ranks that have not come to a collective in which others of their group are. ``idle`` ranks wait in none."""
    for seq, op in _first_open(group.states.values()):
        missing = sorted(rank for rank in group.ranks & idle if _last_sequence(group, rank) < seq)
        if not missing or len(missing) == len(group.ranks):
            continue
        there = f"{len(group.ranks) - len(missing)} of {len(group.ranks)} ranks wait in"
        reason = f"has not scheduled {op} #{seq} of {group.label}, which {there}"
        for rank in missing:
            verdict.host.setdefault(rank, reason)
        hung = HungCollective(group.label, op, seq, missing, fold_ranks(group.ranks))
        verdict.collective = verdict.collective or hung


def _last_sequence(group: _Group, rank: int) -> int:
    state = group.states.get(rank)
    return -1 if state is None else state.last_sequence


def _first_open(states: Iterable[State]) -> list[tuple[int, str]]:
    """Number and name of the open collectives of a group, oldest first."""
    found: dict[int, str] = {}
    for state in states:
        for call in state.open_collectives:
            found.setdefault(call.seq, call.op)
        if not state.open and state.is_behind:
            last_op = "" if state.last is None else state.last.op
            found.setdefault(state.completed + 1, last_op or _ANY_OP)
    return sorted(found.items())


def _find_device_stuck(group: _Group, verdict: Verdict) -> None:
    """Ranks that did not finish a collective that a peer finished."""
    completed = {rank: state.completed for rank, state in group.states.items() if state.completed >= 0}
    if len(completed) < 2:
        return
    best = max(completed.values())
    for rank, seq in sorted(completed.items()):
        state = group.states[rank]
        # A rank whose host never reached the collective is late, not stuck on its device.
        if seq == best or state.enqueued < best:
            continue
        unfinished = [call.op for call in state.open_collectives if call.seq == seq + 1]
        op = f" ({unfinished[0]})" if unfinished else ""
        reason = f"scheduled but did not finish #{seq + 1}{op} of {group.label}, which a peer finished (#{best})"
        verdict.device.setdefault(rank, reason)
        name = unfinished[0] if unfinished else _ANY_OP
        hung = HungCollective(group.label, name, seq + 1, [rank], fold_ranks(group.states))
        verdict.collective = verdict.collective or hung


def _find_mismatches(group: _Group, verdict: Verdict) -> None:
    """Ranks whose call of one number differs from that of their peers: the first number that differs decides."""
    calls_of: dict[int, dict[int, Collective]] = defaultdict(dict)
    for rank, state in group.states.items():
        for call in state.open_collectives:
            calls_of[call.seq][rank] = call
    for _, calls in sorted(calls_of.items()):
        reasons = _other_ops(calls, group.label) or _other_sizes(calls, group.label)
        for rank, reason in reasons.items():
            verdict.mismatch.setdefault(rank, reason)
        if reasons:
            return


def _other_ops(calls: Mapping[int, Collective], label: str) -> dict[int, str]:
    """The ranks that call another collective than most, with the reason."""
    common = _most_common(call.op for call in calls.values())
    where = f"of {label} where its peers called {common}"
    return {rank: f"called {call.op} as #{call.seq} {where}" for rank, call in _unlike(calls, common)}


def _unlike(calls: Mapping[int, Collective], op: str) -> list[tuple[int, Collective]]:
    return [(rank, call) for rank, call in sorted(calls.items()) if call.op != op]


def _other_sizes(calls: Mapping[int, Collective], label: str) -> dict[int, str]:
    """The ranks whose inputs have another size than those of most, with the reason. All call the same collective."""
    op = _most_common(call.op for call in calls.values())
    is_uneven = any(word in op for word in _UNEVEN_OPS)
    if is_uneven or len(calls) < THRESHOLDS.ranks:
        return {}
    sizes = {rank: str(call.sizes) for rank, call in sorted(calls.items())}
    common = _most_common(sizes.values())
    alike = sum(size == common for size in sizes.values())
    if alike <= len(calls) / 2:
        return {}
    others = [rank for rank, size in sizes.items() if size != common]
    return {
        rank: f"called {op} #{calls[rank].seq} of {label} with size {sizes[rank]}, its peers with {common}"
        for rank in others
    }


def _most_common(words: Iterable[str]) -> str:
    return Counter(words).most_common(1)[0][0]
