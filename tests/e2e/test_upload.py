"""The upload page when things go wrong on the way: a connection that breaks, a page that is reloaded, a slug in use."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect

pytestmark = pytest.mark.e2e
PATIENCE_MS = 180_000
LINE = "2026-01-02 03:04:05 INFO iteration 1 of many, loss 2.5\n"


def choose(page: Page, name: str, *files: Path) -> None:
    page.goto("/upload/")
    page.get_by_test_id("upload-files").set_input_files(list(files))
    page.get_by_test_id("upload-name").fill(name)


def test_an_upload_goes_on_where_the_connection_broke(
    engineer: Page, tmp_path: Path, expects_console_errors: list[str]
) -> None:
    expects_console_errors.append("ERR_FAILED")
    page, log, sent = engineer, tmp_path / "rank0.log", []
    log.write_text(LINE * 400_000)  # three chunks of 8 MiB

    def breaking(route: Route) -> Any:
        sent.append(int(route.request.headers["upload-offset"]))
        return route.abort() if len(sent) == 2 else route.continue_()

    def is_piece(request: Any) -> bool:
        return bool(request.method == "PATCH")

    page.route("**/api/v1/uploads/*", lambda route: breaking(route) if is_piece(route.request) else route.continue_())
    choose(page, "Broken line", log)
    page.get_by_test_id("upload-submit").click()
    page.wait_for_url(re.compile(r"/jobs/broken-line[^/]*/$"), timeout=PATIENCE_MS)
    chunk = 8 << 20
    assert sent == [0, chunk, chunk, 2 * chunk]
    page.goto(f"{page.url}files/")
    expect(page.get_by_text("rank0.log")).to_be_visible()


def test_progress_is_there_again_after_a_reload_and_ends_by_itself(engineer: Page, tmp_path: Path) -> None:
    page, log = engineer, tmp_path / "rank0.log"
    log.write_text(LINE * 100_000)
    choose(page, "Reloaded", log)
    page.get_by_test_id("upload-submit").click()
    page.wait_for_url(re.compile(r"/jobs/reloaded[^/]*/$"), timeout=PATIENCE_MS)
    page.reload()
    expect(page.locator("[data-testid=progress][data-state=active]")).to_have_count(0, timeout=PATIENCE_MS)


def test_a_wrong_field_is_told_beside_it_and_the_chosen_files_stay(
    engineer: Page, tmp_path: Path, expects_console_errors: list[str]
) -> None:
    expects_console_errors.append("422")
    page, log = engineer, tmp_path / "rank0.log"
    log.write_text(LINE)
    choose(page, "Wrong", log)
    page.locator("details.wide > summary").click()
    page.get_by_test_id("upload-time_zone").fill("Mars/Olympus")
    page.get_by_test_id("upload-submit").click()
    expect(page.locator(".field", has_text="Time zone").locator(".errorlist")).to_contain_text("no time zone")
    expect(page.locator("[data-files] li")).to_have_count(1)
    page.get_by_test_id("upload-time_zone").fill("Europe/Berlin")
    page.get_by_test_id("upload-submit").click()
    page.wait_for_url(re.compile(r"/jobs/wrong[^/]*/$"), timeout=PATIENCE_MS)


def test_the_form_works_without_javascript(context_of: Any, tmp_path: Path) -> None:
    page, log = context_of("engineer", java_script_enabled=False).new_page(), tmp_path / "rank0.log"
    log.write_text(LINE)
    choose(page, "No script", log)
    page.get_by_test_id("upload-submit").click()
    page.wait_for_url(re.compile(r"/jobs/no-script[^/]*/$"), timeout=PATIENCE_MS)
    expect(page.get_by_role("heading", level=1)).to_contain_text("No script")
