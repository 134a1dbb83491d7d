"""A doubtful incident: the cheapest deciding check is named, and its output moves who is accused."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from diagnosis.kinds import checks
from tests.e2e.test_stories import SAMPLES, open_incident, upload
from tests.patience import WORK_S, wait_for

pytestmark = pytest.mark.e2e
FAILED = next(c for c in checks.load() if c.id == "dcgm").examples["fail"]


def test_the_output_of_a_failed_check_makes_the_accused_near_certain(engineer: Page, samples_ready: None) -> None:
    page = engineer
    upload(page, "to be checked", SAMPLES / "sigkill_rank5.tar.gz")
    open_incident(page)
    row = page.get_by_test_id("checks").locator("ol.checks > li", has_text="dcgmi diag -r 2").first
    expect(row).to_contain_text("gpu-node-02")
    row.locator("summary").click()
    row.locator("textarea").fill(FAILED)
    row.get_by_role("button", name="Store as evidence").click()
    expect(page.get_by_text("Stored as evidence")).to_be_visible()

    def is_certain() -> bool:  # asked without drawing the page, which costs ten times as much
        found = page.request.get(re.sub(r".*(/incidents/\d+/).*", r"/api/v1\1", page.url)).json()
        return found["report"]["conclusion"]["fault"][0]["p"] >= 0.975

    wait_for(is_certain, "the first suspect is not near certain", WORK_S, every_s=1)
    page.reload()
    suspect = page.get_by_test_id("suspect-1")
    expect(suspect).to_contain_text(re.compile(r"9[89]\s%"))
    expect(suspect).to_contain_text("gpu-node-02")
    expect(suspect).to_contain_text("a test failed")
    expect(page.get_by_test_id("strip")).to_contain_text("check run")
