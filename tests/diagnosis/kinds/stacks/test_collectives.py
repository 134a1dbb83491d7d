"""What the states of ranks in process groups show, of states that are made already."""

from __future__ import annotations

from diagnosis.kinds.stacks.blame.collectives import HungCollective, State, compare, is_pipeline, parallel_groups
from diagnosis.kinds.stacks.recorded.flight_recorder import Collective

ALL = (0, 1, 2, 3)


def opened(seq: int, op: str = "all_reduce", sizes: object = None, *, is_p2p: bool = False) -> list[Collective]:
    return [Collective(seq, op, is_p2p, sizes)]


def state(rank: int, done: int, calls: list[Collective] | None = None, **more: object) -> State:
    """A rank that completed ``done`` collectives of a group of four, and is in these calls."""
    scheduled = max([done, *(call.seq for call in calls or ())])
    known = {"enqueued": scheduled, "completed": done, "members": ALL, "desc": "data"} | more
    return State(rank, "7", open=calls or [], **known)  # type: ignore[arg-type]


def test_who_did_not_come_to_a_collective_in_which_its_peers_are_is_stuck_on_its_host() -> None:
    found = compare([state(rank, 4, opened(5)) for rank in (0, 1, 3)] + [state(2, 4)])
    assert found.host == {2: "has not scheduled all_reduce #5 of data, which 3 of 4 ranks wait in"}
    assert (found.device, found.mismatch) == ({}, {})
    assert found.collective == HungCollective("data", "all_reduce", 5, [2], "0-3")


def test_a_rank_without_a_dump_is_not_missing_and_one_with_an_empty_dump_is() -> None:
    waiting = [state(rank, 4, opened(5)) for rank in (0, 1, 3)]
    assert compare(waiting).host == {}
    assert list(compare(waiting, dumped=[0, 1, 2, 3]).host) == [2]
    assert compare([], dumped=ALL).ranks == {}


def test_who_waits_in_another_call_is_not_missing() -> None:
    send = state(2, 4, opened(9, "send", is_p2p=True), enqueued=4)
    assert compare([*(state(rank, 4, opened(5)) for rank in (0, 1, 3)), send]).host == {}
    behind = state(2, 3, enqueued=4)
    assert compare([*(state(rank, 4, opened(5)) for rank in (0, 1, 3)), behind]).host == {}


def test_a_number_that_nobody_of_the_group_has_reached_accuses_nobody() -> None:
    outside = [State(8, "7", "data", ALL, 5, 4, opened(5)), *(state(rank, 4) for rank in ALL)]
    assert compare(outside).host == {}


def test_counters_alone_show_what_the_peers_wait_in() -> None:
    counted = [state(rank, 4, enqueued=5, last=Collective(5, "all_gather")) for rank in (0, 1, 3)]
    found = compare([*counted, state(2, 4)])
    assert found.host[2].startswith("has not scheduled all_gather #5")
    unnamed = [state(rank, 4, enqueued=5) for rank in (0, 1, 3)]
    assert compare([*unnamed, state(2, 4)]).host[2].startswith("has not scheduled collective #5")
    point_to_point = [state(rank, 4, opened(9, "send", is_p2p=True), enqueued=5) for rank in (0, 1, 3)]
    assert compare([*point_to_point, state(2, 4)]).host == {}
    unknown = [state(rank, -1, enqueued=5) for rank in (0, 1, 3)]
    assert compare([*unknown, state(2, 4)]).host == {}


def test_a_group_without_a_description_is_named_by_its_number_and_without_members_holds_who_wrote() -> None:
    for desc, label in (("", "7"), ("undefined", "7"), ("data", "data")):
        states = [state(rank, 4, opened(5), desc=desc) for rank in (0, 1, 3)]
        assert f"of {label}," in compare([*states, state(2, 4, desc=desc)]).host[2]
    silent = [state(rank, 4, opened(5), members=()) for rank in (0, 1)]
    assert list(compare([*silent, state(2, 4, members=())]).host) == [2]
    assert list(compare([*silent, state(2, 4, members=())], dumped=[3]).host) == [2]


