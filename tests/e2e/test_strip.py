"""The causal strip in a real browser: marks by key, in order, each leading to its line."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.test_desk import open_sample

pytestmark = pytest.mark.e2e


def test_tab_goes_through_the_marks_in_order_and_enter_opens_the_line(engineer: Page, samples_ready: None) -> None:
    page = engineer
    open_sample(page)
    marks = page.get_by_test_id("strip-mark")
    labels = marks.evaluate_all("all => all.map(mark => mark.getAttribute('aria-label'))")
    assert [int(label.split(":")[0]) for label in labels] == list(range(1, len(labels) + 1))
    assert page.get_by_test_id("strip-row").count() >= len(labels) > 2
    page.locator("#strip header a").last.focus()
    for label in labels:
        page.keyboard.press("Tab")
        expect(page.locator(":focus")).to_have_attribute("aria-label", label)
    root = next(n for n, label in enumerate(labels) if "root cause" in label)
    number = re.search(r"#L(\d+)$", marks.nth(root).get_attribute("href") or "")
    assert number
    marks.nth(root).focus()
    page.keyboard.press("Enter")
    expect(page.locator(f"#L{number[1]}")).to_be_in_viewport()
