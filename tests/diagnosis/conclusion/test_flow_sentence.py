"""The headline of a report that has only flows."""

from __future__ import annotations

from typing import Any

import pytest

from diagnosis.conclusion.sentences.flow_sentence import headline
from diagnosis.evidence import FlowFinding, decode

T = 1_700_000_000.0
STEP: dict[str, Any] = {"kind": "slow_step", "t0": T + 4, "t1": T + 6, "factor": 2.0, "confidence": 0.9, "step": 5}
GROUP: dict[str, Any] = {
    "kind": "slow_group",
    "t0": T + 3,
    "t1": T + 6,
    "factor": 1.5,
    "confidence": 0.8,
    "members": ["10.0.0.1", "10.0.0.2"],
    "culprits": ["10.0.0.2", "node-b"],
}
SWITCH: dict[str, Any] = {
    "kind": "slow_switch",
    "t0": T,
    "t1": T + 60,
    "factor": 3.0,
    "confidence": 0.9,
    "switch": "leaf-1",
    "candidates": ["leaf-1", "spine-2"],
}


def job(name: str = "flows-1", *slow: dict[str, Any]) -> dict[str, Any]:
    steps = [{"start": T + k, "end": T + k + 1} for k in range(10)]
    return {"id": name, "members": ["10.0.0.1", "10.0.0.2"], "nodes": ["node-b"], "steps": steps, "diagnoses": [*slow]}


def flows(*jobs: dict[str, Any], fabric: tuple[dict[str, Any], ...] = (), **more: Any) -> dict[str, Any]:
    return {"jobs": list(jobs), "diagnoses": list(fabric), "usable_for_timeline": True} | more


SAID = {
    "a machine, its steps and the time": (
        flows(job("flows-1", GROUP)),
        "node-b is slow: 1.50 times as long as usual in steps 4 to 6, from 2023-11-14 22:13:23 UTC.",
    ),
    "which job where there are several, and what else is slow": (
        flows(job("flows-1", GROUP, STEP), job("flows-2")),
        "node-b of flows-1 is slow: 1.50 times as long as usual in steps 4 to 6, from 2023-11-14 22:13:23 UTC. "
        "Besides: 1 slow step without a cause.",
    ),
    "up to the end": (
        flows(job("flows-1", GROUP | {"t1": T + 10})),
        "node-b is slow: 1.50 times as long as usual since step 4 (2023-11-14 22:13:23 UTC).",
    ),
    "a switch, and which others it may be": (
        flows(job("flows-1", GROUP), fabric=(SWITCH,)),
        "One of 2 switches (leaf-1 and spine-2) is slow: transfers across them take 3.00 times as long as usual from "
        "2023-11-14 22:13:20 UTC to 2023-11-14 22:14:20 UTC. Besides: 1 more slow group or switch.",
    ),
    "the surest of several findings, of equals the slowest": (
        flows(
            job(
                "flows-1",
                GROUP | {"factor": 9.0},
                GROUP | {"factor": 1.2, "confidence": 0.9},
                GROUP | {"factor": 2.0, "confidence": 0.9, "culprits": ["10.0.0.1"]},
            )
        ),
        "10.0.0.1 is slow: 2.00 times as long as usual in steps 4 to 6, from 2023-11-14 22:13:23 UTC. "
        "Besides: 2 more slow groups or switches.",
    ),
    "one slow step": (
        flows(job("flows-1", STEP)),
        "One step is slow: step 5 took 2.00 times as long as usual at 2023-11-14 22:13:24 UTC; flows show no cause.",
    ),
    "the worst of several steps": (
        flows(job("flows-1", STEP, STEP | {"step": 7, "factor": 3.0})),
        "2 of 10 steps are slow: the worst, step 7, took 3.00 times as long as usual at 2023-11-14 22:13:24 UTC; "
        "flows show no cause.",
    ),
    "that nothing is slow": (
        flows(job()),
        "No slow step in the network flows of 1 job with 2 members and 10 steps.",
    ),
    "what is unknown if nothing slow was seen": (
        flows(job(), late_unknown=True),
        "No slow step in the network flows of 1 job with 2 members and 10 steps; the late member is unknown.",
    ),
    "that nothing slow was seen in flows that cannot tell": (
        flows(job(), cannot_tell="These flows cannot tell."),
        "No slow step in the network flows of 1 job with 2 members and 10 steps. These flows cannot tell.",
    ),
    "that no step was seen, rather than that all is well": (
        flows(job() | {"steps": []}),
        "Network flows of 1 job with 2 members, but nothing in them repeats like steps: too short a capture, too many "
        "records lost, or no training.",
    ),
    "why there is no timeline": (
        flows(job(), usable_for_timeline=False, why_not="The times are whole seconds. Export finer ones."),
        "Network flows of 1 job with 2 members, without a timeline of steps. The times are whole seconds.",
    ),
    "who stopped in the middle of an exchange": (
        flows(job() | {"ceased": [{"name": "node-b", "owes": True, "by": "node-c"}, {"name": "node-c"}]}),
        "No slow step in the network flows of 1 job with 2 members and 10 steps. node-b stopped in the middle of an "
        "exchange, and nothing shows how the job ended.",
    ),
    "who fell silent first in a step": (
        flows(job() | {"ceased": [{"name": "node-b", "owes": True}]}),
        "No slow step in the network flows of 1 job with 2 members and 10 steps. node-b fell silent first, in the "
        "middle of a step; flows do not show why.",
    ),
    "port counters": (
        flows(ports=[{"ports_total": 3}]),
        "Bandwidth of 3 switch ports; add flow records to see jobs, steps and slow groups.",
    ),
}


@pytest.mark.parametrize("case", SAID)
def test_the_headline_states_the_finding(case: str) -> None:
    report, words = SAID[case]
    assert headline(decode(report, FlowFinding)) == words


def test_an_uneven_split_is_reported_as_such_and_not_as_a_slow_machine() -> None:
    uneven = {
        "kind": "slow_group", "t0": 0.0, "t1": 10.0, "factor": 1.6, "confidence": 0.8, "measure": "uneven",
        "culprits": ["10.0.0.7"], "reason": "Pipeline stage 4 of 4 needs more: the model may be split unevenly.",
    }  # fmt: skip
    assert headline(decode(flows(job() | {"diagnoses": [uneven]}), FlowFinding)) == uneven["reason"]
