"""Where it failed: the clues at nodes of one case, and what they add up to."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

import polars as pl

from diagnosis.logs import ends, progress, protocol, quotes, spatial, spoken, standins, uneven
from diagnosis.logs.diagnose import READ_BACK, Case
from diagnosis.logs.spatial import Clue
from diagnosis.model import Role
from diagnosis.result import NodeSuspect, Suspect

#: Causes that lie with nobody's machine, wherever their lines stand.
NOBODY: Final = ("platform.scheduler", "none")
#: Of these, what may be said of one machine: a check or a start that failed there, no decision over the job.
OF_ONE: Final = "platform.scheduler.error"
#: Causes that a node shows but its machine does not have: its node is ranked, not accused.
NOT_THE_MACHINE: Final = (
    "user.config",
    "user.code",
    "user.numerics",
    "user.memory.cuda_oom",
    "user.environment.incompatible",
)
#: Causes that a node reports of others: who waits for a missing peer is not the one at fault.
REPORTED: Final = ("framework.rendezvous", "framework.collective", "framework.elastic")
#: A leader lighter than this is only a sign: what silence and order tell counts beside it.
DOUBTFUL: Final = 0.35
LOST: Final = "hardware.host.lost"
#: The store by which processes meet: all lose it as its host ends, whoever was at fault.
STORE: Final = r"(?i)TCPStore|\bc10d\b|rendezvous store|key-?value store|\betcd\b"
#: Weight of the root's own place, by the strength of its rule.
_PLACE: Final = {"decisive": 0.9, "strong": 0.8, "weak": 0.65}


@dataclass(frozen=True, slots=True)
class Place:
    """``nodes`` ranked, ``answer`` the sentence over all of them, ``culprits`` other than nodes (a switch, ranks,
    code), ``mechanism`` a category that structure alone tells."""

    nodes: tuple[NodeSuspect, ...]
    answer: str
    culprits: tuple[Suspect, ...] = ()
    mechanism: str = ""


def find(case: Case, category: str) -> Place:
    """Who is at fault, given the category that the root events alone suggest."""
    if case.ending.outcome in ("succeeded", "running") and not case.roots.members and case.pace.slow_from is None:
        return Place((), "no failure, so nobody is at fault")
    if category.startswith(NOBODY) and not (category.startswith(OF_ONE) and _speaks_of_one(case)):
        return Place((), "no faulty node: the cause lies outside the nodes")
    is_reported = category.startswith(REPORTED) and not _is_waited_for(case)
    lead = _event(case, case.roots.leader) if case.roots.leader is not None else {}
    # a weak error of nearly all, beside a node without any log, is what the others say of the missing one
    has_missing = lead.get("strength") in (None, "weak") and bool(_missing_nodes(case))
    if lost := _named_lost(case, category):
        return Place(lost, _answer(case, lost), _switch(case, lost))
    is_sure = case.roots.weights.get(case.roots.leader if case.roots.leader is not None else -1, 0.0) >= DOUBTFUL
    if case.roots.is_wide and is_sure and not is_reported and not has_missing:
        return _wide(case, category)
    if category.startswith("user.") and is_sure and not has_missing and not _has_place(case):
        return Place((), "no faulty node: an error of the programme, and its lines name no node")
    is_reported = is_reported or case.roots.is_wide
    clues = [] if is_reported else _root_clues(case)
    mechanism = LOST if lead and re.search(standins.BOOT, lead["example"]) else ""
    if not clues or not is_sure:
        more, told = _structure(case)
        mechanism = mechanism or ("" if clues else told)
        clues += more
    # the forest ranks where nothing better tells; beside a known cause it would only decorate
    has_cause = is_sure and bool(case.roots.nodes)
    forest = {} if has_cause else spatial.forest(case.catalogue, _telling(case))
    clues += [
        Clue(node, 0.25 * score, f"{node} logs unlike its peers: {_short(case, event)}")
        for node, (score, event) in forest.items()
        if score >= 0.5 and event is not None
    ]
    is_machine = not category.startswith(NOT_THE_MACHINE) or not case.roots.nodes or _machine_speaks(case)
    ranked = spatial.rank(clues, may_accuse=is_machine)
    return Place(ranked, _answer(case, ranked), _switch(case, ranked), mechanism)


def _speaks_of_one(case: Case) -> bool:
    """Whether the leading event is of one node of the job: it names it, or only that node prints it."""
    if case.roots.leader is None:
        return False
    return len(case.roots.nodes or case.roots.named.get(case.roots.leader, ())) == 1 and len(case.catalogue.nodes) > 1


def _is_waited_for(case: Case) -> bool:
    """Whether nearly all other nodes report that they wait, and those of the cause do not: then it is they who were
    waited for.
    """
    here = set(case.roots.nodes)
    if not here:
        return False
    waits = case.catalogue.events.filter(
        (pl.col("role") == Role.ROOT.value)
        & (pl.col("signature") != _event(case, case.roots.leader)["signature"])
        & pl.col("category").fill_null("").str.contains(standins.WAITING)
        & ~pl.col("event").is_in(list(case.roots.members))
    )
    cells = case.catalogue.cells.filter(pl.col("event").is_in(waits["event"].implode())).drop_nulls("node")
    waiting = set(cells["node"].unique().to_list())
    others = set(case.catalogue.nodes) - here
    return not waiting & here and len(waiting) >= standins.NEARLY_ALL * len(others) > 0


def _machine_speaks(case: Case) -> bool:
    """Whether a kernel's words of the same nodes belong to the cause: then what the programme met there was the
    machine's.
    """
    own = case.catalogue.events.filter(
        pl.col("event").is_in(list(case.roots.members)) & pl.col("is_system") & (pl.col("n_nodes") > 0)
    )
    return bool(case.roots.nodes) and not own.is_empty()


def _named_lost(case: Case, category: str) -> tuple[NodeSuspect, ...]:
    """Several nodes that a scheduler or an agent names as lost, however many: unless it names most of the job, which
    then lost something that all share.
    """
    names = case.roots.named.get(case.roots.leader if case.roots.leader is not None else -1, ())
    total = max(len(case.catalogue.nodes), len(case.inventory.nodes or case.hints.nodes))
    if not category.startswith("hardware.host") or len(names) < 2 or case.roots.nodes or 2 * len(names) > total:
        return ()
    lead = _event(case, case.roots.leader)
    clues = [Clue(n, 0.75, f"{n} is one of {len(names)} nodes that this speaks of: {_quote(lead)}") for n in names]
    return spatial.rank(clues, may_accuse=True)


def _has_place(case: Case) -> bool:
    """Whether a node is known for any root event."""
    rows = case.catalogue.events.filter(pl.col("event").is_in(list(case.roots.members)))
    return bool(case.roots.nodes) or bool((rows["n_nodes"] > 0).any())


def _missing_nodes(case: Case) -> list[Clue]:
    expected = case.inventory.nodes or case.hints.nodes
    seen = case.table.trainers or set(case.catalogue.nodes)
    table = case.table
    found = spatial.absent(case.catalogue, expected, table.trainers, table.system_files, None, 0.0)
    return [c for c in found if c.node not in seen]


def _wide(case: Case, category: str) -> Place:
    lead = _event(case, case.roots.leader)
    mine = case.catalogue.cells.filter(pl.col("event").is_in(list(case.roots.members)))
    seen = sorted(mine["node"].drop_nulls().unique().to_list())
    total = len(case.catalogue.nodes)
    leaf = spatial.shared_leaf(seen, case.inventory.leaf_of)
    if category.startswith(("network", "hardware.network")) and leaf:
        reason = f"{len(seen)} nodes below {leaf} report it: {_quote(lead)}"
        nodes = tuple(
            NodeSuspect(n, 0.5, len(seen) < total, (f"hangs on {leaf}, which its neighbours complain about too",))
            for n in seen
        )
        return Place(nodes, f"a switch or rail: {leaf}", (Suspect(leaf, "switch", 0.8, ("logs",), (reason,)),))
    if not seen:
        return Place((), "no faulty node: the same error comes from many writers, and none of them names its node")
    return Place((), f"no faulty node: {len(seen)} of {total} nodes show the same error")


def _root_clues(case: Case) -> list[Clue]:
    if (told := spoken.of_another(case)) is not None:
        row = _event(case, told[1])
        weight = _PLACE.get(row["strength"] or "weak", 0.6)
        return [Clue(told[0], weight, f"{told[0]} is the node that this speaks of: {_quote(row)}")]
    clues = []
    for node in case.roots.nodes:
        mine = case.catalogue.cells.filter((pl.col("node") == node) & pl.col("event").is_in(list(case.roots.members)))
        present = set(mine["event"].to_list()) | {
            e for e, names in case.roots.named.items() if node in names and e in case.roots.members
        }
        for event in sorted(present, key=lambda e: (-case.roots.weights[e], e))[:4]:
            row = _event(case, event)
            weight = _PLACE.get(row["strength"] or "weak", 0.6) * min(1.0, 0.4 + case.roots.weights[event])
            places = row["n_nodes"] or len(case.roots.named.get(event, ()))
            only = "the only node with" if places == 1 else f"one of {places} nodes with"
            said = _quote(row)
            if not any(mark.isalnum() for mark in said):  # a ruled line is no reason that a reader can weigh
                said = f"a line without words ({row['n']:,}×)"
            clues.append(Clue(node, weight, f"{node} is {only}: {said}"))
    return clues


def _structure(case: Case) -> tuple[list[Clue], str]:
    """Clues where no line names the cause: silence, protocol state, order of teardown, peers' complaints; and what
    they alone tell of it."""
    clues: list[Clue] = []
    mechanism = ""
    beat = case.pace.usual_s or 0.0
    expected = case.inventory.nodes or case.hints.nodes
    silent = (
        spatial.absent(
            case.catalogue, expected, case.table.trainers, case.table.system_files, case.consequence_at, beat
        )
        if case.ending.outcome == "failed"
        else []
    )
    clues += silent
    if silent:
        mechanism = LOST
    seen = case.table.trainers or set(case.catalogue.nodes)
    if any(c.node not in seen for c in silent):
        # a node without any log explains what the others say of connections and order
        return clues, mechanism
    if case.pace.slow_from is not None:
        clues += uneven.clues(case)
    states, lines = _protocol(case)
    odd = protocol.suspicions(states, _ranks(case))
    clues += [Clue(s.node, s.weight, s.reason) for s in odd if s.node]
    if any(s.kind == "mismatched" for s in odd):
        mechanism = "framework.collective.mismatch"
    cascades = case.catalogue.events.filter(
        (pl.col("role") == Role.CASCADE.value) & ~pl.col("is_ordinary") & ~pl.col("event").is_in(sorted(case.survived))
    )
    wide = cascades.filter(pl.col("n_nodes") >= 0.7 * len(case.catalogue.nodes))
    names = {r["event"]: _quote(r) for r in wide.iter_rows(named=True)}
    clues += spatial.lacking(case.catalogue, wide["event"].to_list(), names)
    clues += ends.teardown_order(case)
    quiet = ends.quiet(case)
    clues += quiet
    mechanism = mechanism or (LOST if quiet else "")
    told = cascades.filter(~pl.col("example").str.contains(STORE))["event"].to_list()
    clues += spatial.named_by_peers(_complaints(case, told) + lines, case.alias)
    return clues, mechanism


def _protocol(case: Case) -> tuple[list[protocol.State], list[tuple[str, str | None]]]:
    messages = case.table.messages.filter(pl.col("example").str.contains(protocol.WATCHDOG))["masked"].to_list()
    if not messages:
        return [], []
    rows = case.table.rows(messages, limit=20 * READ_BACK).join(
        case.table.sources, on="source", how="left", maintain_order="left"
    )
    texts = progress.read_lines(rows, case.table.files, case.read, 700)
    told = [(t, r, n) for t, r, n in zip(texts, rows["rank"], rows["node"], strict=True)]
    return protocol.read(told), []


def protocol_states(case: Case) -> list[protocol.State]:
    """What the watchdog lines tell of each rank and process group."""
    return _protocol(case)[0]


def _ranks(case: Case) -> dict[int, str | None]:
    known: dict[int, str | None] = dict(case.inventory.node_of_rank)
    for rank, node in (
        case.table.sources.drop_nulls("rank").select("rank", "node").unique().sort("rank", "node").iter_rows()
    ):
        known.setdefault(int(rank), node)
    return known


def _complaints(case: Case, events: list[int]) -> list[tuple[str, str | None]]:
    masked = [m for e in events for m in case.catalogue.masked(e)]
    rows = case.table.rows(masked, limit=READ_BACK).join(
        case.table.sources, on="source", how="left", maintain_order="left"
    )
    return list(zip(progress.read_lines(rows, case.table.files, case.read, 600), rows["node"], strict=True))


def _telling(case: Case) -> list[int]:
    rows = case.catalogue.events.filter((pl.col("novelty") >= 0.5) & ~pl.col("event").is_in(sorted(case.survived)))
    if case.healthy == 0:
        # without history only presence or gross change tells: drop what all nodes print about equally
        rows = rows.filter(pl.col("role").is_not_null() | (pl.col("level") >= 3))
    return rows["event"].to_list()


def _answer(case: Case, ranked: tuple[NodeSuspect, ...]) -> str:
    accused = [n.node for n in ranked if n.is_suspect]
    if len(accused) == 1:
        return f"one node: {accused[0]}"
    if accused:
        return f"{len(accused)} nodes: {', '.join(accused[:8])}"
    if len(case.catalogue.nodes) < 2:
        return "cannot say: the logs of one node only" if case.catalogue.nodes else "cannot say: the logs name no node"
    return (
        "cannot say: no line, silence or protocol state sets a node apart"
        if not case.roots.members
        else "no faulty node"
    )


def _switch(case: Case, ranked: tuple[NodeSuspect, ...]) -> tuple[Suspect, ...]:
    accused = [n.node for n in ranked if n.is_suspect]
    leaf = spatial.shared_leaf(accused, case.inventory.leaf_of)
    return (
        (Suspect(leaf, "switch", 0.6, ("logs",), (f"all {len(accused)} suspected nodes hang on {leaf}",)),)
        if leaf
        else ()
    )


def _event(case: Case, event: int | None) -> dict[str, Any]:
    return case.catalogue.events.filter(pl.col("event") == event).row(0, named=True)


def _short(case: Case, event: int) -> str:
    return quotes.clip(_event(case, event)["template"], 140)


def _quote(row: dict[str, Any]) -> str:
    return quotes.quote(row["example"], row["template"])
