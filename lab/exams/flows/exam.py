"""The sets of captures: the open one, the held-out one, and three later ones."""

from __future__ import annotations

from collections.abc import Iterator

from lab.exams.flows.beyond import beyond, last
from lab.exams.flows.capture import POOR, Case, Spoil
from lab.exams.flows.further import further
from lab.exams.flows.tenants import Fabric, Fault, Tenant, span
from lab.exams.flows.uneven import uneven


def cases() -> Iterator[Case]:
    """The open part, which was used to correct the engine."""
    rail, tor, fat, ling = Fabric(), Fabric("tor", 4), Fabric("fat3", 2, 8), Fabric("lingjun", 4, 8)
    gpu, nic = Fault("gpu", 14, 22, 1.5, rank=19), Fault("nic", 14, 22, 5.0, rank=19)
    yield Case("rail-ring", rail, (Tenant(span(0, 8), pp=2, seed=11, faults=(gpu,)),))
    yield Case("rail-poor", rail, (Tenant(span(0, 8), pp=2, seed=12, faults=(nic,)),), POOR)
    yield Case("tree", tor, (Tenant(span(0, 8), mode="tree", seed=13, faults=(Fault("loader", 9, 9, 0.4),)),))
    yield Case(
        "dbtree",
        fat,
        (Tenant(span(0, 16), mode="dbtree", tp=4, pp=2, seed=14, faults=(Fault("gpu", 10, 20, 1.4, rank=40),)),),
    )
    yield Case("rsag", tor, (Tenant(span(0, 8), mode="rsag", tp=2, lanes=2, seed=15, faults=(nic,)),))
    yield Case(
        "agnext",
        ling,
        (Tenant(span(0, 8), mode="agnext", tp=4, pp=2, seed=16, lanes=2, faults=(Fault("checkpoint", 18, 18, 0.9),)),),
    )
    yield Case("zero3", rail, (Tenant(span(0, 8), mode="zero3", tp=1, seed=17, faults=(gpu,)),), POOR)
    yield Case(
        "interleaved",
        rail,
        (Tenant(span(0, 16), pp=4, vpp=2, micro=8, seed=18, faults=(Fault("gpu", 14, 22, 1.4, rank=60),)),),
    )
    yield Case(
        "deep",
        fat,
        (Tenant(span(0, 16), pp=8, micro=16, forward=0.008, seed=19, faults=(Fault("gpu", 12, 22, 1.4, rank=35),)),),
        Spoil(loss=0.05),
    )
    yield Case("experts", rail, (Tenant(span(0, 8), tp=2, ep=8, micro=4, seed=20, steps=30, faults=(gpu,)),))
    yield Case("experts-pp", ling, (Tenant(span(0, 16), tp=4, pp=2, ep=4, micro=4, seed=21, steps=30),), POOR)
    yield Case(
        "context",
        rail,
        (Tenant(span(0, 16), tp=8, cp=4, pp=2, seed=22, steps=30, faults=(Fault("loader", 12, 12, 0.5),)),),
    )
    yield Case("varying", tor, (Tenant(span(0, 8), pp=2, varying=True, seed=23),))
    yield Case("varying-poor", rail, (Tenant(span(0, 8), pp=4, micro=8, varying=True, seed=24, faults=(gpu,)),), POOR)
    yield Case("accumulate", tor, (Tenant(span(0, 8), pp=2, micro=24, forward=0.006, overlap=False, seed=25),), POOR)
    yield Case("evaluation", rail, (Tenant(span(0, 8), pp=2, eval_every=10, checkpoint_every=15, seed=26, steps=50),))
    yield Case(
        "millisecond",
        rail,
        (Tenant(span(0, 8), pp=2, forward=0.04, seed=27, faults=(gpu,)),),
        Spoil(grid=1e-3, loss=0.03),
    )
    yield Case("clocks-10", rail, (Tenant(span(0, 8), pp=2, seed=28, faults=(gpu,)),), Spoil(clocks=0.010))
    yield Case("clocks-500", tor, (Tenant(span(0, 16), pp=2, seed=29, faults=(gpu,)),), Spoil(clocks=0.5))
    yield Case("no-bytes", rail, (Tenant(span(0, 8), pp=2, seed=30),), Spoil(no_bytes=True))
    yield Case(
        "sampled",
        rail,
        (
            Tenant(
                span(0, 8),
                pp=2,
                seed=31,
                buckets=(4_026_531_840, 2_415_919_104, 912_261_120),
                rate=6e10,
                act=402_653_184,
            ),
        ),
        Spoil(sampled=1000),
    )
    yield Case("shared-address", tor, (Tenant(span(0, 8), pp=2, seed=32, faults=(gpu,)),), Spoil(names="shared"))
    yield Case("v6", fat, (Tenant(span(0, 8), tp=4, mode="rsag", seed=33),), Spoil(names="v6"), inventory=False)
    both = (
        Tenant(span(0, 6), tp=4, seed=34, lanes=2, faults=(Fault("loader", 15, 15, 0.3),)),
        Tenant(
            span(6, 8), pp=2, seed=35, forward=0.021, begin=0.5, steps=34, faults=(Fault("gpu", 10, 16, 1.5, rank=3),)
        ),
        Tenant(span(14, 2), tp=1, mode="zero3", seed=36, forward=0.03, steps=30),
    )
    yield Case("tenants", tor, both, Spoil(loss=0.04, split=0.04, probes=True))
    yield Case("tenants-blind", rail, both, Spoil(loss=0.04, probes=True), inventory=False)
    yield Case(
        "switch-rail",
        rail,
        (Tenant(span(0, 8), pp=2, seed=37, faults=(Fault("switch", 12, 20, 4.0, switch="leaf-0-3"),)),),
    )
    slow = Fault("switch", 12, 20, 4.0, switch="tor-1")
    yield Case(
        "switch-tor",
        Fabric("tor", 2),
        tuple(
            Tenant(span(4 * i, 4), pp=2, seed=38 + i, forward=0.015 + 0.002 * i, faults=(slow,) if i == 0 else ())
            for i in range(3)
        ),
    )
    yield Case(
        "big",
        fat,
        (Tenant(span(0, 64), pp=4, micro=8, steps=30, seed=42, faults=(Fault("gpu", 12, 18, 1.4, rank=200),)),),
        Spoil(loss=0.03),
    )
    yield Case(
        "bigger",
        rail,
        (
            Tenant(
                span(0, 128),
                tp=8,
                pp=8,
                micro=16,
                forward=0.01,
                steps=24,
                seed=43,
                faults=(Fault("nic", 8, 14, 5.0, rank=333),),
            ),
        ),
    )


