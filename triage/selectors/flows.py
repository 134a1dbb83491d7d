"""The Flows tab of a job, from the report and the stored tables of steps."""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ingest.models import Artifact, Job
from triage.charts.flows import iso, map_chart, ranks_chart, ranks_height, steps_chart
from triage.charts.flows_ports import port_chart, ports_chart, ports_height
from triage.charts.tables import Table, pairs_table, port_table, steps_table
from triage.diagnosis_tables import table_path
from triage.models import Activity, Diagnosis

if TYPE_CHECKING:
    from triage.domain.flow_links import Alignment

MAX_MARKS = 300


@dataclass(frozen=True, slots=True)
class PortsView:
    """One capture of port counters; ``captures`` are all of them; ``chosen`` is the port with a
    chart.
    """

    row: dict[str, Any]
    captures: list[dict[str, Any]]
    chosen: str
    lines: dict[str, Any] | None
    has_table: bool
    table: Table | None = None

    @property
    def height(self) -> int:
        """Pixels of the chart of all ports."""
        return ports_height(len(self.row["ports"]))


@dataclass(frozen=True, slots=True)
class FlowsView:
    """One recognised job of the capture, and the facts about the whole capture."""

    flows: dict[str, Any]
    job: dict[str, Any] | None
    steps: dict[str, Any] | None
    pairs: dict[str, Any] | None
    slow_steps: list[dict[str, Any]]
    slow_groups: list[dict[str, Any]]
    has_table: bool
    ports: PortsView | None = None
    #: which iteration of the logs the first step is, and the offset between their times
    aligned: Alignment | None = None
    #: the data of the charts, for readers without JavaScript
    steps_table: Table | None = None
    pairs_table: Table | None = None

    @property
    def reasons(self) -> set[str]:
        """The sentences of the table of what is slow."""
        if not self.job:
            return set()
        switches = self.flows.get("diagnoses") or []
        rows = [*self.slow_groups, *self.slow_steps, *switches]
        return {str(row.get("reason") or "") for row in rows}

    @property
    def ranks_height(self) -> int:
        """Pixels of the chart of ranks × time."""
        return ranks_height(len((self.job or {}).get("members") or ()))

    @property
    def above_limit(self) -> int:
        """How many steps took longer than the limit, explained or not."""
        return sum(bool(step.get("slow")) for step in (self.job or {}).get("steps") or [])


def flows_view(diagnosis: Diagnosis | None, *, chosen: str, counters: str = "", port: str = "") -> FlowsView | None:
    """None without flows. ``chosen`` is the id of one of the capture's jobs, ``counters`` of one of
    its port counters, ``port`` of one of their ports; the first one for an unknown id.
    """
    report = diagnosis.report if diagnosis else {}
    flows = report.get("flows")
    if not flows or diagnosis is None:
        return None
    jobs = flows.get("jobs") or []
    job = next((row for row in jobs if row["id"] == chosen), jobs[0] if jobs else None)
    ports = _ports(diagnosis, flows.get("ports") or [], counters, port)
    job = job and with_member_names(job)
    if job is None:
        return FlowsView(flows, None, None, None, [], [], has_table=False, ports=ports)
    diagnoses = job.get("diagnoses") or []
    iterations = (diagnosis.timeline or {}).get("iterations") or []
    aligned = _align_iterations(job, iterations)
    moved = aligned.offset_s if aligned else 0.0
    timed = [
        {**row, "t": row["t"] + moved}
        for row in iterations
        if row.get("seconds") is not None and row.get("t") is not None
    ]
    return FlowsView(
        flows=flows,
        job=job,
        steps=steps_chart(job, timed) if job.get("steps") else None,
        pairs=map_chart(job),
        # planned pauses come last, so that they displace no slow step
        slow_steps=sorted((row for row in diagnoses if row["kind"] == "slow_step"), key=_is_planned),
        slow_groups=[row for row in diagnoses if row["kind"] != "slow_step"],
        has_table=bool(job.get("table")) and table_path(diagnosis, job["table"]) is not None,
        ports=ports,
        aligned=aligned,
        steps_table=steps_table(job, iso) if job.get("steps") else None,
        pairs_table=pairs_table(job),
    )


