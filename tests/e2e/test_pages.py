"""Every page, in light and dark, wide and narrow: readable by everyone, nothing cut off, light to load."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable

import pytest
from playwright.sync_api import BrowserContext, Page, Request, expect

from tests.e2e.conftest import SIZES, Site
from tests.e2e.readable import check_fits, check_readable, check_steady
from tests.e2e.test_desk import open_sample

pytestmark = pytest.mark.e2e

#: page -> how to reach it from an address where it begins: follow the first link that matches
PAGES = {
    "queue": ("/", None),
    "incidents": ("/incidents/", None),
    "incident": ("/incidents/", "main a.headline"),
    "jobs": ("/jobs/", None),
    "job": ("/jobs/sample-sigkill-rank5/", None),
    "log": ("/jobs/sample-sigkill-rank5/logs/0/sigkill_rank5/logs/gpu-node-02/agent.stderr.log?fold=1", None),
    "upload": ("/upload/", None),
    "statistics": ("/statistics/", None),
    "nodes": ("/nodes/", None),
    "node": ("/nodes/", "main td a[href^='/nodes/']"),
    "not-found": ("/jobs/there-is-no-such-job/", None),
}
_RUN = "/jobs/sample-sigkill-rank5"
#: person -> further pages, visited one after another in one window
FURTHER = {
    "engineer": (
        *(f"{_RUN}/{tab}/" for tab in ("events", "files", "facts", "cost", "work")),
        "/jobs/sample-delay-100ms-node/flows/",
        "/jobs/sample-hang-dataloader/stacks/",
        f"{_RUN}/compare/?with=sample-healthy-ddp-a",
        "/replay/?machines=n0+n1+n2+n3&pp=1&k=2",
        "/account/tokens/",
        "/account/sessions/",
        "/api/docs/",
        "/help/",
        "/help/integrations/",
        "/help/?find=retry",
    ),
    "manager": ("/statistics/planning/", "/people/", "/people/engineer/", "/teams/", "/clusters/"),
    "admin": ("/account/services/", "/people/", "/people/engineer/", "/teams/", "/clusters/", "/rules/", "/rules/new/"),
}
#: statistics and job draw charts, whose library is loaded only there
PLAIN = [name for name in PAGES if name not in {"statistics", "job", "incident"}]
WEIGHT_BYTES = 150_000


def address_of(page: Page, name: str) -> str:
    start, link = PAGES[name]
    if not link:
        return start
    page.goto(start)
    return page.locator(link).first.get_attribute("href") or ""


def weight(request: Request) -> int:
    """Compressed bytes of the answer."""
    response = request.response()
    is_counted = response and response.ok and not request.url.startswith("data:")
    return len(zlib.compress(response.body(), 9)) if response and is_counted else 0


@pytest.fixture
def quiet(context_of: Callable[..., BrowserContext], samples_ready: None) -> Page:
    return context_of("engineer", reduced_motion="reduce").new_page()


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_light_self_contained_and_readable_in_every_form(
    quiet: Page, site: Site, name: str, photograph: Callable[[Page, str], None], expects_console_errors: list[str]
) -> None:
    """One visit for all of it: loading a page costs more than looking at it."""
    if name == "not-found":
        expects_console_errors.append("404")
    asked: list[Request] = []
    address = address_of(quiet, name)
    quiet.on("request", lambda request: asked.append(request))  # noqa: PLW0108  # Playwright marks what it calls
    quiet.goto(address)
    quiet.wait_for_load_state("networkidle")
    assert [request.url for request in asked if not request.url.startswith(("data:", site.url))] == []
    if name in PLAIN:
        weights = {request.url: weight(request) for request in asked.copy()}
        assert 0 < sum(weights.values()) <= WEIGHT_BYTES, weights
    check_steady(quiet)
    check_readable(quiet)
    photograph(quiet, name)


@pytest.mark.parametrize("person", FURTHER)
def test_further_pages_are_readable_in_every_form(
    context_of: Callable[..., BrowserContext], samples_ready: None, person: str
) -> None:
    page = context_of(person, reduced_motion="reduce").new_page()
    for address in FURTHER[person]:
        response = page.goto(address)
        assert response and response.ok, address
        page.wait_for_load_state("networkidle")
        if address != "/api/docs/":  # Swagger UI draws what it has read so far, and moves it
            check_steady(page)
        check_readable(page)


def test_a_job_with_the_longest_name_makes_no_page_wider(quiet: Page) -> None:
    quiet.goto("/jobs/")
    token = next(cookie["value"] for cookie in quiet.context.cookies() if "csrf" in cookie["name"])
    headers = {"X-CSRFToken": token, "Referer": quiet.url}
    made = quiet.request.put("/api/v1/jobs/long-name/", data={"name": "x" * 200}, headers=headers)
    assert made.ok, made.text()
    for address in ("/jobs/", "/jobs/long-name/", "/jobs/long-name/compare/", "/upload/?job=long-name"):
        response = quiet.goto(address)
        assert response and response.ok, address
        check_fits(quiet)


_LAYOUT = """() => { const { layout } = document.querySelector(".chart[data-keys]");
  return [layout.font.color, layout.legend.yanchor, layout.xaxis.range[0].slice(0, 13)]; }"""


def test_a_chart_that_is_drawn_follows_the_scheme_the_width_and_the_zone(quiet: Page) -> None:
    """Before, its words stayed dark when the system turned dark, and its legend lay over it when a window shrank."""
    page = quiet  # in Europe/Berlin
    page.goto(f"{_RUN}/")
    chart = page.locator(".chart[data-keys][data-wired]")
    expect(chart).to_be_visible()
    colour, legend, begins = page.evaluate(_LAYOUT)
    page.emulate_media(color_scheme="dark")
    page.wait_for_function(f"colour => ({_LAYOUT})()[0] !== colour", arg=colour)
    page.set_viewport_size(SIZES["narrow"])
    page.wait_for_function(f"legend => ({_LAYOUT})()[1] !== legend", arg=legend)
    page.get_by_role("button", name="Show local time").click()
    page.wait_for_function(f"begins => ({_LAYOUT})()[2] !== begins", arg=begins)
    local = page.evaluate(_LAYOUT)[2]
    assert int(local[-2:]) == int(begins[-2:]) + 1  # in November
    axis = chart.locator("xpath=.").evaluate("box => box.layout.xaxis.range")
    page.keyboard.press("z")
    page.keyboard.press("+")
    expect(page).to_have_url(re.compile("t0="))
    page.wait_for_function(
        """([from, to]) => { const { range } = document.querySelector('.chart[data-keys]').layout.xaxis;
          return range[0] > from && range[1] < to; }""",
        arg=axis,
    )


def test_on_a_phone_the_words_of_an_instant_have_the_whole_width(quiet: Page) -> None:
    quiet.set_viewport_size(SIZES["narrow"])
    quiet.goto(f"{_RUN}/instant/0/sigkill_rank5/logs/gpu-node-02/agent.stderr.log?line=41")
    row = quiet.locator(".instant tr[data-cursor]").first
    words, whole = row.locator(".text").bounding_box(), row.bounding_box()
    assert words and whole and words["width"] > 0.95 * whole["width"]
    expect(row.locator(".who")).to_be_visible()


def test_on_a_phone_what_to_do_now_stands_on_the_first_screen_before_the_acts(quiet: Page) -> None:
    quiet.set_viewport_size(SIZES["narrow"])
    open_sample(quiet)
    advice = quiet.locator(".answer-rows dt.on-phones")
    expect(advice).to_be_in_viewport()
    shown, acts = advice.bounding_box(), quiet.locator("[data-act=copy]").bounding_box()
    assert shown and acts and shown["y"] < acts["y"]


def test_routes_and_their_messages_are_readable_in_every_form(manager: Page) -> None:
    manager.goto("/routes/")
    check_readable(manager)
    manager.click("a:text-is('Webhook')")
    manager.fill("input[name=name]", "On-call chat")
    manager.fill("input[name=url]", "http://127.0.0.1:9/nobody-listens")
    manager.click("button:has-text('Preview the last week')")
    expect(manager.get_by_role("heading", name="The last 7 days")).to_be_focused()
    expect(manager.locator("input[name=name]")).to_have_value("On-call chat")
    check_readable(manager)
    with manager.expect_navigation():
        manager.click("button:has-text('Create route')")
    manager.goto("/routes/")
    manager.locator("[data-testid=routes] a").first.click()
    manager.wait_for_url(re.compile(r"/routes/\d+/$"))
    manager.click("button:has-text('Send a test')")
    manager.wait_for_url("**/deliveries/*/")
    check_readable(manager)
    manager.goto("/routes/")
    manager.locator("[data-testid=routes] a").first.click()
    expect(manager.locator("[data-testid=deliveries]")).to_be_visible()
    check_readable(manager)


def test_reading_works_without_javascript(context_of: Callable[..., BrowserContext], samples_ready: None) -> None:
    page = context_of("engineer", java_script_enabled=False).new_page()
    page.goto("/incidents/")
    page.locator("main a.headline").first.click()
    page.wait_for_url(re.compile(r"/incidents/\d+/"))
    expect(page.locator("h1").first).not_to_be_empty()
    expect(page.locator("button:has-text('Confirm')").first).to_be_visible()
    page.goto("/jobs/sample-delay-100ms-node/flows/")
    for chart, cell in (("Step time", "slow"), ("Communication map", "DP")):
        table = page.locator("details", has=page.locator("summary", has_text=f"{chart} as a table"))
        table.locator("summary").click()
        expect(table.get_by_role("cell", name=cell).first).to_be_visible()


def test_a_stranger_is_sent_to_sign_in(context_of: Callable[..., BrowserContext]) -> None:
    page = context_of("").new_page()
    for start, _ in PAGES.values():
        page.goto(start)
        expect(page.locator("input[name=password]"), start).to_be_visible()
