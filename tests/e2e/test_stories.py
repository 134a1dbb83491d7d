"""What people do, from the upload to the activity log, in a real browser, on real recordings."""

from __future__ import annotations

import csv
import re
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.patience import WORK_S

ROOT = Path(__file__).resolve().parent.parent.parent
SAMPLES = ROOT / "samples"
#: from the end of the upload to the incident; parsing and diagnosing take seconds, a busy machine takes its time
PATIENCE_MS = WORK_S * 1000

pytestmark = pytest.mark.e2e


def upload(page: Page, name: str, *files: Path, family: str = "") -> None:
    """Upload files as one job and wait, by watching its page alone, until the work is done."""
    page.goto("/upload/")
    page.get_by_test_id("upload-files").set_input_files(list(files))
    page.locator("[name=name]").fill(name)
    if family:
        page.locator("[name=family]").fill(family)
    page.get_by_test_id("upload-submit").click()
    if any(file.parent == SAMPLES for file in files):  # the site has these and offers their job
        page.get_by_role("button", name="Upload again").click()
    page.wait_for_url(re.compile(r"/jobs/[^/]+/$"), timeout=PATIENCE_MS)
    expect(page.get_by_role("heading", level=1)).to_contain_text(name)
    expect(page.locator("[data-testid=progress][data-state=active]")).to_have_count(0, timeout=PATIENCE_MS)
    expect(page.locator("main")).not_to_contain_text("Not diagnosed yet")


def open_incident(page: Page) -> None:
    """From the job's page, which shows it without being reloaded by hand."""
    page.get_by_test_id("job-incident").first.click()
    expect(page.get_by_test_id("incident-headline")).to_be_visible()


def confirm_category(page: Page) -> None:
    page.get_by_test_id("confirm-category").click()
    expect(verdict_chip(page)).to_have_text("reviewed")
    expect(page.get_by_test_id("activity")).to_contain_text("confirmed the category")


def verdict_chip(page: Page) -> Locator:
    """Whose word stands; an unreviewed verdict says "reviewed", too, so that the whole text is compared."""
    return page.get_by_test_id("verdict").locator(".verdict .chip")


def correct_suspect(page: Page, right: str) -> str:
    """Say that another node is to blame than the first suspect; returns whom the machine had accused."""
    suspect = page.get_by_test_id("suspect-1")
    accused = suspect.locator(".mono").first.inner_text()
    editor = suspect.get_by_test_id("correct-suspect")
    editor.locator("summary").click()
    editor.locator("input[name=value]").fill(right)
    editor.locator("input[name=reason]").fill("seen in the rack")
    editor.get_by_role("button", name="Save the correction").click()
    expect(suspect.locator(".human-word")).to_contain_text(right)
    expect(page.get_by_test_id("activity")).to_contain_text(f"corrected suspect {accused}")
    return accused


def follow_first_evidence_line(page: Page) -> None:
    """Open the first evidence line: the log shows that very line, and the line that the address names."""
    line = page.get_by_test_id("evidence-line").first
    link = line if line.evaluate("e => e.tagName") == "A" else line.locator("a[href*='/logs/']").first
    number = re.search(r"#L(\d+)", link.get_attribute("href") or "")
    assert number, "an evidence line's address ends in its line number"
    link.click()
    page.wait_for_url(re.compile(rf"/logs/.*#L{number[1]}"))
    expect(page.locator(f"#L{number[1]}")).to_be_in_viewport()
    page.go_back()
    expect(page.get_by_test_id("incident-headline")).to_be_visible()


@pytest.mark.broker
def test_a_killed_rank_from_upload_to_a_corrected_verdict(
    engineer: Page, samples_ready: None, photograph: Callable[[Page, str], None]
) -> None:
    page = engineer
    upload(page, "Good night run", SAMPLES / "healthy_ddp_b.tar.gz", family="nightly")
    expect(page.get_by_test_id("job-incident")).to_have_count(0)
    upload(page, "Bad night run", SAMPLES / "sigkill_rank5.tar.gz", family="nightly")
    open_incident(page)
    headline = page.get_by_test_id("incident-headline").inner_text()
    assert "gpu-node-02" in headline, "the node whose rank was killed, not its louder peers"
    follow_first_evidence_line(page)
    photograph(page, "incident-unreviewed")
    confirm_category(page)
    accused = correct_suspect(page, "gpu-node-03")
    page.reload()
    activity = page.get_by_test_id("activity")
    for words in ("confirmed", "corrected", accused, "gpu-node-03", "seen in the rack", "engineer"):
        expect(activity).to_contain_text(words)
    expect(verdict_chip(page)).to_have_text("reviewed")
    photograph(page, "incident-reviewed")


