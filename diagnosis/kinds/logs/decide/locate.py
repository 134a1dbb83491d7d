"""Finds who is at fault, by ordered rules over the clues of the detectors. The first rule with an answer decides;
"nobody" is a full answer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

import msgspec
import polars as pl
from msgspec.structs import replace

from diagnosis import taxonomy, thresholds
from diagnosis.evidence import Suspect
from diagnosis.kinds.logs.causes.case import LOST_HOST, Case
from diagnosis.kinds.logs.causes.root_events import fallbacks, roots
from diagnosis.kinds.logs.compare import clues as weighing
from diagnosis.kinds.logs.compare import detectors
from diagnosis.kinds.logs.compare.clues import Clue
from diagnosis.kinds.logs.meaning.catalogue import EventRow
from diagnosis.kinds.logs.meaning.signatures.model import Strength
from diagnosis.model import Role
from diagnosis.records.result import NodeSuspect
from diagnosis.taxonomy import Category
from diagnosis.values import stats

THRESHOLDS: Final = thresholds.of("locate")
LIMITS: Final = thresholds.limits("locate")

SWITCH_DOWN: Final = "network.link_down"
#: The only cause without a culprit that may be of one machine: a check or a start that failed there.
SCHEDULER_ERROR: Final = "platform.scheduler.error"


class Place(msgspec.Struct, frozen=True):
    """``nodes`` ranked, ``answer`` the sentence over all of them, ``culprits`` other than nodes (a switch, ranks,
    code), ``mechanism`` a category that follows from structure alone, ``clues`` all clues."""

    nodes: tuple[NodeSuspect, ...]
    answer: str
    culprits: tuple[Suspect, ...] = ()
    mechanism: str = ""
    clues: tuple[Clue, ...] = ()


def locate(case: Case, category: str) -> Place:
    """The place of the fault, given the category that the root events alone suggest."""
    cause = taxonomy.load().get(category)
    rule = case.rules.rule(case.lead.signature or "")
    if rule is not None and rule.blames:
        cause = replace(cause, blames=rule.blames)
    answers = (answer(case, cause) for answer in _RULES)
    return next(place for place in answers if place is not None)


def _without_failure(case: Case, cause: Category) -> Place | None:
    is_well = case.ending.outcome in ("succeeded", "running") and case.pace.slow_from is None
    if case.roots.members or not is_well:
        return None
    return Place((), "no failure, so nobody is at fault")


def _decided_outside(case: Case, cause: Category) -> Place | None:
    """A decision of the scheduler; a launcher's stop has another reason."""
    is_stop = case.roots.by == fallbacks.LAUNCHER_STOPPED
    if is_stop or cause.blames != "nobody" or _is_of_one(case, cause):
        return None
    return Place((), "no faulty node: the cause is outside the nodes")


def _shared(case: Case, cause: Category) -> Place | None:
    """A sure fault of what all machines share."""
    is_of_one = len(case.roots.nodes) == 1
    if is_of_one or "shared" not in cause.traits or not case.is_sure:
        return None
    return Place((), "no faulty node: the fault is in what the machines share")


def _of_the_program(case: Case, cause: Category) -> Place | None:
    """A sure fault of the program whose lines name no machine."""
    if cause.root != "user" or not case.is_sure:
        return None
    if case.roots.nodes or case.nodes_of(case.roots.members):
        return None
    return Place((), "no faulty node: an error of the program, and its lines name no node")


def _named_lost(case: Case, cause: Category) -> Place | None:
    """All machines named as lost, unless these are most: then something that all share failed."""
    names = _named_nodes(case)
    is_of_host = cause.id.startswith("hardware.host")
    if not is_of_host or len(names) < 2 or case.roots.nodes:  # one has the rules below
        return None
    total = max(case.total, len(case.inventory.nodes or case.hints.nodes))
    if 2 * len(names) > total:
        return None
    why = f"is one of {len(names)} nodes that this names: {case.in_words(case.lead)}"
    sure = weighing.THRESHOLDS.sure
    clues = [Clue(name, sure, f"{name} {why}", detector="cause") for name in names]
    return _rank_clues(case, clues, may_accuse=True)


def _is_of_one(case: Case, cause: Category) -> bool:
    """Whether a check or a start of the job failed on one of its machines, and the lines name it."""
    named = case.roots.nodes or _named_nodes(case)
    return cause.id == SCHEDULER_ERROR and len(named) == 1 and case.total > 1


def _only_node(case: Case, cause: Category) -> Place | None:
    """The one machine that the evidence knows, if a decisive line is about it, or one that says
    that another process ended there: there is no other to compare with.
    """
    is_of_machine = cause.root == "hardware" and cause.blames == "machine"
    roots_of_it = [row for row in map(case.event, case.roots.members) if row.category == cause.id]
    sure = [row for row in roots_of_it if _is_sure_of_machine(row)]
    if not is_of_machine or not sure:
        return None
    stated = case.nodes_of(case.roots.members).union(_named_nodes(case))
    known = stated.union(case.catalogue.nodes, case.inventory.nodes, case.hints.nodes)
    if len(known) != 1 or not stated:
        return None
    (node,) = stated
    why = f"{node} is the only node of this evidence, and a line reports it: {case.in_words(sure[0])}"
    clue = Clue(node, weighing.THRESHOLDS.sure, why, detector="cause")
    return _rank_clues(case, [clue], may_accuse=True)


def _is_sure_of_machine(row: EventRow) -> bool:
    is_told_elsewhere = re.search(roots.ENDED_ELSEWHERE, row.example) is not None
    return row.strength == Strength.DECISIVE or is_told_elsewhere


