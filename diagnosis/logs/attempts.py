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

from diagnosis.classify_model import Model
from diagnosis.history import History
from diagnosis.inventory import Inventory
from diagnosis.logs import conclude, events, frameworks, place, protocol
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
        framework=frameworks.framework(case.table.messages["example"]),
        scheduler=frameworks.scheduler(case.table.messages["example"]),
        node_names=case.catalogue.nodes,
        world_size=_world(case),
        protocol=_states(case) if result.is_failure else (),
    )


def _states(case: Case) -> tuple[protocol.State, ...]:
    return tuple(place.protocol_states(case))


def _world(case: Case) -> int | None:
    ranks = case.table.sources["rank"].drop_nulls()
    return int(ranks.max()) + 1 if ranks.len() else None  # type: ignore[arg-type]
