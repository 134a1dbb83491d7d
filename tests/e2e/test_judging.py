"""Judging an incident: no act opens what was closed or moves the focus, and a correction is found by typing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Locator, Page, expect

from tests.e2e.conftest import SIZES, until
from tests.e2e.test_acts import take_all_back
from tests.e2e.test_desk import open_sample

pytestmark = pytest.mark.e2e

_STATE = """() => ({
  open: [...document.querySelectorAll("details[open]")].map(e => e.dataset.testid || e.className || e.textContent),
  focus: document.activeElement.dataset.testid || document.activeElement.dataset.act || document.activeElement.tagName,
})"""


_HOURS = "stamp => -new Date(stamp).getTimezoneOffset() / 60"


def state(page: Page) -> Any:
    """Which folds are open, and what has the focus."""
    return page.evaluate(_STATE)


def expect_state(page: Page, wanted: Any, part: str = "") -> None:
    """The words of an answer are there a moment before folds and focus are as they were."""
    until(page, lambda: (state(page)[part] if part else state(page)) == wanted, lambda: f"{state(page)}, not {wanted}")


def acted(page: Page, key: str, words: str) -> None:
    """Press the key and wait until the page says that the act was done."""
    page.keyboard.press(key)
    expect(page.locator("#toasts")).to_contain_text(words)


@pytest.mark.parametrize("is_open", [False, True], ids=["closed", "open"])
def test_no_act_opens_or_closes_a_fold_or_takes_the_focus(engineer: Page, samples_ready: None, is_open: bool) -> None:
    page = engineer
    open_sample(page)
    if is_open:
        page.get_by_test_id("why-this-rule").locator("summary").click()
        page.get_by_test_id("record-action").locator("summary").first.click()
    page.locator('[data-act="next"]').focus()
    before = state(page)
    judged = (("i", "inconclusive"), ("r", "Rejected"))
    both = ("C", "Confirmed the category and suspect gpu-node-02")
    acts = (*judged, both, ("a", "Assigned"), ("u", "Undone"))
    for key, words in acts:
        acted(page, key, words)
        expect_state(page, before)
    take_all_back(page)


def test_who_opens_an_editor_by_a_click_types_into_it_and_gets_back_to_its_button(
    engineer: Page, samples_ready: None
) -> None:
    page = engineer
    open_sample(page)
    editor = page.get_by_test_id("suspect-1").get_by_test_id("correct-suspect")
    editor.locator("summary").click()
    page.keyboard.type("cable")  # outside of a field its first letter would confirm the category
    expect(editor.locator("[name=value]")).to_have_value("cable")
    editor.locator("[data-close]").click()
    expect(editor.locator("summary")).to_be_focused()
    expect(page.locator("#toasts")).to_be_empty()


def test_a_click_keeps_the_focus_on_its_button(engineer: Page, samples_ready: None) -> None:
    page = engineer
    open_sample(page)
    before = state(page)["open"]
    page.get_by_test_id("confirm-category").click()
    expect(page.locator("#toasts")).to_contain_text("Confirmed the category")
    expect(page.get_by_test_id("confirm-category")).to_be_focused()
    expect_state(page, before, "open")
    take_all_back(page)


def test_an_answered_form_closes_and_gives_the_focus_to_what_opens_it(engineer: Page, samples_ready: None) -> None:
    page = engineer
    open_sample(page)
    before = state(page)["open"]
    hand_over, more = page.locator(".incident-head details.menu").all()
    more.locator("summary").click()
    more.get_by_role("button", name="Snooze").click()
    expect(page.locator("#toasts")).to_contain_text("snoozed")
    expect(more.locator("summary")).to_be_focused()
    expect_state(page, before, "open")
    acted(page, "u", "Undone")
    page.keyboard.press("h")
    expect(hand_over.get_by_role("button").first).to_be_focused()
    hand_over.get_by_role("button", name="manager").click()
    expect(page.locator(".incident-meta")).to_contain_text("manager")
    expect_state(page, before, "open")
    acted(page, "u", "Undone")
    expect(page.locator(".incident-meta")).not_to_contain_text("manager")


def test_the_last_own_act_is_taken_back_by_key_after_a_reload_too(engineer: Page, samples_ready: None) -> None:
    page = engineer
    open_sample(page)
    acted(page, "i", "inconclusive")
    page.get_by_test_id("confirm-category").click()
    expect(page.locator("#toasts")).to_contain_text("Confirmed the category")
    page.reload()
    words = page.get_by_test_id("verdict").locator(".human-word")
    expect(words).to_contain_text("confirmed")
    expect(page.locator('[data-act="undo"]')).to_have_count(0)
    acted(page, "u", "you confirmed the category")
    expect(words).to_contain_text("inconclusive")
    page.goto("/")
    acted(page, "u", "you found inconclusive: the category")
    open_sample(page)
    expect(words).to_have_count(0)


def test_a_category_is_found_by_typing(engineer: Page, samples_ready: None) -> None:
    page = engineer
    open_sample(page)
    page.keyboard.press("e")
    field = page.get_by_role("combobox", name="What is right instead")
    expect(field).to_be_focused()
    expect(field).to_have_attribute("aria-expanded", "true")
    listbox = page.get_by_role("listbox", name="Choices")
    expect(listbox.locator(".combobox-group").first).to_have_text("Runner-up")
    whole = listbox.get_by_role("option").count()
    page.keyboard.type("cable")
    options = listbox.get_by_role("option")
    expect(options.first).to_have_attribute("aria-selected", "true")
    until(page, lambda: 0 < options.count() < whole)
    expect(field).to_have_attribute("aria-activedescendant", options.first.get_attribute("id") or "")
    chosen = options.first.locator("span").inner_text()
    page.keyboard.press("Enter")
    expect(listbox).to_be_hidden()
    expect(field).to_have_attribute("aria-expanded", "false")
    expect(field).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#toasts")).to_contain_text("Corrected the category")
    expect(page.get_by_test_id("verdict").locator(".verdict")).to_contain_text(chosen)
    expect(page.get_by_test_id("correct-category").locator("summary")).to_be_focused()
    page.keyboard.press("e")
    page.keyboard.type("no such thing")
    expect(page.get_by_role("listbox", name="Choices")).to_have_text("Nothing matches.")
    page.keyboard.press("Escape")
    expect(page.get_by_role("listbox", name="Choices")).to_be_hidden()
    expect(field).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.get_by_test_id("correct-category")).not_to_have_attribute("open", "")
    take_all_back(page)


def is_inside(part: Locator, page: Page) -> bool:
    """Whether the window shows all of it."""
    box, window = part.bounding_box(), page.viewport_size
    assert box and window
    is_across = box["x"] >= 0 and box["x"] + box["width"] <= window["width"]
    return is_across and box["y"] >= 0 and box["y"] + box["height"] <= window["height"] + 1


@pytest.mark.parametrize("size", list(SIZES))
def test_what_opens_over_the_page_stays_inside_the_window(
    context_of: Callable[..., BrowserContext], samples_ready: None, size: str
) -> None:
    page = context_of("engineer", viewport=SIZES[size]).new_page()
    for address in (open_sample(page), "/incidents/"):
        page.goto(address)
        page.wait_for_load_state("networkidle")
        for fold in page.locator("details.menu, details.editor").all():
            if not fold.locator("summary").first.is_visible():
                continue
            fold.locator("summary").first.click()
            body = fold.locator(":scope > :is(.menu-body, .editor-body)")
            expect(body).to_be_visible()
            if (field := body.get_by_role("combobox")).count():
                field.first.focus()
            until(  # it is placed after it was laid out
                page,
                lambda body=body: is_inside(body, page),
                lambda body=body: f"{body.bounding_box()}: {body.inner_text()}",
            )
            page.keyboard.press("Escape")
            page.keyboard.press("Escape")
            fold.evaluate("fold => { fold.open = false; }")


def test_rows_of_lists_are_one_line_high_and_whole_on_hover(engineer: Page, samples_ready: None) -> None:
    page = engineer
    for address, rows in (("/", "li.incident-row"), ("/incidents/", "li.incident-row"), ("/jobs/", ".jobs tbody tr")):
        page.goto(address)
        expect(page.locator(rows).first).to_be_visible()
        assert set(page.locator(rows).evaluate_all("all => all.map(e => e.getBoundingClientRect().height)")) == {36}
    page.goto("/")
    begins = "all => all.map(row => [...row.children].map(cell => Math.round(cell.getBoundingClientRect().x)).join())"
    assert len(set(page.locator("li.incident-row").evaluate_all(begins))) == 1, "columns begin at one place in each row"
    page.goto("/incidents/")
    headline = page.locator(".incident-row a.headline").first
    assert headline.inner_text().lower() in (headline.get_attribute("title") or "").lower()


def test_times_are_shown_in_the_readers_zone_by_a_switch_that_is_kept(engineer: Page, samples_ready: None) -> None:
    page = engineer  # in Europe/Berlin
    open_sample(page)
    time = page.locator(".incident-meta time").first
    utc = time.inner_text()
    page.get_by_role("button", name="Show local time").click()
    expect(time).not_to_have_text(utc)
    expect(page.locator("[data-times-said]")).to_contain_text("Europe/Berlin")
    local = time.inner_text()
    page.reload()
    expect(time).to_have_text(local)
    assert int(local[11:13]) == (int(utc[11:13]) + page.evaluate(_HOURS, time.get_attribute("datetime"))) % 24
    page.get_by_role("button", name="Show UTC").click()
    expect(time).to_have_text(utc)
