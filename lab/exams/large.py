"""One large job with realistic logs: NeMo and Lightning, NCCL, data loaders, monitors, kernels, in many formats. About
forty line formats (``large.tsv``) in eight voices, with warnings, tables, caught tracebacks, and many messages that
appear once. A node's RDMA port fails at the end; its ranks report it, the others wait and time out. The same lines can
be split into one file a node or one a rank (eight a node). Same arguments, same bytes.

A job may be drawn: how it tells its progress, how often each format occurs, storms of RDMA errors, texts of usage and
the number of rare messages then follow from the name of the draw (``drawn.tsv`` has the formats).
"""

from __future__ import annotations

import random
import re
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

RANKS = 8
#: Number of different texts; nodes with the same text differ in names, addresses, ranks and rare messages.
BODIES = 12
_T0 = datetime(2026, 3, 1, 8, tzinfo=UTC)
_STEP_S = 4.7
#: One line of this number has a message of its own.
_TAIL = 150
_WORDS = re.split(
    r"\s+",
    """shard cache bucket stream offset replica prefetch tokenizer worker segment index manifest epoch
    sampler buffer pinned mmap lease quorum snapshot delta planner fused kernel autotune graph capture
    stale evict warm cold retry backoff lane""",
)


class Line(NamedTuple):
    """``at``: seconds since the start; ``rank``: of the node, 0 to 7."""

    at: float
    rank: int
    text: str


class Course(NamedTuple):
    """What the lines of a job are: the formats with the weight of each, of which the first tells the progress; the
    formats of storms and of texts of usage, and their number a node; how many lines have a message of their own, one
    in ``tail``; ``is_by_rank``: every rank tells the progress.
    """

    shapes: list[str]
    weights: list[float]
    tail: int = _TAIL
    storms: tuple[str, ...] = ()
    storm_count: int = 0
    usage: tuple[str, ...] = ()
    usage_count: int = 0
    is_by_rank: bool = False


def _table(name: str) -> list[tuple[str, str]]:
    """The rows of a table beside this module: its first column, and a format."""
    rows = (Path(__file__).parent / name).read_text(encoding="utf-8").splitlines()
    pairs = [row.split("\t", 1) for row in rows if not row.startswith("#")]
    return [(first, text.replace("\\n", "\n")) for first, text in pairs]


def _usual_course() -> Course:
    """The course of a job that is not drawn."""
    pairs = _table("large.tsv")
    return Course([text for _, text in pairs], [float(weight) for weight, _ in pairs])


def _drawn_course(name: str) -> Course:
    """The course of the job that is drawn by this name."""
    rng, usual = random.Random(f"drawn-{name}"), _usual_course()
    parts: dict[str, list[str]] = defaultdict(list)
    for part, text in _table("drawn.tsv"):
        parts[part].append(text)
    others = [weight * rng.choice((0, 0.25, 1, 1, 3)) for weight in usual.weights[1:]]
    share = rng.choice((0.05, 0.2, 0.5, 0.8))
    return Course(
        [rng.choice(parts["progress"]), *usual.shapes[1:]],
        [sum(others) * share / (1 - share), *others],
        tail=rng.choice((20, 150, 1000)),
        storms=tuple(rng.sample(parts["storm"], rng.randint(1, 3))),
        storm_count=rng.choice((0, 50, 1000)),
        usage=tuple(parts["usage"]),
        usage_count=rng.choice((0, 20, 300)),
        is_by_rank=rng.random() < 0.7,
    )


def _filled(shape: str, rng: random.Random, n: int, r: int, t: datetime) -> str:
    """One line of a format: ``n`` the step, ``r`` the rank of the node, ``t`` its time. ``@NODE@``, ``@IP@`` and
    ``@R<n>@`` stand for a node's name, address and ranks."""
    return shape.format(
        **{"n": n, "r": r, "p": 2100 + r, "q": 2400 + 7 * r, "rank": f"@R{r}@", "w": rng.choice(_WORDS)},
        **{"a": rng.randrange(32), "b": rng.randrange(4096), "c": rng.randrange(10**6)},
        **{"f": rng.random(), "g": rng.gauss(2.2, 0.1), "h": f"{rng.getrandbits(48):012x}"},
        **{"iso": f"{t:%Y-%m-%dT%H:%M:%S.%f}Z", "log": f"{t:%Y-%m-%d %H:%M:%S},{t.microsecond // 1000:03d}"},
        **{"sec": f"{t:%Y-%m-%d %H:%M:%S}", "glog": f"{t:%m%d %H:%M:%S.%f}", "kern": f"{t:%b %d %H:%M:%S}"},
        **{"hour": f"{t:%H:%M:%S}", "unix": f"{t.timestamp():.3f}"},
    )


