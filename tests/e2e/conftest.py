"""The product as started by `make run`, driven in a real browser. Tests use only the pages."""

from __future__ import annotations

import os
import re
import secrets
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from scripts.chromium import find
from tests import migrated
from tests.patience import PATIENCE_S, WORK_S, wait_for
from triage.serve.children import free_port, spawn, stop, wait_until

ROOT = Path(__file__).resolve().parent.parent.parent
PICTURES = ROOT / "test-results"
SIZES = {"wide": {"width": 1440, "height": 900}, "narrow": {"width": 390, "height": 844}}
SCHEMES = ("light", "dark")
SAMPLES = {f"sample-{path.name.partition('.')[0].replace('_', '-')}" for path in (ROOT / "samples").glob("*.tar.gz")}
# A page gets as much time as it needs: five seconds are too few if other programs run at the same time.
expect.set_options(timeout=PATIENCE_S * 1000)


def until(page: Page, is_there: Callable[[], object], what: Callable[[], object] | str = "") -> None:
    """Wait for what no `expect` can ask for. The browser's events are handled meanwhile."""
    wait_for(is_there, what, every_s=0.02, pause=lambda seconds: page.wait_for_timeout(1000 * seconds))


@dataclass(frozen=True, slots=True)
class Site:
    url: str
    #: name -> password of the people that the start printed
    people: dict[str, str]
    data: Path


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A complete Faultline with its own data, port, broker and worker; the sample jobs are loading."""
    if run := os.environ.get("PYTEST_XDIST_TESTRUNUID"):
        try:
            (tmp_path_factory.getbasetemp().parent / f"site-{run}").touch(exist_ok=False)
        except FileExistsError:
            pytest.fail("A second test process starts the site: this pytest or pytest-xdist ignores xdist_group.")
    folder, port = tmp_path_factory.mktemp("site"), free_port()
    ours = ("DATABASE_URL", "REDIS_URL", "FAULTLINE_DATA_DIR", "DJANGO_SETTINGS_MODULE")
    env = {name: value for name, value in os.environ.items() if name not in ours}
    env |= {"FAULTLINE_DATA_DIR": str(folder / "data"), "FAULTLINE_PORT": str(port)}
    env["FAULTLINE_ROUTES_ALLOW"] = "127.0.0.1"
    migrated.begin(folder / "data")  # `tests/deploy/test_wheel.py` starts one on an empty folder
    log = folder / "run.log"
    process = spawn([sys.executable, "-m", "triage.serve"], log=log, env=env)
    try:
        wait_until(lambda: "Ctrl-C ends it" in log.read_text(), process, what="make run", log=log, timeout_s=WORK_S)
        people = dict(re.findall(r"Sign in as (\w+) with password (\S+)", log.read_text()))
        people |= _administrators(env, "admin", "carol")
        yield Site(f"http://localhost:{port}", people, folder / "data")
    finally:
        stop(process, grace_s=30)


def _administrators(env: dict[str, str], *names: str) -> dict[str, str]:
    """Create administrators on the command line, all by one start of Django; returns their passwords."""
    people = {name: secrets.token_urlsafe(16) for name in names}
    program = "".join(
        f"User.objects.create_superuser('{name}', '{name}@example.com', '{password}')\n"
        for name, password in people.items()
    )
    argv = [sys.executable, "manage.py", "shell"]  # from its standard input, so that no list of processes has it
    subprocess.run(argv, cwd=ROOT, env=env, input=program, text=True, check=True)
    return people


def new_context(site: Site, browser: Browser, **options: Any) -> BrowserContext:
    context = browser.new_context(base_url=site.url, **options)
    context.set_default_timeout(PATIENCE_S * 1000)
    return context


@pytest.fixture(scope="session")
def browser_type_launch_args(browser_type_launch_args: dict[str, Any]) -> dict[str, Any]:
    """The system's Chromium. It may run as root in a container (no sandbox), must not phone home, and starts no process
    ahead for a page that may follow."""
    path = find()
    quiet = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
    quiet.append("--renderer-process-limit=1")
    return {**browser_type_launch_args, "args": quiet, **({"executable_path": path} if path else {})}


@pytest.fixture(scope="session")
def sign_in(site: Site, browser: Browser) -> Callable[[str], Any]:
    """Session state of a person, signed in once through the form."""
    kept: dict[str, Any] = {}

    def state_of(name: str) -> Any:
        if name not in kept:
            context = new_context(site, browser)
            page = context.new_page()
            page.goto("/")
            page.fill("input[name=username]", name)
            page.fill("input[name=password]", site.people[name])
            page.click("button[type=submit]:visible")
            page.wait_for_url(f"{site.url}/")
            kept[name] = context.storage_state()
            context.close()
        return kept[name]

    return state_of


@pytest.fixture(scope="session")
def samples_ready(site: Site, browser: Browser, sign_in: Callable[[str], Any]) -> None:
    """All sample jobs are loaded and diagnosed: no incident appears any more unless a test makes it."""
    context = new_context(site, browser, storage_state=sign_in("engineer"))

    def missing() -> list[str]:
        jobs = {job["slug"]: job for job in context.request.get("/api/v1/jobs/?page_size=200").json()["results"]}
        return [slug for slug in SAMPLES if slug not in jobs or not jobs[slug]["diagnosed_revision"]]

    wait_for(lambda: not missing(), lambda: f"{missing()} (logs: {site.data / 'log'})", WORK_S, every_s=1)
    context.close()


@pytest.fixture
def expects_console_errors() -> list[str]:
    """Parts of console messages that a test provokes on purpose."""
    return []


@pytest.fixture
def context_of(
    site: Site, browser: Browser, sign_in: Callable[[str], Any], expects_console_errors: list[str]
) -> Iterator[Callable[..., BrowserContext]]:
    """``context_of("engineer")``: a browser of that person, ``context_of("")`` of nobody who has signed in; an error in
    the page's console fails the test."""
    opened: list[BrowserContext] = []
    complaints: list[str] = []

    def make(name: str, **options: Any) -> BrowserContext:
        options = {"viewport": SIZES["wide"], "locale": "en-GB", "timezone_id": "Europe/Berlin", **options}
        context = new_context(site, browser, storage_state=sign_in(name) if name else None, **options)
        context.on("weberror", lambda error: complaints.append(str(error.error)))
        context.on(
            "console",
            lambda message: (
                complaints.append(f"{message.text} {message.location}") if message.type == "error" else None
            ),
        )
        opened.append(context)
        return context

    yield make
    for context in opened:
        context.close()
    assert [text for text in complaints if not any(part in text for part in expects_console_errors)] == []


@pytest.fixture
def engineer(context_of: Callable[..., BrowserContext]) -> Page:
    return context_of("engineer").new_page()


@pytest.fixture
def manager(context_of: Callable[..., BrowserContext]) -> Page:
    return context_of("manager").new_page()


@pytest.fixture(scope="session")
def photograph(request: pytest.FixtureRequest) -> Callable[[Page, str], None]:
    """Keep a picture of the whole page in both sizes and both schemes as test-results/<name>-<size>-<scheme>.png.

    Only with ``--pictures``: they are for whoever looks at them, and cost two seconds a page.
    """

    def take(page: Page, name: str) -> None:
        if not request.config.getoption("--pictures"):
            return
        PICTURES.mkdir(exist_ok=True)
        before = page.viewport_size
        for size, viewport in SIZES.items():
            page.set_viewport_size(viewport)
            page.evaluate("scrollTo(0, 0)")
            for scheme in SCHEMES:
                page.emulate_media(color_scheme=scheme)
                page.wait_for_timeout(250)  # charts follow the window and the scheme a moment later
                page.screenshot(path=PICTURES / f"{name}-{size}-{scheme}.png", full_page=True)
        page.emulate_media(color_scheme="light")
        if before:
            page.set_viewport_size(before)

    return take
