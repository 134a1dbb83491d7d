"""Ranks with a suspicious state in the messages of collective watchdogs, which state the position
of each rank in the order of collectives of each process group.

A hung collective names all ranks that wait. The rank at fault is behind, never entered, called
something else, or is silent (NCCL's SeqNum / OpType / last enqueued / last completed; the same
reasoning as NVIDIA's and Ascend's public fault finders).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from operator import itemgetter
from typing import Final

import msgspec
from msgspec.structs import replace

from diagnosis import thresholds
from diagnosis.kinds.logs.causes.case import Case
from diagnosis.kinds.logs.causes.failure_facts import Facts
from diagnosis.kinds.logs.compare.clues import Clue
from diagnosis.kinds.logs.read import raw_lines
from diagnosis.kinds.logs.rows.events import Groups, LogTable
from diagnosis.knowledge import words
from diagnosis.model import ReadRange
from diagnosis.values import stats

THRESHOLDS: Final = thresholds.of("watchdogs")

LIMITS: Final = thresholds.limits("watchdogs")

id: Final = "watchdogs"
why: Final = "who is behind in the order of collectives, or called another, is who the others wait for"
needs: Final = "lines of watchdogs with sequence numbers"

_GROUP, _RANK, _WORK, _SIZE, _AT, _ENQUEUED, _COMPLETED = (
    words.regex("watchdogs", what) for what in ("group", "rank", "work", "size", "at", "enqueued", "completed")
)
#: A message that a watchdog of some collective library wrote.
WATCHDOG: Final = words.pattern("watchdogs", "line")
#: Collectives in which all ranks give and expect the same number of elements.
OF_ONE_SIZE: Final = frozenset(
    {"ALLREDUCE", "BROADCAST", "ALLGATHER", "REDUCE_SCATTER", "_ALLGATHER_BASE", "_REDUCE_SCATTER_BASE"}
)
#: The category if a rank called another collective than its peers.
MISMATCH: Final = "framework.collective.mismatch"


class State(msgspec.Struct, frozen=True):
    """A rank's state in one process group. ``size``: elements given and expected, as written."""

    rank: int
    node: str | None
    group: str
    seq: int | None = None
    op: str | None = None
    enqueued: int | None = None
    completed: int | None = None
    size: str = ""


def find_clues(case: Case) -> Iterator[Clue]:
    """The nodes of suspicious ranks. Only ranks of writers or of an inventory can be missed."""
    known = {*case.inventory.node_of_rank, *case.table.sources["rank"].drop_nulls().to_list()}
    return suspicions(states(case), {rank: case.node_of_rank.get(rank) for rank in sorted(known)})


def states(case: Case) -> list[State]:
    """The states of ranks and process groups, of watchdog lines. O(messages + lines read)."""
    return list(states_in(case.table, messages(case), case.read))


def messages(facts: Facts) -> list[list[int]]:
    """The messages of watchdogs, as one group. O(messages)."""
    masked = facts.table.messages.filter(facts.table.says(WATCHDOG))["masked"].to_list()
    return [masked] if masked else []


def states_in(table: LogTable, groups: Groups, read_: ReadRange) -> tuple[State, ...]:
    """The states in the lines of these messages. O(lines read)."""
    found: list[State] = []
    for masked in groups:
        rows = table.placed(table.rows(masked, limit=LIMITS.read_back))
        texts = raw_lines.read_lines(rows, table.files, read_, LIMITS.line_bytes)
        found += read(zip(texts, rows["rank"], rows["node"], strict=True))
    return tuple(found)


def read(lines: Iterable[tuple[str, int | None, str | None]]) -> list[State]:
    """States from watchdog lines with rank and node of the source; one a rank and group."""
    merged: dict[tuple[int, str], State] = {}
    for text, rank, node in lines:
        who = _stated_rank(text) if rank is None else rank
        if who is None:
            continue
        state = _state(text, State(who, node, _stated_group(text)))
        if state is not None:
            key = who, state.group
            merged[key] = _joined(merged.get(key), state, text)
    return _without_nameless(merged)


def _stated_rank(text: str) -> int | None:
    found = _RANK.search(text)
    return int(next(n for n in found.groups() if n)) if found else None


def _stated_group(text: str) -> str:
    """The GUID ("[PG ID 14 PG GUID 64(tp) Rank 4]") is the same on all members, the id is not."""
    found = _GROUP.search(text)
    return (found["guid"] or found["name"] or found["id"]) if found else ""


def _state(text: str, bare: State) -> State | None:
    """What a line states of a rank and group; None if it states no position."""
    work, size = _WORK.search(text), _SIZE.search(text)
    enqueued, completed = _ENQUEUED.search(text), _COMPLETED.search(text)
    if not (work or enqueued or completed or _AT.search(text)):
        return None
    return replace(
        bare,
        seq=int(work[1]) if work else None,
        op=work[2] if work else None,
        enqueued=int(enqueued[1]) if enqueued else None,
        completed=int(completed[1]) if completed else None,
        size=f"{size[1]} to {size[2]}" if size else "",
    )