def _is_planned(row: dict[str, Any]) -> bool:
    return row.get("measure") == "planned"


def with_member_names(job: dict[str, Any]) -> dict[str, Any]:
    """A job of a report with its members by the names of their machines and ranks, where these are
    known, instead of their addresses. O(members + pairs).
    """
    names: dict[str, str] = job.get("names") or {}
    if not names:
        return job

    def of(members: list[str]) -> list[str]:
        return list(dict.fromkeys(names.get(m, m) for m in members))

    def row_of(row: dict[str, Any]) -> dict[str, Any]:
        lists: dict[str, Any] = {key: of(row[key]) for key in ("members", "culprits") if key in row}
        members = set(lists.get("members", ()))
        nodes = {one.partition(" rank ")[0].partition(":")[0] for one in members}
        if "culprits" in lists:  # a machine and its member are one
            lists["culprits"] = [c for c in lists["culprits"] if c in members or c not in nodes]
        return {**row, **lists}

    return {
        **job,
        "members": [names.get(m, m) for m in job.get("members") or ()],
        "pairs": [
            {**p, "a": names.get(p["a"], p["a"]), "b": names.get(p["b"], p["b"])} for p in job.get("pairs") or ()
        ],
        "peers": [row_of(row) for row in job.get("peers") or ()],
        "diagnoses": [row_of(row) for row in job.get("diagnoses") or ()],
    }


def _align_iterations(job: dict[str, Any], iterations: list[dict[str, Any]]) -> Alignment | None:
    """The logs' iterations aligned with the job's steps; None without any, or if they do not fit."""
    timed = [row for row in iterations if row.get("t") is not None and row.get("n") is not None]
    if not timed or not job.get("steps"):
        return None
    from triage.domain.flow_links import align_iterations  # noqa: PLC0415  # heavy: SciPy

    return align_iterations(job["steps"], timed)


def _ports(diagnosis: Diagnosis, captures: list[dict[str, Any]], counters: str, port: str) -> PortsView | None:
    """The chosen capture of port counters with its chosen port, by default the busiest."""
    if not captures:
        return None
    row = next((c for c in captures if c["id"] == counters), captures[0])
    names = [p["port"] for p in row["ports"]]
    name = port if port in names else names[0]
    path = table_path(diagnosis, row["table"]) if row.get("table") else None
    if path is None:
        return PortsView(row, captures, name, None, has_table=False)
    from triage.flow_tables import port_lines  # noqa: PLC0415  # heavy: SciPy

    lines = port_lines(path, name)
    return PortsView(row, captures, name, port_chart(name, lines), has_table=True, table=port_table(lines, iso))


def flow_job(diagnosis: Diagnosis | None, chosen: str) -> tuple[dict[str, Any], Path] | None:
    """One job of the capture (or its port counters) and its table; None if either does not exist."""
    flows = (diagnosis.report if diagnosis else {}).get("flows") or {}
    rows = [*(flows.get("jobs") or []), *(flows.get("ports") or [])]
    job = next((row for row in rows if row["id"] == chosen), None)
    if job is None or diagnosis is None or not job.get("table"):
        return None
    path = table_path(diagnosis, job["table"])
    return (job, path) if path else None


def captures_attached(job: Job) -> list[Activity]:
    """The acts, latest first, that attached captures to ``job`` and were not undone. Two queries if
    there are any, else one.
    """
    acts = Activity.objects.filter(job=job, kind="capture_attached").select_related("actor").order_by("-pk")
    brought = set(itertools.chain.from_iterable(act.data.get("artifacts") or [] for act in acts))
    if not brought:
        return []
    left = set(Artifact.objects.filter(attempt__job=job, pk__in=brought).values_list("pk", flat=True))
    return [act for act in acts if left & set(act.data.get("artifacts") or [])]


