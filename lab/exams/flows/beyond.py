"""Two more sets of worlds: schedules, collectives and ways of sharing a cluster that the first ones lack.

``beyond`` was written before the engine was run on it, measured at first sight, then used to correct the engine;
``last`` was written at the same time and measured once before it was used for corrections.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from lab.exams.flows.capture import POOR, Case, Spoil
from lab.exams.flows.tenants import Fabric, Fault, Tenant, span

RAIL, TOR, FAT, LING = Fabric(), Fabric("tor", 4), Fabric("fat3", 2, 8), Fabric("lingjun", 4, 8)


def beyond() -> Iterator[Case]:
    """First measured, then used for corrections."""
    gpu, nic = Fault("gpu", 14, 22, 1.5, rank=19), Fault("nic", 14, 22, 5.0, rank=19)
    yield Case("zero-bubble", RAIL, (Tenant(span(0, 8), plan="zero", pp=4, micro=8, seed=301, faults=(gpu,)),))
    yield Case("dualpipe", FAT, (Tenant(span(0, 8), plan="dual", pp=4, micro=10, seed=302),), Spoil(loss=0.02))
    yield Case("fsdp", TOR, (Tenant(span(0, 16), mode="zero3", tp=1, seed=303, steps=30, faults=(gpu,)),))
    yield Case("hsdp", RAIL, (Tenant(span(0, 8), mode="hsdp", tp=1, shard=32, seed=304, layers=6, steps=30),))
    yield Case(
        "hsdp-poor",
        FAT,
        (Tenant(span(0, 12), mode="hsdp", tp=1, shard=24, seed=305, layers=6, steps=30, faults=(nic,)),),
        POOR,
    )
    yield Case("ring-attention", LING, (Tenant(span(0, 8), tp=8, cp=8, micro=4, seed=306, act=201_326_592),))
    yield Case(
        "ring-attention-fsdp", RAIL, (Tenant(span(0, 8), mode="zero3", tp=4, cp=4, micro=2, seed=307, steps=30),)
    )
    yield Case(
        "experts-uneven",
        RAIL,
        (Tenant(span(0, 8), tp=1, ep=16, skew=0.5, micro=3, steps=30, seed=308, faults=(gpu,)),),
    )
    yield Case(
        "experts-uneven-pp",
        LING,
        (Tenant(span(0, 16), tp=4, pp=2, ep=8, skew=0.3, steps=30, seed=309),),
        Spoil(loss=0.1),
    )
    yield Case("hierarchical", RAIL, (Tenant(span(0, 8), mode="hier", tp=1, seed=310, faults=(gpu,)),))
    yield Case("hierarchical-pp", FAT, (Tenant(span(0, 16), mode="hier", tp=2, pp=2, seed=311, faults=(nic,)),))
    yield Case("in-network", RAIL, (Tenant(span(0, 8), mode="sharp", tp=8, pp=2, seed=312, faults=(gpu,)),))
    yield Case("in-network-dp", RAIL, (Tenant(span(0, 8), mode="sharp", tp=8, seed=313),), Spoil(loss=0.02))
    yield Case("accumulate", LING, (Tenant(span(0, 8), tp=8, pp=2, micro=32, forward=0.005, seed=314),), POOR)
    yield Case(
        "async-save", RAIL, (Tenant(span(0, 8), tp=8, pp=2, async_save=9, steps=50, seed=315),), Spoil(loss=0.05)
    )
    yield Case("rollouts", RAIL, (Tenant(span(0, 8), tp=8, pp=2, rollout=4, steps=40, seed=316),))
    yield Case("rollouts-fsdp", TOR, (Tenant(span(0, 4), tp=1, mode="zero3", rollout=6, steps=40, seed=317),))
    yield Case(
        "inference-beside",
        RAIL,
        (Tenant(span(0, 8), tp=8, pp=2, seed=318, faults=(gpu,)),),
        Spoil(loss=0.02),
        serving=(span(8, 2), span(10, 3)),
    )
    yield Case(
        "inference-shared-machines",
        TOR,
        (Tenant(span(0, 8), tp=4, mode="rsag", seed=319),),
        serving=(span(6, 2), span(8, 3)),
    )
    yield Case(
        "one-after-another",
        RAIL,
        (
            Tenant(span(0, 8), tp=8, pp=2, steps=30, seed=320),
            Tenant(span(0, 8), tp=4, mode="rsag", steps=40, seed=321, after=6.0),
        ),
    )
    half = Tenant(span(0, 8), tp=8, pp=2, steps=24, seed=322)
    yield Case("restarted", RAIL, (half, replace(half, seed=323, after=9.0, async_save=10)), joined=((0, 1),))
    yield Case(
        "restarted-poor",
        TOR,
        (half, replace(half, seed=324, steps=8, after=4.0), replace(half, seed=325, after=5.0)),
        POOR,
        joined=((0, 1, 2),),
    )
    yield Case(
        "shrunk",
        RAIL,
        (Tenant(span(0, 8), tp=8, steps=24, seed=326), Tenant(span(0, 7), tp=8, steps=24, seed=327, after=5.0)),
        joined=((0, 1),),
    )
    yield Case("four-a-node", TOR, (Tenant(span(0, 16), gpus=4, tp=4, pp=2, seed=328, faults=(gpu,)),))
    yield Case("sixteen-a-node", RAIL, (Tenant(span(0, 4), gpus=16, tp=8, pp=2, seed=329),), Spoil(loss=0.02))
    yield Case("one-a-node", TOR, (Tenant(span(0, 16), gpus=1, tp=1, seed=330, faults=(replace(gpu, rank=7),)),))
    yield Case("one-a-node-pp", TOR, (Tenant(span(0, 16), gpus=1, tp=1, pp=4, micro=8, seed=331),))
    yield Case("two-machines", RAIL, (Tenant(span(0, 2), tp=8, seed=332),))
    yield Case("two-machines-pipeline", RAIL, (Tenant(span(0, 2), tp=8, pp=2, micro=8, seed=333),))
    yield Case(
        "two-ports", RAIL, (Tenant(span(0, 8), tp=8, pp=2, lanes=2, seed=334, faults=(gpu,)),), Spoil(names="ports")
    )
    yield Case(
        "two-ports-dp",
        LING,
        (Tenant(span(0, 8), tp=4, mode="rsag", lanes=2, seed=335),),
        Spoil(names="ports", loss=0.03),
    )
    yield Case("unlisted", RAIL, (Tenant(span(0, 8), tp=8, pp=2, seed=336, faults=(gpu,)),), Spoil(unlisted=3))
    yield Case("unlisted-dp", TOR, (Tenant(span(0, 8), tp=4, mode="rsag", seed=337),), Spoil(unlisted=1, loss=0.03))
    yield Case(
        "lossy-ms",
        RAIL,
        (Tenant(span(0, 8), tp=8, pp=2, forward=0.04, seed=338, faults=(gpu,)),),
        Spoil(loss=0.1, twice=0.1, grid=1e-3),
    )
    yield Case(
        "v6-three",
        FAT,
        (
            Tenant(span(0, 8), tp=8, pp=2, seed=339, faults=(gpu,)),
            Tenant(span(8, 4), tp=1, mode="zero3", steps=24, seed=340, forward=0.021),
            Tenant(span(12, 4), tp=4, mode="hier", seed=341, forward=0.019),
        ),
        Spoil(names="v6", loss=0.03),
    )
    yield Case(
        "four-thousand",
        RAIL,
        (
            Tenant(
                span(0, 512),
                tp=8,
                pp=8,
                micro=8,
                steps=16,
                forward=0.01,
                seed=342,
                faults=(Fault("gpu", 6, 10, 1.5, rank=1111),),
            ),
        ),
        Spoil(loss=0.02),
    )


def last() -> Iterator[Case]:
    """Measured before it was used for corrections."""
    yield Case(
        "last-zero",
        TOR,
        (
            Tenant(
                span(0, 16), plan="zero", tp=4, pp=8, micro=12, seed=401, faults=(Fault("gpu", 10, 19, 1.4, rank=77),)
            ),
        ),
        Spoil(loss=0.05),
    )
    yield Case("last-dual", RAIL, (Tenant(span(0, 16), plan="dual", tp=8, pp=8, micro=16, seed=402),), POOR)
    yield Case(
        "last-fsdp",
        FAT,
        (Tenant(span(0, 8), mode="zero3", tp=1, layers=12, seed=403, faults=(Fault("loader", 15, 15, 0.6),)),),
        Spoil(loss=0.1),
    )
    yield Case(
        "last-hsdp",
        TOR,
        (
            Tenant(
                span(0, 16),
                mode="hsdp",
                tp=1,
                shard=16,
                layers=5,
                steps=30,
                seed=404,
                faults=(Fault("gpu", 9, 17, 1.5, rank=50),),
            ),
        ),
        Spoil(loss=0.02),
    )
    yield Case(
        "last-attention",
        FAT,
        (
            Tenant(
                span(0, 16),
                tp=8,
                cp=2,
                pp=2,
                micro=6,
                seed=405,
                act=100_663_296,
                faults=(Fault("nic", 9, 17, 5.0, rank=50),),
            ),
        ),
        Spoil(loss=0.03),
    )
    yield Case(
        "last-experts",
        TOR,
        (Tenant(span(0, 12), tp=2, ep=6, skew=0.6, micro=4, steps=30, seed=406),),
        Spoil(loss=0.02, split=0.03),
    )
    yield Case(
        "last-hierarchical",
        LING,
        (Tenant(span(0, 12), mode="hier", tp=1, seed=407, faults=(Fault("gpu", 9, 17, 1.5, rank=50),)),),
        POOR,
    )
    yield Case(
        "last-in-network", TOR, (Tenant(span(0, 8), mode="sharp", tp=4, pp=2, micro=6, seed=408),), Spoil(loss=0.05)
    )
    yield Case(
        "last-save",
        TOR,
        (Tenant(span(0, 8), mode="rsag", tp=8, pp=2, async_save=7, checkpoint_every=16, steps=50, seed=409),),
        POOR,
    )
    yield Case("last-rollouts", FAT, (Tenant(span(0, 8), tp=8, rollout=3, steps=36, seed=410),), Spoil(loss=0.05))
    yield Case(
        "last-inference",
        FAT,
        (Tenant(span(0, 6), tp=8, mode="rsag", seed=411), Tenant(span(6, 4), tp=8, pp=2, seed=412, forward=0.018)),
        Spoil(loss=0.05, probes=True),
        serving=(span(10, 4), span(14, 4)),
    )
    yield Case(
        "last-in-turn",
        TOR,
        (
            Tenant(span(0, 8), tp=2, mode="dbtree", steps=30, seed=413),
            Tenant(span(0, 8), tp=8, pp=4, micro=8, steps=30, seed=414, after=3.0),
        ),
        Spoil(loss=0.03),
    )
    part = Tenant(span(0, 8), tp=4, mode="rsag", steps=20, seed=415)
    yield Case(
        "last-restarted",
        FAT,
        (part, replace(part, seed=416, after=7.0, faults=(Fault("gpu", 8, 15, 1.5, rank=9),))),
        Spoil(loss=0.03),
        joined=((0, 1),),
    )
    yield Case(
        "last-shrunk",
        TOR,
        (
            Tenant(span(0, 12), tp=8, pp=2, steps=24, seed=417),
            Tenant(span(0, 10), tp=8, pp=2, steps=24, seed=418, after=6.0),
        ),
        Spoil(loss=0.03),
        joined=((0, 1),),
    )
    yield Case(
        "last-four-a-node",
        FAT,
        (Tenant(span(0, 24), gpus=4, tp=2, pp=2, mode="rsag", seed=419, faults=(Fault("nic", 9, 17, 5.0, rank=50),)),),
        Spoil(loss=0.05),
    )
    yield Case(
        "last-one-a-node",
        RAIL,
        (Tenant(span(0, 24), gpus=1, tp=1, pp=2, seed=420, faults=(Fault("gpu", 9, 17, 1.5, rank=7),)),),
        POOR,
    )
    yield Case(
        "last-ports",
        TOR,
        (Tenant(span(0, 12), tp=8, pp=2, lanes=2, seed=421, faults=(Fault("nic", 9, 17, 5.0, rank=50),)),),
        Spoil(names="ports", loss=0.03),
    )
    yield Case(
        "last-unlisted",
        FAT,
        (Tenant(span(0, 12), tp=8, pp=2, mode="rsag", seed=422), Tenant(span(12, 4), tp=8, seed=423, forward=0.02)),
        Spoil(unlisted=5, loss=0.05),
    )
    yield Case(
        "last-two-machines",
        TOR,
        (Tenant(span(0, 2), tp=4, mode="rsag", seed=424, faults=(Fault("loader", 20, 20, 0.3),)),),
        POOR,
    )
    yield Case(
        "last-v6", LING, (Tenant(span(0, 8), tp=8, pp=4, vpp=2, micro=8, seed=425),), Spoil(names="v6", loss=0.1)
    )
    yield Case(
        "last-thousand",
        TOR,
        (Tenant(span(0, 256), tp=8, pp=4, micro=8, steps=20, seed=426, faults=(Fault("nic", 8, 14, 5.0, rank=999),)),),
        Spoil(loss=0.1, split=0.03),
    )
