"""Flight Recorder dumps and RAS reports of hangs, as torch 2.5–2.9 and NCCL 2.24–2.28 write them."""

from __future__ import annotations

import json
import pickle
import random
from collections.abc import Callable
from typing import Any

#: Files by path, faulty ranks and nodes, and the program that wrote them.
Made = tuple[dict[str, bytes], set[int], set[str], str]
WORLD = 16
GROUPS = {"0": ("default_pg", [list(range(WORLD))]), "tp": ("mesh_tp", [[i, i + 1] for i in range(0, WORLD, 2)])}
NAMES: tuple[Callable[[int], str], ...] = (
    lambda r: f"nccl_trace_rank_{r}",
    lambda r: f"_dump_{r}",
    lambda r: f"fr/nccl_trace_rank_container-node{r // 8:02d}_{r}",
    lambda r: f"comm_traces/rank_{r}",
    lambda r: f"gpu-{r // 8:03d}/nccl_trace_rank_{r}.pickle",
)
VERSIONS = ("2.4", "2.5", "2.7", "2.9", "2.10")


def entry(
    number: int, group: tuple[str, str, int], op: str, seq: int, state: str, version: str, p2p: bool = False
) -> dict[str, Any]:
    name, desc, local = group
    row: dict[str, Any] = {
        "record_id": number,
        "pg_id": local,
        "process_group": (name, desc),
        "collective_seq_id": 0 if p2p else seq,
        "p2p_seq_id": seq if p2p else 0,
        "op_id": seq,
        "profiling_name": f"nccl:{op}",
        "time_created_ns": 1_758_610_505_000_000_000 + number * 1_000_000,
        "input_sizes": [[4096, 512]],
        "input_dtypes": ["BFloat16"],
        "output_sizes": [[4096, 512]],
        "output_dtypes": ["BFloat16"],
        "state": state,
        "time_discovered_started_ns": None if state == "scheduled" else 1_758_610_505_000_000_100,
        "time_discovered_completed_ns": 1_758_610_505_000_000_200 if state == "completed" else None,
        "retired": state == "completed",
        "timeout_ms": 600_000,
        "is_p2p": p2p,
        "frames": [{"name": "train_step", "filename": "/workspace/train.py", "line": 210}],
    }
    return row if version < "2.9" else {**row, "thread_name": "python3", "thread_id": "23456244340032"}


