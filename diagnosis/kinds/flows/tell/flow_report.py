"""The findings as JSON: the report's ``flows`` object (``docs/flows.md`` lists every field)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl
from msgspec import UNSET

from diagnosis import thresholds
from diagnosis.kinds.flows.capture.capture import Bools, Capture, Flows, Ints, Ints32
from diagnosis.kinds.flows.capture.partitions import partition
from diagnosis.kinds.flows.jobs.pairs import BLIND_RESOLUTION_S, DP, EP, PP, clocks_disagree
from diagnosis.kinds.flows.slow.exactness import why_unclear
from diagnosis.kinds.flows.slow.slowness import SlowReport, slow_steps
from diagnosis.kinds.flows.slow.switch_rates import switch_rates
from diagnosis.kinds.flows.steps.rank_lanes import write_table
from diagnosis.kinds.flows.steps.steps import Steps
from diagnosis.kinds.flows.stopped.ceased import silent_members
from diagnosis.kinds.flows.tell.analysed import JobAnalysis
from diagnosis.kinds.flows.tell.report_rows import (
    CaptureRow,
    ClockRow,
    FlowJobRow,
    FlowReport,
    Pace,
    PairRow,
    PeerRow,
    SlowRow,
    StepRow,
    StepSeconds,
)
from diagnosis.kinds.flows.tell.suspects import suspects
from diagnosis.model import Parsed
from diagnosis.values.plain import duration

THRESHOLDS: Final = thresholds.of("tell")

#: Rows of clocks, and of groups that are compared.
MAX_CLOCKS = 256
MAX_PEERS = 200
#: What limits a capture, and its sentence; {} is the resolution of its times.
_LIMITS: Final[tuple[tuple[Callable[[Capture], bool], str], ...]] = (
    (
        lambda capture: not capture.has_bytes,
        "The records have no byte counts: the types of pairs come from timing alone; volumes and rates are unknown.",
    ),
    (
        lambda capture: not capture.places,
        "No inventory names the machines: tensor parallelism inside them and slow machines are unknown.",
    ),
    (lambda capture: not capture.paths, "The records name no switches: a slow switch looks like slow links."),
    (
        lambda capture: 1e-3 <= capture.resolution_s < 1.0,
        "Times are rounded to {}; boundaries are no more exact than that.",
    ),
    (
        lambda capture: capture.resolution_s >= BLIND_RESOLUTION_S,
        "Whole seconds do not show simultaneous transfers: the types of pairs (gradients or activations) and "
        "the sizes of groups come from byte counts alone. They are left out if these counts do not recur.",
    ),
    (
        lambda capture: len(capture.flows.different("src", len(capture.names))) == 1,
        "All records come from one address: this looks like one node's capture; other ranks are unseen.",
    ),
)


def why_not_usable(parsed: Sequence[Parsed]) -> str | None:
    """Why no timeline can be drawn from these artifacts, or None. The worst of them decides."""
    for part in parsed:
        facts = part.facts.get("flow", {})
        if not facts.get("records"):
            continue
        if facts["resolution_s"] >= 1.0 and facts["records"] > 1:
            return (
                "The times are whole seconds, so steps cannot be separated: the records show jobs and volumes "
                f"only. {_finer_times_text(str(facts['format']))}"
            )
        if facts["median_s"] > THRESHOLDS.record_s:
            return (
                f"A record covers {duration(facts['median_s'])} and holds several steps: the records show jobs "
                "and volumes only. Shorten the exporter's active timeout, or capture packets."
            )
        if facts["sampling"] > 1 and facts["longest_s"] == 0:
            rate = f"{facts['sampling']:.0f}"
            return f"One packet in {rate} was sampled: good for volumes, not for when a transfer began and ended."
    return None


def _finer_times_text(form: str) -> str:
    """How to get finer times from the exporter that wrote this form."""
    if form == "aws-vpc":
        return "VPC flow logs are never finer: capture packets on the nodes instead (tcpdump -s 96)."
    if form.startswith("nfdump"):
        return "Export with epoch milliseconds (nfdump: -o 'csv:%tsr,%ter,%tds,%sa,%da,%sp,%dp,%pr,%pkt,%byt')."
    return "Export start and duration with milliseconds or better."


def capture_panel(parsed: Sequence[Parsed]) -> list[CaptureRow]:
    """The quality of each capture: format, time zone, resolution, sampling, counts, notes."""
    rows = []
    for part in parsed:
        facts = {k: v for k, v in part.facts.get("flow", {}).items() if k != "bandwidth"}
        rows.append({"path": part.path, "skipped": part.skipped, "notes": list(part.notes), **facts})
    return rows


_NO_STEPS: Final = "No traffic in the capture repeats in steps."
_NO_TRAINING: Final = "No training traffic was recognised in the capture."


def describe(
    capture: Capture,
    jobs: list[JobAnalysis],
    fabric: list[SlowReport],
    *,
    background: float,
    panel: list[CaptureRow],
    why_not: str | None,
    tables: Path | None,
) -> FlowReport:
    """The whole object, without ports. O(members · steps + pairs), and the begun sums of switches."""
    begun_rates = switch_rates(capture)
    rows = [_job(a, n, capture, tables, fabric) for n, a in enumerate(jobs)]
    is_one_way = any(_one_way(a, len(capture.names)) for a in jobs)
    has_timeline = any(row.steps for row in rows)
    if why_not is None and not has_timeline:
        why_not = _NO_STEPS if rows else _NO_TRAINING
    cannot_tell = why_not or next((why for a in jobs if (why := _why_unclear(a))), UNSET)
    silent = [row.ceased for row in rows if row.ceased is not UNSET]
    return FlowReport(
        has_timeline=has_timeline,
        why_not=why_not,
        cannot_tell=cannot_tell,
        captures=panel,
        background=round(background, 4),
        duplicates=capture.duplicates,
        notes=capture.notes,
        clocks=[ClockRow(o.collector, round(o.seconds, 6), o.exact) for o in capture.clocks[:MAX_CLOCKS]],
        jobs=rows,
        switches=begun_rates(),
        diagnoses=[_slow_row(s, capture) for s in fabric],
        limits=_limits(capture, jobs, is_one_way=is_one_way),
        is_late_unknown=is_one_way or _clocks_disagree(jobs),
        suspects=suspects(jobs, fabric, capture, silent),
    )


def _why_unclear(a: JobAnalysis) -> str:
    if a.steps is None:
        return ""
    _, usual, _ = slow_steps(a.steps)
    return why_unclear(a.steps, usual, a.exact_s)


def _job(
    a: JobAnalysis, number: int, capture: Capture, tables: Path | None, fabric: Sequence[SlowReport] = ()
) -> FlowJobRow:
    names = capture.names
    layout = a.layout
    row = FlowJobRow(
        id=f"flows-{number + 1}",
        members=_names(a.job.members, names),
        names=capture.labels(a.job.members.tolist()),
        nodes=sorted(capture.nodes_of(a.job.members)),
        parallelism=_sizes(a),
        groups={
            "pp": [_names(group, names) for group in layout.pp_groups],
            "dp": [_names(group, names) for group in layout.dp_groups],
            "ep": [_names(group, names) for group in layout.ep_groups],
        },
        pairs=[
            PairRow(names[int(x)], names[int(y)], kind, int(n))
            for x, y, kind, n in zip(a.pairs.a, a.pairs.b, a.pairs.type, a.pairs.records, strict=True)
        ],
        how=layout.how,
        steps=[],
        diagnoses=[_slow_row(s, capture) for s in sorted(a.slow, key=lambda s: (s.t0, s.kind))],
    )
    if a.steps is not None:
        _add_steps(row, a, a.steps, capture, fabric)
        if tables is not None and a.rows is not None:
            row.table = write_table(a.rows, tables / f"{row.id}.parquet").name
    return row


def _names(members: Ints, names: Sequence[str]) -> list[str]:
    return [names[int(member)] for member in members]


def _add_steps(row: FlowJobRow, a: JobAnalysis, steps: Steps, capture: Capture, fabric: Sequence[SlowReport]) -> None:
    """What the row of a job says of its steps."""
    beyond, usual, limit = slow_steps(steps)
    is_slow = beyond | _longer_steps(steps, usual, [*a.slow, *fabric])
    row.steps = [
        StepRow(capture.at(start), capture.at(end), round(float(confidence), 3), bool(slow))
        for start, end, confidence, slow in zip(steps.start, steps.end, steps.confidence, is_slow, strict=True)
    ]
    row.step_s = StepSeconds(round(usual, 6), round(limit, 6), steps.work is not None)
    row.paced_by = Pace(steps.pace, steps.how)
    row.peers = _peer_rows(a, capture)
    row.ceased = silent_members(a.job, steps, capture)


def _longer_steps(steps: Steps, usual: float, found: Sequence[SlowReport]) -> Bools:
    """The longer steps of stretches for which somebody is named: they are slow although each is within the noise."""
    middle = (steps.start + steps.end) / 2.0
    inside = np.zeros(len(steps), dtype=bool)
    for slow in found:
        if slow.shares:
            inside |= (middle > slow.t0) & (middle < slow.t1)
    return np.asarray(inside & (steps.normalised_s > THRESHOLDS.longer * usual))


def _sizes(a: JobAnalysis) -> dict[str, int | None]:
    """tp, pp and dp; none of them where no pair's type is known."""
    if not (a.pairs.of(DP) | a.pairs.of(PP) | a.pairs.of(EP)).any():
        return {"tp": None, "pp": None, "dp": None}
    return {"tp": a.layout.tp, "pp": a.layout.pp, "dp": a.layout.dp}


