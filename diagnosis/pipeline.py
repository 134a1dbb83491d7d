"""``diagnose`` makes one :class:`Diagnosis` from all evidence of one job. Pure: no clock, no settings, no state."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec.structs import replace

from diagnosis import thresholds
from diagnosis.advising.advice import advise
from diagnosis.advising.advice_facts import AdviceEvidence, FlowPart, JobPart, LogPart
from diagnosis.conclusion import next_check, slowdowns
from diagnosis.conclusion.conclude import conclude
from diagnosis.conclusion.conclusion_records import report_of as conclusion_report
from diagnosis.conclusion.model import Answer, Conclusion
from diagnosis.conclusion.sentences.reasons import reasons
from diagnosis.evidence import NO_FACTS, Fact, FlowFinding, Result, StackFinding, decode, inventory
from diagnosis.evidence.inventory import Inventory
from diagnosis.facts import fact_table, setups, trends, unevenness
from diagnosis.files import alike_texts
from diagnosis.files.input_rows import QuietTexts, input_rows, read_quiet_texts
from diagnosis.files.unread_files import MAX_NAMED_FILES, unread_sentences
from diagnosis.history import History, JobEvents
from diagnosis.joining import checked_suspects, joined_suspects, logs_or_stacks
from diagnosis.joining.job_description import describe_job
from diagnosis.kinds import checks, kind_table, stacks, states
from diagnosis.kinds.flows.layout.stated import StatedLayout, machines_of
from diagnosis.kinds.logs.causes.failure_facts import Given
from diagnosis.kinds.logs.classifying.classify_model import Model, starter
from diagnosis.kinds.logs.decide import attempts
from diagnosis.kinds.logs.meaning import signatures
from diagnosis.kinds.logs.meaning.signatures import SignatureSet
from diagnosis.model import Aside, JobHints, Kind, OnStage, Parsed, ReadRange, Runner, ignore_progress
from diagnosis.processing import faults
from diagnosis.processing.budgets import Alarm, Budgets
from diagnosis.records.advice_records import Advice
from diagnosis.records.report_records import HistoryRow, JobRow
from diagnosis.records.result import NO_LOGS, LogDiagnosis
from diagnosis.report import Diagnosis, logs_report

if TYPE_CHECKING:
    from diagnosis.kinds.flows.tell.report_rows import FlowReport
    from diagnosis.kinds.stacks.blame.stack_report import StackReport

THRESHOLDS: Final = thresholds.of("slowdowns")

log = logging.getLogger(__name__)

ENGINE: Final = "0.3.0"
#: A capture that ends before this second since the epoch (1973) has a clock of its own.
_FIRST_DATED_S: Final = 1e8
_HALF_DAY_S: Final = 43_200.0


def diagnose(
    parsed: Sequence[Parsed],
    *,
    job: JobHints | None = None,
    history: History | None = None,
    as_of: float | None = None,
    read: ReadRange,
    on_stage: OnStage = ignore_progress,
    rules: SignatureSet | None = None,
    model: Model | None = None,
    tables: Path | None = None,
    scratch: Path | None = None,
    min_gpu_s: float = slowdowns.THRESHOLDS.lost_gpu_s,
    runner: Runner | None = None,
    without: frozenset[str] = frozenset(),
    aside: Aside = partial,
    alarm: Alarm | None = None,
    left_out: Collection[str] = (),
) -> Diagnosis:
    """Diagnose one job.

    Args:
        parsed: all artifacts of the job, in any order.
        job: facts from a person or a file.
        history: healthy jobs for comparison.
        as_of: seconds since the epoch at which the evidence was taken; default: its own last time.
        read: raw bytes of an artifact by path, offset, length.
        rules: signatures, users' own included; default: the built-in ones.
        model: the learned part of classification; default: the one that ships.
        min_gpu_s: GPU-seconds beyond the usual from which a slowdown is reported.
        tables: directory for tables too large for the report (each rank's phases in each flow step); default: none.
        scratch: directory for flow records that are too many for memory; default: ``tables``, without these memory.
        runner: does parts of the analysis of many flow records in other processes; default: this one does all.
        without: ids of detectors and fallbacks of the logs, and of mechanisms of the flows (stragglers), that are
        switched off, to measure the contribution of each.
        aside: does a long step of the logs beside this process; default: this process does all.
        alarm: ends a stage that takes longer than its budget; default: none has a budget.
        left_out: stages that are not done, because they ended the process of an earlier try.

    Deterministic. Memory depends on the number of different (writer, message) pairs, time on the number of lines.
    """
    hints = job or JobHints()
    pool = history or History()
    every, outputs = parsed, read_reports(parsed, read)
    parsed = _without_outputs(parsed, outputs)
    decided = states.read_decided(parsed, read)
    parsed = _without_paths(parsed, decided)
    known = replace(inventory.read(parsed, hints), node_of_pod=states.nodes_of_pods(every))
    given = Given(
        inventory=known,
        hints=hints,
        read=read,
        history=pool,
        rules=rules or signatures.load(),
        model=model or starter(),
        as_of=as_of,
        near=_dated_by_flows(parsed),
        on_stage=on_stage,
        without=without,
        aside=aside,
        budgets=(budgets := Budgets(parsed, alarm, left_out)),
    )
    logs = budgets.run("logs", lambda: attempts.diagnose_logs(parsed, given), None, is_part=True)
    texts = read_quiet_texts(parsed, logs, read, decided)
    found_bad = states.analyse(list(texts.laid_out.values()))
    logs = _unless_reports(logs, texts, found_bad)
    on_stage("stacks", 0, 1)
    stack_report, stack_finding = _run_guarded(
        "stack dumps", lambda: _stacks(parsed, known, logs, on_stage), stacks.finding_of, budgets
    )
    on_stage("flows", 0, 1)
    flow_report, flow_finding = _run_guarded(
        "network flows",
        lambda: _flows(parsed, known, on_stage, tables=tables, scratch=scratch, runner=runner, without=without),
        lambda report: decode(report, FlowFinding),
        budgets,
    )
    logs = logs_or_stacks.with_other_evidence(logs, stack_finding, flow_finding)
    of_flows = joined_suspects.of_flows(flow_finding, logs)
    suspects = joined_suspects.fuse([*joined_suspects.of_logs(logs), *of_flows, *stack_finding.suspects])
    seen = logs or NO_LOGS
    alike = alike_texts.stated_facts(texts.quiet, read)
    stated = [*kind_table.facts(every), *seen.stated]
    layout = stack_report.layout if stack_report else None
    described = describe_job(known, hints, logs, layout, flow_finding, stated)
    machines = dict.fromkeys(described.node_names, "node")
    results = checks.with_targets(outputs, checked_suspects.checked_places(suspects) | machines)
    healthy = pool.last_of(hints.family, exclude=hints.job_id or known.job_id)
    results += _differences(stated, every, logs, healthy)
    results += found_bad
    shown = [*stated, *alike, *kind_table.facts(list(texts.laid_out.values()))]
    facts = budgets.run("facts", lambda: fact_table.summarise(shown, tables, seen.measures), None, is_part=True)
    suspects = checked_suspects.update_suspects(suspects, results)
    concluded = conclude(
        logs,
        flow_finding,
        stack_finding,
        suspects,
        hints=hints,
        gpus=described.gpus,
        min_gpu_s=min_gpu_s,
        results=results,
        facts=facts or NO_FACTS,
    )
    reports = (logs, flow_report, stack_report)
    advice = make_advice(logs, flow_finding, stack_finding, concluded, described) if any(reports) else None
    offered = next_check.choose_checks(
        checks.load(),
        concluded.condition,
        concluded.alternatives,
        concluded.fault,
        concluded.seen,
        results,
        has_stacks=stack_finding.has_evidence,
    )
    return Diagnosis(
        engine=ENGINE,
        inputs=input_rows(every, texts, seen, {path for path, _ in alike}),
        job=described,
        headline=concluded.sentence,
        logs=logs,
        flows=flow_report and flow_report.without_suspects(),
        stacks=stack_report and stack_report.without_suspects(),
        suspects=suspects,
        conclusion=conclusion_report(replace(concluded, advice=advice, checks=offered)),
        advice=advice,
        missing=(*budgets.told, *_missing(parsed, logs, list(texts.unread.values()))),
        observed=seen.observed,
        inferred=_inferred(concluded, logs, results),
        clocks=seen.clocks,
        history=HistoryRow(pool.digest if pool.jobs else None, len(pool.jobs)),
        facts=facts,
    )


def _unless_reports(logs: LogDiagnosis | None, texts: QuietTexts, found_bad: Sequence[Result]) -> LogDiagnosis | None:
    """None if all that looked like logs are reports, and they tell of something."""
    return None if found_bad and texts.are_all_logs else logs


def _inferred(concluded: Conclusion, logs: LogDiagnosis | None, results: Sequence[Result]) -> tuple[str, ...]:
    """What follows from the evidence, in sentences."""
    return (
        *reasons(concluded, logs),
        *(logs.inferred if logs else ()),
        *(result.sentence for result in results),
        *(one.text for one in concluded.disagreements),
    )


def _differences(
    stated: Sequence[tuple[str, Fact]],
    parsed: Sequence[Parsed],
    logs: LogDiagnosis | None,
    healthy: JobEvents | None,
) -> list[Result]:
    """Nodes compared with nodes and with the last healthy job, and places in the same steps. Where
    the logs name the cause of a failure, these are remarks that accuse nobody.
    """
    found = [*(logs.shown if logs else ()), *setups.compare_nodes(stated)]
    if not any(fact.place.name for _, fact in stated):
        found += setups.compare_files(kind_table.facts(parsed))
    if healthy is not None:
        found += setups.compare_with_healthy(stated, healthy.setup, healthy.job_id)
    shown = kind_table.measures(parsed)
    measures = [*shown, *(logs.measures if logs else ())]
    found += unevenness.compare_places(measures)
    found += trends.find_drops(shown)
    found += trends.find_trends(measures)
    return [result.as_remark() for result in found] if logs_or_stacks.has_cause(logs) else found


def read_reports(parsed: Sequence[Parsed], read: ReadRange) -> list[Result]:
    """What state reports and the outputs of checks show: bad values, else the outcome of the check."""
    bad = kind_table.analyse(parsed)
    judged = {result.path for result in bad}
    return bad + [result for result in checks.read_results(parsed, read) if result.path not in judged]


def _without_paths(parsed: Sequence[Parsed], paths: Collection[str]) -> list[Parsed]:
    return [one for one in parsed if one.path not in paths]


def _without_outputs(parsed: Sequence[Parsed], outputs: Sequence[Result]) -> list[Parsed]:
    """The artifacts that are no output of a check. A log with reports between its lines stays."""
    read = {output.path for output in outputs}
    return [part for part in parsed if part.path not in read or states.holds_reports(part)]


def _run_guarded[R, F](
    what: str, analyse: Callable[[], R | None], finding_of: Callable[[R | None], F], budgets: Budgets
) -> tuple[R | None, F]:
    """What the analysis of one kind of evidence found: for pages, and as a finding. An error in it must not stop the
    others: it is reported with its place in the code.
    """

    def run() -> tuple[R | None, F]:
        report = analyse()
        return report, finding_of(report)

    nothing: tuple[R | None, F] = None, finding_of(None)
    try:
        return budgets.run(what, run, nothing, is_part=True)
    except faults.MemoryLimitReached as error:
        budgets.told.append(f"The {what} were not analysed. {error}")
        return nothing
    except BaseException as error:
        if faults.is_of_machine(error) or not faults.is_fault(error):
            raise
        log.exception("the analysis of the %s failed", what)
        budgets.told.append(f"The {what} could not be analysed ({faults.error_text(error)}); please report this file.")
        return nothing


def _dated_by_flows(parsed: Sequence[Parsed]) -> float | None:
    """Half a day after the flows of the job end: logs that end near it end before. None without dates."""
    stated = [p.facts.get("flow", {}).get("t1") or 0.0 for p in parsed if p.kind == Kind.FLOW]
    ends = [at for at in stated if at > _FIRST_DATED_S]
    return max(ends) + _HALF_DAY_S if ends else None


def _stacks(
    parsed: Sequence[Parsed], known: Inventory, logs: LogDiagnosis | None, on_stage: OnStage
) -> StackReport | None:
    if not any(p.kind == Kind.STACK for p in parsed):
        return None
    return stacks.diagnose_stacks(
        parsed,
        layout=dict(known.layout) or None,
        nodes=[machine.node for machine in known.machines if machine.node],
        framework=known.framework,
        world_size=known.world_size,
        protocol=logs.protocol if logs else (),
        on_stage=on_stage,
    )


def _flows(
    parsed: Sequence[Parsed],
    known: Inventory,
    on_stage: OnStage,
    *,
    tables: Path | None,
    scratch: Path | None,
    runner: Runner | None,
    without: frozenset[str],
) -> FlowReport | None:
    flow_files = [p for p in parsed if p.kind == Kind.FLOW]
    if not flow_files:
        return None
    from diagnosis.kinds.flows.tell import engine  # noqa: PLC0415  # heavy: polars, SciPy

    home = known.nodes_of_ranks()
    ranks = defaultdict(list)
    for rank, node in sorted(home.items()):
        ranks[node].append(rank)
    addressed = [machine for machine in known.machines if machine.address]
    machines = [msgspec.structs.replace(one, ranks=tuple(ranks[one.node])) for one in addressed]
    return engine.diagnose_flows(
        flow_files,
        inventory=machines,
        stated=_stated_layouts(parsed, known, home),
        on_stage=on_stage,
        tables=tables,
        scratch=scratch,
        runner=runner,
        without=without,
    )


def _stated_layouts(parsed: Sequence[Parsed], known: Inventory, home: Mapping[int, str]) -> list[StatedLayout]:
    """What the jobs' own words say of their layouts: of several described jobs each one's command lines, else the
    description, the command line and what the logs print.
    """
    if len(known.jobs) > 1:
        plans = [(places, stacks.find_layout((), commands, None)) for places, commands in known.jobs]
    else:
        given = dict(known.layout) or None
        plan = stacks.find_layout(parsed, known.commands, given, known.framework, known.world_size)
        plans = [(frozenset(), plan)]
    found = []
    for places, plan in plans:
        # of several jobs it is not known whose ranks these are
        is_sure = plan.is_known and not plan.assumptions and not places
        groups = {kind: machines_of(plan.groups(kind), home) for kind in ("pp", "dp") if is_sure}
        found.append(StatedLayout(dict(plan.sizes), plan.world_size, {k: g for k, g in groups.items() if g}, places))
    return found


def make_advice(
    logs: LogDiagnosis | None, flows: FlowFinding, stacks: StackFinding, concluded: Conclusion, job: JobRow
) -> Advice:
    """The advice for a conclusion."""
    evidence = AdviceEvidence(
        logs=decode(logs_report(logs) if logs else None, LogPart),
        flows=FlowPart(flows.fabric),
        stacks=stacks,
        job=decode(job, JobPart),
        conclusion=decode(conclusion_report(concluded), Answer),
    )
    return advise(evidence)


_NO_LOGS: Final = "No log lines were found, so stage, iteration and end of the job are unknown."


def _missing(parsed: Sequence[Parsed], logs: LogDiagnosis | None, unread: Sequence[Parsed]) -> tuple[str, ...]:
    out = list(logs.missing) if logs else [_NO_LOGS]
    skipped = [p for p in parsed if p.skipped and p.bytes]
    out += [f"{p.path} was not used: {p.skipped}" for p in skipped[:MAX_NAMED_FILES]]
    if len(skipped) > MAX_NAMED_FILES:
        out.append(f"{len(skipped) - MAX_NAMED_FILES} more files were not used.")
    folded = [p for p in parsed if p.facts.get("folded_lines")]
    if folded:
        lines = sum(int(p.facts["folded_lines"]) for p in folded)
        also = f" and {len(folded) - 1} more files" if len(folded) > 1 else ""
        out.append(
            f"{folded[0].path}{also} holds too many different messages: {lines:,} lines were compared by their first "
            "words only."
        )
    out += unread_sentences(unread)
    return tuple(out)
