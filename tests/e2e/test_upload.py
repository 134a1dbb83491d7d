"""The upload page when things go wrong on the way: a connection that breaks, a page that is reloaded, a slug in use."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect

from tests.patience import WORK_S

pytestmark = pytest.mark.e2e
PATIENCE_MS = WORK_S * 1000
LINE = "2026-01-02 03:04:05 INFO iteration 1 of many, loss 2.5\n"


def new(folder: Path) -> str:
    """A line that no other test sends: of files that a job has, the page offers that job."""
    return f"2026-01-02 03:04:04 INFO begins in {folder.name}\n"


def choose(page: Page, name: str, *files: Path) -> None:
    page.goto("/upload/")
    page.get_by_test_id("upload-files").set_input_files(list(files))
    page.get_by_test_id("upload-name").fill(name)


def test_an_upload_continues_where_the_connection_broke(
    engineer: Page, tmp_path: Path, expects_console_errors: list[str]
) -> None:
    expects_console_errors.append("ERR_FAILED")
    page, log, sent = engineer, tmp_path / "rank0.log", []
    log.write_text(new(tmp_path) + LINE * 400_000)  # three chunks of 8 MiB

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
    log.write_text(new(tmp_path) + LINE * 100_000)
    choose(page, "Reloaded", log)
    page.get_by_test_id("upload-submit").click()
    page.wait_for_url(re.compile(r"/jobs/reloaded[^/]*/$"), timeout=PATIENCE_MS)
    page.reload()
    expect(page.locator("[data-testid=progress][data-state=active]")).to_have_count(0, timeout=PATIENCE_MS)


def test_a_wrong_field_is_reported_next_to_it_and_the_chosen_files_stay(
    engineer: Page, tmp_path: Path, expects_console_errors: list[str]
) -> None:
    expects_console_errors.append("422")
    page, log = engineer, tmp_path / "rank0.log"
    log.write_text(new(tmp_path) + LINE)
    choose(page, "Wrong", log)
    page.locator("details.wide > summary").click()
    page.get_by_test_id("upload-time_zone").fill("Mars/Olympus")
    page.get_by_test_id("upload-submit").click()
    expect(page.locator(".field", has_text="Time zone").locator(".errorlist")).to_contain_text("not a time zone")
    expect(page.locator("[data-files] li")).to_have_count(1)
    page.get_by_test_id("upload-time_zone").fill("Europe/Berlin")
    page.get_by_test_id("upload-submit").click()
    page.wait_for_url(re.compile(r"/jobs/wrong[^/]*/$"), timeout=PATIENCE_MS)


def test_the_form_works_without_javascript(context_of: Any, tmp_path: Path) -> None:
    page, log = context_of("engineer", java_script_enabled=False).new_page(), tmp_path / "rank0.log"
    log.write_text(new(tmp_path) + LINE)
    choose(page, "No script", log)
    page.get_by_test_id("upload-submit").click()
    page.wait_for_url(re.compile(r"/jobs/no-script[^/]*/$"), timeout=PATIENCE_MS)
    expect(page.get_by_role("heading", level=1)).to_contain_text("No script")


def expect_paths(page: Page, *paths: str) -> None:
    """The job whose page is shown has files at these paths; its page may load itself again meanwhile."""
    page.goto(f"{page.url}files/")
    files = page.locator("main tbody a[data-open]")
    expect(files).to_have_count(len(paths))
    for path in paths:
        expect(files.filter(has_text=path)).to_have_count(1)


def drop(page: Page, *paths: Path, beside: bool = False) -> None:
    """Drop what lies at these paths as a file manager does: on the field, or beside it on the page's head."""
    box = page.locator("h1" if beside else "[data-drop]").bounding_box()
    assert box
    at = {"x": box["x"] + 20, "y": box["y"] + box["height"] / 2}
    data = {"items": [], "files": [str(path) for path in paths], "dragOperationsMask": 1}
    session = page.context.new_cdp_session(page)
    for kind in ("dragEnter", "dragOver", "drop"):
        session.send("Input.dispatchDragEvent", {"type": kind, "data": data, **at})


def a_run(folder: Path) -> Path:
    """A run's directory with a log below each of two nodes."""
    for node in ("n1", "n2"):
        (folder / "run7" / node).mkdir(parents=True)
        (folder / "run7" / node / "rank.log").write_text(new(folder) + LINE * 10 + node)
    return folder / "run7"


def test_a_dropped_folder_keeps_its_paths_and_names_the_job(engineer: Page, tmp_path: Path) -> None:
    page, alone = engineer, tmp_path / "dmesg.txt"
    alone.write_text(new(tmp_path) + LINE)
    page.goto("/upload/")
    drop(page, a_run(tmp_path))
    expect(page.locator("[data-files] li")).to_have_count(2)
    drop(page, alone, beside=True)
    expect(page.locator("[data-tally]")).to_contain_text("3 files")
    expect(page.get_by_test_id("upload-name")).to_have_value("run7")
    page.get_by_test_id("upload-submit").click()
    page.wait_for_url(re.compile(r"/jobs/run7[^/]*/$"), timeout=PATIENCE_MS)
    expect_paths(page, "run7/n1/rank.log", "run7/n2/rank.log", "dmesg.txt")