def test_who_scheduled_what_a_peer_finished_is_stuck_on_its_device() -> None:
    ahead = [state(rank, 5, enqueued=6) for rank in (0, 1)]
    found = compare([*ahead, state(2, 4, [*opened(5, "all_gather"), *opened(6)])])
    assert found.device == {2: "scheduled but did not finish #5 (all_gather) of data, which a peer finished (#5)"}
    assert found.collective == HungCollective("data", "all_gather", 5, [2], "0-2")
    unnamed = compare([*ahead, state(2, 4, opened(6))])
    assert unnamed.device == {2: "scheduled but did not finish #5 of data, which a peer finished (#5)"}
    assert unnamed.collective == HungCollective("data", "collective", 5, [2], "0-2")
    sending = compare([*ahead, state(2, 4, opened(5, "send", is_p2p=True), enqueued=6)])
    assert "send" not in sending.device[2]


def test_a_device_is_compared_with_the_best_of_its_peers_from_the_first_collective_on() -> None:
    assert list(compare([state(0, 1, enqueued=1), state(1, 0, enqueued=1)]).device) == [1]
    assert compare([state(0, 4, enqueued=5), state(1, 4, enqueued=5)]).device == {}
    assert compare([state(0, 9, enqueued=9)]).device == {}
    assert compare([state(0, 5, enqueued=9), state(1, 4, enqueued=4)]).device == {}, "its host is late"
    assert compare([state(0, 5, enqueued=5), state(1, -1, enqueued=5)]).device == {}, "unknown"


def test_the_first_number_under_which_calls_differ_is_a_mismatch() -> None:
    calls = {0: "reduce", 1: "reduce", 2: "gather", 3: "reduce"}
    states = [state(rank, 4, [*opened(5), *opened(6, op), *opened(7, f"op {rank}")]) for rank, op in calls.items()]
    found = compare(states)
    assert found.mismatch == {2: "called gather as #6 of data where its peers called reduce"}
    assert found.ranks == found.mismatch
    sent = [state(rank, 4, opened(5, op, is_p2p=True)) for rank, op in calls.items()]
    assert compare(sent).mismatch == {}


def test_another_size_than_most_have_is_a_mismatch() -> None:
    def sized(*sizes: object, op: str = "all_reduce") -> dict[int, str]:
        return compare([state(rank, 4, opened(5, op, size)) for rank, size in enumerate(sizes)]).mismatch

    assert sized(8, 8, 9, 8) == {2: "called all_reduce #5 of data with size 9, its peers with 8"}
    assert sized(8, 8, 9) == {2: "called all_reduce #5 of data with size 9, its peers with 8"}
    assert sized(8, 9) == {}, "two cannot be compared"
    assert sized(8, 8, 9, 9) == {}, "half is not most"
    assert sized(8, 8, 9, 10) == {}
    assert sized(8, 8, 9, 8, op="all_to_all_single") == {}
    assert sized(8, 8, 8, 8) == {}


def test_a_mismatch_counts_only_where_nobody_is_stuck() -> None:
    states = [state(rank, 4, opened(5, "gather" if rank == 1 else "reduce")) for rank in (0, 1, 3)]
    found = compare([*states, state(2, 4)])
    assert (list(found.mismatch), list(found.ranks)) == ([1], [2])
    ahead = [state(rank, 5, opened(6, "gather" if rank == 1 else "reduce")) for rank in (0, 1, 2)]
    assert list(compare([*ahead, state(3, 4, opened(6, "reduce"))]).ranks) == [3]


def test_pipeline_groups_are_known_by_their_words() -> None:
    assert all(map(is_pipeline, ("PIPELINE_MODEL_PARALLEL_GROUP", "mesh_pp", "pp", "mesh-pp", "EMBEDDING_GROUP")))
    assert not any(map(is_pipeline, ("default_pg", "mesh_tp", "upper", "mapping", "")))


def test_the_jobs_own_groups_are_those_of_one_kind_that_share_no_rank() -> None:
    def known(*groups: tuple[str, tuple[int, ...]]) -> dict[str, list[tuple[int, ...]]]:
        return parallel_groups(State(0, str(number), desc, ranks) for number, (desc, ranks) in enumerate(groups))

    two = (("mesh_tp", (2, 3)), ("mesh_tp", (0, 1)), ("TENSOR_MODEL_PARALLEL_GROUP", (0, 1)))
    assert known(*two, ("default_pg", ALL)) == {"tp": [(0, 1), (2, 3)]}
    assert known(("mesh_dp", (0, 1)), ("DATA_PARALLEL_GROUP", (0, 1, 2, 3))) == {}
    assert known(("mesh_tp", ())) == {}
    assert list(known(("pp", (0, 2)), ("ep", (0, 1)))) == ["ep", "pp"]
