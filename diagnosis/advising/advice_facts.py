"""The facts that the rules of advice test: one row of a table a fact, over the typed parts of a
report.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Final

import msgspec

from diagnosis import taxonomy, thresholds
from diagnosis.advising.ladder import Facts, FactValue, Ladder
from diagnosis.conclusion.model import PROBLEM_CONDITIONS, Answer, symptom_of
from diagnosis.evidence import SlowFinding, StackFinding, Suspect
from diagnosis.evidence.rank_names import ranks_text
from diagnosis.records.tried import EVICTING_ACTIONS, TriedAction, tried_actions

THRESHOLDS: Final = thresholds.of("advice")


class LoggedNode(msgspec.Struct, frozen=True):
    """A node that the logs rank, or accuse."""

    node: str
    is_suspect: bool = msgspec.field(name="suspect", default=True)


class EventLine(msgspec.Struct, frozen=True):
    """Writer and time of a line."""

    node: str = ""
    at: float | None = msgspec.field(name="time", default=None)


class LoggedEvent(msgspec.Struct, frozen=True):
    """Lines of one meaning."""

    category: str = ""
    subcategory: str = ""
    signature: str = ""
    lines: tuple[EventLine, ...] = ()


class LogPart(msgspec.Struct, frozen=True):
    """What advice reads of a report's ``logs``. ``is_failure`` None: there are no logs."""

    is_failure: bool | None = None
    symptom: str = ""
    id: str = ""
    category: str = ""
    subcategory: str = ""
    confidence: float = 0.0
    nodes: tuple[LoggedNode, ...] = ()
    events: tuple[LoggedEvent, ...] = ()
    help: str = ""


class FlowPart(msgspec.Struct, frozen=True):
    """What advice reads of a report's ``flows``: what is slow in the fabric."""

    fabric: tuple[SlowFinding, ...] = msgspec.field(name="diagnoses", default=())


class JobPart(msgspec.Struct, frozen=True):
    """What advice reads of a report's ``job``. ``gpus_per_node`` 0: unknown."""

    id: str = ""
    nodes: int = 0
    node_names: tuple[str, ...] = ()
    gpus_per_node: int = 0
    scheduler: str = ""

    @property
    def node_count(self) -> int:
        return len(self.node_names) or self.nodes


class TriedRow(msgspec.Struct, frozen=True):
    """An action that was carried out without success, and the machines that it was for."""

    action: str = ""
    targets: tuple[str, ...] = ()


class AdviceEvidence(msgspec.Struct, frozen=True):
    """All that advice reads: parts of a report, its fused ``suspects``, and the actions that were tried (``tried``; a
    name alone is one without machines).
    """

    logs: LogPart = LogPart()
    flows: FlowPart = FlowPart()
    stacks: StackFinding = StackFinding()
    job: JobPart = JobPart()
    conclusion: Answer = Answer()
    suspects: tuple[Suspect, ...] = ()
    tried: tuple[str | TriedRow, ...] = ()


