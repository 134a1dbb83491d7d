"""How the lines of a job are collected into files: by rank, by node, or merged by one of the usual collectors."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from lab.exams.courses.world import Line, World

#: A line's file and its text in it.
type Put = tuple[str, str]
type Collector = Callable[[World, Line], Put]


def _at(w: World, line: Line, *, is_true: bool = False) -> datetime:
    """The time that a collector on the line's machine gives it; a central one has a true clock."""
    skew = w.skew.get(line.node, 0.0) if line.node is not None and not is_true else 0.0
    return datetime.fromtimestamp(w.t0 + line.at + skew, UTC)


def _node(w: World, line: Line) -> str:
    return w.nodes[line.node] if line.node is not None else "head"


def by_rank(w: World, line: Line) -> Put:
    """A directory a machine, a file a rank."""
    return f"logs/{_node(w, line)}/rank_{line.rank}.log", line.text


def by_node(w: World, line: Line) -> Put:
    """A file a machine, all its ranks mixed."""
    return f"logs/{_node(w, line)}.out", line.text


def streams(w: World, line: Line) -> Put:
    """The tree of an elastic agent: attempt, local rank, stream."""
    assert line.rank is not None
    stream = "stdout" if line.stream == "out" else "stderr"
    return f"logs/{_node(w, line)}/attempt_0/{line.rank % w.per}/{stream}.log", line.text


def srun(w: World, line: Line) -> Put:
    """One file, each line after its task's number."""
    return f"slurm-{w.job}.out", f"{line.rank}: {line.text}"


def kubectl(w: World, line: Line) -> Put:
    """One file, pod, container and the kubelet's time before each line."""
    return "logs/all-pods.log", f"[pod/{_node(w, line)}/trainer] {_at(w, line):%Y-%m-%dT%H:%M:%S.%f}000Z {line.text}"


def stern(w: World, line: Line) -> Put:
    """One file, pod and container before each line."""
    return "logs/stern.txt", f"{_node(w, line)} trainer {line.text}"


def journal_short(w: World, line: Line) -> Put:
    """One file as the journal prints it, machines merged."""
    return (
        "logs/journal.log",
        f"{_at(w, line):%Y-%m-%dT%H:%M:%S.%f}+00:00 {_node(w, line)} trainer[{w.pids[line.rank or 0]}]: {line.text}",
    )


def journal_json(w: World, line: Line) -> Put:
    """One file of JSON lines as the journal exports them."""
    row = {
        "__REALTIME_TIMESTAMP": str(int(_at(w, line).timestamp() * 1e6)),
        "_HOSTNAME": _node(w, line),
        "SYSLOG_IDENTIFIER": "trainer",
        "PRIORITY": "6",
        "MESSAGE": line.text,
    }
    return "logs/journal.json", json.dumps(row)


def loki(w: World, line: Line) -> Put:
    """One file as a Loki client prints it: time, labels, line."""
    labels = f'{{app="trainer", host="{_node(w, line)}", rank="{line.rank}"}}'
    return "logs/loki.txt", f"{_at(w, line, is_true=True):%Y-%m-%dT%H:%M:%S}Z {labels} {line.text}"


def docker(w: World, line: Line) -> Put:
    """A file a machine as a container engine keeps it: JSON lines."""
    row = {"log": line.text + "\n", "stream": "stdout", "time": f"{_at(w, line):%Y-%m-%dT%H:%M:%S.%f}000Z"}
    return f"logs/{_node(w, line)}-json.log", json.dumps(row)


def pdsh(w: World, line: Line) -> Put:
    """One file, the machine before each line."""
    return "logs/pdsh.log", f"{_node(w, line)}: {line.text}"


COLLECTORS: dict[str, Collector] = {
    f.__name__: f
    for f in (by_rank, by_node, streams, srun, kubectl, stern, journal_short, journal_json, loki, docker, pdsh)
}


def files(w: World, collector: Collector, is_described: bool) -> tuple[dict[str, bytes], dict[str, Any]]:
    """Path to bytes, and the truth in the form that the practice set's scorer reads."""
    out: dict[str, list[str]] = defaultdict(list)
    lines: dict[str, Any] = {}
    examples: dict[tuple[str, str], list[str]] = defaultdict(list)
    for line in sorted(w.lines, key=lambda x: x.at):
        if line.stream == "kernel":
            path, text = (
                f"sys/{_node(w, line)}.kern.log",
                f"{_at(w, line):%Y-%m-%dT%H:%M:%S.%f}+00:00 {_node(w, line)} kernel: {line.text}",
            )
        elif line.stream == "launcher":
            path, text = "launcher.log", f"{_at(w, line):%Y-%m-%d %H:%M:%S}Z {line.text}"
        else:
            path, text = collector(w, line)
        out[path].append(text)
        if line.role:
            n = len(out[path])
            lines.setdefault(line.role, {}).setdefault(path, {}).setdefault(line.tid, []).append([n, n])
            examples[line.role, line.tid].append(text)
    data = {path: ("\n".join(rows) + "\n").encode() for path, rows in sorted(out.items())}
    if is_described:
        nodes = [{"name": n, "ip": i, "leaf": s} for n, i, s in zip(w.nodes, w.ips, w.leaves, strict=True)]
        described = {"job_id": w.job, "nodes": nodes, "gpus_per_node": w.per, "world_size": w.world}
        data["job.json"] = json.dumps({**described, "log_timezone_hours": w.zone}).encode()
    return data, _truth(w, lines, examples)


def _truth(w: World, lines: dict[str, Any], examples: dict[tuple[str, str], list[str]]) -> dict[str, Any]:
    t = w.truth
    if t is None:
        return {"healthy": True, "profile": w.voice.name}
    return {
        "healthy": False,
        "profile": w.voice.name,
        "category": t.category,
        "subcategory": t.subcategory,
        "symptom": t.symptom,
        "stage": t.stage,
        "category_accept": [t.category, *t.also_categories],
        "subcategory_accept": [t.subcategory, *t.also_subcategories],
        "symptom_accept": [t.symptom, *t.also_symptoms],
        "stage_accept": [t.stage, *t.also_stages],
        "iteration": {"applicable": t.failed_n is not None, "failed": t.failed_n, "last_logged": t.logged_n},
        "faulty_nodes": [w.nodes[k] for k in t.faulty],
        "affected_nodes": [w.nodes[k] for k in t.affected],
        "origin_nodes": [w.nodes[k] for k in t.origin],
        "n_nodes": len(w.nodes),
        "switch": t.switch,
        "lines": lines,
        "templates": [
            {"id": tid, "role": role, "examples": e[:3]}
            for (role, tid), e in examples.items()
            if role in ("root", "secondary")
        ],
    }