def _peer_rows(a: JobAnalysis, capture: Capture) -> list[PeerRow]:
    """Comparison of groups: the worst and the overall factor of each ring's transfer times against the usual."""
    if a.transfers is None or a.transfers.cells.is_empty():
        return []
    table = (
        a.transfers.cells.group_by("unit")
        .agg(typical=pl.col("slow").median(), worst=pl.col("slow").quantile(THRESHOLDS.worst_of_peers))
        .sort("unit")
    )
    rows = []
    for unit, typical, worst in table.iter_rows():
        members = sorted(capture.names[m] for m in a.transfers.units[unit])
        rows.append(PeerRow(members, round(typical, 3), round(worst, 3)))
    return sorted(rows, key=lambda row: (-row.worst, row.members))[:MAX_PEERS]


def _slow_row(slow: SlowReport, capture: Capture) -> SlowRow:
    is_switch = slow.kind == "slow_switch"
    culprits = [*(capture.names[m] for m in slow.culprits), *slow.nodes]
    return SlowRow(
        kind=slow.kind,
        t0=capture.at(slow.t0),
        t1=capture.at(slow.t1),
        reason=slow.reason,
        factor=round(slow.factor, 3),
        confidence=round(slow.confidence, 3),
        switch=slow.switch if is_switch else UNSET,
        candidates=slow.candidates if is_switch else UNSET,
        link=slow.link or UNSET,
        members=[capture.names[m] for m in slow.members] or UNSET,
        culprits=culprits or UNSET,
        measure=slow.measure or UNSET,
        shares=slow.shares or UNSET,
        step=UNSET if slow.step is None else slow.step + 1,
    )


