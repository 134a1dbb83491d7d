"""The Flows tab of an hour-long job in a real browser: `python -m lab.measure flows_page [--ranks 1024] [--steps
2000]`.

Stores a diagnosis with a table of that size, serves it, opens it in Chromium, zooms by drag and by keyboard, and prints
the server's time for each view and the longest task of the page's main thread. ``--pictures DIR`` stores screenshots,
in light and dark, 1,440 and 390 pixels wide.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from diagnosis.kinds.flows.steps.rank_lanes import LaneRows, fold_lanes, write_table
from scripts.chromium import find_or_install
from triage.serve.children import free_port, spawn, stop, wait_until
from triage.serve.parts import web_command

ROOT = Path(__file__).resolve().parents[2]
T0 = 1_790_000_000.0
STEP_S = 1.8
PASSWORD = "a-measured-password"
WATCH = """() => { window.longest = 0; new PerformanceObserver(list => { for (const task of list.getEntries())
window.longest = Math.max(window.longest, task.duration) }).observe({ type: "longtask", buffered: true }) }"""


def table(ranks: int, steps: int) -> tuple[LaneRows, np.ndarray]:
    """Phases of every rank in every step, and the steps' ends; one rank is late in the second half."""
    rng = np.random.default_rng(7)
    lasting = STEP_S * rng.normal(1, 0.01, steps)
    lasting[steps // 2 : steps // 2 + steps // 40] *= 1.3
    end = T0 + np.cumsum(lasting)
    step, rank = np.repeat(np.arange(steps), ranks), np.tile(np.arange(ranks), steps)
    begin, length = (end - lasting)[step], lasting[step]
    late = 0.1 * ((rank == 17) & (step >= steps // 2))
    count = len(step)
    shares = {"pp_start": 0.05, "pp_end": 0.6, "dp_start": 0.7 + late, "dp_end": 0.97}
    names = pl.Series("rank", [f"10.{64 + r % 8}.0.{r // 8 + 1}" for r in range(ranks)])
    columns: dict[str, Any] = {"step": step + 1, "start": begin, "end": end[step]}
    columns |= {name: begin + share * length for name, share in shares.items()}
    columns |= {"pp_busy_s": 0.2 * length, "dp_busy_s": 0.25 * length, "ep_busy_s": np.zeros(count)}
    columns |= {name: pl.Series([None], dtype=pl.Float64).new_from_index(0, count) for name in ("ep_start", "ep_end")}
    lane = (np.arange(ranks) // max(1, ranks // 128)).astype(np.uint16)
    node = pl.Series("node", [f"node-{r // 8:03d}" for r in range(ranks)])
    rows = pl.DataFrame(columns | {"member": rank, "lane": lane[rank]})
    members = pl.DataFrame({"rank": names, "node": node, "lane": lane})
    return LaneRows(iter([(rows, fold_lanes(rows))]), members, names, node), end


def stored_table(folder: Path, ranks: int, steps: int) -> None:
    """A database with one user and one job, and the job's table in the storage."""
    import django

    django.setup()
    from django.contrib.auth import get_user_model
    from django.contrib.auth.models import Group
    from django.core.management import call_command

    from ingest.models import Attempt, Cluster, Job
    from triage.diagnosis_tables import tables_store
    from triage.services.diagnosing import diagnosis_store

    call_command("migrate", verbosity=0)
    call_command("collectstatic", verbosity=0, interactive=False)
    rows, end = table(ranks, steps)
    (folder / "tables").mkdir()
    write_table(rows, folder / "tables" / "flows-1.parquet")
    members = [f"10.{64 + r % 8}.0.{r // 8 + 1}" for r in range(ranks)]
    starts = np.concatenate([[T0], end[:-1]])
    slow = (end - starts) > 1.2 * STEP_S
    report = {
        "usable_for_timeline": True,
        "captures": [{"path": "flows.csv", "format": "canonical-csv", "t0": T0, "t1": float(end[-1]), "notes": []}],
        "jobs": [
            {
                "id": "flows-1",
                "members": members,
                "nodes": [f"node-{n:03d}" for n in range(ranks // 8)],
                "parallelism": {"tp": 8, "pp": 8, "dp": ranks // 64},
                "pairs": [
                    {"a": a, "b": b, "type": "DP", "records": 9} for a, b in zip(members, members[8:], strict=False)
                ],
                "steps": [
                    {"start": float(a), "end": float(b), "confidence": 1.0, "slow": bool(c)}
                    for a, b, c in zip(starts, end, slow, strict=True)
                ],
                "step_s": {"median": STEP_S, "limit": 1.1 * STEP_S},
                "table": "flows-1.parquet",
                "diagnoses": [],
            }
        ],
    }
    job = Job.objects.create(slug="hour", name="An hour", cluster=Cluster.objects.get_or_create(slug="default")[0])
    stored = diagnosis_store(
        attempt=Attempt.objects.create(job=job, number=0), revision=1, report={"engine": "b", "flows": report}
    )
    tables_store(stored, folder / "tables")
    get_user_model().objects.create_user("reader", password=PASSWORD).groups.add(Group.objects.get(name="engineer"))


def measure_page(url: str, pictures: Path | None) -> None:
    """Opens, zooms and prints."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_or_install(), args=["--no-sandbox", "--disable-gpu"])
        context = browser.new_context(base_url=url, viewport={"width": 1440, "height": 900})
        page = context.new_page()
        complaints: list[str] = []
        page.on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)
        page.goto("/")
        page.fill("input[name=username]", "reader")
        page.fill("input[name=password]", PASSWORD)
        page.click("button[type=submit]:visible")
        page.wait_for_url(f"{url}/")
        views: list[str] = []
        page.on(
            "response", lambda r: views.append(r.headers.get("server-timing", "")) if "/flows/0/" in r.url else None
        )
        page.add_init_script(f"({WATCH})()")
        page.goto("/jobs/hour/flows/")
        chart = page.locator(".chart[data-chart-url]").first
        chart.scroll_into_view_if_needed()
        plot = chart.locator(".plot-container, .nsewdrag").first
        plot.wait_for()
        page.wait_for_timeout(1500)

        def told(what: str) -> None:
            page.wait_for_timeout(1500)
            longest = page.evaluate("() => { const x = window.longest; window.longest = 0; return x }")
            print(f"{what}: view {views[-1] if views else '-'} ms, longest task {longest:.0f} ms", flush=True)

        told("opened")
        for n in range(3):
            box = chart.locator(".nsewdrag").first.bounding_box()
            assert box is not None
            page.mouse.move(box["x"] + 0.4 * box["width"], box["y"] + 0.5 * box["height"])
            page.mouse.down()
            page.mouse.move(box["x"] + 0.5 * box["width"], box["y"] + 0.5 * box["height"], steps=5)
            page.mouse.up()
            told(f"dragged to a tenth, {n + 1}")
            if pictures:
                chart.screenshot(path=str(pictures / f"drag-{n + 1}.png"))
        chart.focus()
        for key in ("-", "-", "ArrowRight", "+", "0"):
            page.keyboard.press(key)
            told(f"key {key}")
        for width, height in ((1440, 900), (390, 844)) if pictures else ():
            for scheme in ("light", "dark"):
                page.set_viewport_size({"width": width, "height": height})
                page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
                page.reload()
                chart.scroll_into_view_if_needed()
                page.wait_for_timeout(2500)
                assert pictures is not None
                page.screenshot(path=str(pictures / f"flows-{width}-{scheme}.png"), full_page=True)
        print(f"{len(complaints)} errors in the console {complaints[:3] if complaints else ''}")
        browser.close()


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--ranks", type=int, default=1024)
    options.add_argument("--steps", type=int, default=2000)
    options.add_argument("--pictures", type=Path)
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="flows-page-") as place:
        folder, port = Path(place), free_port()
        os.environ |= {
            "FAULTLINE_DATA_DIR": place,
            "DATABASE_URL": f"sqlite:///{place}/measure.sqlite3",
            "DJANGO_SETTINGS_MODULE": "triage.settings",
            "FAULTLINE_LOG_LEVEL": "ERROR",
            "DJANGO_ALLOW_ASYNC_UNSAFE": "1",
        }
        stored_table(folder, chosen.ranks, chosen.steps)
        log = folder / "web.log"
        process = spawn(web_command("127.0.0.1", port, "1"), log=log, env=dict(os.environ))
        try:
            wait_until(lambda: "Listening" in log.read_text(), process, what="the site", log=log, timeout_s=60)
            measure_page(f"http://localhost:{port}", chosen.pictures)
        finally:
            stop(process)
    return 0