class Known:
    """What is known of one diagnosis, from the parts of its report and the actions that were tried without success."""

    def __init__(self, evidence: AdviceEvidence, ladder: Ladder) -> None:
        self.ladder = ladder
        self.logs = evidence.logs
        self.stacks = evidence.stacks
        self.flows = evidence.flows
        self.job = evidence.job
        self.tried: list[TriedAction] = tried_actions(map(msgspec.to_builtins, evidence.tried))
        self.conclusion = None if evidence.conclusion == Answer() else evidence.conclusion
        self._suspects = evidence.suspects

    @property
    def answer(self) -> Answer | LogPart:
        """Who says the category: the conclusion; in a report without one, the logs."""
        return self.conclusion or self.logs

    @property
    def is_failure(self) -> bool:
        if self.conclusion is not None:
            return self.conclusion.condition in PROBLEM_CONDITIONS
        return self.stacks.has_evidence if self.logs.is_failure is None else self.logs.is_failure

    @property
    def is_course_unknown(self) -> bool:
        """Whether no failure was seen, and nothing shows how the job went or ended."""
        return self.conclusion is not None and self.conclusion.condition == "unknown"

    @property
    def symptom(self) -> str:
        """People dump stacks of hung or slow jobs: without logs this alone shows the symptom."""
        shown = ""
        if self.stacks.has_evidence and self.stacks.shows_course:
            shown = "slow" if self.stacks.is_moving else "hang"
        return symptom_of(self.conclusion or Answer(), self.logs.symptom or shown)

    @property
    def has_worked(self) -> bool:
        """Whether the attempt made progress; a report without a conclusion denies it nothing. Logs
        without times date no progress, but count it.
        """
        if self.conclusion is None:
            return True
        counted = self.conclusion.moment.iteration or 0
        is_dated = "progress" in {link.what for link in self.conclusion.chain}
        return is_dated or bool(self.conclusion.slowdowns) or counted > 1

    def is_of(self, leaves: str) -> bool:
        """Whether the category is in one of the ladder's lists of leaves."""
        return self.answer.subcategory in self.ladder.leaves.get(leaves, ())

    @property
    def cause(self) -> str:
        """The title of the category; its name if it has none."""
        leaf = taxonomy.load().categories.get(self.answer.id)
        return self.answer.subcategory if leaf is None else leaf.title

    @property
    def category_advice(self) -> str:
        """What usually helps where a line states this cause, else what the taxonomy advises."""
        if self.logs.help and self.logs.id == self.answer.id:
            return self.logs.help
        leaf = taxonomy.load().categories.get(self.answer.id)
        advice = leaf and leaf.advice
        return advice or "Correct what the evidence names, then restart."

    @property
    def setup(self) -> str:
        """The first difference of set-up that is of the answer's category; empty without one."""
        links = self.conclusion.chain if self.conclusion is not None else ()
        of_setup = [link for link in links if link.what == "setup"]
        texts = [link.text for link in of_setup if link.category == self.answer.id]
        return next(iter(texts), "")

    @cached_property
    def accused(self) -> Sequence[Suspect]:
        """The accused of the conclusion; in a report without one, the fused suspects."""
        if self.conclusion is None:
            return self._suspects
        return [Suspect(row.name, row.kind, row.p) for row in self.conclusion.fault]

    @cached_property
    def targets(self) -> list[Suspect]:
        """The nodes that are more probably at fault than not."""
        return [row for row in self.accused if row.kind == "node" and row.score >= THRESHOLDS.accused]

    @property
    def accused_nodes(self) -> set[str]:
        return {row.entity for row in self.accused if row.kind == "node"}

    @property
    def nodes_of_logs(self) -> list[str]:
        """The nodes that the logs alone accuse."""
        return [row.node for row in self.logs.nodes if row.is_suspect]

    @cached_property
    def culprit_nodes(self) -> list[str]:
        if self.targets:
            return [row.entity for row in self.targets]
        return [] if self.accused or self.conclusion is not None else self.nodes_of_logs

    @property
    def suspect_score(self) -> float:
        scores = [row.score for row in self.targets]
        return max(scores, default=1.0 if self.culprit_nodes else 0.0)

    @property
    def stack_nodes(self) -> list[str]:
        named = self.stacks.suspect_nodes
        return [name for name in named if self.conclusion is None or name in self.accused_nodes]

    @property
    def switches(self) -> list[str]:
        """A switch behind a more probable machine is a doubt about that machine, not the place to act."""
        fabric = [row.entity for row in self.accused if row.kind in ("switch", "link")]
        if fabric and self.accused[0].kind in ("switch", "link"):
            return fabric
        slow = {row.switch for row in self.flows.fabric if row.kind == "slow_switch" and row.switch}
        return sorted(slow) if self.conclusion is None else []

    @property
    def evict_share(self) -> float:
        everyone = self.stacks.nodes.union(self.job.node_names)
        return len(self.stacks.evict_nodes) / max(1, len(everyone))

    @property
    def is_group_due(self) -> bool:
        group = set(self.stacks.evict_nodes)
        return bool(group) and (group <= self.accused_nodes or self.was_tried("evict"))

    @property
    def is_mismatch(self) -> bool:
        """A clean split in two, or Flight Recorder or the category says so. Several odd groups are
        a chain of waits, which a machine may cause.
        """
        if self.stacks.collectives.mismatched or self.answer.subcategory == "collective_mismatch":
            return True
        odd = [group for group in self.stacks.groups if not group.is_dominant]
        return self.stacks.rule == "mismatch" and len(odd) == 1

    @property
    def is_host_code(self) -> bool:
        odd = self.stacks.suspect_groups
        return bool(odd) and all(group.activity in ("host", "local") for group in odd)

    @property
    def has_conflict(self) -> bool:
        logged = set(self.nodes_of_logs)
        named = set(self.stacks.suspect_nodes)
        return bool(named and logged) and logged.isdisjoint(named) and logged.isdisjoint(self.stacks.evict_nodes)

    @property
    def network_alerts(self) -> int:
        """Most network alerts of one node within the window."""
        times: dict[str, list[float]] = defaultdict(list)
        for event in self.logs.events:
            for line in event.lines if self._is_network(event) else ():
                if line.node and line.at is not None:
                    times[line.node].append(line.at)
        return max((_most_within(stamps, THRESHOLDS.network_s) for stamps in times.values()), default=0)

    def _is_network(self, event: LoggedEvent) -> bool:
        """Whether the category or the signature of an event is a network leaf."""
        words = f"{event.category} {event.subcategory} {event.signature}"
        leaves = self.ladder.leaves.get("network_events", frozenset())
        return "network." in words or any(leaf in words or leaf.replace("_", ".") in words for leaf in leaves)

    def was_tried(self, action: str) -> bool:
        """Whether an action was tried without success; any eviction is one."""
        done = {tried.action for tried in self.tried}
        return action in done or (action == "evict" and bool(done & EVICTING_ACTIONS))


