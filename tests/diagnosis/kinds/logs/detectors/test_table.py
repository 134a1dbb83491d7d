"""The tables of detectors: ids are unique, each states its reason, and each can be switched off."""

from __future__ import annotations

from pathlib import Path

import pytest

from diagnosis.kinds.logs.causes.root_events import fallbacks
from diagnosis.kinds.logs.compare import detectors
from diagnosis.kinds.logs.decide import locate
from tests.diagnosis.cases import case_of
from tests.diagnosis.test_log_engine import fallen_gpu


def test_every_detector_and_every_rule_has_its_own_id_and_a_reason() -> None:
    every = [*detectors.ALL, *fallbacks.CORRECTIONS, *fallbacks.FALLBACKS]
    assert len({d.id for d in every}) == len(every)
    assert all(d.why for d in every)
    assert all(d.needs for d in detectors.ALL)


@pytest.mark.parametrize(("without", "is_seen"), [(frozenset(), True), (frozenset({"cause"}), False)])
def test_a_detector_that_is_switched_off_reports_nothing(
    without: frozenset[str], is_seen: bool, tmp_path: Path
) -> None:
    place = locate.locate(case_of(fallen_gpu(), tmp_path, without), "hardware.gpu.off_bus")
    assert ("cause" in {clue.detector for clue in place.clues}) is is_seen
