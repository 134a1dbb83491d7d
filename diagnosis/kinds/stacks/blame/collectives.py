"""Compares Flight Recorder dumps and watchdog counters of all ranks: who is missing in which collective.

Two signals (found on labelled dumps, see ``docs/stacks.md``):

* host-stuck: peers of its group have scheduled a collective, this rank has not, and it waits in none itself;
* device-stuck: the last collective that it *completed* is behind its group's, although its host continued (except
* pipeline groups:
  their counters mix sends and receives).

The third needs no counter: two ranks with one sequence number for different collectives are mismatched.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from diagnosis import thresholds
from diagnosis.evidence.rank_names import fold_ranks

THRESHOLDS: Final = thresholds.of("collectives")

_PIPELINE = ("PIPELINE", "PP", "EMBEDDING")
#: collectives whose sizes differ between ranks by nature
_UNEVEN_OPS = ("all_to_all", "alltoall")


@dataclass(slots=True)
class State:
    """One rank in one process group. Counters are -1 if unknown."""

    rank: int
    group: str
    desc: str = ""
    members: tuple[int, ...] = ()
    enqueued: int = -1
    completed: int = -1
    open: list[dict[str, Any]] = field(default_factory=list)
    last: Mapping[str, Any] | None = None

    @property
    def waits(self) -> bool:
        return bool(self.open) or self.enqueued > self.completed >= 0


@dataclass(slots=True)
class Verdict:
    """Ranks by signal, each with its reason; ``collective`` the one that hangs, for the sentence."""

    host: dict[int, str] = field(default_factory=dict)
    device: dict[int, str] = field(default_factory=dict)
    mismatch: dict[int, str] = field(default_factory=dict)
    collective: dict[str, Any] | None = None

    @property
    def ranks(self) -> dict[int, str]:
        return {**self.device, **self.host, **({} if self.host or self.device else self.mismatch)}


def is_pipeline(desc: str) -> bool:
    return any(
        word in desc.upper().replace("-", "_").split("_") or (word in desc.upper() and len(word) > 2)
        for word in _PIPELINE
    )


_KINDS = (
    ("ep", re.compile(r"^EXPERT_MODEL_PARALLEL_GROUP$|^(?:mesh_)?ep$", re.IGNORECASE)),
    ("tp", re.compile(r"^TENSOR_MODEL_PARALLEL_GROUP$|^(?:mesh_)?tp$", re.IGNORECASE)),
    ("pp", re.compile(r"^PIPELINE_MODEL_PARALLEL_GROUP$|^(?:mesh_)?pp$", re.IGNORECASE)),
    ("cp", re.compile(r"^CONTEXT_PARALLEL_GROUP$|^(?:mesh_)?cp$", re.IGNORECASE)),
    (
        "dp",
        re.compile(r"^DATA_PARALLEL_GROUP(?:_WITH_CP)?$|^(?:mesh_)?(?:dp|dp_shard|fsdp|dp_replicate)$", re.IGNORECASE),
    ),
)


def parallel_groups(states: Iterable[State]) -> dict[str, list[tuple[int, ...]]]:
    """The job's own parallel groups, by the descriptions that Megatron-LM and torchtitan give their process groups."""
    found: dict[str, set[tuple[int, ...]]] = defaultdict(set)
    for s in states:
        kind = next((k for k, pattern in _KINDS if pattern.search(s.desc)), None)
        if kind and s.members:
            found[kind].add(s.members)
    # Groups of one kind never overlap; two descriptions of one kind (with and without context parallelism) may.
    whole = {k: sorted(groups) for k, groups in sorted(found.items())}
    return {k: groups for k, groups in whole.items() if len({r for g in groups for r in g}) == sum(map(len, groups))}


