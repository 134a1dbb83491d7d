"""A running job in the browser: the wall shows it, its log follows, and nothing moves under who reads."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import urllib.request
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.conftest import Site
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.e2e


@pytest.fixture
def token(engineer: Page) -> str:
    engineer.goto("/account/tokens/")
    engineer.get_by_label("Name").fill("collector")
    engineer.get_by_role("button", name="Create token").click()
    return engineer.get_by_test_id("token-secret").inner_text().strip()


@pytest.fixture
def push(site: Site, token: str) -> Callable[..., None]:
    """Sends lines of one node as a collector does."""

    def send(node: str, *lines: str) -> None:
        body = "\n".join(lines).encode() + b"\n"
        headers = {"Authorization": f"Bearer {token}", "Faultline-Job": "live-run"}
        headers |= {"Content-Type": "application/x-ndjson", "Faultline-Source-From": "file"}
        rows = b"\n".join(b'{"message":"%s","file":"%s/train.log"}' % (row, node.encode()) for row in body.splitlines())
        request = urllib.request.Request(f"{site.url}/api/v1/lines/", rows, headers)
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            assert answer.status == 200

    return send


def stamp(n: int) -> str:
    return f"2026-11-22 03:{n // 60:02d}:{n % 60:02d},000"


def test_the_log_of_a_running_job_follows_and_holds_still_for_who_reads(
    engineer: Page, push: Callable[..., None]
) -> None:
    page = engineer
    push("node-1", *(f"{stamp(n)} INFO iteration {n}/900 loss 2.5" for n in range(120)))
    push("node-2", "2026-11-22 03:01:00,500 WARN slow read")
    page.goto("/running/")
    row = page.get_by_test_id("running").locator("tr", has_text="live-run")
    expect(row).to_be_visible()
    expect(row).to_contain_text("119")  # the wall asks by itself
    row.get_by_role("link", name=re.compile("live log")).click()
    lines = page.locator("#live-lines tr")
    expect(lines).to_have_count(121)
    expect(lines.nth(61)).to_contain_text("slow read")
    expect(page.locator("[data-live-state]")).to_have_text("following")

    push("node-1", f"{stamp(121)} INFO iteration 121/900 loss 2.5")
    expect(lines.last).to_contain_text("iteration 121/900")
    expect(lines.last).to_be_in_viewport()

    page.evaluate("scrollTo({top: 300, behavior: 'instant'})")
    expect(page.locator("[data-live-state]")).not_to_have_text("paused")
    read = page.evaluate("document.elementFromPoint(600, 500).closest('tr').textContent")
    push("node-1", f"{stamp(122)} ERROR NCCL timeout")
    more = page.locator("[data-live-more]")
    expect(more).to_have_text("1 new line ↓")
    assert page.evaluate("document.elementFromPoint(600, 500).closest('tr').textContent") == read
    assert page.evaluate("scrollY") == 300
    more.click()
    expect(lines.last).to_contain_text("NCCL timeout")
    expect(lines.last).to_be_in_viewport()

    page.get_by_role("button", name="Pause").click()
    expect(page.locator("[data-live-state]")).to_have_text("paused")
    push("node-2", f"{stamp(123)} INFO while paused")
    page.wait_for_timeout(2500)
    expect(lines.last).to_contain_text("NCCL timeout")
    page.get_by_role("button", name="Go on").click()
    expect(lines.last).to_contain_text("while paused")

    page.get_by_label("Least level").select_option("4")
    page.get_by_role("button", name="Filter").click()
    expect(lines).to_have_count(1)
    push("node-2", f"{stamp(124)} INFO not shown", f"{stamp(125)} ERROR shown")
    expect(lines).to_have_count(2)
    expect(lines.last).to_contain_text("ERROR shown")


def test_the_page_of_a_running_job_follows_it_and_its_height_stays(
    engineer: Page, push: Callable[..., None], photograph: Callable[[Page, str], None]
) -> None:
    page = engineer
    # another launch: the lines of one that is over would only be late
    push("node-1", *(f"{stamp(200 + n)} INFO iteration {n}/900 loss 2.5" for n in range(30)))
    page.goto("/running/")
    expect(page.get_by_test_id("running").locator("tr", has_text="live-run")).to_contain_text("29")
    page.get_by_role("link", name="live-run", exact=True).click()
    state = page.get_by_test_id("running-state")
    expect(state).to_contain_text("29")
    box = state.bounding_box()
    push("node-1", f"{stamp(231)} INFO iteration 31/900 loss 2.5", f"{stamp(231)} ERROR CUDA error: out of memory")
    expect(state).to_contain_text("31")
    expect(state).to_contain_text("out of memory")  # it alone: a slow machine may also see a hang
    after = state.bounding_box()
    assert box is not None
    assert after is not None
    assert after["height"] == box["height"], "what stands below stays where it is"
    photograph(page, "running-job")


@pytest.mark.parametrize("coding", ["none", "gzip"])
@pytest.mark.parametrize("kind", ["http", "proto"])
def test_opentelemetrys_javascript_exporters_send_bodies_without_a_length(
    site: Site, engineer: Page, token: str, kind: str, coding: str
) -> None:
    node = shutil.which("node")
    package = f"@opentelemetry/exporter-logs-otlp-{kind}"
    if (
        node is None
        or subprocess.run([node, "-e", f"require('{package}')"], check=False, capture_output=True).returncode
    ):
        pytest.skip(f"Node or {package} is not installed (NODE_PATH)")
    script = """
    const {LoggerProvider, BatchLogRecordProcessor} = require('@opentelemetry/sdk-logs');
    const {OTLPLogExporter} = require(process.env.PACKAGE);
    const {resourceFromAttributes} = require('@opentelemetry/resources');
    const exporter = new OTLPLogExporter({url: process.env.URL, compression: process.env.CODING,
      headers: {Authorization: 'Bearer ' + process.env.TOKEN}});
    const resource = resourceFromAttributes({'slurm.job.id': process.env.JOB, 'host.name': 'node-1'});
    const provider = new LoggerProvider({resource, processors: [new BatchLogRecordProcessor({exporter})]});
    const logger = provider.getLogger('train');
    for (let n = 0; n < 500; n++) logger.emit({body: `iteration ${n}/900 loss 2.5`, severityNumber: 9});
    provider.shutdown().catch(error => { console.error(error); process.exit(1); });
    """
    job = f"js-{kind}-{coding}"
    more = {"URL": f"{site.url}/v1/logs", "PACKAGE": package, "CODING": coding, "TOKEN": token, "JOB": job}
    done = subprocess.run([node, "-e", script], env={**os.environ, **more}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = engineer.request.get(f"/jobs/{job}/live/0/lines/").json()["lines"]
    assert re.match(r"20.*Z INFO \[train\] iteration 499/900 loss 2.5", lines[-1][2])
