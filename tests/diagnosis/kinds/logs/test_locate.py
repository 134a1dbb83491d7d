"""Who is at fault, by the first rule that has an answer: each rule with what it asks, on cases of which only the
answers to these questions are made.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import polars as pl
import pytest

from diagnosis.evidence import Suspect
from diagnosis.kinds.logs.causes.case import LOST_HOST, Case
from diagnosis.kinds.logs.causes.root_events import fallbacks
from diagnosis.kinds.logs.compare import detectors
from diagnosis.kinds.logs.compare.clues import Clue
from diagnosis.kinds.logs.decide.locate import SCHEDULER_ERROR, SWITCH_DOWN, Place, locate
from diagnosis.kinds.logs.meaning.signatures.model import Strength
from diagnosis.model import Role

NODES = ("n1", "n2", "n3", "n4", "n5", "n6")
LEAVES = {"n1": "leaf-1", "n2": "leaf-1", "n3": "leaf-2", "n4": "leaf-2"}
MACHINE, DEAD_HOST, PROGRAM = "hardware.gpu.off_bus", "hardware.host.down", "user.exception"
WAITING = pl.DataFrame(
    {"event": [7], "role": [Role.ROOT], "signature": ["waits"], "waits": [True]},
    schema_overrides={"role": pl.String},
)


#: A launcher says on which machine another process ended.
ENDED_ON_N1 = "mpirun noticed that process rank 3 with PID 7 on node n1 exited on signal 9 (Killed)."


class Given:
    """A case of six machines, of which one prints the sure cause, event 1."""

    def __init__(self, cause: str, **changes: Any) -> None:
        said = {
            "seen": ("n1",),
            "nodes": ("n1",),
            "named": (),
            "known": NODES,
            "is_wide": False,
            "is_sure": True,
            "outcome": "failed",
            "slow_from": None,
            "members": (1,),
            "by": "",
            "strength": Strength.DECISIVE,
            "example": "it broke",
            "blames": None,
            "leaf_of": {},
            "waiting": (),
        }
        assert changes.keys() <= said.keys()
        said |= changes
        members = said["members"]
        seen = {1: said["seen"], 7: said["waiting"]}
        self.cause = cause
        self.asked: list[Any] = []
        self.case = SimpleNamespace(
            ending=SimpleNamespace(outcome=said["outcome"]),
            pace=SimpleNamespace(slow_from=said["slow_from"]),
            roots=SimpleNamespace(
                members=members,
                nodes=said["nodes"],
                leader=next(iter(members), None),
                is_wide=said["is_wide"],
                by=said["by"],
            ),
            lead=SimpleNamespace(signature="rule", strength=said["strength"], example=said["example"]),
            event=lambda _: SimpleNamespace(category=cause, strength=said["strength"], example=said["example"]),
            rules=SimpleNamespace(rule=lambda _: SimpleNamespace(blames=said["blames"])),
            nodes_of=lambda events: set().union(*(seen[event] for event in events)),
            named={1: said["named"]},
            is_sure=said["is_sure"],
            total=len(said["known"]),
            inventory=SimpleNamespace(nodes=(), leaf_of=said["leaf_of"]),
            hints=SimpleNamespace(nodes=()),
            catalogue=SimpleNamespace(nodes=said["known"], has=pl.col),
            events=WAITING,
            in_words=lambda _: "it broke",
        )

    def place(self, monkeypatch: pytest.MonkeyPatch, **clues: list[Clue]) -> Place:
        """The answer; ``clues``: what the detectors of the cause, of absent logs and of structure say."""
        names = {
            id(detectors.OF_CAUSE): "cause",
            id(detectors.ABSENT): "absent",
            id(detectors.OF_STRUCTURE): "structure",
        }

        def all_clues(asked: Any, _: Any) -> list[Clue]:
            self.asked.append(names[id(asked)])
            return clues.get(names[id(asked)], [])

        monkeypatch.setattr(detectors, "all_clues", all_clues)
        return locate(cast("Case", self.case), self.cause)


def accused(place: Place) -> list[str]:
    return [node.node for node in place.nodes if node.is_suspect]


@pytest.mark.parametrize(
    ("outcome", "slow_from", "members", "is_nobody"),
    [
        ("succeeded", None, (), True),
        ("running", None, (), True),
        ("failed", None, (), False),
        ("succeeded", 40, (), False),
        ("succeeded", None, (1,), False),
    ],
)
def test_nobody_is_at_fault_of_a_job_without_cause_bad_end_and_slowdown(
    outcome: str, slow_from: int | None, members: tuple[int, ...], is_nobody: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = Given("unknown", outcome=outcome, slow_from=slow_from, members=members)
    assert (given.place(monkeypatch).answer == "no failure, so nobody is at fault") == is_nobody


OUTSIDE = "no faulty node: the cause is outside the nodes"


@pytest.mark.parametrize(
    ("cause", "changes", "is_outside"),
    [
        ("platform.scheduler.cancelled", {}, True),
        ("platform.scheduler.cancelled", {"by": fallbacks.LAUNCHER_STOPPED}, False),
        (MACHINE, {}, False),
        (MACHINE, {"blames": "nobody"}, True),
        (SCHEDULER_ERROR, {}, False),
        (SCHEDULER_ERROR, {"nodes": (), "named": ("n2",)}, False),
        (SCHEDULER_ERROR, {"nodes": ("n1", "n2")}, True),
        (SCHEDULER_ERROR, {"known": ("n1",)}, True),
    ],
)
def test_a_decision_outside_the_nodes_accuses_nobody_unless_a_start_failed_on_one_of_several(
    cause: str, changes: dict[str, Any], is_outside: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (Given(cause, **changes).place(monkeypatch).answer == OUTSIDE) == is_outside


@pytest.mark.parametrize(
    ("changes", "is_shared"),
    [({"nodes": ("n1", "n2")}, True), ({"nodes": ()}, True), ({}, False), ({"nodes": (), "is_sure": False}, False)],
)
def test_a_sure_fault_of_what_all_share_accuses_nobody_where_not_one_machine_alone_reports_it(
    changes: dict[str, Any], is_shared: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = Given("platform.storage.outage", **changes).place(monkeypatch).answer
    assert (answer == "no faulty node: the fault is in what the machines share") == is_shared


@pytest.mark.parametrize(
    ("cause", "changes", "is_programs"),
    [
        (PROGRAM, {"nodes": (), "seen": ()}, True),
        (PROGRAM, {"nodes": (), "seen": (), "is_sure": False}, False),
        (PROGRAM, {"nodes": ()}, False),
        (PROGRAM, {"seen": ()}, False),
        (MACHINE, {"nodes": (), "seen": ()}, False),
    ],
)
def test_a_sure_error_of_the_program_whose_lines_name_no_node_is_of_none(
    cause: str, changes: dict[str, Any], is_programs: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = Given(cause, **changes).place(monkeypatch).answer
    assert answer.startswith("no faulty node: an error of the program") == is_programs


@pytest.mark.parametrize(
    ("cause", "changes", "names"),
    [
        (DEAD_HOST, {"nodes": (), "named": ("n2", "n3")}, ["n2", "n3"]),
        (DEAD_HOST, {"nodes": (), "named": ("n2", "n3", "n4")}, ["n2", "n3", "n4"]),
        (DEAD_HOST, {"nodes": (), "named": ("n2", "n3", "n4", "n5")}, []),
        (DEAD_HOST, {"nodes": (), "named": ("n2",)}, []),
        (DEAD_HOST, {"named": ("n2", "n3")}, []),
        (MACHINE, {"nodes": (), "named": ("n2", "n3")}, []),
    ],
)
def test_machines_that_an_agent_names_as_lost_are_accused_unless_they_are_most_of_the_job(
    cause: str, changes: dict[str, Any], names: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert accused(Given(cause, **changes).place(monkeypatch)) == names


@pytest.mark.parametrize(
    ("cause", "changes", "names"),
    [
        (MACHINE, {"known": ("n1",)}, ["n1"]),
        (MACHINE, {"known": (), "seen": (), "named": ("n1",)}, ["n1"]),
        (MACHINE, {"known": ("n1",), "seen": ()}, []),
        (MACHINE, {"known": ("n1", "n2")}, []),
        (MACHINE, {"known": ("n1",), "strength": Strength.STRONG}, []),
        (MACHINE, {"known": ("n1",), "strength": Strength.WEAK, "example": ENDED_ON_N1}, ["n1"]),
        (MACHINE, {"known": ("n1",), "blames": "program"}, []),
        ("network.rdma_timeout", {"known": ("n1",), "blames": "machine"}, []),
    ],
)
def test_the_only_machine_of_the_evidence_is_accused_by_a_decisive_line_about_a_machine(
    cause: str, changes: dict[str, Any], names: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert accused(Given(cause, **changes).place(monkeypatch)) == names


WIDE = {"is_wide": True, "nodes": NODES, "seen": NODES}


def test_a_sure_error_of_most_nodes_accuses_none_and_says_how_many_show_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Given(MACHINE, **WIDE).place(monkeypatch).answer == "no faulty node: 6 of 6 nodes show the same error"
    nameless = Given(MACHINE, **(WIDE | {"seen": ()})).place(monkeypatch)
    assert nameless.answer.startswith("no faulty node: the same error comes from many writers")
    doubtful = Given(MACHINE, **WIDE, is_sure=False)
    assert doubtful.place(monkeypatch).answer == "no faulty node"
    assert doubtful.asked == ["absent", "structure"]


def test_an_error_of_links_of_nearly_all_nodes_below_one_switch_accuses_the_switch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    below = {"is_wide": True, "nodes": ("n1", "n2"), "seen": ("n1", "n2"), "leaf_of": LEAVES}
    place = Given("hardware.network.link_flap", **below).place(monkeypatch)
    assert [culprit.entity for culprit in place.culprits] == ["leaf-1"]
    assert accused(place) == []
    assert Given(MACHINE, **below).place(monkeypatch).culprits == ()


def test_a_wait_of_most_nodes_is_no_error_of_theirs_and_a_start_that_failed_on_one_gives_clues(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert Given("framework.collective", **WIDE).place(monkeypatch).answer == "no faulty node"
    given = Given(SCHEDULER_ERROR)
    given.place(monkeypatch)
    assert given.asked[0] == "cause"


def clue(node: str, tells: str = "") -> Clue:
    return Clue(node, 0.9, f"{node} is odd", tells)


@pytest.mark.parametrize(
    ("changes", "asked"),
    [
        ({}, ["cause"]),
        ({"is_sure": False}, ["cause", "absent", "structure"]),
        ({"is_wide": True, "is_sure": False}, ["absent", "structure"]),
    ],
)
def test_the_structure_of_a_job_is_asked_only_where_the_cause_is_in_doubt(
    changes: dict[str, Any], asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    given = Given(MACHINE, **changes)
    given.place(monkeypatch, cause=[clue("n1")])
    assert given.asked == asked


def test_a_machine_without_a_log_is_asked_for_before_all_other_structure(monkeypatch: pytest.MonkeyPatch) -> None:
    given = Given("unknown", members=())
    assert accused(given.place(monkeypatch, absent=[clue("n3")], structure=[clue("n4")])) == ["n3"]


@pytest.mark.parametrize(
    ("cause", "nodes", "asked"),
    [
        (SWITCH_DOWN, ("n1", "n2"), []),
        (SWITCH_DOWN, ("n1",), ["cause", "absent", "structure"]),
        ("network.rdma_timeout", ("n1", "n2"), ["absent", "structure"]),
        ("network.rdma_timeout", ("n1",), ["cause", "absent", "structure"]),
    ],
)
def test_several_nodes_that_miss_others_give_no_clue_and_behind_a_failed_switch_nobody_is_asked(
    cause: str, nodes: tuple[str, ...], asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    given = Given(cause, nodes=nodes, seen=nodes)
    given.place(monkeypatch)
    assert given.asked == asked


@pytest.mark.parametrize(
    ("told", "example", "mechanism"),
    [
        ((LOST_HOST, "network.rdma_timeout"), "it broke", "network.rdma_timeout"),
        ((LOST_HOST,), "it broke", LOST_HOST),
        ((), "it broke", ""),
        (("network.rdma_timeout",), "kernel: Linux version 6.8.0-31-generic (buildd@lcy02) #31-Ubuntu SMP", LOST_HOST),
    ],
)
def test_the_collectives_that_ranks_called_tell_more_than_silence_and_a_boot_tells_most(
    told: tuple[str, ...], example: str, mechanism: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = Given("unknown", example=example)
    clues = [clue(node, tells) for node, tells in zip(NODES, told, strict=False)]
    assert given.place(monkeypatch, structure=clues).mechanism == mechanism


def test_clues_of_the_cause_tell_no_other_category(monkeypatch: pytest.MonkeyPatch) -> None:
    given = Given(MACHINE, is_sure=False)
    assert given.place(monkeypatch, cause=[clue("n1")], structure=[clue("n1", LOST_HOST)]).mechanism == ""


def test_an_exception_ranks_its_machine_and_accuses_it_not(monkeypatch: pytest.MonkeyPatch) -> None:
    place = Given(PROGRAM).place(monkeypatch, cause=[clue("n1")])
    assert [node.node for node in place.nodes] == ["n1"]
    assert accused(place) == []
    assert accused(Given(PROGRAM, nodes=()).place(monkeypatch, cause=[clue("n1")])) == ["n1"]


@pytest.mark.parametrize(
    ("known", "members", "names", "answer"),
    [
        (NODES, (1,), ("n1",), "one node: n1"),
        (NODES, (1,), ("n1", "n3"), "2 nodes: n1, n3"),
        ((), (), (), "cannot say: the logs name no node"),
        (("n1",), (), (), "cannot say: the logs of one node only"),
        (NODES, (1,), (), "no faulty node"),
        (NODES, (), (), "cannot say: no line, silence or protocol state identifies a node"),
    ],
)
def test_the_answer_says_who_or_why_nobody(
    known: tuple[str, ...], members: tuple[int, ...], names: tuple[str, ...], answer: str, monkeypatch: Any
) -> None:
    given = Given("unknown", known=known, members=members)
    assert given.place(monkeypatch, structure=[clue(name) for name in names]).answer == answer


def test_accused_nodes_that_are_most_below_one_switch_accuse_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    given = Given("unknown", leaf_of=LEAVES)
    (switch,) = given.place(monkeypatch, structure=[clue("n1"), clue("n2")]).culprits
    assert isinstance(switch, Suspect)
    assert (switch.entity, switch.kind, switch.reasons) == (
        "leaf-1",
        "switch",
        ("all 2 suspected nodes hang on leaf-1",),
    )


@pytest.mark.parametrize(
    ("changes", "asked"),
    [
        ({}, []),
        ({"nodes": ()}, []),
        ({"waiting": NODES[1:5]}, ["cause"]),
        ({"waiting": NODES[1:4]}, []),
        ({"waiting": NODES}, []),
    ],
)
def test_who_only_reports_a_wait_is_asked_only_where_nearly_all_others_waited_for_it(
    changes: dict[str, Any], asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    given = Given("framework.collective", **changes)
    given.place(monkeypatch, absent=[clue("n2")])
    assert [one for one in given.asked if one == "cause"] == asked