def _on_most_nodes(case: Case, cause: Category) -> Place | None:
    """A sure error of most nodes accuses none of them; below one switch it accuses the switch."""
    is_sure_of_most = case.roots.is_wide and case.is_sure
    if not is_sure_of_most or _is_reported(case, cause):
        return None
    seen = sorted(case.nodes_of(case.roots.members))
    leaf = weighing.shared_leaf(seen, case.inventory.leaf_of)
    if leaf and cause.matter == "link":
        return _below_switch(case, seen, leaf)
    if not seen:
        return Place((), "no faulty node: the same error comes from many writers, and none of them names its node")
    return Place((), f"no faulty node: {len(seen)} of {case.total} nodes show the same error")


def _below_switch(case: Case, seen: Sequence[str], leaf: str) -> Place:
    """The switch that all nodes with an error of their links hang on."""
    reason = f"{len(seen)} nodes below {leaf} report it: {case.in_words(case.lead)}"
    hangs = (f"hangs on {leaf}, which its neighbours complain about too",)
    nodes = tuple(NodeSuspect(node, weighing.THRESHOLDS.accused, False, hangs) for node in seen)
    switch = Suspect(leaf, "switch", THRESHOLDS.switch, ("logs",), (reason,))
    return Place(nodes, f"a switch or rail: {leaf}", (switch,))


def _by_clues(case: Case, cause: Category) -> Place:
    """The clues of the detectors of the cause; if there are none, or the cause is doubtful, those of structure."""
    found = _clues_of_cause(case, cause)
    # machines behind a switch that failed are silent for its sake
    is_behind_switch = cause.id == SWITCH_DOWN and len(case.roots.nodes) != 1
    is_explained = bool(found) or is_behind_switch
    mechanism = LOST_HOST if re.search(roots.BOOT, case.lead.example) else ""
    if not is_explained or not case.is_sure:
        # a node without any log explains the others' order
        structure = detectors.all_clues(detectors.ABSENT, case) or detectors.all_clues(detectors.OF_STRUCTURE, case)
        if not found and not mechanism:
            mechanism = _told_category(structure)
        found = [*found, *structure]
    is_programs = cause.blames == "program" and bool(case.roots.nodes)
    return _rank_clues(case, found, may_accuse=not is_programs, mechanism=mechanism)


def _told_category(clues: Sequence[Clue]) -> str:
    """The category that clues tell. The collectives that ranks called are better evidence than silence."""
    told = [clue.tells for clue in clues if clue.tells]
    others = [category for category in told if category != LOST_HOST]
    return next(iter(others or told), "")


def _clues_of_cause(case: Case, cause: Category) -> list[Clue]:
    """The clues of the root events, unless their nodes only suffer from what is elsewhere."""
    # several nodes that miss others show a path between them, and none of them is its fault
    is_between = cause.root == "network" and len(case.roots.nodes) > 1
    is_outside = cause.blames == "nobody" and not _is_of_one(case, cause)
    is_of_most = case.roots.is_wide or is_between
    if is_of_most or is_outside or _is_reported(case, cause):
        return []
    return detectors.all_clues(detectors.OF_CAUSE, case)


#: The first rule with an answer decides; the last rule always answers.
_RULES: Final[tuple[Callable[[Case, Category], Place | None], ...]] = (
    _without_failure, _decided_outside, _shared, _of_the_program, _named_lost, _only_node, _on_most_nodes, _by_clues,
)  # fmt: skip


def _rank_clues(case: Case, found: Sequence[Clue], *, may_accuse: bool, mechanism: str = "") -> Place:
    nodes = weighing.rank(found, may_accuse=may_accuse)
    accused = [node.node for node in nodes if node.is_suspect]
    leaf = weighing.shared_leaf(accused, case.inventory.leaf_of)
    culprits: tuple[Suspect, ...] = ()
    if leaf:
        reason = f"all {len(accused)} suspected nodes hang on {leaf}"
        culprits = (Suspect(leaf, "switch", THRESHOLDS.shared_switch, ("logs",), (reason,)),)
    return Place(nodes, _answer(case, accused), culprits, mechanism, tuple(found))


def _answer(case: Case, accused: Sequence[str]) -> str:
    if len(accused) == 1:
        return f"one node: {accused[0]}"
    if accused:
        return f"{len(accused)} nodes: {', '.join(accused[: LIMITS.shown])}"
    if not case.catalogue.nodes:
        return "cannot say: the logs name no node"
    if case.total == 1:
        return "cannot say: the logs of one node only"
    if case.roots.members:
        return "no faulty node"
    return "cannot say: no line, silence or protocol state identifies a node"


def _named_nodes(case: Case) -> Sequence[str]:
    """The nodes that the lines of the leading event name."""
    return () if case.roots.leader is None else case.named.get(case.roots.leader, ())


def _is_reported(case: Case, cause: Category) -> bool:
    """Whether the nodes of the cause only report that they wait. False if nearly all others wait and these do not: then
    the others waited for them.
    """
    if "waits" not in cause.traits:
        return False
    here = set(case.roots.nodes)
    if not here:
        return True
    waits = case.events.filter(
        case.catalogue.has("waits"),
        pl.col("role") == Role.ROOT,
        pl.col("signature") != case.lead.signature,
        ~pl.col("event").is_in(list(case.roots.members)),
    )
    waiting = case.nodes_of(waits["event"].to_list())
    others = set(case.catalogue.nodes) - here
    wait_here = not waiting.isdisjoint(here)
    return wait_here or not stats.is_nearly_all(len(waiting), len(others))
