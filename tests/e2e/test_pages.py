"""Every page, in light and dark, wide and narrow: readable by everyone, nothing cut off, light to load."""

from __future__ import annotations

import re
import time
import zlib
from collections.abc import Callable

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import BrowserContext, Page, Response, expect

from tests.e2e.conftest import SCHEMES, SIZES, Site
from tests.patience import PATIENCE_S

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
        *(f"{_RUN}/{tab}/" for tab in ("events", "flows", "stacks", "files", "cost", "work")),
        f"{_RUN}/compare/?with=sample-healthy-ddp-a",
        "/replay/?machines=n0+n1+n2+n3&pp=1&k=2",
        "/account/tokens/",
        "/api/docs/",
    ),
    "manager": ("/statistics/planning/",),
    "admin": ("/account/services/", "/rules/", "/rules/new/"),
}
#: statistics and job draw charts, whose library is loaded only there
PLAIN = [name for name in PAGES if name not in {"statistics", "job", "incident"}]
WEIGHT_BYTES = 150_000


def visit(page: Page, name: str) -> None:
    start, link = PAGES[name]
    page.goto(start)
    if link:
        page.goto(page.locator(link).first.get_attribute("href") or "")
    page.wait_for_load_state("networkidle")


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
    foreign: list[str] = []
    weights: dict[str, int] = {}

    def weigh(response: Response) -> None:
        if response.ok and not response.url.startswith("data:"):
            weights[response.url] = len(zlib.compress(response.body(), 9))

    quiet.on("request", lambda request: foreign.append(request.url) if not request.url.startswith(site.url) else None)
    if name in PLAIN:
        quiet.on("requestfinished", lambda request: (response := request.response()) and weigh(response))
    visit(quiet, name)
    assert [url for url in foreign if not url.startswith("data:")] == []
    if name in PLAIN:
        assert 0 < sum(weights.values()) <= WEIGHT_BYTES, weights
    _readable_in_every_form(quiet)
    photograph(quiet, name)


def _fits_either_width(page: Page) -> None:
    for size, viewport in SIZES.items():
        page.set_viewport_size(viewport)
        deadline = time.monotonic() + PATIENCE_S  # a chart follows the window a moment later
        while (width := page.evaluate("document.documentElement.scrollWidth")) > viewport["width"]:
            assert time.monotonic() < deadline, f"{page.url} is {width} px wide on a {size} screen"
            page.wait_for_timeout(100)


def _readable_in_every_form(page: Page) -> None:
    """Axe in both schemes (colours are all that the second changes), and no sideways scrolling at either width."""
    page.set_viewport_size(SIZES["wide"])
    for scheme, options in zip(SCHEMES, ({}, {"runOnly": ["color-contrast"]}), strict=True):
        page.emulate_media(color_scheme=scheme)
        found = Axe().run(page, options=options)
        assert found.violations_count == 0, f"{page.url} in {scheme}: {found.generate_report()}"
    _fits_either_width(page)


@pytest.mark.parametrize("person", FURTHER)
def test_further_pages_are_readable_in_every_form(
    context_of: Callable[..., BrowserContext], samples_ready: None, person: str
) -> None:
    page = context_of(person, reduced_motion="reduce").new_page()
    for address in FURTHER[person]:
        response = page.goto(address)
        assert response and response.ok, address
        page.wait_for_load_state("networkidle")
        _readable_in_every_form(page)


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
        "was => document.querySelector('.chart[data-keys]').layout.xaxis.range[0] > was", arg=axis[0]
    )
    assert page.evaluate("document.querySelector('.chart[data-keys]').layout.xaxis.range[1]") < axis[1]


def test_on_a_phone_the_words_of_an_instant_have_the_whole_width(quiet: Page) -> None:
    quiet.set_viewport_size(SIZES["narrow"])
    quiet.goto(f"{_RUN}/instant/0/sigkill_rank5/logs/gpu-node-02/agent.stderr.log?line=41")
    row = quiet.locator(".instant tr[data-cursor]").first
    words, whole = row.locator(".text").bounding_box(), row.bounding_box()
    assert words and whole and words["width"] > 0.95 * whole["width"]
    expect(row.locator(".who")).to_be_visible()


def test_webhooks_and_their_messages_are_readable_in_every_form(manager: Page) -> None:
    manager.goto("/webhooks/")
    _readable_in_every_form(manager)
    manager.fill("input[name=name]", "On-call chat")
    manager.fill("input[name=url]", "http://127.0.0.1:9/nobody-listens")
    with manager.expect_navigation():
        manager.click("button:has-text('Create webhook')")
    manager.goto("/webhooks/")
    manager.locator("[data-testid=webhooks] a").first.click()
    manager.wait_for_url(re.compile(r"/webhooks/\d+/$"))
    manager.click("button:has-text('Send a ping')")
    manager.wait_for_url("**/deliveries/*/")
    _readable_in_every_form(manager)
    manager.goto("/webhooks/")
    manager.locator("[data-testid=webhooks] a").first.click()
    expect(manager.locator("[data-testid=deliveries]")).to_be_visible()
    _readable_in_every_form(manager)


def test_reading_works_without_javascript(context_of: Callable[..., BrowserContext], samples_ready: None) -> None:
    page = context_of("engineer", java_script_enabled=False).new_page()
    page.goto("/incidents/")
    page.locator("main a.headline").first.click()
    assert page.locator("h1").first.inner_text()
    assert page.locator("button:has-text('Confirm')").first.is_visible()


def test_a_stranger_is_sent_to_sign_in(site, browser) -> None:
    context = browser.new_context(base_url=site.url)
    page = context.new_page()
    for start, _ in PAGES.values():
        page.goto(start)
        assert page.locator("input[name=password]").is_visible(), start
    context.close()
