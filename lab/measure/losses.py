"""Whether the culprit stays when evidence is lost: `python -m lab.measure losses [--show] PATH…`.

Takes each path (a directory, an archive, ``NAME.tar.gz`` of a recording; each sample without one) whose evidence shows
a problem and has several files. Diagnoses it again without its logs, flows, stacks or reports of states, without the
files of the first or of the second half of its nodes, and without the last tenth of each log. The answer may stay or
become "cannot say"; another culprit or "healthy" is wrong. Prints how often each happened, by what was lost.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from diagnosis.kinds.logs.rows.events import log_artifacts
from diagnosis.model import Kind, Parsed, ReadRange
from diagnosis.pipeline import diagnose
from diagnosis.report import to_json
from lab.measure.evidence import members, parse_files
from lab.measure.reports import ROOT

PROBLEMS: Final = ("failed", "hung", "degraded")
KINDS: Final = {"flows": Kind.FLOW, "stacks": Kind.STACK, "states": Kind.STATE}
#: How an answer compares with the one on all evidence, the wrong ones last.
SAME, CANNOT_SAY, OTHER, HEALTHY = "the same", "cannot say", "another culprit", "healthy"
ANSWERS: Final = (SAME, CANNOT_SAY, OTHER, HEALTHY)
#: Not evidence, or a part of it in another form.
_NO_EVIDENCE: Final = ("truth.json", "truth_steps.csv", "connections.json", "sample.pcap")


def main() -> int:
    """One line for each kind of loss; exit code 1 without a job that shows a problem."""
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("paths", nargs="*", type=Path, metavar="PATH")
    options.add_argument("--show", action="store_true", help="print the wrong answers")
    chosen = options.parse_args()
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for path in chosen.paths or sorted((ROOT / "samples").glob("*.tar.gz")):
        files = {name: data for name, data in members(path) if not name.endswith(_NO_EVIDENCE)}
        for loss, before, after in answers(files):
            how = comparison(before, after)
            counts[loss][how] += 1
            if chosen.show and how in (OTHER, HEALTHY):
                print(f"{path.name} without {loss}: {how}; {_told(before)} -> {_told(after)}", flush=True)
    for loss, found in counts.items():
        shares = ", ".join(f"{how} {found[how]}" for how in ANSWERS)
        print(f"without {loss}: {found.total()} answers: {shares}")
    return int(not counts)


def answers(files: Mapping[str, bytes]) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """What was lost, the conclusion on all evidence, and the one on what was left; nothing of a job without a
    problem.
    """
    with tempfile.TemporaryDirectory() as work:
        parsed, read = parse_files(files, Path(work))
        whole = to_json(diagnose(parsed, read=read))
        before = whole["conclusion"]
        if before["condition"] not in PROBLEMS or not _accused(before):
            return
        for loss, rest in _losses(parsed, whole["job"]["node_names"]):
            yield loss, before, _conclusion(rest, read)
        logs = {part.path for part in log_artifacts(parsed)}
    cut = {name: data[: len(data) * 9 // 10] if name in logs else data for name, data in files.items()}
    with tempfile.TemporaryDirectory() as work:
        parsed, read = parse_files(cut, Path(work))
        yield "the last tenth of each log", before, _conclusion(parsed, read)


def _conclusion(parsed: Sequence[Parsed], read: ReadRange) -> dict[str, Any]:
    found: dict[str, Any] = to_json(diagnose(parsed, read=read))["conclusion"]
    return found


def _losses(parsed: Sequence[Parsed], nodes: Sequence[str]) -> Iterator[tuple[str, list[Parsed]]]:
    """Each kind that is there beside others, and each half of the nodes that files name."""
    logs = {part.path for part in log_artifacts(parsed)}
    lost = {"logs": logs}
    for name, kind in KINDS.items():
        lost[name] = {part.path for part in parsed if part.kind == kind}
    named = [node for node in nodes if any(_is_of(part.path, node) for part in parsed)]
    half = len(named) // 2
    for name, some in (("half of the nodes", named[:half]), ("the other half", named[half:])):
        lost[name] = {part.path for part in parsed if any(_is_of(part.path, node) for node in some)}
    for name, paths in lost.items():
        rest = [part for part in parsed if part.path not in paths]
        if paths and any(part.kind != Kind.INVENTORY for part in rest):
            yield name, rest


def _is_of(path: str, node: str) -> bool:
    """Whether a part of a path is the name of a node."""
    return any(part.split(".")[0] == node for part in path.split("/"))


def comparison(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """How the conclusion on less evidence compares with that on all: who is first, whether anything is wrong."""
    if after["condition"] in ("healthy", "recovered"):
        return HEALTHY
    mine, theirs = _accused(before), _accused(after)
    if after["condition"] not in PROBLEMS or not theirs:
        return CANNOT_SAY
    is_kept = any(mine[0] & one for one in theirs) or any(theirs[0] & one for one in mine)
    return SAME if is_kept else OTHER


def _accused(conclusion: Mapping[str, Any]) -> list[set[str]]:
    """Whom a conclusion accuses: of each its name and its rank, because less evidence may know one of them alone."""
    return [_names_of(fault) for fault in conclusion.get("fault") or ()]


def _names_of(fault: Mapping[str, Any]) -> set[str]:
    names = {str(fault["name"])}
    return names if fault.get("rank") is None else names | {f"rank {fault['rank']}"}


def _told(conclusion: Mapping[str, Any]) -> str:
    names = [str(fault["name"]) for fault in conclusion.get("fault") or ()]
    return f"{conclusion['condition']} {', '.join(names) or 'nobody'}"


if __name__ == "__main__":
    raise SystemExit(main())
