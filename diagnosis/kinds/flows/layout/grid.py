"""A job's machines as a grid: the ranks of one copy of the model in one direction, its replicas in the other.

Tensor ranks reduce in each layer, replicas once a step. Both are rings of recurring sizes, so sizes and times alone
take the tensor ranks for gradients too. Shards of one copy of the weights (HSDP) look alike: only what the job states
decides between the two. In the same way one pair of a pipeline that is taken for gradients joins two groups of
replicas. Where the stated sizes fit a grid that a clear difference between pairs shows, that grid is the layout. The
rhythm of the rare pairs serves steps either way. O(records).
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

import numpy as np

from diagnosis.kinds.flows.capture.arrays import components
from diagnosis.kinds.flows.capture.capture import Bools, Floats, Flows
from diagnosis.kinds.flows.jobs.pairs import DP, OTHER, PP, Pairs
from diagnosis.kinds.flows.layout.stated import may_be_stated

#: Pairs exchange rarely, or little, if others exchange this many times as often, or as much.
MIN_GAP_FACTOR: Final = 2.0


def find_rare_pairs(traffic: Flows, pairs: Pairs, count: int) -> Bools | None:
    """The pairs that exchange far less often than the others; None if all exchange about as often."""
    return _below_gap(_exchange_amounts(traffic, pairs, count)[0])


def type_as_stated(pairs: Pairs, traffic: Flows, count: int, stated: Mapping[str, int]) -> Pairs:
    """The pairs with the types that make the layout which the job states (``tp``, ``pp``, ``dp``, ``cp``, ``ranks``),
    if they form it: of several ways the one that changes the fewest types. Unchanged if they do not, or already do.
    """
    if stated.get("pp", 1) > 1:
        kind, ways = PP, _pipelines(traffic, pairs, count)
    elif stated.get("tp", 1) > 1:
        kind, ways = OTHER, _tensor_ranks(traffic, pairs, count)
    else:
        return pairs
    either = pairs.of(DP, PP)
    found = []
    for model in ways:
        types = [t if not e else kind if m else DP for t, e, m in zip(pairs.type, either, model, strict=True)]
        if _is_grid(pairs, either & model, either & ~model, count, stated):
            found.append(types)
    changes = [sum(map(operator.ne, pairs.type, types)) for types in found]
    return replace(pairs, type=found[changes.index(min(changes))]) if found else pairs


def _tensor_ranks(traffic: Flows, pairs: Pairs, count: int) -> Iterator[Bools]:
    """The pairs that may be tensor ranks: they exchange more often than replicas."""
    rare = _below_gap(_exchange_amounts(traffic, pairs, count)[0])
    if rare is not None:
        yield ~rare


def _pipelines(traffic: Flows, pairs: Pairs, count: int) -> Iterator[Bools]:
    """The pairs that may be neighbours of a pipeline: as they are typed, and those that exchange more or less often, or
    more or fewer bytes, than the others. A statement does not outweigh the types of most pairs.
    """
    typed = pairs.of(PP)
    yield typed
    for below in map(_below_gap, _exchange_amounts(traffic, pairs, count)):
        if below is not None:
            yield from (way for way in (below, ~below) if 2 * np.count_nonzero(way != typed) <= len(typed))


def _is_grid(pairs: Pairs, model: Bools, data: Bools, count: int, stated: Mapping[str, int]) -> bool:
    """Whether these pairs form groups of the stated sizes, and groups of the two kinds meet once each."""
    both = model | data
    members = np.unique(np.concatenate([pairs.a[both], pairs.b[both]]))
    of = [components(pairs.a[part], pairs.b[part], count)[members] for part in (model, data)]
    sizes = [set(np.unique(label, return_counts=True)[1].tolist()) for label in of]
    if any(len(each) != 1 for each in sizes):
        return False
    (own,), (replicas,) = sizes
    kind = "pp" if stated.get("pp", 1) > 1 else "tp"
    is_stated = own == stated[kind] if kind == "tp" else may_be_stated(stated, kind, own, len(members))
    is_stated &= "dp" not in stated or kind == "tp" or may_be_stated(stated, "dp", replicas, len(members))
    meets = np.unique(np.stack(of), axis=1).shape[1] == len(members)
    return bool(is_stated and meets and min(own, replicas) > 1 and (kind == "tp" or own * replicas == len(members)))


def _exchange_amounts(traffic: Flows, pairs: Pairs, count: int) -> tuple[Floats, Floats]:
    """How many transfers, and how many bytes, each pair exchanged."""
    times, moved = np.zeros((2, len(pairs.a)))
    for _, part in traffic.parts():
        index = pairs.index(part, count)
        times += np.bincount(index, minlength=len(times))
        moved += np.bincount(index, np.nan_to_num(part.size), len(times))
    return times, moved


def _below_gap(amount: Floats) -> Bools | None:
    """The pairs below the widest gap of an amount; None if there is no wide one."""
    known = np.sort(amount[amount > 0])
    if len(known) < 2:
        return None
    jump = known[1:] / known[:-1]
    at = int(jump.argmax())
    return None if jump[at] < MIN_GAP_FACTOR else np.asarray(amount <= known[at])
