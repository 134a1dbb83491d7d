"""The sentences of the logs: observations, inferences, and missing evidence."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Iterable, Sequence, Set
from itertools import chain
from typing import Final

from diagnosis import thresholds
from diagnosis.kinds.logs.causes.case import Case
from diagnosis.kinds.logs.causes.phase import Moment
from diagnosis.kinds.logs.causes.root_events.fallbacks import line_to_read
from diagnosis.kinds.logs.decide.locate import Place
from diagnosis.kinds.logs.meaning.signatures import Signature, Strength
from diagnosis.kinds.logs.rows import messages
from diagnosis.records.result import LogEvent
from diagnosis.values import quotes
from diagnosis.values.plain import counted, times_as_long

LIMITS: Final = thresholds.limits("sentences")

THRESHOLDS: Final = thresholds.of("sentences")

_SCOPES: Final = {"family": "the same family", "framework": "the same framework", "all": "all families"}
_KERNEL_LINE: Final = r"\bkernel: |\bdmesg: |^\[[A-Z ][^\]]{10,26}\] \w"
#: Beginnings of the categories that people mend without a change of machines.
_MENDED: Final = ("user.", "platform.")
_ONE_NODE: Final = "Logs of one node only: nodes cannot be compared. Upload the logs of the other nodes."
_NO_NODE: Final = (
    "The logs do not say which node wrote them: nodes cannot be compared. Give an inventory or one file a node."
)
_NO_TIME: Final = "No line has a time stamp: order was taken from line numbers, and durations are unknown."
_NO_PROGRESS: Final = (
    "No progress lines (iteration, step, epoch) were found: hangs and slowdowns cannot be seen in the logs."
)
_IN_PART: Final = (
    "{count:,} long messages hold the words of very many rules: only the first of these rules were tried. "
    "Leave out the files that are no logs."
)
_CUT: Final = (
    "The logs hold more different messages than can be compared. Compared are the {most:,} most frequent "
    "with a code, a warning or an error, and as many others. Leave out the files that are no logs."
)


def observed_facts(case: Case, when: Moment, where: Place, roots: Sequence[LogEvent]) -> tuple[str, ...]:
    """Only facts that are in the evidence."""
    out = [_root_sentence(case, same) for same in _by_rule(roots)[: LIMITS.meanings]]
    out += _last_progress(case)
    if when.silence_s is not None and when.silence_s > 1:
        usual = f"; progress lines come every {case.pace.usual_s:.1f} s" if case.pace.usual_s else ""
        out.append(f"Between the last progress and the first sign of the end lie {when.silence_s:,.0f} s{usual}.")
    out += _slowdown(case)
    suspects = [node for node in where.nodes if node.is_suspect]
    for node in suspects[: LIMITS.shown]:
        out += node.reasons[: LIMITS.reasons]
    return tuple(dict.fromkeys(out))


def _last_progress(case: Case) -> list[str]:
    if case.progress.last is None:
        return []
    return [f"The last {case.progress.kind} that the logs show is {case.progress.last:,}."]


def _slowdown(case: Case) -> list[str]:
    """The slowdown that lasts to the end."""
    since = case.pace.slow_from
    if since is None:
        return []
    return [f"From iteration {since:,} on an iteration takes {times_as_long(case.pace.ratio)} as before."]


def _by_rule(roots: Sequence[LogEvent]) -> list[list[LogEvent]]:
    """Root events in groups: those that one rule knows say the same in several wordings."""
    groups: dict[str, list[LogEvent]] = defaultdict(list)
    for event in roots:
        groups[event.signature or f"event {event.id}"].append(event)
    return list(groups.values())


def _root_sentence(case: Case, same: Sequence[LogEvent]) -> str:
    """Root events of one meaning in a clause: how many lines, on which nodes, the first."""
    lead = same[0]
    count = sum(event.count for event in same)
    lines = counted(count, "line", "lines")
    wordings = f" in {len(same)} wordings" if len(same) > 1 else ""
    meaning = case.meaning(lead.signature or "", lead.example, lead.template)
    named = f"{meaning}: " if meaning else ""
    return f"{named}{lines}{wordings} {_nodes_text(same)}{_first_line_text(same)}"


def _nodes_text(same: Sequence[LogEvent]) -> str:
    names = set(itertools.chain.from_iterable(event.node_names for event in same))
    nodes = max(len(names), *(event.nodes for event in same))
    return f"on {nodes} of {same[0].of_nodes} nodes" if nodes else "by a writer of unknown node"


def _first_line_text(same: Sequence[LogEvent]) -> str:
    firsts = list(chain.from_iterable((event.writers or event.lines)[:1] for event in same))
    if not firsts:
        return ""
    first = min(firsts, key=lambda line: math.inf if line.at is None else line.at)
    return f", first at {first.file}:{first.line}"


def _some(names: Iterable[str], most: int) -> str:
    """The first of these names; with a mark if there are more."""
    every = list(names)
    more = " …" if len(every) > most else ""
    return ", ".join(every[:most]) + more


def odd_iterations(iterations: Sequence[tuple[int, float]]) -> tuple[str, ...]:
    """The few iterations that differ most from those before them."""
    odd = _aperiodic(iterations)
    if not odd:
        return ()
    worst = sorted(odd, key=lambda row: (-row[1], row[0]))[: LIMITS.odd]
    shown = ", ".join(f"{n:,}" for n, _ in sorted(worst))
    return (f"Iterations whose lines differ from those of the ten before: {shown}.",)


def _aperiodic(iterations: Sequence[tuple[int, float]]) -> list[tuple[int, float]]:
    """Without those that recur at one distance, as evaluations and checkpoints do."""
    numbers = {n for n, _ in iterations}
    rhythm: set[int] = set()
    if len(numbers) <= LIMITS.rhythm_most:
        pairs = itertools.combinations(sorted(numbers), 2)
        steps = {later - earlier for earlier, later in pairs} - {1}
        for step in sorted(steps):
            recurring = _recurring(numbers, step)
            rhythm = recurring if len(recurring) > max(len(rhythm), THRESHOLDS.periods) else rhythm
    return [(n, score) for n, score in iterations if n not in rhythm]


def _recurring(numbers: Set[int], step: int) -> set[int]:
    """The numbers with a neighbour at this distance, of the phase that most of them have."""
    phases: dict[int, set[int]] = defaultdict(set)
    for n in numbers:
        if not numbers.isdisjoint((n - step, n + step)):
            phases[n % step].add(n)
    return max((phases[phase] for phase in sorted(phases)), key=len, default=set())


def inferred_facts(case: Case, when: Moment, roots: Sequence[LogEvent]) -> tuple[str, ...]:
    """What the logs alone imply, each with its basis; cause and culprits are the conclusion's."""
    out = []
    if when.symptom == "hang":
        out.append("It is a hang: progress stopped long before anything ended, and no process had died by then.")
    if not roots:
        out.append(f"No line of the logs names a cause; {_basis_without_cause(case)}.")
    return (*out, *_known_help(case, roots), *_history(case))