@pytest.mark.broker
@pytest.mark.shared
def test_a_real_cluster_log_from_upload_to_a_corrected_verdict(
    engineer: Page, samples_ready: None, shared: Path, tmp_path: Path
) -> None:
    page = engineer
    log = real_failed_log(shared, tmp_path)
    upload(page, "Segmentation benchmark", log)
    open_incident(page)
    follow_first_evidence_line(page)
    confirm_category(page)
    if page.get_by_test_id("suspect-1").count():
        correct_suspect(page, "another-node")
    page.reload()
    expect(verdict_chip(page)).to_have_text("reviewed")


def real_failed_log(shared: Path, folder: Path) -> Path:
    """The smallest failed maskrcnn_azure log with lines that a reader called the root of its failure."""
    with (shared / "data" / "real_jobs" / "labels.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["group"] == "maskrcnn_azure"]
        failed = {row["file"] for row in rows if row["outcome"] == "failed"}
    with tarfile.open(shared / "data" / "real_jobs" / "logs.tar.gz") as archive:
        members = [member for member in archive if member.name in failed]
        smallest = min(members, key=lambda member: member.size)
        source = archive.extractfile(smallest)
        assert source
        log = folder / Path(smallest.name).name
        log.write_bytes(source.read())
    return log


def test_the_whole_review_with_the_keyboard_alone(engineer: Page, samples_ready: None) -> None:
    page = engineer
    page.goto("/")
    page.keyboard.press("j")
    page.keyboard.press("o")
    expect(page.get_by_test_id("incident-headline")).to_be_visible()
    page.wait_for_load_state()  # keys work once the page's scripts have run
    judged = page.url
    page.keyboard.press("c")
    expect(page.locator("#toasts")).to_contain_text("Confirmed the category")
    expect(page).not_to_have_url(judged)
    page.goto(judged)
    expect(verdict_chip(page)).to_have_text("reviewed")
    expect(page.get_by_test_id("activity").locator("li").last).to_contain_text("confirmed the category")
    page.keyboard.press("u")
    expect(verdict_chip(page)).to_have_text("machine, unreviewed")
    expect(page.get_by_test_id("activity").locator("li").last).to_contain_text("took back")
    page.keyboard.press("?")
    expect(page.locator("#keys-sheet")).to_be_visible()


def test_log_text_is_shown_as_text_whatever_it_holds(engineer: Page, tmp_path: Path, samples_ready: None) -> None:
    page = engineer
    log = tmp_path / "hostile.log"
    attack = "<img src=x onerror=document.title='owned'><script>document.title='owned'</script>"
    lines = [f"2026-01-02 03:04:{second:02d} ERROR \x1b[31m{attack}\x1b[0m \x07" for second in range(30)]
    log.write_text("\n".join(lines) + "\n")
    upload(page, "Hostile <b>job</b>", log)
    slug = page.url.rstrip("/").rpartition("/")[2]
    page.goto(f"/jobs/{slug}/files/")
    page.locator("a[href*='/logs/']").first.click()
    expect(page.locator("#L1")).to_contain_text("<img src=x")
    assert page.title() != "owned"
    assert page.locator("main img[src=x]").count() == 0


def test_a_broken_upload_is_reported_and_the_rest_continues(
    engineer: Page, tmp_path: Path, samples_ready: None
) -> None:
    page = engineer
    good, picture, cut = tmp_path / "good.log", tmp_path / "photo.jpg", tmp_path / "cut.tar.gz"
    good.write_text("2026-01-02 03:04:05 INFO start\n2026-01-02 03:04:06 INFO done\n")
    picture.write_bytes(b"\xff\xd8\xff\xe0\x00\x10JFIF\x00" + bytes(range(256)) * 40)
    cut.write_bytes((SAMPLES / "healthy_ddp_a.tar.gz").read_bytes()[:100_000])
    upload(page, "Broken evidence", good, picture, cut)
    page.reload()
    problems = page.get_by_test_id("problems")
    expect(problems).to_contain_text("photo.jpg")
    expect(problems).to_contain_text("cut.tar.gz")
    expect(problems).not_to_contain_text("good.log")


def test_the_back_button_leads_from_the_incident_to_the_same_search(manager: Page, samples_ready: None) -> None:
    page = manager
    page.goto("/incidents/?q=category:hardware")
    page.locator("main a.headline").first.click()
    expect(page.get_by_test_id("incident-headline")).to_be_visible()
    page.go_back()
    expect(page.locator("#q")).to_have_value("category:hardware")
