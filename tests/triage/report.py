"""A small but complete report of the engine (docs/report.md); tests change the parts that they test."""

from __future__ import annotations

import copy
from typing import Any

T0 = 1_795_226_000.0
LOG = "logs/gpu-0412.log"

_REPORT: dict[str, Any] = {
    "version": 2,
    "engine": "0.1.0",
    "headline": "GPU 5 of gpu-0412 fell off the bus at iteration 18,204.",
    "inputs": [{"path": LOG, "kind": "log", "sha256": "ab" * 32, "lines": 900, "skipped": None}],
    "job": {
        "id": "llama",
        "framework": "megatron",
        "nodes": 4,
        "world_size": 32,
        "layout": {"tp": 8, "pp": 2, "dp": 2},
    },
    "conclusion": {
        "condition": "failed",
        "outcome": "failed",
        "id": "hardware.gpu.off_bus",
        "category": "hardware",
        "subcategory": "gpu_off_bus",
        "confidence": 0.93,
        "sentence": "GPU 5 of gpu-0412 fell off the bus at iteration 18,204.",
        "alternatives": [{"id": "hardware.gpu.off_bus", "p": 0.93}, {"id": "hardware.gpu.ecc", "p": 0.04}],
        "seen": [{"kind": "node", "name": "gpu-0412", "rank": None, "why": "Xid 79 only here"}],
        "fault": [
            {
                "kind": "node",
                "name": "gpu-0412",
                "rank": None,
                "p": 0.97,
                "reasons": ["Xid 79 only here"],
                "why": "Xid 79 only here",
                "from": ["logs"],
            }
        ],
        "moment": {
            "t": T0 + 500,
            "until": None,
            "stage": "training",
            "iteration": 18204,
            "how": "the first root event",
            "why": "a root event",
        },
        "chain": [],
        "checks": [],
        "disagreements": [],
        "slowdowns": [],
    },
    "suspects": [
        {
            "entity": "gpu-0412",
            "kind": "node",
            "score": 0.97,
            "suspect": True,
            "from": ["logs"],
            "reasons": ["Xid 79 only here"],
        },
        {"entity": "gpu-0413", "kind": "node", "score": 0.2, "suspect": False, "from": ["logs"], "reasons": []},
    ],
    "missing": ["No kernel log of gpu-0413."],
    "observed": ["Xid 79 on 1 of 4 nodes."],
    "inferred": ["The other nodes waited for it."],
    "clocks": [],
    "history": {"digest": "cd" * 8},
    "advice": {
        "action": "evict",
        "action_title": "Evict",
        "rule": "evict.machine_event",
        "targets": ["gpu-0412"],
        "commands": {"slurm": "scontrol update NodeName=gpu-0412 State=DRAIN"},
        "because": ["A machine event with high confidence."],
    },
    "logs": {
        "is_failure": True,
        "outcome": "failed",
        "category": "hardware",
        "subcategory": "gpu_off_bus",
        "id": "hardware.gpu.off_bus",
        "confidence": 0.93,
        "runner_up": {"id": "hardware.gpu.ecc", "confidence": 0.04},
        "symptom": "crash",
        "stage": "training",
        "iteration": 18204,
        "nodes": [{"node": "gpu-0412", "score": 0.97, "suspect": True, "reasons": ["Xid 79 only here"]}],
        "events": [
            {
                "id": "e1",
                "template": "NVRM: Xid (PCI:<PCI>): 79, GPU has fallen off the bus.",
                "example": "NVRM: Xid (PCI:0000:9b:00): 79, GPU has fallen off the bus.",
                "role": "root",
                "signature": "nvidia.xid.79",
                "level": 4,
                "count": 1,
                "nodes": 1,
                "of_nodes": 4,
                "node_names": ["gpu-0412"],
                "jobs_with_it": 0,
                "healthy_jobs": 40,
                "first_at": T0 + 500,
                "last_at": T0 + 500,
                "lines": [
                    {"file": LOG, "line": 812, "offset": 4000, "length": 60, "node": "gpu-0412", "time": T0 + 500}
                ],
            },
            {
                "id": "e2",
                "template": "Watchdog caught collective operation timeout",
                "role": "cascade",
                "count": 3,
                "nodes": 3,
                "of_nodes": 4,
                "lines": [{"file": LOG, "line": 820}],
            },
        ],
        "lines": [{"file": LOG, "line": 812}],
        "indicators": [
            {"text": "GPU has fallen off the bus", "file": LOG, "line": 812, "parameters": {"pci": "0000:9b:00"}}
        ],
        "clues": [
            {
                "detector": "cause",
                "about": "node",
                "subject": "gpu-0412",
                "weight": 0.9,
                "reason": "gpu-0412 is the only node with: GPU has fallen off the bus.",
                "why": "a fault is printed where it happens",
            },
            {
                "detector": "votes",
                "about": "category",
                "subject": "hardware.gpu.off_bus",
                "weight": 0.94,
                "reason": "The GPU has fallen off the bus.",
                "why": "root events vote for categories",
            },
        ],
        "fingerprint": "3fa9" * 4,
        "timeline": {
            "t0": T0,
            "t1": T0 + 1100,
            "stages": [{"stage": "training", "t0": T0, "t1": T0 + 1100}],
            "lanes": [
                {
                    "node": f"gpu-041{n}",
                    "segments": [{"stage": "training", "t0": T0 + 10, "t1": T0 + 1100}],
                    "marks": [{"t": T0 + 500, "role": "root", "event": "e1", "file": LOG, "line": 812}]
                    if n == 2
                    else [],
                    "last_line_at": T0 + (500 if n == 2 else 1100),
                }
                for n in range(1, 5)
            ],
            "iterations": [{"n": n, "t": T0 + n, "seconds": 1.0} for n in range(1, 500)],
        },
    },
}


def sample() -> dict[str, Any]:
    """A new copy."""
    return copy.deepcopy(_REPORT)


def healthy() -> dict[str, Any]:
    """The same job without the failure."""
    report = sample()
    report["logs"] |= {
        "is_failure": False,
        "outcome": "succeeded",
        "id": "none",
        "events": [],
        "nodes": [],
        "symptom": "none",
    }
    report["conclusion"] |= {
        "condition": "healthy",
        "outcome": "succeeded",
        "id": "none",
        "category": "none",
        "subcategory": "none",
        "alternatives": [{"id": "none", "p": 0.93}],
        "seen": [],
        "fault": [],
        "moment": None,
    }
    report["suspects"], report["headline"] = [], "The job completed; no failure found."
    return report