def help_of(case: Case, roots: Sequence[LogEvent], category: str) -> str:
    """What the first decisive rule of this category advises, of those that matched a root line."""
    rules = [case.rules.rules[event.signature] for event in roots if event.signature]
    decisive = (rule for rule in rules if rule.strength is Strength.DECISIVE)
    return next((rule.advice for rule in decisive if rule.category == category), "")


def _known_help(case: Case, roots: Sequence[LogEvent]) -> list[str]:
    """What the rules of the root lines advise, where people mend the cause themselves: a setting,
    code, a quota. The advice about machines comes from the ladder alone (``diagnosis.advising.advice``).
    """
    rules = [case.rules.rules[event.signature] for event in roots if event.signature]
    advice = [rule.advice for rule in rules if _is_mended_by_people(rule)]
    return [f"What usually helps: {text}" for text in dict.fromkeys(advice)][: LIMITS.meanings]


def _is_mended_by_people(rule: Signature) -> bool:
    return rule.strength is Strength.DECISIVE and rule.category.startswith(_MENDED)


def _basis_without_cause(case: Case) -> str:
    """What an answer rests on, if no line names a cause."""
    event = line_to_read(case, case.roots.scores)
    if event is None:
        return "their answer rests on silence, order and agreement between nodes"
    row = case.event(event)
    clause = quotes.informative_clause(quotes.quote(row.example, row.template, LIMITS.clause_from))
    first = f", first “{clause}”" if clause else ""
    return f"they only show consequences{first}"


