"""An exam of its own for the flow engine: `python bench/flows_unseen.py [--set SET] [--seed N]`.

Captures of ``flows_world`` (other fabrics, layouts, collectives and exporters than the practice data), scored by the
same scorer (``$FAULTLINE_SHARED/tools/score.py``). The held-out cases were never looked into while the engine was
changed.
"""

from __future__ import annotations

import argparse
import importlib.util
import io
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from bench.flows_beyond import beyond, last
from bench.flows_further import further
from bench.flows_spoil import POOR, Case, Spoil, build
from bench.flows_tenants import Fabric, Fault, Tenant, span
from diagnosis.flows import diagnose_flows, parse_flow
from diagnosis.model import ParseHints

SHARED = Path(os.environ.get("FAULTLINE_SHARED", ROOT.parent / "shared"))


def cases() -> Iterator[Case]:
    """The open part, which the engine was mended on."""
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


def scorer() -> Any:
    path = SHARED / "tools" / "score.py"
    spec = importlib.util.spec_from_file_location("score", path)
    if spec is None or spec.loader is None or not path.exists():
        raise SystemExit(f"the scorer was not found at {path}; set FAULTLINE_SHARED")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def answer(case: Case) -> tuple[dict[str, Any], dict[str, Any], int, float]:
    """Truth, the engine's flows object, records, CPU seconds of the engine."""
    table, rows, truth = build(case)
    buffer = io.BytesIO()
    table.write_parquet(buffer)
    buffer.seek(0)
    began = time.process_time()
    with tempfile.TemporaryDirectory() as work:
        parsed = parse_flow(buffer, "flows.parquet", ParseHints(), Path(work))
        report = diagnose_flows([parsed], inventory=rows)
    return truth, report, table.height, time.process_time() - began


def _in_turn(truth: dict[str, Any], report: dict[str, Any]) -> None:
    """Numbers the jobs that the same machines held one after another, in both."""
    first = {
        "truth": lambda j: j["steps"]["comm_end"][0],
        "report": lambda j: j["steps"][0]["start"] if j["steps"] else 0,
    }
    shared = {tuple(sorted(j["members"])) for j in truth["jobs"]}
    if len(shared) == len(truth["jobs"]):
        return
    for kind, jobs in (("truth", truth["jobs"]), ("report", report["jobs"])):
        held: dict[tuple[str, ...], list[dict[str, Any]]] = {}
        for job in jobs:
            held.setdefault(tuple(sorted(job["members"])), []).append(job)
        for members, own in held.items():
            for turn, job in enumerate(sorted(own, key=first[kind])):
                text = json.dumps(job)
                for name in members:
                    text = text.replace(f'"{name}"', f'"{name}#{turn}"')
                job.update(json.loads(text))


SETS = {"open": cases, "held-out": held_out, "beyond": beyond, "last": last, "further": further}
SHOWN = {
    "job_exact": "jobs",
    "pair_accuracy": "pairs",
    "size_tp": "tp",
    "size_pp": "pp",
    "size_dp": "dp",
    "steps_missed": "miss",
    "steps_extra": "extra",
    "step_err_pct_median": "med%",
    "step_err_pct_p99": "p99%",
    "slow_step_recall": "stepR",
    "slow_step_fp": "fp",
    "slow_group_recall": "grpR",
    "slow_group_fp": "fp",
    "slow_switch_recall": "swR",
    "slow_switch_fp": "fp",
    "culprit_recall": "culp",
}


PRECISION = ("slow_step", "slow_group", "slow_switch")