def held_out() -> Iterator[Case]:
    """Other seeds, layouts and mixtures; only scored."""
    for i, (kind, width, mode, tp, pp, nodes) in enumerate(
        [
            ("rail", 2, "ring", 4, 2, 12), ("tor", 4, "rsag", 8, 4, 16), ("fat3", 4, "dbtree", 8, 1, 16),
            ("lingjun", 2, "ring", 2, 2, 8),
            ("tor", 2, "zero3", 1, 1, 8), ("rail", 8, "agnext", 8, 2, 24), ("fat3", 2, "tree", 4, 2, 8),
            ("lingjun", 4, "zero3", 1, 1, 12),
        ]
    ):  # fmt: skip
        fault = [
            Fault("gpu", 11, 19, 1.45, rank=8 * (nodes // 2) + 1),
            Fault("nic", 13, 21, 4.5, rank=8 * (nodes // 3) + 2),
            Fault("loader", 17, 17, 0.45),
            Fault("checkpoint", 21, 21, 0.7),
        ][i % 4]
        spoil = [Spoil(), POOR, Spoil(loss=0.03, split=0.05, grid=1e-3), Spoil(loss=0.02, merge=0.1)][(i // 2) % 4]
        forward = 0.05 if spoil.grid == 1e-3 else 0.018
        tenant = Tenant(
            span(0, nodes),
            tp=tp,
            pp=pp,
            mode=mode,
            forward=forward,
            micro=6,
            lanes=1 + i % 2,
            steps=36,
            seed=200 + i,
            faults=(fault,),
        )
        yield Case(f"held-{i}-{kind}-{mode}", Fabric(kind, width, 6), (tenant,), spoil)
    three = tuple(
        Tenant(
            span(5 * i, 5 - i % 2),
            tp=(8, 4, 2)[i],
            mode=("ring", "rsag", "tree")[i],
            forward=0.014 + 0.003 * i,
            begin=0.4 + 0.2 * i,
            seed=220 + i,
            steps=40,
        )
        for i in range(3)
    )
    yield Case("held-tenants", Fabric("fat3", 3, 4), three, Spoil(loss=0.05, split=0.05, probes=True))
    yield Case(
        "held-interleaved",
        Fabric("lingjun", 2, 4),
        (Tenant(span(0, 8), tp=8, pp=4, vpp=3, micro=8, seed=230, varying=True),),
        Spoil(loss=0.02),
    )
    yield Case(
        "held-experts",
        Fabric("tor", 4),
        (Tenant(span(0, 8), tp=1, ep=16, mode="rsag", micro=3, seed=231, steps=30),),
        Spoil(loss=0.02),
    )
    yield Case("held-context", Fabric("rail", 4), (Tenant(span(0, 8), tp=4, cp=4, micro=3, seed=232, steps=36),), POOR)
    yield Case(
        "held-clocks",
        Fabric("lingjun", 2),
        (Tenant(span(0, 8), tp=8, pp=2, seed=233, faults=(Fault("gpu", 11, 19, 1.45, rank=21),)),),
        Spoil(clocks=0.1),
    )
    leaf = Fault("switch", 12, 20, 3.5, switch="leaf-0-5")
    yield Case(
        "held-switch",
        Fabric("rail", 4),
        (Tenant(span(0, 8), tp=4, pp=2, seed=234, faults=(leaf,)), Tenant(span(8, 4), tp=8, seed=235, forward=0.019)),
        Spoil(loss=0.03),
    )
    yield Case(
        "held-shared",
        Fabric("tor", 2),
        (Tenant(span(0, 6), tp=4, mode="rsag", seed=236),),
        Spoil(names="shared", loss=0.02),
    )
    yield Case(
        "held-evaluation",
        Fabric("fat3", 2),
        (Tenant(span(0, 8), tp=8, pp=2, eval_every=12, checkpoint_every=16, steps=44, seed=237),),
        Spoil(loss=0.03),
    )
    yield Case(
        "held-no-bytes",
        Fabric("tor", 4),
        (Tenant(span(0, 8), tp=8, mode="rsag", seed=238),),
        Spoil(no_bytes=True, loss=0.02),
    )


SETS = {"open": cases, "held-out": held_out, "beyond": beyond, "last": last, "further": further, "uneven": uneven}