def _joined(old: State | None, new: State, text: str) -> State:
    """The newer state, with what only the older one has; a bare position counts if neither has a number."""
    before = old or State(new.rank, new.node, new.group)
    names = [name for name in State.__struct_fields__ if getattr(new, name) in (None, "")]
    kept = {name: getattr(before, name) for name in names}
    state = replace(new, **kept | {"node": before.node or new.node})
    at = _AT.search(text)
    return replace(state, seq=int(at[1])) if at and state.seq is None else state


def _without_nameless(merged: dict[tuple[int, str], State]) -> list[State]:
    """A watchdog writes some lines without the group: join them with the rank's only named group."""
    named = Counter(rank for rank, group in merged if group)
    out = []
    for (rank, group), state in sorted(merged.items()):
        bare = merged.get((rank, ""))
        is_of_it = bare is not None and named[rank] == 1 and bare.seq == state.seq
        if group or not named[rank]:
            needs_op = bare is not None and is_of_it and state.op is None
            out.append(replace(state, op=bare.op, size=bare.size) if bare and needs_op else state)
    return out


def suspicions(states: list[State], ranks: Mapping[int, str | None]) -> Iterator[Clue]:
    """Ranks at another position than their group's majority, and ranks that are silent while most report; of each the
    clue about its node, if that is known.

    Args:
        states: from :func:`read`.
        ranks: every known rank of the job with its node.
    """
    groups: dict[str, list[State]] = defaultdict(list)
    for state in states:
        groups[state.group].append(state)
    for name, members in sorted(groups.items()):
        if len(members) >= THRESHOLDS.members:
            yield from _odd_ones(name, members)
    reporting = {s.rank for s in states}
    silent = sorted(set(ranks) - reporting)
    # silence is evidence only if the whole world's watchdogs report; part of a world waits in its own groups, and
    # ranks are numbered from 0, also those that wrote nothing
    world = max((*ranks, *reporting), default=-1) + 1
    if silent and stats.is_minority(world - len(reporting), world):
        they = f"the time-out that {len(reporting)} of {world} ranks report"
        yield from (
            Clue(node, THRESHOLDS.silent, f"rank {r} did not report {they}") for r in silent if (node := ranks[r])
        )


def _odd_ones(group: str, members: list[State]) -> Iterator[Clue]:
    where = f"in group {group}" if group else "in its group"
    yield from _behind(members, where)
    by_seq: dict[int, list[State]] = defaultdict(list)
    for s in members:
        if s.seq is not None and s.op is not None:
            by_seq[s.seq].append(s)
    for seq, same in sorted(by_seq.items()):
        # ranks of one group that stop at different numbers are not in one collective: nothing to compare
        if stats.is_nearly_all(len(same), len(members)):
            yield from _other_calls(seq, same, where)


def _behind(members: list[State], where: str) -> Iterator[Clue]:
    """The few ranks that completed fewer collectives than most."""
    completed = [(s.completed, s) for s in members if s.completed is not None]
    common, votes = max(Counter(n for n, _ in completed).items(), key=itemgetter(1), default=(0, 0))
    late = [s for n, s in completed if n < common]
    if not stats.is_minority(len(late), len(members)) or votes <= len(late):
        return
    for s in late:
        is_idle = s.enqueued is not None and s.enqueued == s.completed
        text = "never entered the collective that its peers wait in" if is_idle else "is behind its peers"
        yield from _clue(s, THRESHOLDS.behind, f"{text} {where}: completed {s.completed}, most {common}")


def _other_calls(seq: int, same: list[State], where: str) -> Iterator[Clue]:
    """The few ranks that called another collective under one number, or another size of it."""
    common_op, votes = Counter(s.op for s in same).most_common(1)[0]
    odd = [s for s in same if s.op != common_op]
    if not odd:
        if common_op in OF_ONE_SIZE:
            yield from _other_sizes(seq, [s for s in same if s.size], where)
    elif _is_odd(odd, same, votes):
        for s in odd:
            text = f"called {s.op} as number {seq} {where}, its peers {common_op}"
            yield from _clue(s, THRESHOLDS.mismatch, text, MISMATCH)


def _other_sizes(seq: int, sized: list[State], where: str) -> Iterator[Clue]:
    size, votes = Counter(s.size for s in sized).most_common(1)[0] if sized else ("", 0)
    others = [s for s in sized if s.size != size]
    if _is_odd(others, sized, votes):
        for s in others:
            text = f"called {s.op} as number {seq} {where} with {s.size} elements, its peers with {size}"
            yield from _clue(s, THRESHOLDS.mismatch, text, MISMATCH)


def _is_odd(odd: list[State], members: list[State], votes: int) -> bool:
    """Whether so few differ from ``votes`` others that they are the ones to blame."""
    return stats.is_minority(len(odd), len(members)) and votes >= THRESHOLDS.members


def _clue(state: State, weight: float, text: str, tells: str = "") -> Iterator[Clue]:
    if state.node is not None:
        yield Clue(state.node, weight, f"rank {state.rank} {text}", tells)