def body(seed: int, lines: int, course: Course) -> list[Line]:
    """One node's lines in order of time."""
    rng, found = random.Random(f"large-{seed}"), list[Line]()
    own = min(course.storm_count + course.usage_count, lines // 2)
    chosen = rng.choices(course.shapes, course.weights, k=lines - own)
    for number, shape in enumerate(chosen):
        at = number * 3600 / max(len(chosen), 1)
        is_progress = shape is course.shapes[0] and not course.is_by_rank
        rank = 0 if is_progress else rng.randrange(RANKS)
        found += _lines(shape, rng, at, rank)
    found = found[: lines - own]
    usage_count = min(course.usage_count, own)
    for _ in range(usage_count):
        found += _lines(rng.choice(course.usage), rng, rng.uniform(0, 5), 0)
    for _ in range(own - usage_count):
        found += _lines(rng.choice(course.storms), rng, rng.uniform(3000, 3600), rng.randrange(RANKS))
    return sorted(found, key=lambda line: line.at)


def _lines(shape: str, rng: random.Random, at: float, rank: int) -> list[Line]:
    """The lines of a format, written at a time."""
    text = _filled(shape, rng, int(at / _STEP_S), rank, _T0 + timedelta(seconds=at))
    return [Line(at, rank, part) for part in text.split("\n")]


def _tail(seed: int, node: int, count: int) -> list[Line]:
    """Messages that only this node prints."""
    rng = random.Random(f"tail-{seed}-{node}")
    out = []
    for _ in range(count):
        at = rng.uniform(0, 3600)
        words = " ".join(
            "".join(rng.choices("bcdfghklmnprstvz", k=rng.randint(4, 8))) for _ in range(rng.randint(3, 7))
        )
        stamp = f"{_T0 + timedelta(seconds=at):%Y-%m-%d %H:%M:%S}"
        out.append(Line(at, rng.randrange(RANKS), f"[NeMo I {stamp} exp_manager:{rng.randrange(999)}] {words}"))
    return out


def _end(is_guilty: bool, rank: int) -> list[str]:
    """A rank's messages about the failure."""
    late = _T0 + timedelta(seconds=3605 if is_guilty else 4210)
    glog, kern = f"{late:%m%d %H:%M:%S.%f}", f"{late:%b %d %H:%M:%S}"
    if not is_guilty:
        head = f"[rank@R{rank}@]:[E{glog} ProcessGroupNCCL.cpp:632] [Rank @R{rank}@] Watchdog caught collective"
        work = "WorkNCCL(SeqNum=812, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000)"
        return [f"{head} operation timeout: {work} ran for 600012 milliseconds before timing out."]
    port = f"{kern} @NODE@ kernel: mlx5_core 0000:1a:00.0"
    down = [f"{port}: Port module event: module 3, Cable error, unplugged", f"{port} eth3: Link down"]
    warning = f"@NODE@:{2100 + rank}:{2400 + 7 * rank} [{rank}] NCCL WARN NET/IB: Got completion from peer @IP@<41234>"
    status = f"status=12 opcode=0 len=0 vendor err 129 (Recv) localGid fe80::1 remoteGids fe80::2 hca mlx5_{rank}"
    return [*(down if rank == 3 else ()), f"{warning} with {status}"]


def write(
    directory: Path, nodes: int, lines: int, *, files_a_node: int = 1, seed: int = 1, draw: str | None = None
) -> int:
    """Write the job; returns its bytes. ``lines`` a node, one in 150 of them unique; ``files_a_node``: 1 or 8;
    ``draw``: the name of a draw.
    """
    course = _usual_course() if draw is None else _drawn_course(draw)
    rare = lines // course.tail
    bodies = [body(seed * 100 + n, lines - rare, course) for n in range(min(BODIES, nodes))]
    total = 0
    for node in range(nodes):
        rows = sorted([*bodies[node % len(bodies)], *_tail(seed, node, rare)], key=lambda x: x.at)
        ends = [Line(9999.0, r, text) for r in range(RANKS) for text in _end(node == nodes // 3, r)]
        for part in range(files_a_node):
            mine = [x.text for x in (*rows, *ends) if files_a_node == 1 or x.rank == part]
            text = (
                "\n".join(mine).replace("@NODE@", f"gpu-{node:04d}").replace("@IP@", f"10.4.{node // 250}.{node % 250}")
            )
            for rank in range(RANKS):
                text = text.replace(f"@R{rank}@", str(node * RANKS + rank))
            name = f"gpu-{node:04d}.log" if files_a_node == 1 else f"gpu-{node:04d}/rank-{part}.log"
            path = directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            data = (text + "\n").encode()
            path.write_bytes(data)
            total += len(data)
    return total
