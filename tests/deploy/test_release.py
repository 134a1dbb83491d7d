"""A release has one version, written in one place: whoever names it elsewhere names the same."""

from __future__ import annotations

import re

import pytest

from diagnosis.pipeline import ENGINE
from tests.upgrades import RELEASES
from triage.places import ROOT, version

PLACES = {
    "deploy/compose.yaml": r"faultline:(\d[\w.]*)",
    "deploy/helm/Chart.yaml": r"^(?:version|appVersion): (.+)$",
    "docs/install.md": r"(?:faultline_triage-|faultline:)(\d+\.\d+\.\d+)",
}


@pytest.mark.parametrize("path", PLACES)
def test_a_file_that_names_the_version_names_this_one(path: str) -> None:
    assert set(re.findall(PLACES[path], (ROOT / path).read_text(), re.M)) == {version()}


def test_the_engine_has_the_version_of_the_product() -> None:
    assert version() == ENGINE


def test_the_changelog_begins_with_what_is_not_released_and_then_with_this_version() -> None:
    sections = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert sections[0] == "Unreleased"
    assert re.fullmatch(rf"{re.escape(version())} \(\d+ \w+ \d{{4}}\)", sections[1])


def test_upgrades_from_this_version_are_tested() -> None:
    assert version() in RELEASES
