"""Switches change what they name, where it is used, and only while they are applied."""

from __future__ import annotations

import pytest

from diagnosis.logs import hosts, roots
from measure import switches
from measure.score import interval, quality
from measure.switches import Switch


def found(kind: list[Switch], name: str) -> Switch:
    return next(s for s in kind if s.id == name)


def test_a_threshold_is_moved_while_its_switch_is_applied() -> None:
    usual = roots.AT.least
    moved = found(switches.thresholds(1.3), "roots.least")
    with switches.applied([moved]):
        assert pytest.approx(1.3 * usual) == roots.AT.least
    assert usual == roots.AT.least


def test_a_whole_number_moves_by_one_at_least() -> None:
    assert all(abs(s.value - round(s.value)) < 1e-9 for s in switches.thresholds(0.7) if s.id == "homes.shared")
    assert found(switches.thresholds(0.7), "homes.shared").value == 1


def test_a_step_that_is_switched_off_gives_its_argument_back() -> None:
    texts = object()
    with switches.applied([found(switches.steps(), "hosts.hide")]):
        assert hosts.hide(texts, ()) is texts  # type: ignore[arg-type, comparison-overlap]


def test_detectors_and_fallbacks_are_switched_off_by_their_ids() -> None:
    chosen = [found(switches.detectors(), "peers"), found(switches.detectors(), "odd_word")]
    assert switches.off([*chosen, Switch("rules", "nvidia")]) == {"peers", "odd_word"}
    with switches.applied(chosen) as rules:
        assert rules is None


def test_a_family_of_rules_is_left_out() -> None:
    with switches.applied([Switch("rules", "nvidia")]) as rules:
        assert rules is not None
        assert not [s for s in rules.signatures if s.id.startswith("nvidia.")]


def test_only_the_deciding_part_is_switched() -> None:
    modules = switches.deciding()
    assert "diagnosis.logs.roots" in modules
    assert not {"diagnosis.logs.reader", "diagnosis.logs.mask", "diagnosis.report"} & set(modules)


def test_the_interval_holds_the_mean_and_is_wider_where_jobs_are_alike() -> None:
    values = [1.0, 1.0, 0.0, 0.0] * 5
    apart = interval(values, [str(n) for n in range(20)])
    together = interval(values, ["a", "a", "b", "b"] * 5)
    assert apart[0] < 0.5 < apart[1]
    assert together[1] - together[0] > apart[1] - apart[0]


def test_a_false_alarm_lowers_the_mean_figure() -> None:
    assert quality({"false_alarm": 1}) == 0.0
    assert quality({"event_f1": 1.0, "node_false_accusation": 0, "line_f1": None}) == 1.0
