"""Finds who is at fault, by ordered rules over the clues of the detectors. The first rule with an answer decides;
"nobody" is a full answer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import polars as pl

from diagnosis import stats, taxonomy, thresholds
from diagnosis.evidence import Suspect
from diagnosis.kinds.logs.causes import fallbacks, roots
from diagnosis.kinds.logs.causes.case import LOST_HOST, Case
from diagnosis.kinds.logs.compare import clues as weighing
from diagnosis.kinds.logs.compare import detectors
from diagnosis.kinds.logs.compare.clues import Clue
from diagnosis.kinds.logs.compare.detectors import absent, spoken
from diagnosis.kinds.logs.meaning.signatures.model import Strength
from diagnosis.kinds.logs.rows.clocks import SECOND
from diagnosis.model import Role
from diagnosis.result import NodeSuspect
from diagnosis.taxonomy import Category

THRESHOLDS: Final = thresholds.of("locate")

#: The only cause without a culprit that may be reported for one machine: a check or a start that failed there.
SCHEDULER_ERROR: Final = "platform.scheduler.error"
PORT_DOWN: Final = "hardware.network.link_flap"
#: What it is if several machines lose their ports at once.
SWITCH_DOWN: Final = "network.link_down"


@dataclass(frozen=True, slots=True)
class Place:
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
    if (rule := case.rules.rule(case.lead.get("signature") or "")) is not None and rule.blames:
        cause = replace(cause, blames=rule.blames)
    return next(place for rule in _RULES if (place := rule(case, cause)) is not None)


def _nobody(case: Case, cause: Category) -> Place | None:
    """A job that ended well, a decision of the scheduler, and a sure fault of what all machines share or of the
    program.
    """
    is_well = case.ending.outcome in ("succeeded", "running") and case.pace.slow_from is None
    # a stop that launchers received has another reason: perhaps a machine that fell silent before
    is_decided = cause.blames == "nobody" and case.roots.by != fallbacks.LAUNCHER_STOPPED
    is_shared = "shared" in cause.traits and case.is_sure and len(case.roots.nodes) != 1
    has_place = bool(case.roots.nodes or case.nodes_of(case.roots.members))
    is_programs = cause.root == "user" and case.is_sure and not _has_missing(case) and not has_place
    answers = (
        (is_well and not case.roots.members, "no failure, so nobody is at fault"),
        (is_decided and not _is_of_one(case, cause), "no faulty node: the cause is outside the nodes"),
        (is_shared, "no faulty node: the fault is in what the machines share"),
        (is_programs, "no faulty node: an error of the programme, and its lines name no node"),
    )
    return next((Place((), answer) for is_so, answer in answers if is_so), None)


def _named_lost(case: Case, cause: Category) -> Place | None:
    """Any number of nodes that a scheduler or an agent names as lost, unless it names most of the job: then something
    failed that all share.
    """
    names = case.named.get(_leader(case), ())
    total = max(case.total, len(case.inventory.nodes or case.hints.nodes))
    if not cause.id.startswith("hardware.host") or len(names) < 2 or case.roots.nodes or 2 * len(names) > total:
        return None
    why = f"is one of {len(names)} nodes that this names: {case.in_words(case.lead)}"
    return _rank_clues(
        case, [Clue(n, weighing.THRESHOLDS.sure, f"{n} {why}", detector="cause") for n in names], may_accuse=True
    )


def _only_node(case: Case, cause: Category) -> Place | None:
    """The one machine that the evidence knows, if a decisive line is about it: there is no other to compare with."""
    stated = set(case.nodes_of(case.roots.members)) | set(case.named.get(_leader(case), ()))
    known = {*case.catalogue.nodes, *case.inventory.nodes, *case.hints.nodes, *stated}
    is_sure = bool(case.lead) and case.lead["strength"] == Strength.DECISIVE
    if len(known) != 1 or not stated or not is_sure or cause.root != "hardware" or cause.blames != "machine":
        return None
    (node,) = stated
    why = f"{node} is the only node of this evidence, and a line reports it: {case.in_words(case.lead)}"
    return _rank_clues(case, [Clue(node, weighing.THRESHOLDS.sure, why, detector="cause")], may_accuse=True)


def _named_missing(case: Case, cause: Category) -> Place | None:
    """The node that those who wait say is missing."""
    found = detectors.all_clues([spoken], case) if _is_reported(case, cause) else []
    return _rank_clues(case, found, may_accuse=True) if found else None


def _on_most_nodes(case: Case, cause: Category) -> Place | None:
    """A sure error of most nodes accuses none of them; below one switch it accuses the switch."""
    if not case.roots.is_wide or not case.is_sure or _is_reported(case, cause) or _has_missing(case):
        return None
    seen = sorted(case.nodes_of(case.roots.members))
    leaf = weighing.shared_leaf(seen, case.inventory.leaf_of)
    if cause.matter == "link" and leaf:
        reason = f"{len(seen)} nodes below {leaf} report it: {case.in_words(case.lead)}"
        hangs = (f"hangs on {leaf}, which its neighbours complain about too",)
        nodes = tuple(NodeSuspect(n, weighing.THRESHOLDS.accused, False, hangs) for n in seen)
        return Place(
            nodes, f"a switch or rail: {leaf}", (Suspect(leaf, "switch", THRESHOLDS.switch, ("logs",), (reason,)),)
        )
    if not seen:
        return Place((), "no faulty node: the same error comes from many writers, and none of them names its node")
    return Place((), f"no faulty node: {len(seen)} of {case.total} nodes show the same error")


def _behind_one_switch(case: Case, cause: Category) -> Place | None:
    """Ports of several machines that go down within seconds: what they share failed, and none of them."""
    rows = case.catalogue.cells.filter(pl.col("event") == _leader(case), "is_stamped")
    at = rows.group_by("node").agg(pl.col("first_at").min())["first_at"]
    if cause.id != PORT_DOWN or len(case.roots.nodes) < THRESHOLDS.ports or at.len() < THRESHOLDS.ports:
        return None
    if int(at.max()) - int(at.min()) > THRESHOLDS.together_s * SECOND:  # type: ignore[arg-type]
        return None
    leaf = weighing.shared_leaf(case.roots.nodes, case.inventory.leaf_of)
    reason = f"{len(case.roots.nodes)} nodes lost their link within {THRESHOLDS.together_s:.0f} s"
    switch = (Suspect(leaf, "switch", THRESHOLDS.switch, ("logs",), (reason,)),) if leaf else ()
    return Place((), f"no faulty node: {reason}, so a switch that they share went down", switch, mechanism=SWITCH_DOWN)


def _by_clues(case: Case, cause: Category) -> Place:
    """The clues of the detectors of the cause; if there are none, or the cause is doubtful, those of structure."""
    is_outside = cause.blames == "nobody" and not _is_of_one(case, cause)
    # several nodes that miss others show a path between them, and none of them is its fault
    is_between = cause.root == "network" and len(case.roots.nodes) > 1
    is_echo = _is_reported(case, cause) or case.roots.is_wide or is_outside or is_between
    found = [] if is_echo else detectors.first_clues(detectors.OF_CAUSE, case)
    mechanism = LOST_HOST if case.lead and re.search(roots.BOOT, case.lead["example"]) else ""
    # machines behind a switch that failed are silent for its sake
    is_behind = cause.id == SWITCH_DOWN and case.is_sure and len(case.roots.nodes) != 1
    if (not found and not is_behind) or not case.is_sure:
        # a node without any log explains the others' messages about connections and order
        more = detectors.all_clues(detectors.ABSENT, case) or detectors.all_clues(detectors.OF_STRUCTURE, case)
        categories = [clue.tells for clue in more if clue.tells]
        # the collectives that ranks called are better evidence than silence
        mechanism = mechanism or (
            "" if found else next((t for t in categories if t != LOST_HOST), categories[0] if categories else "")
        )
        found += more
    is_machine = cause.blames != "program" or not case.roots.nodes or _has_kernel_messages(case)
    return _rank_clues(case, found, may_accuse=is_machine, mechanism=mechanism)


#: The first rule with an answer decides; the last rule always answers.
_RULES: Final[tuple[Callable[[Case, Category], Place | None], ...]] = (
    _nobody, _named_lost, _only_node, _named_missing, _on_most_nodes, _behind_one_switch, _by_clues,
)  # fmt: skip


def _rank_clues(case: Case, found: Sequence[Clue], *, may_accuse: bool, mechanism: str = "") -> Place:
    nodes = weighing.rank(found, may_accuse=may_accuse)
    accused = [n.node for n in nodes if n.is_suspect]
    leaf = weighing.shared_leaf(accused, case.inventory.leaf_of)
    reason = f"all {len(accused)} suspected nodes hang on {leaf}"
    switch = (Suspect(leaf, "switch", THRESHOLDS.shared_switch, ("logs",), (reason,)),) if leaf else ()
    return Place(nodes, _answer(case, accused), switch, mechanism, tuple(found))


def _answer(case: Case, accused: Sequence[str]) -> str:
    if len(accused) == 1:
        return f"one node: {accused[0]}"
    if accused:
        return f"{len(accused)} nodes: {', '.join(accused[:8])}"
    if case.total < 2:
        return "cannot say: the logs of one node only" if case.catalogue.nodes else "cannot say: the logs name no node"
    if case.roots.members:
        return "no faulty node"
    return "cannot say: no line, silence or protocol state identifies a node"


def _is_of_one(case: Case, cause: Category) -> bool:
    """Whether a check or a start of the job failed on one of its machines, and the lines name it."""
    named = case.roots.nodes or case.named.get(_leader(case), ())
    return cause.id == SCHEDULER_ERROR and len(named) == 1 and case.total > 1


def _leader(case: Case) -> int:
    return -1 if case.roots.leader is None else case.roots.leader


def _is_reported(case: Case, cause: Category) -> bool:
    """Whether the nodes of the cause only report that they wait. False if nearly all others wait and these do not: then
    the others waited for them.
    """
    if "waits" not in cause.traits:
        return False
    here = set(case.roots.nodes)
    if not here:
        return True
    events = case.events
    waits = events.filter(
        (pl.col("role") == Role.ROOT)
        & (pl.col("signature") != case.lead["signature"])
        & case.catalogue.has("waits")
        & ~pl.col("event").is_in(list(case.roots.members))
    )
    waiting = case.nodes_of(waits["event"].to_list())
    others = set(case.catalogue.nodes) - here
    return bool(waiting & here) or not stats.is_nearly_all(len(waiting), len(others))


def _has_missing(case: Case) -> bool:
    """Whether a node wrote no log, and the error is weak or says that others are waited for: then an error of nearly
    all nodes is about the missing one.
    """
    is_awaited = "waits" in taxonomy.load().get(case.lead.get("category") or "").traits
    return (is_awaited or case.lead.get("strength") in (None, "weak")) and bool(absent.absent_nodes(case))


def _has_kernel_messages(case: Case) -> bool:
    """Whether kernel messages of the same nodes belong to the cause: then the program's error there is the machine's
    fault.
    """
    own = case.events.filter(pl.col("event").is_in(list(case.roots.members)) & pl.col("is_system"))
    return bool((own["n_nodes"] > 0).any())
