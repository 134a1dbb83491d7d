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
from scripts.services import free_port, spawn, stop, wait_until
from tests.patience import PATIENCE_S, WORK_S, wait_for

ROOT = Path(__file__).resolve().parent.parent.parent
PICTURES = ROOT / "test-results"
SIZES = {"wide": {"width": 1440, "height": 900}, "narrow": {"width": 390, "height": 844}}
SCHEMES = ("light", "dark")
FAILED_SAMPLES = 3
# A page gets as much time as it needs: five seconds are too few if other programs run at the same time.
expect.set_options(timeout=PATIENCE_S * 1000)


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
    env["FAULTLINE_WEBHOOK_ALLOW"] = "127.0.0.1"
    log = folder / "run.log"
    process = spawn([sys.executable, "-m", "scripts.run"], log=log, env=env)
    try:
        wait_until(lambda: "Ctrl-C ends it" in log.read_text(), process, what="make run", log=log, timeout_s=WORK_S)
        people = dict(re.findall(r"Sign in as (\w+) with password (\S+)", log.read_text()))
        people["admin"] = _admin(env)
        yield Site(f"http://localhost:{port}", people, folder / "data")
    finally:
        stop(process, grace_s=30)


def _admin(env: dict[str, str]) -> str:
    """Create an administrator on the command line; returns the password."""
    password = secrets.token_urlsafe(16)
    command = [sys.executable, "manage.py", "createsuperuser", "--noinput", "--username=admin", "--email=a@example.com"]
    subprocess.run(command, cwd=ROOT, env={**env, "DJANGO_SUPERUSER_PASSWORD": password}, check=True)
    return password


@pytest.fixture(scope="session")
def browser_type_launch_args(browser_type_launch_args: dict[str, Any]) -> dict[str, Any]:
    """The system's Chromium. It may run as root in a container (no sandbox) and must not phone home."""
    path = find()
    quiet = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
    return {**browser_type_launch_args, "args": quiet, **({"executable_path": path} if path else {})}


@pytest.fixture(scope="session")
def sign_in(site: Site, browser: Browser) -> Callable[[str], Any]:
    """Session state of a person, signed in once through the form."""
    kept: dict[str, Any] = {}

    def state_of(name: str) -> Any:
        if name not in kept:
            context = browser.new_context(base_url=site.url)
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
    """The sample jobs are loaded and diagnosed: the three failed ones have their incidents."""
    context = browser.new_context(base_url=site.url, storage_state=sign_in("engineer"))

    def linked() -> list[str]:
        return re.findall(r'id="(incident-\d+)"', context.request.get("/incidents/?q=job:sample-*").text())

    wait_for(
        lambda: len(linked()) >= FAILED_SAMPLES,
        lambda: f"{linked()} (logs: {site.data / 'log'})",
        WORK_S,
        every_s=1,
    )
    context.close()


@pytest.fixture
def expects_console_errors() -> list[str]:
    """Parts of console messages that a test provokes on purpose."""
    return []


@pytest.fixture
def context_of(
    site: Site, browser: Browser, sign_in: Callable[[str], Any], expects_console_errors: list[str]
) -> Iterator[Callable[..., BrowserContext]]:
    """``context_of("engineer")``: a browser of that person; an error in the page's console fails the test."""
    opened: list[BrowserContext] = []
    complaints: list[str] = []

    def make(name: str, **options: Any) -> BrowserContext:
        options = {"viewport": SIZES["wide"], "locale": "en-GB", "timezone_id": "Europe/Berlin", **options}
        context = browser.new_context(base_url=site.url, storage_state=sign_in(name), **options)
        context.set_default_timeout(PATIENCE_S * 1000)
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