def _limits(capture: Capture, jobs: list[JobAnalysis], *, is_one_way: bool) -> list[str]:
    """The limits of these flows, in sentences; ``is_one_way``: of :func:`_one_way` of a job."""
    resolution = duration(capture.resolution_s)
    said = [sentence.format(resolution) for is_so, sentence in _LIMITS if is_so(capture)]
    said += _unknown_lateness(jobs, is_one_way=is_one_way)
    said += [*_limits_of_places(capture), *_limits_of_clocks(capture, jobs), *_limits_of_stages(jobs)]
    return list(dict.fromkeys(said))


def _limits_of_places(capture: Capture) -> Iterator[str]:
    if node := _common_node(capture):
        yield (
            f"Every record begins or ends at {node}: a capture of one node. Groups and sizes are what it takes part in."
        )


def _unknown_lateness(jobs: list[JobAnalysis], *, is_one_way: bool) -> Iterator[str]:
    """Why nobody knows who was late."""
    if is_one_way:
        yield (
            "No two members were seen in both directions: the capture seems to hold one direction only. Steps are "
            "those of one sender, and the late member is unknown. Export what goes in and what goes out."
        )
    elif _clocks_disagree(jobs):
        yield (
            "The collectors' clocks disagree: steps are those of one sender, and the late member is unknown. "
            "Synchronise the exporters (PTP or NTP)."
        )


