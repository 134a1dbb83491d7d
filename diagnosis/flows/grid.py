"""Pairs that exchange often and pairs that exchange rarely: tensor ranks on several machines, and their replicas.

Tensor ranks reduce in each layer, replicas once a step. Both are rings of recurring sizes, so sizes and times alone
take the tensor ranks for gradients too. Shards of one copy of the weights (HSDP) look alike: only what the job states
of its tensor ranks decides between the two. The rhythm of the rare pairs serves steps either way. O(records).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from diagnosis.flows.arrays import components
from diagnosis.flows.capture import Bools, Flows
from diagnosis.flows.pairs import DP, OTHER, PP, Pairs

#: Pairs exchange rarely if others exchange this many times as often.
RARER: Final = 2.0


def seldom(traffic: Flows, pairs: Pairs, count: int) -> Bools | None:
    """The pairs that exchange far less often than the others; None if all exchange about as often."""
    times = np.zeros(len(pairs.a), np.int64)
    for _, part in traffic.parts():
        times += np.bincount(pairs.index(part, count), minlength=len(times))
    known = np.sort(times[times > 0])
    if len(known) < 2:
        return None
    jump = known[1:] / known[:-1]
    at = int(jump.argmax())
    return None if jump[at] < RARER else np.asarray(times <= known[at])


def with_tensor_ranks(pairs: Pairs, traffic: Flows, count: int, tensor: int) -> Pairs:
    """The pairs of a job without pipelines, those of ``tensor`` ranks (as the job states) not as gradients: the ones
    that exchange often, if they form groups of that size that each group of the others meets once.
    """
    either = pairs.of(DP, PP)
    rare = seldom(traffic, pairs, count) if tensor > 1 else None
    if rare is None:
        return pairs
    often, rare = either & ~rare, either & rare
    members = np.unique(np.concatenate([pairs.a[either], pairs.b[either]]))
    of = [components(pairs.a[part], pairs.b[part], count)[members] for part in (often, rare)]
    sizes = [np.unique(label, return_counts=True)[1] for label in of]
    meets = np.unique(np.stack(of), axis=1).shape[1] == len(members)
    if not meets or set(sizes[0].tolist()) != {tensor} or len(set(sizes[1].tolist())) != 1 or sizes[1][0] < 2:
        return pairs
    types = [OTHER if o else DP if r else t for t, o, r in zip(pairs.type, often, rare, strict=True)]
    return replace(pairs, type=types)