def ranks_view(
    diagnosis: Diagnosis, job: dict[str, Any], table: Path, *, t0: float | None, t1: float | None
) -> dict[str, Any]:
    """The ranks × time chart of one window (whole capture by default), with the log's root events
    on its axis.
    """
    from triage.flow_tables import timeline_view  # noqa: PLC0415  # heavy: SciPy

    began = time.perf_counter()
    steps = job.get("steps") or []
    whole = (steps[0]["start"], steps[-1]["end"]) if steps else (0.0, 0.0)
    first, last = (t0 if t0 is not None else whole[0]), (t1 if t1 is not None else whole[1])
    if last <= first:
        first, last = whole
    marks = _root_marks(diagnosis.timeline or {}, first, last)
    view = timeline_view(table, first, last)
    slow = _slow_in_window(job, view["lanes"], first, last)
    names = job.get("names") or {}
    view = {**view, "lanes": [names.get(lane, lane) for lane in view["lanes"]]}
    chart = ranks_chart(view, marks[:MAX_MARKS], slow)
    spent_ms = round((time.perf_counter() - began) * 1000)
    return {**chart, "whole": [whole[0] * 1000, whole[1] * 1000], "spent_ms": spent_ms}


def _root_marks(timeline: dict[str, Any], first: float, last: float) -> list[dict[str, Any]]:
    """The log's root events between two times."""
    found = []
    for lane in timeline.get("lanes") or []:
        node = lane.get("node") or ""
        roots = [mark for mark in lane.get("marks") or [] if mark.get("role") == "root"]
        inside = [mark for mark in roots if first <= mark["t"] <= last]
        found += [{"t": mark["t"], "text": f"{node} {mark.get('event') or ''}"} for mark in inside]
    return found


def _slow_in_window(job: dict[str, Any], lanes: list[str], t0: float, t1: float) -> list[dict[str, Any]]:
    """What was slow in a window: groups on the lanes of their culprits, then runs of slow steps on
    all lanes.
    """
    number = {name: n for n, name in enumerate(lanes)}
    slow = []
    for row in job.get("diagnoses") or []:
        if row["kind"] == "slow_group" and row["t0"] < t1 and row["t1"] > t0:
            shown = {number[name] for name in row.get("culprits") or [] if name in number}
            slow.append({"t0": row["t0"], "t1": row["t1"], "text": row.get("reason", ""), "lanes": sorted(shown)})
    steps = enumerate(job.get("steps") or [], 1)
    for is_slow, run in groupby(steps, key=lambda item: bool(item[1].get("slow"))):
        if is_slow:
            numbered = list(run)
            (first, begin), (last, end) = numbered[0], numbered[-1]
            if begin["start"] < t1 and end["end"] > t0:
                what = f"step {first}" if first == last else f"steps {first} to {last}"
                slow.append({"t0": begin["start"], "t1": end["end"], "text": f"slow: {what}", "lanes": []})
    return [row for row in slow if row["lanes"] or row["text"].startswith("slow")][:MAX_MARKS]


def ports_heat(row: dict[str, Any], table: Path, *, t0: float | None, t1: float | None) -> dict[str, Any]:
    """The ports × time chart of one window, the whole capture by default."""
    from triage.flow_tables import ports_view  # noqa: PLC0415  # heavy: SciPy

    began = time.perf_counter()
    first, last = (t0 if t0 is not None else row["t0"]), (t1 if t1 is not None else row["t1"])
    if last <= first:
        first, last = row["t0"], row["t1"]
    chart = ports_chart(ports_view(table, first, last))
    return {
        **chart,
        "whole": [row["t0"] * 1000, row["t1"] * 1000],
        "spent_ms": round((time.perf_counter() - began) * 1000),
    }
