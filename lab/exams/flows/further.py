"""A fifth set of worlds, written before the engine was run on any of them: changes during a capture, fabrics that show
only some of their switches, very large neighbours, compression, uneven stages, tensor ranks across machines.
"""

from __future__ import annotations

from collections.abc import Iterator

from lab.exams.flows.capture import POOR, Case, Spoil
from lab.exams.flows.moves import Move
from lab.exams.flows.tenants import Fabric, Fault, Tenant, span

RAIL, TOR, FAT = Fabric(), Fabric("tor", 4), Fabric("fat3", 2, 8)


def further() -> Iterator[Case]:
    """First measured, then used for corrections."""
    gpu, nic = Fault("gpu", 14, 22, 1.5, rank=19), Fault("nic", 14, 22, 5.0, rank=19)
    wide = Tenant(span(0, 16), tp=8, pp=2, seed=501, faults=(Fault("switch", 12, 20, 4.0, switch="spine-0-1"),))
    yield Case("three-tiers-spines-shown", Fabric("rail3", 1, 4, ("spine", "core")), (wide,))
    slow_leaf = Tenant(span(0, 16), tp=8, pp=4, micro=8, seed=502, faults=(nic,))
    yield Case("three-tiers-leaves-shown", Fabric("rail3", 1, 4, ("leaf",)), (slow_leaf,), Spoil(loss=0.03))
    yield Case(
        "large-and-small",
        Fabric("rail", 8, 8),
        (
            Tenant(span(0, 256), tp=8, pp=8, micro=8, steps=20, forward=0.012, seed=503),
            Tenant(span(256, 4), tp=8, seed=504, forward=0.017, steps=24, faults=(Fault("gpu", 9, 15, 1.5, rank=9),)),
            Tenant(span(260, 4), tp=4, mode="rsag", seed=505, forward=0.02, steps=20),
            Tenant(span(264, 2), tp=1, mode="zero3", seed=506, forward=0.022, steps=16),
        ),
        Spoil(loss=0.02),
    )
    stall = Fault("loader", 20, 20, 1.4)
    yield Case(
        "second-adapter",
        TOR,
        (Tenant(span(0, 8), tp=8, pp=2, seed=507, faults=(stall,)),),
        Spoil(loss=0.02),
        moves=(Move(0, 19, 20),),
    )
    yield Case("second-adapter-dp", RAIL, (Tenant(span(0, 8), tp=4, mode="rsag", seed=508),), moves=(Move(0, 33, 15),))
    yield Case(
        "spare-machine",
        RAIL,
        (Tenant(span(0, 8), tp=8, pp=2, seed=509, faults=(Fault("loader", 22, 22, 9.0),)),),
        Spoil(loss=0.02),
        moves=(Move(0, 24, 22, to=11),),
    )
    yield Case(
        "spare-machine-fsdp",
        FAT,
        (Tenant(span(0, 8), tp=1, mode="zero3", seed=510, steps=30, faults=(Fault("loader", 12, 12, 6.0),)),),
        moves=(Move(0, 40, 12, to=9),),
    )
    yield Case(
        "object-store",
        RAIL,
        (Tenant(span(0, 8), tp=8, pp=2, async_save=8, seed=511, faults=(gpu,)),),
        Spoil(loss=0.02, objects=True),
    )
    yield Case(
        "object-store-blind",
        TOR,
        (Tenant(span(0, 8), tp=8, mode="rsag", async_save=8, seed=512),),
        Spoil(objects=True),
        inventory=False,
    )
    yield Case("compressed", TOR, (Tenant(span(0, 8), tp=8, compressed=0.15, seed=513, faults=(gpu,)),))
    yield Case("compressed-pp", RAIL, (Tenant(span(0, 8), tp=8, pp=2, compressed=0.3, seed=514),), Spoil(loss=0.03))
    yield Case("long-last-stage", FAT, (Tenant(span(0, 8), tp=4, pp=4, micro=8, last_stage=1.5, seed=515),))
    yield Case(
        "long-last-stage-slow",
        RAIL,
        (
            Tenant(
                span(0, 16), tp=8, pp=4, micro=8, last_stage=1.3, seed=516, faults=(Fault("gpu", 14, 22, 1.8, rank=43),)
            ),
        ),
        Spoil(loss=0.05),
    )
    yield Case("tensor-across", RAIL, (Tenant(span(0, 8), tp=16, seed=517, act=25_165_824, faults=(gpu,)),))
    yield Case("tensor-across-pp", FAT, (Tenant(span(0, 16), tp=16, pp=2, seed=518, act=25_165_824),), Spoil(loss=0.02))
    yield Case(
        "sixteen-stages",
        RAIL,
        (Tenant(span(0, 32), tp=8, pp=16, vpp=4, micro=32, forward=0.012, steps=16, seed=519),),
        Spoil(loss=0.02),
    )
    yield Case("hour-apart", RAIL, (Tenant(span(0, 8), tp=8, pp=2, seed=520),), Spoil(apart=3600.0))
    yield Case("hour-apart-dp", TOR, (Tenant(span(0, 16), tp=8, seed=521),), Spoil(apart=3600.0, loss=0.02))
    yield Case("torn", RAIL, (Tenant(span(0, 8), tp=8, pp=2, seed=522, faults=(gpu,)),), window=(5.4, 33.6))
    yield Case("torn-fsdp", TOR, (Tenant(span(0, 8), tp=1, mode="zero3", seed=523),), POOR, window=(3.5, 30.3))
    yield Case(
        "three-evaluations",
        FAT,
        (Tenant(span(0, 8), tp=8, pp=4, micro=8, eval_every=10, seed=524),),
        Spoil(loss=0.05),
    )
    yield Case("both-ways", RAIL, (Tenant(span(0, 8), tp=8, pp=2, lanes=4, both_ways=True, seed=525, faults=(gpu,)),))
    yield Case(
        "both-ways-tor",
        TOR,
        (Tenant(span(0, 16), tp=4, lanes=2, both_ways=True, mode="rsag", seed=526, faults=(nic,)),),
        POOR,
    )
