"""How the output was kept: which file a line goes to and what is put before it, and the truth about the files."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from lab.exams.sealed.first.dice import stamp
from lab.exams.sealed.first.world import Line, World

type Put = tuple[str, str]


def _clock(w: World, line: Line) -> dict[str, Any]:
    skew = w.dice.skew.get(-1 if line.node is None else line.node, 0.0)
    return stamp(w.dice.t0 + line.at + skew, w.dice.zone, line.at)


def _node(w: World, line: Line) -> str:
    assert line.node is not None
    name: str = w.dice.nodes[line.node]
    return name


def rank_files(w: World, line: Line) -> Put:
    """Two files a rank."""
    folder = "" if not w.dice.dialect % 2 else f"{_node(w, line)}/"
    return f"ranks/{folder}{'stderr' if line.stream == 'e' else 'stdout'}.{line.rank}", line.text


def node_files(w: World, line: Line) -> Put:
    """One file a machine."""
    return f"out/{w.dice.run}.{w.dice.job}.{_node(w, line)}.log", line.text


def labelled(w: World, line: Line) -> Put:
    """One file, the task's number before each line."""
    return f"{w.dice.run}-{w.dice.job}.out", f"{line.rank}: {line.text}"


def pals(w: World, line: Line) -> Put:
    """One file, host and rank before each line."""
    return f"{w.dice.run}.o{w.dice.job}", f"{_node(w, line)} {line.rank}: {line.text}"


def prefixed(w: World, line: Line) -> Put:
    """The output of all pods of a label, with prefixes and times."""
    c = _clock(w, line)
    return "pods-all.log", f"[pod/{_node(w, line)}/pytorch] {c['zulu']}.{c['uus']}{line.rank:03d}Z {line.text}"


def cri(w: World, line: Line) -> Put:
    """Files of the container runtime."""
    c, stream = _clock(w, line), "stderr" if line.stream == "e" else "stdout"
    where = f"var/log/pods/train_{_node(w, line)}_{w.dice.hex_of(line.node)}/trainer/{line.attempt}.log"
    return where, f"{c['zulu']}.{c['uus']}000Z {stream} F {line.text}"


def rotated(w: World, line: Line) -> Put:
    """One file a machine, cut into parts later."""
    return f"{_node(w, line)}/trainer.log", line.text


def console(w: World, line: Line) -> Put:
    """Everything as somebody saw it."""
    return "console.txt", line.text


def sky(w: World, line: Line) -> Put:
    """The task's output as its tool labels it."""
    who = "head" if line.node == 0 else f"worker{line.node}"
    extra = "" if line.node == 0 else f", ip={w.dice.ips[line.node or 0]}"
    return (
        f"sky-{w.dice.job}/run.log",
        f"({who}, rank={line.rank}, pid={w.dice.pids[line.rank or 0]}{extra}) {line.text}",
    )


def trial(w: World, line: Line) -> Put:
    """The lines of a trial, container by container."""
    c = _clock(w, line)
    label = f"[{c['zulu']}.{c['uus']}Z] {w.dice.hex_of(line.node)} [rank={line.rank}] || "
    return f"trial-{w.dice.job}-logs.txt", label + line.text


def central(w: World, line: Line) -> Put:
    """A syslog server's file."""
    c, code = _clock(w, line), 11 if line.stream == "e" else 14
    return "central/trainer.log", (
        f"<{code}>1 {c['iso']}.{c['us']}{c['offset']} {_node(w, line)} trainer {w.dice.pids[line.rank or 0]} "
        f"r{line.rank} - {line.text}"
    )


WAYS: dict[str, Callable[[World, Line], Put]] = {
    **{"rank_files": rank_files, "node_files": node_files, "labelled": labelled, "pals": pals, "prefixed": prefixed},
    **{"cri": cri, "rotated": rotated, "console": console, "sky": sky, "trial": trial, "central": central},
}
#: Ways in which the scheduler writes into the same file.
_TOGETHER = {"labelled", "pals", "console", "sky"}


def _kernel(w: World, line: Line) -> Put:
    c, node, style = _clock(w, line), _node(w, line), w.dice.kernel_style
    if style == 0:
        return f"journal/{node}.txt", f"{c['iso']}.{c['us']}{c['zone']} {node} kernel: {line.text}"
    if style == 1:
        return f"{node}/dmesg.out", f"{c['iso']},{c['us']}{c['offset']} {line.text}"
    if style == 2:
        return f"{node}/dmesg.txt", f"[{w.dice.uptime(line.node) + line.at:>12.6f}] {line.text}"
    return "central/kern.log", f"{c['mon']} {c['day']} {c['hms']} {node} kernel: {line.text}"


def put(w: World, way: str, line: Line) -> Put:
    """Path and text of a line."""
    if line.stream == "x":
        c = _clock(w, line)
        leaf = w.dice.leaves[w.dice.victim]
        return f"switches/{leaf}.log", f"{c['Y']} {c['mon']} {c['day']} {c['hms']}.{c['ms']} {leaf} {line.text}"
    if line.stream == "k":
        return _kernel(w, line)
    if line.stream == "s":
        rules = w.shared["schedulers"][w.dice.scheduler]
        if way in _TOGETHER and rules["is_inline"]:
            path = WAYS[way](w, Line(line.at, 0, 0, 0, "o", "", "", "", 0))[0]
            return path, line.text
        return w.fill(rules["path"], w.dice.words | {"job": w.dice.job}, line.at, None), line.text
    return WAYS[way](w, line)


def files(w: World, way: str) -> tuple[dict[str, bytes], dict[str, Any]]:
    """Path to bytes, and where the lines of each role stand: role, path, template, ranges."""
    rows: dict[str, list[tuple[str, Line]]] = defaultdict(list)
    for line in sorted(w.lines, key=lambda x: (x.at, x.order)):
        path, text = put(w, way, line)
        rows[path].append((text, line))
    if way == "rotated":
        rows = _cut(rows, w.rng.randrange(150, 700))
    lines: dict[str, Any] = {}
    examples: dict[tuple[str, str], list[str]] = defaultdict(list)
    for path, held in rows.items():
        for n, (text, line) in enumerate(held, 1):
            if line.role:
                lines.setdefault(line.role, {}).setdefault(path, {}).setdefault(line.tid, []).append([n, n])
                examples[line.role, line.tid].append(text)
    data = {path: "".join(f"{text}\n" for text, _ in held).encode() for path, held in sorted(rows.items())}
    templates = [
        {"id": tid, "role": role, "examples": e[:3]}
        for (role, tid), e in examples.items()
        if role in ("root", "secondary")
    ]
    return data, {"lines": lines, "templates": templates}


def _cut(rows: dict[str, list[tuple[str, Line]]], size: int) -> dict[str, list[tuple[str, Line]]]:
    """Long files in parts, the oldest with the highest number."""
    out: dict[str, list[tuple[str, Line]]] = {}
    for path, held in rows.items():
        parts = [held[k : k + size] for k in range(0, len(held), size)] if path.endswith("trainer.log") else [held]
        for k, part in enumerate(reversed(parts)):
            out[path if k == 0 else f"{path}.{k}"] = part
    return out


def description(w: World) -> bytes:
    """What the person who uploads knows of the machines."""
    d = w.dice
    nodes = [{"name": n, "ip": i, "leaf": s} for n, i, s in zip(d.nodes, d.ips, d.leaves, strict=True)]
    told = {"job_id": d.job, "nodes": nodes, "gpus_per_node": d.per, "world_size": d.world}
    return json.dumps({**told, "log_timezone_hours": d.zone}).encode()