def dump(version: str, status: dict[int, tuple[int, int]], entries: list[dict[str, Any]], rank: int) -> dict[str, Any]:
    """``status``: local group id: (enqueued, completed)."""
    pair = [rank // 2 * 2, rank // 2 * 2 + 1]
    config = {"0": {"name": "0", "desc": "default_pg", "ranks": str(list(range(WORLD)))}}
    config[str(rank // 2 + 1)] = {"name": str(rank // 2 + 1), "desc": "mesh_tp", "ranks": str(pair)}
    state = {
        str(k): {"last_enqueued_collective": e, "last_started_collective": -1, "last_completed_collective": c}
        for k, (e, c) in status.items()
    }
    return {"version": version, "nccl_version": "2.26.2", "pg_config": config, "pg_status": state, "entries": entries}


def written(rng: random.Random, dumps: dict[int, dict[str, Any]]) -> dict[str, bytes]:
    name, as_json = rng.choice(NAMES), rng.random() < 0.3
    out = {}
    for rank, held in dumps.items():
        data = json.dumps(held).encode() if as_json else pickle.dumps(held, protocol=2)
        out[name(rank) + (".json" if as_json else "")] = data
    return out


def recorder(kind: str) -> Callable[[random.Random], Made]:
    def make(rng: random.Random) -> Made:
        version = rng.choice(VERSIONS)
        culprit = rng.randrange(WORLD - 1)
        dumps = {}
        for rank in range(WORLD):
            world, pair = ("0", "default_pg", 0), (str(rank // 2 + 1), "mesh_tp", 1)
            rows = [entry(i, world, "all_reduce", 90 + i, "completed", version) for i in range(10)]
            bad = rank == culprit
            if kind == "host stuck":
                status = {0: (99, 99) if bad else (100, 99), 1: (40, 40)}
                rows += (
                    []
                    if bad
                    else [entry(10, world, "reduce_scatter", 100, rng.choice(["scheduled", "started"]), version)]
                )
            elif kind == "device stuck":
                status = {0: (100, 98 if bad else 99), 1: (40, 40)}
                rows[-1] = entry(9, world, "all_reduce", 99, "scheduled" if bad else "completed", version)
                rows.append(entry(10, world, "all_reduce", 100, "scheduled", version))
            elif kind == "mismatch":
                status = {0: (100, 99), 1: (40, 40)}
                rows.append(entry(10, world, "_all_gather_base" if bad else "all_reduce", 100, "started", version))
            elif kind == "missing":
                status = {0: (100, 99), 1: (40, 40)}
                rows.append(entry(10, world, "all_reduce", 100, "started", version))
            else:  # one side of a pair never calls
                in_pair = rank // 2 == culprit // 2
                status = {0: (99, 99) if in_pair else (100, 99), 1: (40 if bad or not in_pair else 41, 40)}
                if not in_pair:
                    rows.append(entry(10, world, "all_reduce", 100, "scheduled", version))
                elif not bad:
                    rows.append(entry(10, pair, "all_gather", 41, "scheduled", version))
            if kind != "missing" or not bad:
                dumps[rank] = dump(version, status, rows, rank)
        files = written(rng, dumps)
        first = next(iter(files))
        nodes: set[str] = set()
        if "gpu-" in first:
            nodes = {f"gpu-{culprit // 8:03d}"}
        elif "container-" in first:
            nodes = {f"container-node{culprit // 8:02d}"}
        return files, {culprit}, nodes, f"torch {version} {first}"

    return make


def ras_json(rng: random.Random) -> Made:
    """Two polls with the same counts; those of one rank are lower."""
    culprit = rng.randrange(WORLD)
    files = {}
    for poll in range(2):
        rows = [
            {
                "rank": r,
                "host": f"10.0.0.{r // 8 + 4}",
                "pid": 900 + r,
                "cuda_dev": r % 8,
                "nvml_dev": r % 8,
                "collective_counts": {"Broadcast": 4, "AllReduce": 500 - 60 * (r == culprit), "AllGather": 12},
                "status": {
                    "init_state": 7,
                    "async_error": 0,
                    "finalize_called": False,
                    "destroy_flag": False,
                    "abort_flag": False,
                },
            }
            for r in range(WORLD)
        ]
        comm = {
            "hash": "0x27a079b828ff1a75",
            "secondary_hash": "0x1",
            "size": WORLD,
            "ranks_count": WORLD,
            "missing_ranks_count": 0,
            "ranks": rows,
            "missing_ranks": [],
        }
        held = {
            "nccl_version": "2.28.3",
            "cuda_runtime_version": 12080,
            "cuda_driver_version": 12080,
            "timestamp": f"2026-01-02 03:0{poll}:05",
            "communicators_count": 1,
            "communicators": [comm],
            "ras": {"collection_time_sec": 0.1, "timeouts_count": 0},
        }
        files[f"ras-{poll}.json"] = json.dumps(held).encode()
    return files, {culprit}, {f"10.0.0.{culprit // 8 + 4}"}, "ras json"


def ras_text(rng: random.Random) -> Made:
    culprit = rng.randrange(WORLD)
    node = f"gpu-{culprit // 8:03d}"
    text = f"""NCCL version 2.24.3 compiled with CUDA 12.8
CUDA runtime version 12080, driver version 12080

Job summary
===========

  Nodes  Processes         GPUs  Processes     GPUs
(total)   per node  per process    (total)  (total)
      2        7-8            1         15       15

Communicators... (0.05s)
=============

Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
    0         1         2       7-8        16        16   RUNNING  INCOMPLETE

Errors
======

DEAD
  1 job process is considered dead (unreachable via the RAS network)
  Process {4000 + culprit} on node {node} managing GPU {culprit % 8}

#0-0 (27a079b828ff1a75) INCOMPLETE
  Missing communicator data from 1 rank
  Rank {culprit} -- GPU {culprit % 8} managed by process {4000 + culprit} on node {node}
"""
    return {"ncclras.txt": text.encode()}, {culprit}, {node}, "ras text"


RECORDERS: dict[str, Callable[[random.Random], Made]] = {
    "host stuck (recorder)": recorder("host stuck"),
    "device stuck (recorder)": recorder("device stuck"),
    "pair (recorder)": recorder("pair"),
    "missing (recorder)": recorder("missing"),
    "mismatch (recorder)": recorder("mismatch"),
    "behind (ras json)": ras_json,
    "dead (ras text)": ras_text,
}
