"""Evidence in which one number after the other is made huge, diagnosed under a memory limit: a process of its own.

``python -m tests.diagnosis.hostile_numbers [SCENE …]`` prints one JSON object for each scene: how many variants, by how
much the peak of memory grew, and what went wrong.
"""

from __future__ import annotations

import io
import json
import pickle
import random
import re
import resource
import sys
import tempfile
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from diagnosis import ParseHints, parse
from diagnosis.pipeline import diagnose
from tests.diagnosis.kinds.flows.exporters import EXPORTERS
from tests.patience import no_hang

HUGE = (str(10**12), str(2**18 - 1))
#: the same for four bytes of a binary file, whichever end comes first
HUGE_BYTES = (b"\xff\xff\xff\x7f", b"\x7f\xff\xff\xff", b"\xff\xff\x03\x00", b"\xff" * 4, bytes(4))
MEMORY_BYTES = 3 << 30
#: so many numbers of texts are made huge at a time
TOGETHER = 3
_NUMBER = re.compile(r"\d+")


class Change(NamedTuple):
    """A number of a file's contents or path, from ``begin`` to ``end``."""

    name: str
    begin: int
    end: int
    is_path: bool = False


_STACK = """Process {pid}: python pretrain_gpt.py --rank {rank} --tensor-model-parallel-size 2
Python v3.12.3 (/usr/bin/python3)

Thread {pid} (active): "MainThread"
    all_reduce (torch/distributed/distributed_c10d.py:2501)
    train_step (megatron/training/training.py:1290)
    <module> (pretrain_gpt.py:303)
"""
_RECORDER = {
    "version": "2.4",
    "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2, 3]"}},
    "pg_status": {"0": {"last_enqueued_collective": 7, "last_started_collective": 7, "last_completed_collective": 6}},
    "entries": [
        {
            "process_group": ["0", "default_pg"],
            "pg_id": 0,
            "collective_seq_id": 7,
            "profiling_name": "nccl:all_reduce",
            "state": "scheduled",
            "input_sizes": [[4, 4]],
            "time_created_ns": 1772352000000000000,
        }
    ],
}
_RAS = {
    "nccl_version": "2.28.3",
    "communicators": [
        {
            "hash": "a1",
            "size": 4,
            "ranks": [
                {"rank": r, "host": f"n{r // 2}", "pid": 100 + r, "collective_counts": {"AllReduce": 60 - (r == 2)}}
                for r in range(3)
            ],
            "missing_ranks": [{"rank": 3, "host": "n1", "pid": 103}],
        }
    ],
}
_JOB = b'{"job_id": "7", "nodes": ["n0", "n1"], "gpus_per_node": 2, "world_size": 4, "framework": "megatron"}'
_LAYOUT = {
    "tp": 2,
    "pp": 1,
    "dp": 2,
    "world_size": 4,
    "ranks": [{"rank": r, "node": f"n{r // 2}", "pid": 100 + r, "tp": r % 2, "dp": r // 2} for r in range(4)],
}
_WATCHDOG = (
    "[rank{r}]:[E301 08:00:0{r}.000 ProcessGroupNCCL.cpp:607] [Rank {r}] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=42, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600010 milliseconds\n"
    "[rank{r}]:[E301 08:00:0{r}.100 ProcessGroupNCCL.cpp:632] [PG ID 0 PG GUID 0(default_pg) Rank {r}] "
    "last enqueued work: 43, last completed work: 41\n"
)
_STEPS = "".join(
    f"2026-03-01 08:{at // 60:02d}:{at % 60:02d} [rank0]: iteration {at + 1}/ 500 | elapsed time per iteration (ms): "
    f"1000.0 | consumed samples: {64 * at} | lm loss: 2.5\n"
    for at in range(40)
)


def _flows(steps: int = 12) -> list[tuple[float, float, str, str, int]]:
    rows = []
    for step in range(steps):
        for a in range(4):
            rows.append((1772352000 + step, 0.4, f"10.0.0.{a}", f"10.0.0.{(a + 1) % 4}", 1_000_000))
            rows.append((1772352000 + step + 0.5, 0.1, f"10.0.0.{a}", f"10.0.0.{a ^ 2}", 4096))
    return rows


def _exported(name: str) -> bytes:
    rows = [
        {"start_time": start, "duration": took, "src": a, "dst": b, "src_port": 4791, "dst_port": 4791, "proto": 17,
         "bytes": size // 1000, "packets": 9, "switches": "s1;s2"}
        for start, took, a, b, size in _flows(1)
    ]  # fmt: skip
    return EXPORTERS[name]([{**row, "duration": 0.002} for row in rows])


SCENES: dict[str, dict[str, bytes]] = {
    "stacks": {
        **{f"stacks/n{r // 2}/rank-{r}.txt": _STACK.format(pid=100 + r, rank=r).encode() for r in range(3)},
        "layout.json": json.dumps(_LAYOUT).encode(),
    },
    "stacks by local rank": {
        f"stacks/n{node}/rank{r}.txt": _STACK.replace(" --rank {rank}", "").format(pid=100 + r).encode()
        for node in range(3)
        for r in range(2)
    },
    "a bundle by hosts": {
        "stacks/all.txt": "".join(
            f"n{node}: {line}\n"
            for node in range(2)
            for line in (_STACK.format(pid=5, rank=node) + _STACK.format(pid=9, rank=7)).splitlines()
        ).encode()
    },
    "job and stacks": {
        **{f"stacks/rank-{r}.txt": _STACK.format(pid=100 + r, rank=r).encode() for r in range(3)},
        "job.json": _JOB,
        "run.log": b"world_size 4 tensor_model_parallel_size 2 data_parallel_size 2\n" + _STEPS.encode(),
    },
    "flight recorder": {f"fr/nccl_trace_rank_{r}.json": json.dumps(_RECORDER).encode() for r in range(3)},
    "ras": {"ras.json": json.dumps(_RAS).encode(), "job.json": _JOB},
    "watchdogs": {"run.log": "".join(_WATCHDOG.format(r=r) for r in range(4)).encode(), "job.json": _JOB},
    "steps": {"run.log": _STEPS[: _STEPS.index("2026-03-01 08:00:06")].encode() + _STEPS[-2000:].encode()},
    "flows": {
        "flows.csv": b"start_time,duration,src,dst,bytes\n"
        + "".join(f"{t},{d},{a},{b},{n}\n" for t, d, a, b, n in _flows()).encode(),
        "job.json": _JOB.replace(b'"n0"', b'{"name": "n0", "ip": "10.0.0.0"}'),
    },
    "flows in JSON": {
        "flows.jsonl": "".join(
            json.dumps({"time_flow_start_ns": int(t * 1e9), "time_flow_end_ns": int((t + d) * 1e9), "src_addr": a,
                        "dst_addr": b, "bytes": n, "packets": 9, "sampling_rate": 1}) + "\n"
            for t, d, a, b, n in _flows(6)
        ).encode()
    },
    "flight recorder pickles": {
        f"fr/nccl_trace_rank_{r}.pickle": pickle.dumps(_RECORDER, protocol) for r, protocol in enumerate((2, 4))
    },
    "a flight recorder pickle of text": {"fr/nccl_trace_rank_2.pickle": pickle.dumps(_RECORDER, 0)},
    "captures": {f"{name}.{name}": _exported(name) for name in ("pcap", "pcapng")},
    **{
        f"flows of {name}": {f"flows.{name}": _exported(name)}
        for name in ("nfdump-csv", "nfdump-csv-fast", "nfdump-json", "zeek-conn", "aws-vpc")
    },
    "a parquet": {"flows.parquet": _exported("parquet")},
    "port counters": {
        "ports.csv": b"time,port,inOctets,outOctets\n"
        + b"".join(b"%d,p%d,%d,9\n" % (t, t % 2, 100 * t) for t in range(9))
    },
}  # fmt: skip


def variants(files: dict[str, bytes], most: int = 24) -> Iterator[tuple[str, dict[str, bytes]]]:
    """The files with numbers made huge: one of each kind, in paths and in contents, and ``most`` of a binary file's,
    in which every four bytes may be one. Which of the huge values it gets goes in turn. :data:`TOGETHER` numbers of
    texts change at a time, because a diagnosis costs the same for each.
    """
    texts: list[Change] = []
    for turn, place in enumerate([*_kinds(files), *_words(files, most)]):
        if place.is_path:
            yield _changed(files, [place], [HUGE[turn % len(HUGE)]])
        elif _is_binary(files[place.name]):
            yield _changed(files, [place], [HUGE_BYTES[turn % len(HUGE_BYTES)]])
        else:
            texts.append(place)
    for at in range(0, len(texts), TOGETHER):
        places = texts[at : at + TOGETHER]
        yield _changed(files, places, [HUGE[turn % len(HUGE)] for turn in range(len(places))])


def _changed(
    files: dict[str, bytes], places: Sequence[Change], values: Sequence[str | bytes]
) -> tuple[str, dict[str, bytes]]:
    """What is changed, and the files with it. The last place of a file comes first, so that the others stay."""
    changed = dict(files)
    for place, huge in sorted(zip(places, values, strict=True), reverse=True):
        if place.is_path:
            changed[f"{place.name[: place.begin]}{huge!s}{place.name[place.end :]}"] = changed.pop(place.name)
        else:
            more = huge if isinstance(huge, bytes) else huge.encode()
            data = changed[place.name]
            changed[place.name] = data[: place.begin] + more + data[place.end :]
    told = "; ".join(f"{place.name}, {'path' if place.is_path else 'content'} at {place.begin}" for place in places)
    return f"{told}: {values!r}", changed


def _kinds(files: dict[str, bytes]) -> list[Change]:
    """A place of each kind of number: the same one in lines that differ in nothing but numbers, or in such paths."""
    drawn: dict[tuple[str, str, int], list[Change]] = {}
    for name, data in files.items():
        alike = _NUMBER.sub("0", name)
        for order, found in enumerate(_NUMBER.finditer(name)):
            drawn.setdefault(("", alike, order), []).append(Change(name, *found.span(), is_path=True))
        at = 0
        for line in [] if _is_binary(data) else data.decode().splitlines(keepends=True):
            for order, found in enumerate(_NUMBER.finditer(line)):
                place = Change(name, at + found.start(), at + found.end())
                drawn.setdefault((alike, _NUMBER.sub("0", line), order), []).append(place)
            at += len(line)
    draw = random.Random(7)
    return [draw.choice(places) for places in drawn.values()]


def _words(files: dict[str, bytes], most: int) -> list[Change]:
    places = [
        Change(name, at, at + 4) for name, data in files.items() if _is_binary(data) for at in range(len(data) - 3)
    ]
    return random.Random(7).sample(places, min(most, len(places)))


def _is_binary(data: bytes) -> bool:
    return b"\0" in data


def main() -> None:
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
    for scene in sys.argv[1:] or SCENES:
        print(json.dumps({"scene": scene, **played(SCENES[scene])}), flush=True)


def played(files: dict[str, bytes]) -> dict[str, Any]:
    """What all variants of a scene cost."""
    wrong: list[str] = []
    count = 0
    run(files)  # what the first diagnosis loads counts for the start
    start = _peak_bytes()
    for told, changed in variants(files):
        try:
            with no_hang():
                wrong += [f"{told}: {sentence}" for sentence in run(changed)]
        except BaseException:
            wrong.append(f"{told}: {traceback.format_exc()[-1500:]}")
        count += 1
    return {"count": count, "more_bytes": _peak_bytes() - start, "wrong": wrong}


def run(files: dict[str, bytes]) -> list[str]:
    """Diagnose; sentences of the report about a failed analysis."""
    with tempfile.TemporaryDirectory() as folder:
        parsed = [
            parse(io.BytesIO(data), name, ParseHints(), Path(folder) / str(number))
            for number, (name, data) in enumerate(files.items())
        ]
        told = diagnose(parsed, read=lambda path, offset, length: files[path][offset : offset + length])
        return [sentence for sentence in told.missing if "could not be analysed" in sentence]


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    main()