def compare(states: Iterable[State], *, dumped: Iterable[int] = ()) -> Verdict:
    """Compare all ranks' states; ``dumped`` are the ranks that wrote a dump at all, empty ones included. Linear in
    states."""
    groups: dict[str, dict[int, State]] = defaultdict(dict)
    waiting: set[int] = set()
    present = set(dumped)
    for s in states:
        groups[s.group][s.rank] = s
        present.add(s.rank)
        if s.waits:
            waiting.add(s.rank)
    verdict = Verdict()
    for name, members in sorted(groups.items()):
        sample = max(members.values(), key=lambda s: len(s.members))
        whole = set(sample.members) or set(members)
        label = sample.desc if sample.desc not in ("", "undefined") else name
        if not is_pipeline(label):
            _find_device_stuck(label, members, verdict)
            _find_mismatches(label, members, verdict)
        for seq, op in _open_collectives(members):
            absent = sorted(r for r in whole & present if r not in waiting and _last_sequence(members.get(r)) < seq)
            if absent and len(absent) < len(whole):
                for rank in absent:
                    verdict.host.setdefault(
                        rank,
                        f"has not scheduled {op} #{seq} of {label}, which {len(whole) - len(absent)} of "
                        f"{len(whole)} ranks wait in",
                    )
                if verdict.collective is None:
                    verdict.collective = {
                        "group": label,
                        "op": op,
                        "seq": seq,
                        "missing": absent,
                        "ranks": fold_ranks(whole),
                    }
    return verdict


def _last_sequence(state: State | None) -> int:
    if state is None:
        return -1
    return max(state.enqueued, state.completed, *(int(e["seq"]) for e in state.open if not e["p2p"]), -1)


def _open_collectives(members: Mapping[int, State]) -> list[tuple[int, str]]:
    """The first open collective of each rank of the group, oldest first."""
    first: dict[int, str] = {}
    for s in members.values():
        for entry in s.open:
            if not entry["p2p"]:
                first.setdefault(entry["seq"], entry["op"])
        if not s.open and s.enqueued > s.completed >= 0:
            first.setdefault(s.completed + 1, str((s.last or {}).get("op") or "collective"))
    return sorted(first.items())


def _find_device_stuck(label: str, members: Mapping[int, State], verdict: Verdict) -> None:
    done = {r: s.completed for r, s in members.items() if s.completed >= 0}
    if len(done) < 2:
        return
    best = max(done.values())
    for rank, seq in sorted(done.items()):
        # A rank whose host never reached the collective is late, not stuck on its device.
        if seq < best and members[rank].enqueued >= best:
            entry = next((e for e in members[rank].open if e["seq"] == seq + 1 and not e["p2p"]), None)
            op = f" ({entry['op']})" if entry else ""
            verdict.device.setdefault(
                rank, f"scheduled but did not finish #{seq + 1}{op} of {label}, which a peer finished (#{best})"
            )
            if verdict.collective is None:
                verdict.collective = {
                    "group": label,
                    "op": entry["op"] if entry else "collective",
                    "seq": seq + 1,
                    "missing": [rank],
                    "ranks": fold_ranks(members),
                }


def _find_mismatches(label: str, members: Mapping[int, State], verdict: Verdict) -> None:
    at: dict[int, dict[int, Mapping[str, Any]]] = defaultdict(dict)
    for rank, s in members.items():
        for entry in s.open:
            if not entry["p2p"]:
                at[entry["seq"]][rank] = entry
    for seq, entries in sorted(at.items()):
        ops = Counter(e["op"] for e in entries.values())
        if len(ops) > 1:
            common = ops.most_common(1)[0][0]
            for rank, e in sorted(entries.items()):
                if e["op"] != common:
                    verdict.mismatch.setdefault(
                        rank, f"called {e['op']} as #{seq} of {label} where its peers called {common}"
                    )
            return
        op = next(iter(ops), "")
        if any(word in op for word in _UNEVEN_OPS) or len(entries) < THRESHOLDS.ranks:
            continue
        sizes = Counter(str(e["sizes"]) for e in entries.values())
        if len(sizes) > 1 and sizes.most_common(1)[0][1] > len(entries) / 2:
            common = sizes.most_common(1)[0][0]
            for rank, e in sorted(entries.items()):
                if str(e["sizes"]) != common:
                    verdict.mismatch.setdefault(
                        rank, f"called {op} #{seq} of {label} with size {e['sizes']}, its peers with {common}"
                    )
            return
