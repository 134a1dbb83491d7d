"""Checks that decide: their output is recognised, of the right machine, and moves the probabilities."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from diagnosis import taxonomy
from diagnosis.conclusion import next_check
from diagnosis.conclusion.model import Fault
from diagnosis.evidence import Fact, Place, Result, Suspect
from diagnosis.facts import setups
from diagnosis.joining import checked_suspects
from diagnosis.kinds import checks
from diagnosis.model import Kind, Parsed

SAID = [(c, o) for c in checks.load() for o in c.outcomes if o.id in c.examples]
BY_ID = {c.id: c for c in checks.load()}
FAILED, PASSED = (BY_ID["dcgm"].examples[name] for name in ("fail", "pass"))


def result(text: str, path: str = "checks/node-3/dcgm.txt") -> list[Result]:
    found = checks.recognise_output(text, path)
    return checks.with_targets(
        [found] if found else [], dict.fromkeys(["node-3", "node-7"], "node") | {"leaf0-leaf1": "link"}
    )


@pytest.mark.parametrize(("check", "outcome"), SAID, ids=[f"{c.id}: {o.id}" for c, o in SAID])
def test_each_example_is_recognised_as_what_it_says(check, outcome):
    found = checks.recognise_output(check.examples[outcome.id])
    assert found is not None
    assert (found.check.id, found.outcome.id) == (check.id, outcome.id)


@pytest.mark.parametrize("check", checks.load(), ids=lambda c: c.id)
def test_a_line_that_only_names_a_check_is_no_output_of_it(check):
    assert checks.recognise_output(check.counter) is None
    assert check.sign is None or len(check.examples) == len(check.outcomes)


def test_a_log_that_prints_a_check_among_other_things_stays_a_log():
    steps = "".join(f"2026-05-11 06:30:{n:02d} iteration {n}\n" for n in range(60))
    df = BY_ID["df"].examples["full"]
    assert checks.recognise_output(f"{steps}{df}") is None
    assert checks.recognise_output(f"{df}{steps}") is None


def test_every_category_that_a_check_names_is_in_the_tree():
    known = [leaf.id for leaf in taxonomy.load().leaves()]
    for check in checks.load():
        assert all(o.adds in ("", *known) for o in check.outcomes)
        for head in (*check.about, *(h for o in check.outcomes for h in o.categories)):
            assert any(k == head or k.startswith(f"{head}.") for k in known), head


def test_the_machine_of_an_output_is_recognised_by_its_path_or_by_its_own_words():
    assert result(FAILED)[0].target == "node-3"
    assert result(FAILED, "upload/node-7.txt")[0].target == "node-7"
    assert result(f"root@node-7:~# dcgmi diag -r 2\n{FAILED}", "pasted.txt")[0].target == "node-7"
    assert result(FAILED, "pasted.txt")[0].target == ""


@pytest.mark.parametrize(
    ("known", "target", "path", "expected"),
    [
        (["n1", "n2"], "", "checks/n1/dcgm.txt", "n1"),
        (["n1", "n2"], "n1", "n2.txt", "n2"),
        (["n1", "n2"], "n1", "pasted.txt", "n1"),
        (["n1.site", "n2.site"], "n1", "pasted.txt", "n1.site"),
        (["n1", "n2"], "n1.site", "pasted.txt", "n1"),
        (["n1.a", "n1.b"], "n1", "pasted.txt", ""),
        (["n1", "n2"], "n3", "pasted.txt", ""),
        (["n1", "n2"], "", "pasted.txt", ""),
        ([], "n3", "pasted.txt", "n3"),
    ],
)
def test_the_target_is_the_only_known_name_that_path_or_text_can_mean(known, target, path, expected):
    found = replace(checks.recognise_output(FAILED, path), target=target)
    (named,) = checks.with_targets([found], dict.fromkeys(known, "node"))
    assert (named.target, named.kind) == (expected, "node")


def test_an_output_tells_the_line_and_the_words_of_its_outcome():
    found = checks.recognise_output(FAILED)
    before = checks.recognise_output("\n\n" + FAILED)
    assert before.line == found.line + 2
    assert found.words in " ".join(FAILED.replace("|", " ").split("\n")[found.line - 1].split())


@pytest.mark.parametrize(("times", "is_output"), [(0, True), (3, True), (4, False)])
def test_a_text_with_more_than_three_times_of_day_among_few_lines_is_a_log(times, is_output):
    text = FAILED.splitlines()[0] + "\n" + "10:00:00 x\n" * times + "\n".join(FAILED.splitlines()[1:])
    few = "\n".join(text.splitlines()[: 4 * times + 12])
    assert (checks.recognise_output(few) is not None) is is_output


@pytest.mark.parametrize(
    ("kind", "size", "is_read"),
    [(Kind.OTHER, 1, True), (Kind.LOG, 1 << 20, True), (Kind.OTHER, 0, False), (Kind.OTHER, (1 << 20) + 1, False)],
)
def test_small_texts_among_the_artifacts_are_read_in_the_order_of_their_paths(kind, size, is_read):
    texts = {"b.txt": FAILED.encode(), "a.txt": PASSED.encode(), "c.txt": b"hello"}
    asked = []

    def read(path, offset, length):
        asked.append((path, offset, length))
        return texts[path][offset : offset + length]

    found = checks.read_results([Parsed(path, kind, bytes=size) for path in texts], read)
    assert [(one.path, one.outcome.id) for one in found] == [("a.txt", "pass"), ("b.txt", "fail")] * is_read
    assert [path for path, _, _ in asked] == ["a.txt", "a.txt", "b.txt", "b.txt", "c.txt"] * is_read


def test_of_very_many_outputs_the_first_ones_are_read():
    parts = [Parsed(f"{number:03d}.txt", Kind.OTHER, bytes=99) for number in range(300)]
    found = checks.read_results(parts, lambda _, offset, length: FAILED.encode()[offset : offset + length])
    assert len(found) == 256


def test_a_failed_check_makes_the_accused_near_certain():
    before = (Suspect("node-3", "node", 0.6, ("logs",)), Suspect("node-7", "node", 0.3, ("logs",), is_suspect=False))
    first, second = checked_suspects.update_suspects(before, result(FAILED))
    assert (first.entity, second.entity) == ("node-3", "node-7")
    assert first.score > 0.98
    assert second.score == 0.3
    assert "a test failed" in first.reasons[0]


def test_after_a_passed_check_the_runner_up_leads():
    before = (Suspect("node-3", "node", 0.7, ("logs",)), Suspect("node-7", "node", 0.4, ("logs",), is_suspect=False))
    first, second = checked_suspects.update_suspects(before, result(PASSED))
    assert (first.entity, second.entity) == ("node-7", "node-3")
    assert first.is_suspect
    assert not second.is_suspect


def test_a_check_that_fails_elsewhere_accuses_that_machine():
    (first, *_) = checked_suspects.update_suspects(
        (Suspect("node-3", "node", 0.6, ("logs",)),), result(FAILED, "checks/node-7/x")
    )
    assert (first.entity, first.is_suspect) == ("node-7", True)


def test_categories_move_with_a_check_and_stay_shares_of_one_whole():
    rows = [("framework.collective.timeout", 0.5), ("hardware.gpu.ecc", 0.2)]
    after = checked_suspects.update_categories(rows, result(FAILED))
    assert after[0][0] == "hardware.gpu.ecc"
    assert sum(p for _, p in after) <= 1.0
    assert checked_suspects.update_categories([("unknown", 0.0)], result(FAILED))[0][0] == "hardware.gpu.kernel"
    assert checked_suspects.update_categories(rows, []) == rows


def test_a_fault_that_a_check_finds_on_one_machine_is_no_less_likely_because_others_are_sound():
    rows = [("hardware.gpu.ecc", 0.2)]
    sound = [one for node in ("node-1", "node-2", "node-4") for one in result(PASSED, f"checks/{node}/x")]
    assert checked_suspects.update_categories(rows, [*result(FAILED), *sound]) == checked_suspects.update_categories(
        rows, result(FAILED)
    )
    assert checked_suspects.update_categories(rows, sound)[0][1] < 0.2


def test_the_cheapest_check_of_a_doubtful_culprit_is_offered_with_what_it_would_say():
    fault = (Fault(Place("node", "node-3"), 0.6), Fault(Place("node", "node-7"), 0.5))
    offered = next_check.choose_checks(checks.load(), "failed", [("hardware.gpu.ecc", 0.5)], fault, (), ())
    assert [row.id for row in offered] == ["nvidia-smi", "dcgm", "swap"]
    assert offered[1].command == "ssh node-3 dcgmi diag -r 2"
    fail, passed = (row.p for row in offered[1].outcomes)
    assert fail > 0.98 > 0.2 > passed
    done = next_check.choose_checks(checks.load(), "failed", [("hardware.gpu.ecc", 0.5)], fault, (), result(PASSED))
    assert [row.id for row in done] == ["nvidia-smi", "swap"]


def test_nothing_is_offered_where_nothing_is_in_doubt_or_no_safe_name_is_known():
    sure = (Fault(Place("node", "node-3"), 0.97),)
    assert next_check.choose_checks(checks.load(), "failed", [("hardware.gpu.ecc", 0.95)], sure, (), ()) == ()
    assert next_check.choose_checks(checks.load(), "healthy", [("none", 0.5)], (), (), ()) == ()
    hostile = (Fault(Place("node", "x; rm -rf /"), 0.6),)
    assert next_check.choose_checks(checks.load(), "failed", [("hardware.gpu.ecc", 0.5)], hostile, (), ()) == ()


def test_a_difference_of_set_up_is_settled_by_no_test_of_one_machine():
    networks = {"a": "IB", "b": "IB", "c": "Socket"}
    stated = [("", Fact.of(Place("node", node), ("network of NCCL",), net)) for node, net in networks.items()]
    differs = setups.compare_nodes(stated)
    fault = (Fault(Place("node", "c"), 0.51),)
    assert next_check.choose_checks(checks.load(), "degraded", [("performance.network", 0.5)], fault, (), differs) == ()
    assert next_check.choose_checks(checks.load(), "failed", [("hardware.gpu.ecc", 0.5)], fault, (), differs)


def test_a_hang_without_stacks_asks_for_those_of_the_rank_that_is_waited_for():
    fault = (Fault(Place("node", "node-3", 5), 0.6),)
    offered = next_check.choose_checks(checks.load(), "hung", [("unknown", 0.0)], fault, (), ())
    assert "py-spy dump" in next(row for row in offered if row.id == "pyspy").command
    assert all(
        r.id != "pyspy"
        for r in next_check.choose_checks(checks.load(), "hung", [("unknown", 0.0)], fault, (), (), has_stacks=True)
    )


LINK = (Fault(Place("link", "leaf0-leaf1"), 0.6), Fault(Place("node", "node-3"), 0.3))


def test_a_link_has_checks_of_its_own_that_fit_its_ports():
    offered = next_check.choose_checks(checks.load(), "degraded", [("performance.network", 0.6)], LINK, (), ())
    assert [row.id for row in offered] == ["ethtool", "ibdiagnet", "swap"]
    assert {row.target.name for row in offered} == {"leaf0-leaf1"}
    alone = next_check.choose_checks(checks.load(), "degraded", [("performance.network", 0.6)], LINK[:1], (), ())
    assert [row.id for row in alone] == ["ethtool", "ibdiagnet", "swap"]
    assert offered[0].command == "ethtool -S <port>"
    assert offered[2].command == "sbatch --switches=1 <the job's script>"
    errors, clean = (row.p for row in offered[0].outcomes)
    assert errors > 0.9 > 0.5 > clean


def test_the_output_of_a_check_of_a_link_moves_the_link_and_what_else_may_be_at_fault():
    before = (Suspect("leaf0-leaf1", "link", 0.6, ("flows",)), Suspect("node-3", "node", 0.3, ("flows",)))
    counts = BY_ID["ethtool"].examples
    (bad,) = result(counts["errors"], "checks/leaf0-leaf1/ethtool-1.txt")
    assert (bad.target, bad.kind) == ("leaf0-leaf1", "link")
    assert checked_suspects.update_suspects(before, [bad])[0].score > 0.95
    after = checked_suspects.update_suspects(before, result(counts["clean"], "checks/leaf0-leaf1/ethtool-1.txt"))
    assert {s.entity: s.score for s in after}["leaf0-leaf1"] < 0.6
    assert {s.entity: s.score for s in after}["node-3"] > 0.3
