"""Ten things that people do at the desk, and the clicks and keys of each: `python -m lab.measure tasks [--against
CHECKOUT]`.

Starts a site with its demonstration, does each task in Chromium as an experienced person would, and prints how often it
clicked, pressed a key, typed into a field or chose from a list, and how long the pages took. A task begins at the queue
and ends when the page shows what was wanted. With ``--against`` the same is done at another checkout, by the steps that
work there.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.measure.site import ROOT, Site, running
from scripts.chromium import find_or_install
from triage.serve.children import spawn, stop

SAMPLES = ROOT / "samples"
SIZE = {"width": 1440, "height": 900}
ENDS_S = 240


@dataclass(slots=True)
class Person:
    """A person at a page, whose acts are counted."""

    page: Any
    acts: int = 0

    def click(self, selector: str) -> None:
        self.acts += 1
        self.page.locator(selector).first.click()

    def press(self, keys: str) -> None:
        """Keys one after another: ``g q`` are two."""
        for key in keys.split():
            self.acts += 1
            self.page.keyboard.press(key)

    def type(self, text: str) -> None:
        """Words into the field that has the focus: one act."""
        self.acts += 1
        self.page.keyboard.type(text)

    def choose(self, selector: str, value: str) -> None:
        self.acts += 1
        self.page.locator(selector).select_option(value)

    def sees(self, selector: str) -> None:
        self.page.locator(selector).first.wait_for(state="visible")

    def has(self, selector: str) -> bool:
        return bool(self.page.locator(selector).count())


def find_a_job(person: Person) -> None:
    person.press("/")
    person.type("rank vanished")
    person.press("Enter")
    person.click(".jump")
    person.sees("h1:has-text('a rank vanished')")


def name_the_node(person: Person) -> None:
    person.press("j o")
    person.sees("[data-testid=suspect-1]")


def confirm(person: Person) -> None:
    person.press("j c")
    person.sees("text=Undo")


def reject_with_a_reason(person: Person) -> None:
    person.press("j o")
    person.sees("[data-testid=incident-headline]")
    person.press("r")
    person.click("[data-testid=rejection-reasons] button")
    person.page.locator("[data-testid=rejection-reasons]").wait_for(state="detached")


def undo(person: Person) -> None:
    person.press("u")
    person.sees(".toast, .notice")


def hand_over(person: Person) -> None:
    person.press("j o")
    person.sees("[data-testid=incident-headline]")
    if person.has("[data-act=hand-over]"):
        person.press("h")
        person.click(".people button[value=other]")
    else:
        person.click("details.menu:has(#assignee) > summary")
        person.sees("select#assignee")
        person.choose("select#assignee", "other")
        person.click("button:text-is('Assign')")
    person.sees(".incident-meta .chip:has-text('other')")


def compare_with_a_healthy_run(person: Person) -> None:
    person.press("j o")
    person.sees("[data-testid=incident-headline]")
    if person.has("#strip a:has-text('a healthy run')"):
        person.click("#strip a:has-text('a healthy run')")
    else:
        person.click(".incident-meta a")
        person.click(".tabs a:text-is('Compare')")
    person.sees("table.compare")


def share_a_picture(person: Person) -> None:
    person.press("j o")
    person.sees("[data-testid=incident-headline]")
    person.click("a:text-is('Picture')")
    person.sees("img")


def cost_of_last_month(person: Person) -> None:
    person.press("g s")
    person.click("a:text-is('Last month')")
    person.sees("[data-testid=cost-line], .empty")


def follow_a_job(person: Person) -> None:
    person.click(".site-nav a:text-is('Running')")
    if person.has("[data-testid=running] a:has-text('live log')"):
        person.click("[data-testid=running] a:has-text('live log')")
    else:
        person.click("[data-testid=running] [data-open]")
        person.click(".tabs a:text-is('Live log')")
    person.page.wait_for_url("**/jobs/tiny/live/0/**")


TASKS: dict[str, Callable[[Person], None]] = {
    "find a failed job by a word": find_a_job,
    "name the node of the first incident": name_the_node,
    "confirm its cause": confirm,
    "reject one, with a reason": reject_with_a_reason,
    "undo that": undo,
    "hand one over to another person": hand_over,
    "compare it with a healthy run": compare_with_a_healthy_run,
    "share it as a picture": share_a_picture,
    "see what last month cost": cost_of_last_month,
    "follow a job that runs": follow_a_job,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", type=Path, help="another checkout, to do the same there")
    args = parser.parse_args()
    places = {"now": ROOT, **({"there": args.against.resolve()} if args.against else {})}
    found = {title: measure(root) for title, root in places.items()}
    print(f"{'task':40}" + "".join(f"{title + ', acts':>14}{'s':>7}" for title in found))
    for task in TASKS:
        cells = (f"{rows[task][0]:>14}{rows[task][1]:>7.1f}" for rows in found.values())
        print(f"{task:40}{''.join(cells)}")
    sums = (f"{sum(acts for acts, _ in rows.values()):>14}{'':7}" for rows in found.values())
    print(f"{'together':40}{''.join(sums)}")


def measure(root: Path) -> dict[str, tuple[int, float]]:
    """Acts and seconds of each task at the checkout ``root``."""
    from playwright.sync_api import sync_playwright  # a development package

    with running(root, FAULTLINE_DEMO="1") as site, followed_job(site), sync_playwright() as play:
        wait_for_samples(site)
        flags = ["--no-sandbox", "--disable-gpu"]
        browser = play.chromium.launch(executable_path=find_or_install(), args=flags)
        cookie = {"name": "sessionid", "value": site.cookie, "url": site.url}
        context = browser.new_context(base_url=site.url, viewport=SIZE, reduced_motion="reduce")
        context.add_cookies([cookie])
        page = context.new_page()
        taken = {}
        for title, task in TASKS.items():
            if task is not undo:  # which follows what it takes back
                page.goto("/")
            person, began = Person(page), time.monotonic()
            task(person)
            taken[title] = person.acts, time.monotonic() - began
        browser.close()
        return taken


def wait_for_samples(site: Site) -> None:
    """Returns when all recordings are diagnosed."""
    end = time.monotonic() + ENDS_S
    slugs = {f"sample-{path.name.partition('.')[0].replace('_', '-')}" for path in SAMPLES.iterdir()}
    while not slugs <= {job["slug"] for job in jobs_of(site) if job["diagnosed_revision"]}:
        if time.monotonic() > end:
            raise SystemExit("The samples were not diagnosed in time.")
        time.sleep(0.5)


def jobs_of(site: Site) -> list[dict[str, Any]]:
    headers = {"Authorization": f"Bearer {site.token}"}
    address = f"{site.url}/api/v1/jobs/?page_size=200"
    with urllib.request.urlopen(urllib.request.Request(address, headers=headers)) as answer:  # ours
        return list(json.load(answer)["results"])


@contextmanager
def followed_job(site: Site) -> Iterator[None]:
    """A small training program that runs until the end, followed by the client that the site hands out."""
    with tempfile.TemporaryDirectory(prefix="tasks-") as folder:
        client = Path(folder) / "faultline.pyz"
        client.write_bytes(urllib.request.urlopen(f"{site.url}/faultline.pyz").read())  # ours
        training = [
            sys.executable,
            str(ROOT / "examples" / "tiny_training.py"),
            "--steps",
            "100000",
        ]
        argv = [sys.executable, str(client), "run", "--job", "tiny", "--", *training]
        env = {**os.environ, "FAULTLINE_URL": site.url, "FAULTLINE_TOKEN": site.token}
        process = spawn(argv, log=Path(folder) / "client.log", env=env)
        try:
            yield
        finally:
            stop(process)


if __name__ == "__main__":
    main()
