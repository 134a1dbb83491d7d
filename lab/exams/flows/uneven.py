"""Worlds whose replicas have unequal work that moves from step to step (sequences of other lengths), and worlds that
look alike and are not: varying lengths that all replicas share, one machine that is slow for most of the capture.
"""

from __future__ import annotations

from collections.abc import Iterator

from lab.exams.flows.capture import Case, Spoil
from lab.exams.flows.tenants import Fabric, Fault, Tenant, span

RAIL, TOR, FAT = Fabric(), Fabric("tor", 4), Fabric("fat3", 2, 8)


def uneven() -> Iterator[Case]:
    """Work that moves first, then the worlds in which nothing must be told of it."""
    yield Case("moves-dp", RAIL, (Tenant(span(0, 8), tp=8, imbalance=0.2, seed=601),), Spoil(loss=0.02))
    yield Case("moves-dp-wide", TOR, (Tenant(span(0, 16), tp=8, imbalance=0.12, mode="rsag", seed=602),))
    yield Case("moves-pp", FAT, (Tenant(span(0, 8), tp=4, pp=4, micro=8, imbalance=0.2, seed=603),))
    yield Case("moves-two", RAIL, (Tenant(span(0, 4), tp=8, pp=2, imbalance=0.25, seed=604),), Spoil(loss=0.02))
    yield Case(
        "moves-no-bytes", TOR, (Tenant(span(0, 8), gpus=1, tp=1, pp=4, micro=8, imbalance=0.2, seed=605),),
        Spoil(no_bytes=True, background=False), inventory=False, paths=False,
    )  # fmt: skip
    yield Case("moves-fsdp", TOR, (Tenant(span(0, 4), tp=1, mode="zero3", imbalance=0.2, seed=606),))
    yield Case("shared-lengths", RAIL, (Tenant(span(0, 8), tp=8, pp=2, varying=True, seed=607),))
    long = Fault("gpu", 6, 34, 1.4, rank=19)
    yield Case("one-for-long", RAIL, (Tenant(span(0, 8), tp=8, faults=(long,), seed=608),))
    yield Case("noisy", TOR, (Tenant(span(0, 8), tp=8, jitter=0.04, seed=609),), Spoil(loss=0.05, split=0.05))