def test_a_chosen_folder_can_be_thinned_out_before_it_is_sent(engineer: Page, tmp_path: Path) -> None:
    page = engineer
    page.goto("/upload/")
    page.get_by_test_id("upload-folder").set_input_files(a_run(tmp_path))
    page.get_by_role("button", name="Remove run7/n2/rank.log").click()
    expect(page.locator("[data-tally]")).to_contain_text("1 file,")
    page.get_by_role("button", name="Remove all").click()
    expect(page.locator("[data-files] li")).to_have_count(0)
    page.get_by_test_id("upload-submit").click()
    expect(page.get_by_role("alert")).to_contain_text("Choose at least one file")


def test_a_stopped_upload_continues_into_the_same_job(engineer: Page, tmp_path: Path) -> None:
    page, small, large = engineer, tmp_path / "a.log", tmp_path / "b.log"
    small.write_text(new(tmp_path) + LINE)
    large.write_text(new(tmp_path) + LINE * 400_000)

    def is_held(request: Any) -> bool:
        return bool(request.method == "PATCH" and int(request.headers["upload-offset"]) > 0)

    held = lambda route: None if is_held(route.request) else route.continue_()  # noqa: E731
    page.route("**/api/v1/uploads/*", held)
    choose(page, "Stopped", small, large)
    with page.expect_request(is_held, timeout=PATIENCE_MS):  # what is in the air at a stop may be refused afterwards
        page.get_by_test_id("upload-submit").click()
    expect(page.locator("[data-status]")).to_contain_text("1 of 2 files", timeout=PATIENCE_MS)
    page.get_by_test_id("upload-stop").click()
    expect(page.get_by_role("alert")).to_contain_text("Stopped: 1 of 2 files are there")
    page.unroute("**/api/v1/uploads/*")
    page.get_by_role("button", name="Go on").click()
    page.wait_for_url(re.compile(r"/jobs/stopped/$"), timeout=PATIENCE_MS)
    expect_paths(page, "a.log", "b.log")


def test_files_that_were_refused_are_tried_again_without_a_second_job(
    engineer: Page, tmp_path: Path, expects_console_errors: list[str]
) -> None:
    expects_console_errors.append("507")
    page, log = engineer, tmp_path / "rank0.log"
    log.write_text(new(tmp_path) + LINE)
    full = {"status": 507, "content_type": "application/problem+json", "body": '{"detail": "The disk is full."}'}
    page.route("**/api/v1/uploads/", lambda route: route.fulfill(**full))
    choose(page, "Refused at first", log)
    page.get_by_test_id("upload-submit").click()
    expect(page.get_by_role("alert")).to_contain_text("rank0.log: The disk is full.")
    page.unroute("**/api/v1/uploads/")
    page.get_by_role("button", name="Try these again").click()
    page.wait_for_url(re.compile(r"/jobs/refused-at-first/$"), timeout=PATIENCE_MS)


def test_an_upload_that_a_reload_broke_off_is_offered_again(engineer: Page, tmp_path: Path) -> None:
    page, log = engineer, tmp_path / "rank0.log"
    log.write_text(new(tmp_path) + LINE)
    page.route("**/api/v1/uploads/", lambda route: None)  # it never answers
    choose(page, "Broken off", log)
    page.get_by_test_id("upload-submit").click()
    expect(page.locator("[data-status]")).to_contain_text("0 of 1 file")
    page.on("dialog", lambda dialog: dialog.accept())
    page.reload()
    page.close()
    page = page.context.new_page()  # the tab was closed, too
    page.goto("/upload/")
    expect(page.get_by_text("The upload into “Broken off” did not end.")).to_be_visible()
    page.unroute("**/api/v1/uploads/")
    page.get_by_role("link", name="Go on with it").click()
    expect(page.get_by_text("Choose the same files again")).to_be_visible()
    page.get_by_test_id("upload-files").set_input_files(log)
    page.get_by_test_id("upload-submit").click()
    page.wait_for_url(re.compile(r"/jobs/broken-off/$"), timeout=PATIENCE_MS)
    # the page loads itself once more when the work has ended
    expect(page.locator("[data-testid=progress][data-state=active]")).to_have_count(0, timeout=PATIENCE_MS)
    page.goto("/upload/")
    expect(page.locator("[data-upload-resume]")).to_be_hidden()


def test_a_second_upload_of_the_same_files_is_offered_the_job_that_has_them(engineer: Page, tmp_path: Path) -> None:
    page, log = engineer, tmp_path / "twice.log"
    log.write_text(new(tmp_path) + LINE * 30)
    choose(page, "Sent once", log)
    page.get_by_test_id("upload-submit").click()
    page.wait_for_url(re.compile(r"/jobs/sent-once[^/]*/$"), timeout=PATIENCE_MS)
    first = page.url
    choose(page, "Sent twice", log)
    page.get_by_test_id("upload-submit").click()
    offer = page.locator("[data-upload-errors]")
    expect(offer).to_contain_text("“Sent once” has this evidence already.")
    assert page.request.get("/api/v1/jobs/sent-twice/").status == 404
    expect(page.get_by_role("button", name="Upload again")).to_be_enabled()
    offer.get_by_role("link", name="Open that job").click()
    page.wait_for_url(first)
    choose(page, "Sent twice", log)
    page.get_by_test_id("upload-submit").click()
    page.get_by_role("button", name="Upload again").click()  # a person who wants a second job gets it
    page.wait_for_url(re.compile(r"/jobs/sent-twice[^/]*/$"), timeout=PATIENCE_MS)
