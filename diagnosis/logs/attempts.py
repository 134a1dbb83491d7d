"""Several global launches in one tree: each is diagnosed by itself, and the last unsuccessful one is told.

A directory such as ``attempt-2/`` or ``run_01/`` above the nodes is a launch. torchrun's ``attempt_N/<local rank>/``
is not: it counts the
restarts of one node's agent.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import polars as pl

from diagnosis.classify_model import Model
from diagnosis.history import History
from diagnosis.inventory import Inventory
from diagnosis.logs import conclude, events, place, protocol
from diagnosis.logs.diagnose import Case, open_case
from diagnosis.logs.signatures import SignatureSet
from diagnosis.model import JobHints, OnStage, Parsed, ReadRange, silent
from diagnosis.result import LogDiagnosis

_LAUNCH: Final = re.compile(r"(?i)(?:^|/)(?:attempt|launch|restart|try|relaunch)[-_ ]?(\d{1,4})/(?!\d+(?:/|$))")


def numbers(paths: Sequence[str]) -> dict[str, int]:
    """The launch of each path; empty where the tree knows only one."""
    found = {p: int(m.group(1)) for p in paths if (m := _LAUNCH.search(p))}
    if len(set(found.values())) < 2 or len(found) < 0.5 * len(paths):
        return {}
    return found


def diagnose_logs(
    parsed: Sequence[Parsed],
    *,
    inventory: Inventory,
    hints: JobHints,
    history: History,
    read: ReadRange,
    as_of: float | None = None,
    rules: SignatureSet | None = None,
    model: Model | None = None,
    on_stage: OnStage = silent,
) -> LogDiagnosis | None:
    """The report's ``logs``: of the last unsuccessful launch, or of the last; None without log lines."""
    logs = events.log_artifacts(parsed)
    launch_of = numbers([p.path for p in logs])
    groups = sorted(set(launch_of.values())) or [0]
    told: list[LogDiagnosis] = []
    for number in groups:
        mine = [p for p in logs if launch_of.get(p.path, number) == number]
        case = open_case(
            mine,
            inventory=inventory,
            hints=hints,
            history=history,
            read=read,
            as_of=as_of,
            rules=rules,
            model=model,
            on_stage=on_stage,
        )
        if case is None:
            continue
        result = _described(conclude.conclude(case), case)
        told.append(replace(result, attempt=number, attempts=tuple(replace(a, number=number) for a in result.attempts)))
    if not told:
        return None
    failed = [d for d in told if d.is_failure]
    chosen = failed[-1] if failed else told[-1]
    return replace(chosen, attempts=tuple(a for d in told for a in d.attempts))


def _described(result: LogDiagnosis, case: Case) -> LogDiagnosis:
    return replace(
        result,
        framework=framework(case.table.messages),
        scheduler=scheduler(case.table.messages),
        node_names=case.catalogue.nodes,
        world_size=_world(case),
        protocol=_states(case) if result.is_failure else (),
    )


def _states(case: Case) -> tuple[protocol.State, ...]:
    return tuple(place.protocol_states(case))


def _world(case: Case) -> int | None:
    ranks = case.table.sources["rank"].drop_nulls()
    return int(ranks.max()) + 1 if ranks.len() else None  # type: ignore[arg-type]


#: What a framework's own lines give away, the most special first.
_FRAMEWORKS: Final = (
    ("mindspeed", r"(?i)mindspeed|torch_npu|\bhccl\b|ascend"),
    ("nemo", r"(?i)\bnemo\b|nemo_logging|exp_manager"),
    ("torchtitan", r"(?i)torchtitan|\[titan\]"),
    ("deepspeed", r"(?i)deepspeed"),
    ("megatron", r"(?i)megatron|consumed samples|tensor-model-parallel"),
    ("mlperf", r":::MLLOG|:::MLPv"),
    ("hf", r"(?i)transformers|\*\*\*\*\* Running training|trainer_state"),
    ("torchrun", r"(?i)torchrun|torch/distributed/elastic|torchelastic|torch\.distributed\.elastic"),
)
_SCHEDULERS: Final = (
    ("slurm", r"(?i)\bsrun\b|slurmstepd|SLURM_|\bsbatch\b"),
    ("kubernetes", r"(?i)\bpod/|pytorchjob|kubelet|kubernetes|\bkubectl\b"),
)


def framework(messages: pl.DataFrame) -> str:
    """The framework that the messages give away, or ``unknown``."""
    return _first(messages, _FRAMEWORKS) or "unknown"


def scheduler(messages: pl.DataFrame) -> str:
    """``slurm``, ``kubernetes`` or empty."""
    return _first(messages, _SCHEDULERS)


def _first(messages: pl.DataFrame, table: tuple[tuple[str, str], ...]) -> str:
    texts = messages["example"].str.head(400)
    for name, pattern in table:
        if texts.str.contains(pattern).any():
            return name
    return ""