def _history(case: Case) -> list[str]:
    """What the comparison with healthy jobs left out."""
    out = []
    jobs, older = len(case.pool.jobs), case.pool.left_out
    if jobs:
        out.append(f"Messages that healthy jobs print too were left out ({jobs} jobs of {_SCOPES[case.pool.scope]}).")
    if older:
        print_ = counted(older, "healthy job prints", "healthy jobs print")
        out.append(f"{print_} other messages, as before an upgrade or a change of the log format, and did not count.")
    return out


def healthy_facts(case: Case) -> tuple[str, ...]:
    """The sentences about a job without failure. Slow steps that passed are the conclusion's: flows
    may show them too, with their own numbers.
    """
    ended = f"Outcome: {case.ending.outcome}, because {case.ending.reason}."
    return (ended, *_last_progress(case), *_slowdown(case))


def missing_evidence(case: Case) -> tuple[str, ...]:
    """Evidence that would have made the answer surer."""
    table = case.table
    nodes = case.catalogue.nodes
    has_times = not table.spans["first_at"].drop_nulls().is_empty()
    ranks = case.inventory.world_size or 0
    rows = (
        (len(nodes) == 1 and ranks > LIMITS.ranks_of_node, _ONE_NODE),
        (not nodes, _NO_NODE),
        (not has_times, _NO_TIME),
        (not case.has_progress, _NO_PROGRESS),
    )
    told = [text for is_so, text in rows if is_so]
    out = [*_absent_logs(case), *_comparison(case), *told, *_earlier_launches(case)]
    if table.is_cut:
        out.append(_CUT.format(most=messages.MAX_MESSAGES))
    if case.catalogue.in_part:
        out.append(_IN_PART.format(count=case.catalogue.in_part))
    if len(nodes) > 1 and table.messages.filter(table.says(_KERNEL_LINE)).is_empty():
        out.append("No kernel logs: faults of GPUs, links and memory that processes do not report stay unseen.")
    return tuple(out)


def _absent_logs(case: Case) -> list[str]:
    nodes = case.catalogue.nodes
    expected = case.inventory.nodes or case.hints.nodes
    absent = sorted(set(expected).difference(nodes))
    if not absent or not nodes:
        return []
    shown = _some(absent, LIMITS.nodes)
    return [
        f"No logs of {len(absent)} of {len(expected)} nodes: {shown}. Upload them, or take their absence as a clue."
    ]


def _comparison(case: Case) -> list[str]:
    """Whether there are too few healthy jobs to compare with."""
    jobs, scope = len(case.pool.jobs), case.pool.scope
    if not jobs:
        return [
            "There is no healthy job to compare with: some of these messages may be ordinary. Upload "
            "healthy runs of this family."
        ]
    if scope == "family":
        return []
    return [f"Too few healthy jobs of this family; compared with {jobs} of {_SCOPES[scope]}."]


def _earlier_launches(case: Case) -> list[str]:
    return [
        f"{case.table.files[file]} holds several launches one after another: only the last one, from line {line:,} on, "
        "was diagnosed."
        for file, line in sorted(case.table.begun.items())[: LIMITS.launches]
    ]
