"""Acts on an incident faster than the site answers them: each is shown, none takes away what is being typed."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page, Route, expect

from tests.e2e.conftest import until
from tests.e2e.test_desk import open_sample

pytestmark = pytest.mark.e2e


def hold_first(page: Page, address: str) -> list[Route]:
    """Keep the first request to such an address on its way until it is continued."""
    held: list[Route] = []

    def pass_on(route: Route) -> None:
        if held:
            route.continue_()
        else:
            held.append(route)

    page.route(re.compile(address), pass_on)
    return held


def wait_for(page: Page, held: list[Any]) -> None:
    until(page, lambda: held, "the request was never sent")


def take_all_back(page: Page) -> None:
    """Other tests find the sample as it was."""
    words = page.locator(".human-word")
    while said := words.all_inner_texts():
        words.first.get_by_role("button", name="take back").click()
        # an earlier word may stand again
        until(page, lambda said=said: words.all_inner_texts() != said, f"not taken back: {said}")


def test_acts_that_follow_each_other_faster_than_the_answers_are_all_shown(engineer: Page, samples_ready: None) -> None:
    page = engineer
    open_sample(page)
    waiting = int(page.locator("#queue-count").inner_text())
    held = hold_first(page, r"/incidents/\d+/decide/$")
    page.get_by_test_id("confirm-category").click()
    wait_for(page, held)
    page.keyboard.press("j")
    page.keyboard.press("s")
    page.keyboard.press("r")
    page.keyboard.press("a")
    held[0].continue_()
    expect(page.get_by_test_id("verdict").locator(".human-word")).to_contain_text("confirmed")
    expect(page.get_by_test_id("suspect-1").locator(".human-word")).to_contain_text("rejected")
    expect(page.locator('[data-act="assign"]')).to_contain_text("give back")
    expect(page.locator("#queue-count")).to_have_text(str(waiting - 1) if waiting > 1 else "")
    activity = page.get_by_test_id("activity")
    for words in ("confirmed the category", "rejected suspect", "assigned it to engineer"):
        expect(activity).to_contain_text(words)
    page.keyboard.press("a")
    expect(page.locator('[data-act="assign"]')).to_contain_text("Assign to me")
    take_all_back(page)
    expect(page.locator("#queue-count")).to_have_text(str(waiting))


def test_what_is_typed_while_an_answer_is_on_its_way_stays(engineer: Page, samples_ready: None) -> None:
    page = engineer
    open_sample(page)
    comment = page.locator("#comment")
    comment.fill("Seen in the rack, too.")
    held = hold_first(page, r"/incidents/\d+/decide/$")
    page.get_by_test_id("confirm-category").click()
    wait_for(page, held)
    editor = page.get_by_test_id("suspect-1").get_by_test_id("correct-suspect")
    editor.locator("summary").click()
    editor.locator("input[name=value]").fill("gpu-node-03")
    reason = editor.locator("input[name=reason]")
    reason.press_sequentially("half a sen")
    held[0].continue_()
    expect(page.get_by_test_id("verdict").locator(".human-word")).to_contain_text("confirmed")
    page.keyboard.type("tence")
    expect(reason).to_have_value("half a sentence")
    expect(editor.locator("input[name=value]")).to_have_value("gpu-node-03")
    expect(comment).to_have_value("Seen in the rack, too.")
    reason.press("Enter")
    expect(page.get_by_test_id("suspect-1").locator(".human-word")).to_contain_text("half a sentence")
    expect(comment).to_have_value("Seen in the rack, too.")
    page.get_by_role("button", name="Comment").click()
    expect(page.get_by_test_id("activity")).to_contain_text("Seen in the rack, too.")
    expect(comment).to_have_value("")
    take_all_back(page)


def test_a_comment_survives_a_reload_and_is_sent_by_keys(
    context_of: Callable[..., BrowserContext], samples_ready: None
) -> None:
    page = context_of("engineer").new_page()
    open_sample(page)
    comment = page.locator("#comment")
    comment.fill("Half a thought")
    page.reload()
    expect(comment).to_have_value("Half a thought")
    comment.press("End")
    comment.press_sequentially(", finished.")
    comment.press("Control+Enter")
    expect(page.get_by_test_id("activity")).to_contain_text("Half a thought, finished.")
    expect(comment).to_have_value("")
    page.reload()
    expect(comment).to_have_value("")


def test_an_act_that_fails_is_reported_and_leaves_the_page_whole(
    context_of: Callable[..., BrowserContext], samples_ready: None, expects_console_errors: list[str]
) -> None:
    expects_console_errors += ["Failed to load resource", "Failed to fetch", "htmx:error", "responseError", "status of"]
    page = context_of("engineer").new_page()
    open_sample(page)
    toast, verdict = page.locator(".toast.error").last, page.get_by_test_id("verdict")
    page.route(re.compile("/decide/$"), lambda route: route.abort())
    page.keyboard.press("c")
    expect(toast).to_contain_text("did not answer")
    page.unroute(re.compile("/decide/$"))
    refusal = '<html><body><section class="error-page"><p>503</p><h1>The database is busy</h1><p>Wait.</p></section>'
    page.route(re.compile("/decide/$"), lambda route: route.fulfill(status=503, content_type="text/html", body=refusal))
    page.keyboard.press("c")
    expect(toast).to_have_text("The database is busy: Wait. ")
    page.unroute(re.compile("/decide/$"))
    page.context.clear_cookies(name="sessionid")
    page.keyboard.press("c")
    expect(toast).to_contain_text("You were signed out, so this was not saved.")
    expect(toast.get_by_role("link")).to_have_attribute("href", re.compile(r"/sign-in/\?next=%2Fincidents%2F\d+%2F$"))
    expect(page.get_by_test_id("confirm-category")).to_be_visible()
    expect(verdict.locator(".human-word")).to_have_count(0)
