"""Switches change what they name, where it is used, and only while they are applied."""

from __future__ import annotations

from pathlib import Path

import pytest

from diagnosis.evidence.inventory import Inventory
from diagnosis.history import History
from diagnosis.kinds.logs.causes import case
from diagnosis.kinds.logs.causes.root_events import roots
from diagnosis.kinds.logs.meaning import hosts
from diagnosis.model import JobHints
from lab.exams.job import Job
from lab.measure import sets, switches
from lab.measure.ablate import Ready, gather_once
from lab.measure.evidence import reader
from lab.measure.score import interval, quality
from lab.measure.switches import Switch


def found(kind: list[Switch], name: str) -> Switch:
    return next(s for s in kind if s.id == name)


def test_a_threshold_is_moved_while_its_switch_is_applied() -> None:
    usual = roots.THRESHOLDS.least
    moved = found(switches.thresholds(1.3), "roots.least")
    with switches.applied([moved]):
        assert pytest.approx(1.3 * usual) == roots.THRESHOLDS.least
    assert usual == roots.THRESHOLDS.least


def test_a_whole_number_moves_by_one_at_least() -> None:
    assert all(abs(s.value - round(s.value)) < 1e-9 for s in switches.thresholds(0.7) if s.id == "writer_nodes.shared")
    assert found(switches.thresholds(0.7), "writer_nodes.shared").value == 1


def test_a_step_that_is_switched_off_gives_its_argument_back() -> None:
    texts = object()
    with switches.applied([found(switches.steps(), "meaning.hosts.hide_hosts")]):
        assert hosts.hide_hosts(texts, ()) is texts  # type: ignore[arg-type, comparison-overlap]


def test_detectors_and_fallbacks_are_switched_off_by_their_ids() -> None:
    chosen = [found(switches.detectors(), "lacking"), found(switches.detectors(), "rebooted")]
    assert switches.switched_off_ids([*chosen, Switch("rules", "nvidia")]) == {"lacking", "rebooted"}
    with switches.applied(chosen) as rules:
        assert rules is None


def test_a_family_of_rules_is_left_out() -> None:
    with switches.applied([Switch("rules", "nvidia")]) as rules:
        assert rules is not None
        assert not [s for s in rules.signatures if s.id.startswith("nvidia.")]


def test_only_the_deciding_part_is_switched() -> None:
    modules = switches.deciding_modules()
    assert "diagnosis.kinds.logs.causes.root_events.roots" in modules
    assert not {"diagnosis.kinds.logs.read.reader", "diagnosis.kinds.logs.text.mask", "diagnosis.report"} & set(modules)


def test_the_interval_holds_the_mean_and_is_wider_where_jobs_are_similar() -> None:
    values = [1.0, 1.0, 0.0, 0.0] * 5
    apart = interval(values, [str(n) for n in range(20)])
    together = interval(values, ["a", "a", "b", "b"] * 5)
    assert apart[0] < 0.5 < apart[1]
    assert together[1] - together[0] > apart[1] - apart[0]


def test_a_false_alarm_lowers_the_mean_figure() -> None:
    assert quality({"false_alarm": 1}) == 0.0
    assert quality({"event_f1": 1.0, "node_false_accusation": 0, "line_f1": None}) == 1.0


def test_reading_a_threshold_is_noted_only_while_asked() -> None:
    with switches.read_thresholds() as read:
        assert roots.THRESHOLDS.least > 0
    assert read == {"roots.least"}
    assert roots.THRESHOLDS.late > 0
    assert read == {"roots.least"}


def test_changed_thresholds_and_rules_need_no_new_parse(monkeypatch: pytest.MonkeyPatch) -> None:
    parsing, deciding = switches.digest("diagnosis.files.parsing"), switches.digest("diagnosis.pipeline")
    as_it_is = Path.read_bytes

    def read_changed(path: Path) -> bytes:
        is_changed = path.name == "thresholds.toml" or path.parent.name == "signatures"
        return b"another" if is_changed else as_it_is(path)

    monkeypatch.setattr(Path, "read_bytes", read_changed)
    assert switches.digest("diagnosis.files.parsing") == parsing
    assert switches.digest("diagnosis.pipeline") != deciding


def test_the_size_counts_lines_numbers_and_expressions_of_the_modules_that_judge() -> None:
    lines, numbers, expressions = switches.size()
    assert lines > 1000
    assert 0 < numbers < expressions


def test_facts_are_gathered_once_for_what_acts_behind_them(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    monkeypatch.setattr(case, "collect_facts", lambda parsed, _: calls.append(parsed))
    ready = Ready("a", sets.load()["courses"], Job("a", "", {}, {}), [], reader({}), History())
    for is_late in (False, True, True):
        with gather_once(ready, is_late, lambda: None):
            case.collect_facts([], case.Given(inventory=Inventory(), hints=JobHints(), read=reader({})))
    assert len(calls) == 2