def scored(case: Case, score: Any) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any], int, float]:
    """The scorer's row with counts of findings, truth, report, records, CPU seconds."""
    truth, report, records, seconds = answer(case)
    _in_turn(truth, report)
    row = score.score_flow(truth, report)
    told = [x["kind"] for job in report["jobs"] for x in job["diagnoses"]] + [x["kind"] for x in report["diagnoses"]]
    for kind in PRECISION:
        row[f"{kind}_tp"] = told.count(kind) - row[f"{kind}_fp"] - row[f"{kind}_explained"]
    return row, truth, report, records, seconds


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--set", choices=SETS, action="append", help="default: open")
    options.add_argument("--seed", type=int, default=0, help="added to every seed: the same worlds with other dice")
    options.add_argument("--seeds", type=int, default=1, help="so many times, each with other dice")
    options.add_argument("--most", type=int, default=10**9, help="leave out captures of more GPUs")
    options.add_argument("--case", action="append", help="only these (part of the name)")
    options.add_argument("--misses", action="store_true", help="print what was answered wrongly")
    options.add_argument("--quiet", action="store_true", help="only the averages")
    chosen = options.parse_args()
    score = scorer()
    results: list[dict[str, Any]] = []
    print(f"{'case':24}{'records':>9}{'CPU s':>7} " + " ".join(f"{v:>5}" for v in SHOWN.values()))
    for case in (c for name in chosen.set or ["open"] for c in SETS[name]()):
        if chosen.case and not any(part in case.name for part in chosen.case):
            continue
        if sum(t.world for t in case.tenants) > chosen.most:
            continue
        for dice in range(chosen.seed, chosen.seed + 1000 * chosen.seeds, 1000):
            thrown = replace(case, tenants=tuple(replace(t, seed=t.seed + dice) for t in case.tenants))
            row, truth, report, records, seconds = scored(thrown, score)
            results.append(row | {"case": f"{case.name} {dice}" if dice else case.name})
            wrong = row["slow_step_fp"] or row["slow_group_fp"] or row["job_exact"] < 1 or row["steps_missed"]
            if not chosen.quiet or wrong:
                cells = " ".join(f"{'-' if row.get(k) is None else format(row[k], '.3g'):>5}" for k in SHOWN)
                print(f"{results[-1]['case']:24}{records:9}{seconds:7.1f} {cells}", flush=True)
            if chosen.misses:
                _explain(truth, report, row)
    _summary(results)
    return 0


def _summary(results: list[dict[str, Any]]) -> None:
    """Mean, worst and the worst's name of every figure; precision over all findings together."""
    steps = sum(r["steps_true"] for r in results)
    print(
        f"{len(results)} captures, {steps} steps; missed + extra steps "
        f"{sum(r['steps_missed'] + r['steps_extra'] for r in results) / max(1, steps):.2%}"
    )
    for key in SHOWN:
        rows = [(r[key], r["case"]) for r in results if r.get(key) is not None]
        if not rows:
            continue
        small = key.startswith(("job", "pair", "size")) or key.endswith("recall")
        worst = min(rows, key=lambda x: x[0]) if small else max(rows, key=lambda x: x[0])
        mean = sum(x for x, _ in rows) / len(rows)
        below = sum(x != (1 if small else 0) for x, _ in rows)
        print(f"  {key:22} mean {mean:.4f}  worst {worst[0]:.4f} ({worst[1]}), {below} of {len(rows)} not perfect")
    for kind in PRECISION:
        right, wrong = sum(r[f"{kind}_tp"] for r in results), sum(r[f"{kind}_fp"] for r in results)
        print(f"  {kind}_precision {right / max(1, right + wrong):.4f} ({right} right, {wrong} wrong)")


def _explain(truth: dict[str, Any], report: dict[str, Any], row: dict[str, Any]) -> None:
    print(
        "   confusion",
        row["pair_confusion"],
        "|",
        report.get("why_not"),
        "|",
        report.get("limits"),
        report.get("clocks"),
    )
    for job in truth["jobs"]:
        print("   true", job["id"], len(job["members"]), job["parallel"], job["steps"]["n"], "steps")
    for job in report["jobs"]:
        steps = job["steps"]
        print("   found", len(job["members"]), job["parallelism"], len(steps), "steps", job.get("paced_by"))
        for x in job["diagnoses"]:
            print("     ", json.dumps({k: v for k, v in x.items() if k not in ("members",)})[:300])
    for x in report["diagnoses"]:
        print("   fabric", json.dumps(x)[:300])
    for x in truth["problems"]:
        print("   truth", json.dumps({k: v for k, v in x.items() if k != "groups"})[:220])


if __name__ == "__main__":
    raise SystemExit(main())