def _most_within(stamps: Iterable[float], window_s: float) -> int:
    """The most times within one window."""
    times = sorted(stamps)
    best = start = 0
    for end, at in enumerate(times):
        while at - times[start] > window_s:
            start += 1
        best = max(best, end - start + 1)
    return best


def _is_user_error(known: Known) -> bool:
    is_other = known.is_of("memory_errors") or known.answer.subcategory == "nan_divergence"
    return known.answer.category == "user" and not is_other


#: Each fact of :data:`diagnosis.advising.ladder.FACTS`, which says what it means.
TABLE: Final[dict[str, Callable[[Known], FactValue]]] = {
    "is_failure": lambda k: k.is_failure,
    "is_course_unknown": lambda k: k.is_course_unknown,
    "has_stacks": lambda k: k.stacks.has_evidence,
    "stack_reason": lambda k: k.stacks.reason,
    "symptom": lambda k: k.symptom,
    "category": lambda k: k.answer.category,
    "subcategory": lambda k: k.answer.subcategory,
    "cause": lambda k: k.cause,
    "category_advice": lambda k: k.category_advice,
    "is_setup": lambda k: k.setup != "",
    "setup": lambda k: k.setup,
    "is_cause_known": lambda k: k.answer.subcategory not in ("", "unknown"),
    "confidence": lambda k: k.answer.confidence,
    "is_machine_event": lambda k: k.is_of("machine_events"),
    "is_network_event": lambda k: k.is_of("network_events"),
    "is_input_error": lambda k: k.is_of("input_errors"),
    "is_space_error": lambda k: k.is_of("space_errors"),
    "is_memory_error": lambda k: k.is_of("memory_errors"),
    "is_user_error": _is_user_error,
    "has_worked": lambda k: k.has_worked,
    "is_to_look_up": lambda k: k.is_of("look_first"),
    "is_refusal": lambda k: k.is_of("refusals"),
    "is_outside": lambda k: k.is_of("outside"),
    "is_nan": lambda k: k.answer.subcategory in ("nan_divergence", "silent_data_corruption"),
    "is_silent": lambda k: k.symptom in ("hang", "slow"),
    "is_host_code": lambda k: k.is_host_code,
    "is_mismatch": lambda k: k.is_mismatch,
    "network_alerts": lambda k: k.network_alerts,
    "culprit_nodes": lambda k: k.culprit_nodes,
    "culprit_ranks": lambda k: [f"rank {row.entity}" for row in k.accused if row.kind == "rank"],
    "suspect_score": lambda k: k.suspect_score,
    "stack_suspects": lambda k: list(k.stacks.suspect_ranks),
    "stack_who": lambda k: ranks_text(k.stacks.suspect_ranks),
    "stack_nodes": lambda k: k.stack_nodes,
    "evict_nodes": lambda k: list(k.stacks.evict_nodes),
    "is_group_due": lambda k: k.is_group_due,
    "evict_share": lambda k: k.evict_share,
    "switches": lambda k: k.switches,
    "has_conflict": lambda k: k.has_conflict,
    "has_tie": lambda k: bool(k.stacks.tie),
    "tried_evict": lambda k: k.was_tried("evict"),
    "tried_stop_time_check": lambda k: k.was_tried("stop_time_check"),
    "tried_reattempt": lambda k: k.was_tried("reattempt"),
    "tried_rollback": lambda k: k.was_tried("rollback"),
}


def facts_of(known: Known) -> Facts:
    """All facts about one diagnosis, by their names."""
    return {name: read(known) for name, read in TABLE.items()}


def machines_in(facts: Facts, name: str) -> list[str]:
    """The machines or switches that one fact names; none if it names none."""
    value = facts.get(name)
    return [str(machine) for machine in value] if isinstance(value, list) else []
