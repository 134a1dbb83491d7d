"""The desk in use: lists that follow what others do, the manager's way down and back, logs and timeline by key."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import BrowserContext, Page, Route, expect

from tests.e2e.conftest import until
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.e2e
JOB = "/jobs/sample-sigkill-rank5/"


def open_sample(page: Page) -> str:
    """The incident of the job whose rank was killed; returns its address."""
    page.goto(JOB)
    href = page.get_by_test_id("job-incident").first.get_attribute("href")
    assert href
    page.goto(href)
    page.wait_for_load_state("networkidle")
    return href


def test_a_queue_that_stays_open_shows_what_comes_and_keeps_the_focus(
    context_of: Callable[..., BrowserContext], samples_ready: None
) -> None:
    colleague, page = context_of("manager").new_page(), context_of("engineer").new_page()
    number = re.findall(r"\d+", open_sample(colleague))[0]
    colleague.keyboard.press("i")  # judged, so that it leaves the queue
    expect(colleague.locator('[data-act="undo"]')).to_be_visible()
    page.goto("/")
    row = page.locator(f"#incident-{number}")
    expect(page.locator(".incident-row").first).to_be_visible()
    expect(row).to_have_count(0)
    page.keyboard.press("j")
    reading = page.evaluate("document.activeElement.href")
    waiting = int(page.locator("#queue-count").inner_text())
    colleague.keyboard.press("u")  # the word is taken back: it awaits review again
    expect(row).to_be_visible()
    expect(page.locator("[data-live-said]")).to_have_text("1 new")
    expect(page.locator("#queue-count")).to_have_text(str(waiting + 1))
    current = "document.querySelector('.is-current a.headline')"
    page.wait_for_function(f"href => [document.activeElement, {current}].every(e => e?.href === href)", arg=reading)


def test_an_act_by_key_leaves_focus_and_cursor_where_they_were(engineer: Page, samples_ready: None) -> None:
    page = engineer
    open_sample(page)
    confirm = page.get_by_test_id("confirm-category")
    confirm.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_test_id("verdict").locator(".human-word")).to_be_visible()
    expect(confirm).to_be_focused()
    page.keyboard.press("j")
    page.keyboard.press("s")
    page.keyboard.press("c")
    suspect = page.get_by_test_id("suspect-1")
    expect(suspect.locator(".human-word")).to_be_visible()
    expect(suspect).to_have_class(re.compile("is-current"))
    expect(suspect.locator("[data-open]")).to_be_focused()
    words = page.locator(".human-word")
    for left in (1, 0):  # both are taken back: other tests find the sample as it was
        words.first.get_by_role("button").click()
        expect(words).to_have_count(left)
    page.keyboard.press("/")
    page.keyboard.type("category:hard")
    expect(page.locator("#q-list li").first).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#q-list")).to_be_hidden()
    expect(page.locator("#q")).to_have_value("category:hard")


def test_the_queue_is_worked_through_by_key_from_incident_to_incident(engineer: Page, samples_ready: None) -> None:
    page = engineer
    page.goto("/")
    rows = [a.get_attribute("href") for a in page.locator(".incident-row a.headline").all()]
    assert len(rows) >= 2
    page.locator(".incident-row a.headline").first.click()
    page.wait_for_url(re.compile(f"{rows[0]}$"))
    page.wait_for_load_state()  # keys work once the page's scripts have run
    page.keyboard.press("i")  # judged, so that it leaves the queue
    expect(page.get_by_test_id("verdict").locator(".human-word")).to_be_visible()
    page.keyboard.press("n")
    page.wait_for_url(re.compile(f"{rows[1]}$"))
    page.go_back()
    page.wait_for_load_state()
    page.locator(".human-word").get_by_role("button", name="take back").click()
    expect(page.locator(".human-word")).to_have_count(0)
    page.get_by_role("link", name="Next").click()
    page.wait_for_url(re.compile(f"{rows[1]}$"))
    page.wait_for_load_state()
    page.keyboard.press("p")
    page.wait_for_url(re.compile(f"{rows[0]}$"))


def test_a_queue_being_worked_on_is_left_alone(engineer: Page, samples_ready: None) -> None:
    page, asked = engineer, []
    page.clock.install()
    page.goto("/")
    page.on("request", lambda request: asked.append(request.url) if request.url.endswith("/") else None)
    page.keyboard.press("j")
    page.keyboard.press("x")
    expect(page.locator(".bulkbar")).to_be_visible()
    page.clock.run_for("10:00")
    assert asked == []
    page.keyboard.press("Escape")
    expect(page.locator(".bulkbar")).not_to_be_visible()
    with page.expect_response(lambda response: response.url.endswith("/"), timeout=PATIENCE_S * 1000) as answered:
        page.clock.run_for("00:06")
    sent = answered.value.request.headers
    assert sent["faultline-unattended"] == "1", "or a page that is left open would keep its session for ever"


def test_counts_of_a_long_list_appear_without_moving_its_rows(engineer: Page, samples_ready: None) -> None:
    page = engineer
    held: list[Route] = []
    # Playwright sets attributes of what it calls, which a method of a list does not take
    page.route(re.compile(r"count=all"), lambda route: held.append(route))  # noqa: PLW0108
    page.goto("/incidents/")
    rows, said, facets = page.locator("#rows"), page.locator("#said"), page.locator("#facets")
    expect(said).to_have_text(re.compile(r"^\s*50\+ · "))
    until(page, lambda: held, "the counts were never asked for")
    before = rows.bounding_box()
    held[0].continue_()
    expect(facets.locator("details")).not_to_have_count(0)
    expect(said).not_to_have_text(re.compile(r"\+ · "))
    total = re.findall(r"[\d,]+", said.inner_text())[0]
    expect(page.locator("#shown")).to_have_text(f"1–50 of {total}")
    states = facets.locator("details").first.locator(".n").all_inner_texts()
    assert sum(int(n.replace(",", "")) for n in states) == int(total.replace(",", ""))
    assert rows.bounding_box() == before

    # a fold that was closed stays so when the list is renewed
    state = facets.locator("details").first
    state.locator("summary").click()
    page.unroute_all()
    with page.expect_response(re.compile(r"count=all"), timeout=PATIENCE_S * 1000):
        pass
    page.wait_for_load_state("networkidle")
    expect(state).not_to_have_attribute("open", re.compile(""))


def test_a_manager_goes_from_a_bar_to_the_incident_and_back_to_the_same_picture(
    manager: Page, samples_ready: None
) -> None:
    page = manager
    page.goto("/statistics/?q=cluster%3Ademonstration&since=2026-11-01&until=2026-11-30&by=framework")
    asked = page.url
    figures = page.get_by_test_id("figures").inner_text()
    bar = page.locator('[data-chart="chart-weeks"][data-wired] .bars .point path').first  # a click leads on from now on
    bar.scroll_into_view_if_needed()
    box = bar.bounding_box()
    assert box
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.wait_for_url(re.compile(r"/incidents/\?q="))
    expect(page.locator("#q")).to_have_value(re.compile("cluster:demonstration.*happened:.*category:"))
    listed = page.url
    page.locator("main a.headline").first.click()
    expect(page.get_by_test_id("incident-headline")).to_be_visible()
    page.go_back()
    expect(page).to_have_url(listed)
    page.go_back()
    expect(page).to_have_url(asked)
    expect(page.get_by_test_id("figures")).to_have_text(figures, use_inner_text=True)
    expect(page.locator("select[name=by]")).to_have_value("framework")
    expect(page.get_by_test_id("statistics-search")).to_have_value("cluster:demonstration")


def test_statistics_are_printed_dark_on_white_and_no_wider_than_paper(
    context_of: Callable[..., BrowserContext], samples_ready: None
) -> None:
    page = context_of("manager").new_page()
    page.emulate_media(color_scheme="dark")
    page.goto("/statistics/")
    chart = page.locator('[data-chart="chart-weeks"][data-wired]')  # what is not drawn yet is not drawn for paper
    tick = chart.locator(".xtick text").first
    expect(tick).to_be_visible()
    fill, width = tick.evaluate("e => getComputedStyle(e).fill"), chart.locator("svg").first.bounding_box()
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.wait_for_function("document.querySelector('[data-chart=chart-weeks] svg').clientWidth < 700")
    expect(tick).not_to_have_css("fill", fill)
    expect(page.locator("#meaning")).to_have_attribute("open", "")
    page.emulate_media(media="print")
    expect(chart).to_have_css("break-inside", "avoid")
    expect(page.locator("section:has(#offenders-title)")).to_have_css("break-inside", "avoid")
    tiles = page.locator("[data-testid=figures] > div").evaluate_all("all => all.map(one => one.offsetTop)")
    assert len(tiles) == 3 and len(set(tiles)) == 1, "the three figures stand in one row of the paper"
    page.emulate_media(media="screen", color_scheme="dark")
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert width
    page.wait_for_function(
        "before => document.querySelector('[data-chart=chart-weeks] svg').clientWidth === before", arg=width["width"]
    )
    expect(tick).to_have_css("fill", fill)


def test_a_log_is_read_searched_marked_and_compared_with_the_others_by_key(engineer: Page, samples_ready: None) -> None:
    page = engineer
    open_sample(page)
    page.goto(page.get_by_test_id("evidence-line").first.get_attribute("href") or "")
    page.wait_for_load_state("networkidle")
    marked = page.locator("tr.is-marked")
    expect(marked).to_have_count(1)
    expect(marked).to_be_in_viewport()
    first = int(marked.get_attribute("id").removeprefix("L"))  # type: ignore[union-attr]
    page.keyboard.press("J")
    expect(marked).to_have_count(2)
    expect(page).to_have_url(re.compile(f"#L{first}-L{first + 1}$"))
    take = page.locator("[data-range-raw]")
    expect(take).to_have_attribute("href", re.compile(rf"from={first}&to={first + 1}$"))
    page.reload()
    expect(marked).to_have_count(2)
    page.keyboard.press("f")
    page.keyboard.type("exitcode")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("find=exitcode"))
    expect(page.locator("[data-find-said]")).to_contain_text("100 % of the bytes")
    found = page.locator("[data-find-lines] li").count()
    assert found >= 1
    page.reload()
    expect(page.locator("[data-find-lines] li")).to_have_count(found)
    # from hit to hit, each in the middle of the text, with the results beside it and every hit on the map
    line = page.locator("[data-find-lines] li").first.get_attribute("data-line")
    page.goto(f"{page.url.partition('#')[0]}#L1")
    page.keyboard.press("n")
    page.wait_for_url(re.compile(f"#L{line}$"))
    text, beside = page.locator(f"#L{line}").bounding_box(), page.locator("[data-find-results]").bounding_box()
    assert text and beside and 150 < text["y"] < 800
    assert page.locator(".table-wrap").first.evaluate("e => e.getBoundingClientRect().right") <= beside["x"]
    expect(page.locator("#log-map path.found")).to_have_attribute("d", re.compile(r"^M"))
    page.locator("#log-map").focus()
    page.keyboard.press("End")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(r"line=\d+#L\d+$"))
    expect(page.locator("#lines tr[id]").last).to_be_in_viewport()
    page.wait_for_load_state("networkidle")
    page.keyboard.press("w")
    page.wait_for_url(re.compile(r"/instant/.*at="))
    expect(page.locator("h1")).to_contain_text("All logs at")


def test_the_timeline_moves_by_key_and_its_range_is_in_the_address(engineer: Page, samples_ready: None) -> None:
    page = engineer
    page.goto(JOB)
    chart = page.locator("#timeline .chart[data-wired]")
    expect(chart).to_be_visible()
    page.keyboard.press("z")
    expect(chart).to_be_focused()
    page.keyboard.press("+")
    page.wait_for_url(re.compile(r"t0=[\d.]+&t1=[\d.]+"))
    expect(page.locator("#events")).to_contain_text("in the part of the timeline that is shown")
    near = page.evaluate("location.href")
    expect(page.locator("a[data-tab]").nth(1)).to_have_attribute("href", re.compile("t0="))
    page.keyboard.press("ArrowRight")
    page.wait_for_function("before => location.href !== before", arg=near)
    moved = page.evaluate("location.href")
    page.reload()
    expect(chart).to_be_visible()
    expect(page).to_have_url(moved)
    page.keyboard.press("z")
    page.keyboard.press("0")
    page.wait_for_function("() => !location.search.includes('t0')")
