"""No step of a diagnosis of logs grows faster than its evidence, and each says what it costs.

Compared are the calls and turns of loops of Python (``counting_steps``) of each step for a job and
for one of twice the lines and messages.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import pytest

from diagnosis import pipeline
from diagnosis.files import gathering
from diagnosis.kinds.logs.causes import case, divergence, launches, lifecycles, mentions, not_finite, outcome, phase
from diagnosis.kinds.logs.causes.root_events import fallbacks, root_weights
from diagnosis.kinds.logs.compare import launched, rank_measures, stalled, stated_setups
from diagnosis.kinds.logs.compare.detectors import watchdogs
from diagnosis.kinds.logs.decide import attempts, listed_events, read_notes, steps_aside, timeline, verdict
from diagnosis.kinds.logs.meaning import catalogue, resolved_roles, roster, stages
from diagnosis.kinds.logs.pace import pacing, planned_end, progress, shared_files
from diagnosis.kinds.logs.rows import clocks, events, templates
from diagnosis.processing import jit
from tests.diagnosis.test_work import word_of
from tests.patience import counting_steps

STEPS: Final[tuple[tuple[ModuleType, str], ...]] = (
    (events, "build"),
    (clocks, "estimate"),
    (templates, "of_texts"),
    (roster, "apply_roster"),
    (catalogue, "nameless"),
    (catalogue, "build"),
    (resolved_roles, "resolve_roles"),
    (stages, "stage_marks"),
    (progress, "find_progress"),
    (pacing, "pace"),
    (planned_end, "has_ended"),
    (launches, "last_launches"),
    (case, "collect_facts"),
    (case, "decide"),
    (root_weights, "weigh"),
    (mentions, "mentioned_nodes"),
    (fallbacks, "choose"),
    (lifecycles, "find_lifecycles"),
    (outcome, "find_ending"),
    (phase, "find_moment"),
    (watchdogs, "messages"),
    (watchdogs, "states_in"),
    (stalled, "ranks_missing"),
    (stated_setups, "messages"),
    (stated_setups, "setup_in"),
    (rank_measures, "messages"),
    (rank_measures, "measures_in"),
    (steps_aside, "begin"),
    (read_notes, "read_notes"),
    (timeline, "build_timeline"),
    (listed_events, "list_events"),
    (verdict, "conclude"),
    (attempts, "diagnose_logs"),
)
#: Steps that a job with a failure does not take.
OF_OTHERS: Final = (
    (divergence, "risen_loss"),
    (not_finite, "lost_numbers"),
    (launched, "ranks_behind"),
    (shared_files, "machines_of_ranks"),
)
#: For twice the evidence a step may take 2 to this power times as many steps, and some more.
MOST_POWER: Final = 1.15
FEW: Final = 500


@pytest.mark.parametrize(("module", "name"), [*STEPS, *OF_OTHERS])
def test_each_step_says_what_it_costs(module: ModuleType, name: str) -> None:
    assert "O(" in (getattr(module, name).__doc__ or "")


def line_of(rank: int, number: int) -> str:
    """Progress, what is measured and states the set-up, or a message of its own."""
    at = f"2026-03-01 08:{number // 60 % 60:02d}:{number % 60:02d}"
    if number % 2:
        return f"{at} INFO iteration {number} loss 2.{number} took 4.{number % 97} s"
    if number % 8 == 0:
        return f"{at} INFO [rank{rank}] NCCL version 2.21.5 compute {number % 7}.5 ms"
    return f"{at} WARNING shard {word_of(8 * number + rank)} of rank {rank} was read again in 3 ms"


def write_job(place: Path, lines: int) -> None:
    """Eight ranks, which end with a time-out."""
    for rank in range(8):
        end = (
            f"2026-03-01 09:00:00 ERROR [rank{rank}] Watchdog caught collective operation timeout: "
            f"WorkNCCL(SeqNum=90, OpType=ALLREDUCE, NumelIn=8, NumelOut=8) ran for 600 ms"
        )
        node = place / f"gpu-{rank:04d}"
        node.mkdir(parents=True)
        rows = [line_of(rank, number) for number in range(lines)]
        (node / f"rank{rank}.log").write_text("\n".join([*rows, end, ""]))


def steps_of_each(evidence: Path, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """The steps of each stage of the diagnosis of a job whose words were all learned before."""
    jit.load()  # compiling a loop takes a million steps
    found = gathering.gather([evidence], evidence.with_suffix(".tables"))
    pipeline.diagnose(found.parsed, read=found.read)
    spent: Counter[str] = Counter()
    with monkeypatch.context() as patched, counting_steps() as so_far:
        for module, name in STEPS:
            patched.setattr(module, name, counted(f"{module.__name__}.{name}", module, name, so_far, spent))
        pipeline.diagnose(found.parsed, read=found.read)
    return spent


def counted(
    label: str, module: ModuleType, name: str, so_far: Callable[[], int], spent: Counter[str]
) -> Callable[..., Any]:
    """The function ``name`` of a module, whose steps are added to ``spent``."""
    function = getattr(module, name)

    def call(*args: Any, **named: Any) -> Any:
        before = so_far()
        try:
            return function(*args, **named)
        finally:
            spent[label] += so_far() - before

    return call


def test_no_step_grows_faster_than_the_evidence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_job(tmp_path / "few", FEW)
    write_job(tmp_path / "many", 2 * FEW)
    few = steps_of_each(tmp_path / "few", monkeypatch)
    many = steps_of_each(tmp_path / "many", monkeypatch)
    assert len(few) == len(STEPS)
    assert {step for step in few if many[step] > 2**MOST_POWER * few[step] + FEW} == set()