def _clocks_disagree(jobs: list[JobAnalysis]) -> bool:
    return any(clocks_disagree(a.pairs) for a in jobs)


def _limits_of_clocks(capture: Capture, jobs: list[JobAnalysis]) -> Iterator[str]:
    if capture.clocks:
        worst = max(abs(o.seconds) for o in capture.clocks)
        yield (
            f"The collectors' clocks were up to {duration(worst)} off. They were put on one time axis by collectives, "
            "whose parts end together. Synchronise the exporters (PTP or NTP)."
        )
    if any(a.rough for a in jobs):
        yield (
            "Some collectors see no collective in common; between them the time is exact to a few milliseconds only, "
            "and the slow pipeline stage is unknown."
        )


def _limits_of_stages(jobs: list[JobAnalysis]) -> Iterator[str]:
    if any(a.steps is not None and a.layout.pp > 1 and a.stages is None and not a.rough for a in jobs):
        yield "A pipeline is no plain chain (interleaved stages): only the replica of a slow stage is known."


def _one_way(a: JobAnalysis, count: int) -> bool:
    """True if traffic that must go both ways (between stages, or in a ring that seems out of step) goes one way."""
    if a.layout.pp < 2 and not clocks_disagree(a.pairs):
        return False
    flows = a.job.flows
    number = a.pairs.index(flows, count)
    ways = np.zeros(2 * len(a.pairs.a), bool)
    for seen in flows.each(_directions_seen, len(a.pairs.a), beside=[number]):
        ways |= seen
    there = ways.reshape(-1, 2)
    return bool(ways.sum() > 2 and there.all(axis=1).sum() * 2 < THRESHOLDS.one_way * ways.sum())


@partition
def _directions_seen(part: Flows, number: Ints32, pairs: int) -> Bools:
    """Which of two directions of each pair has a record."""
    ways = np.zeros(2 * pairs, np.bool_)
    ways[2 * number + (part.src > part.dst)] = True
    return ways


def _common_node(capture: Capture) -> str:
    """The machine in every record; empty where there is none, or where only two exchange."""
    flows = capture.flows
    names = sorted({p.node for p in capture.places.values()} - {""})
    number = {name: i for i, name in enumerate(names)}
    of = np.array(
        [number.get(capture.places[m].node, -1) if m in capture.places else -1 for m in range(len(capture.names))]
    )
    if len(names) < THRESHOLDS.common_nodes or not len(flows):
        return ""
    for candidate in {int(of[flows.src[0]]), int(of[flows.dst[0]])} - {-1}:
        if all(((of[part.src] == candidate) | (of[part.dst] == candidate)).all() for _, part in flows.parts()):
            return names[candidate]
    return ""
