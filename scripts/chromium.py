"""Finds Chromium for the browser tests: the system's, Debian's package, or Playwright's own; fails without one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

from scripts.services import ServiceError

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def find() -> str:
    given = os.environ.get("FAULTLINE_CHROMIUM", "")
    return given or next((path for path in map(shutil.which, NAMES) if path), "")


def find_or_install() -> str:
    """Path of a browser.

    Raises:
        ServiceError: none was found and none could be installed.
    """
    found = find()
    if found:
        return found
    if os.geteuid() == 0 and shutil.which("apt-get"):
        print("Installing Debian's chromium for the browser tests …", flush=True)
        env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        install = ["apt-get", "install", "-y", "-q", "--no-install-recommends", "chromium"]
        for argv in (install, ["apt-get", "update", "-q"], install):
            apt = subprocess.run(argv, env=env, stdin=subprocess.DEVNULL, capture_output=True, check=False)
            if apt.returncode == 0 and find():
                return find()
    print("Installing Playwright's chromium for the browser tests …", flush=True)
    download = [sys.executable, "-m", "playwright", "install", "chromium"]
    done = subprocess.run(download, capture_output=True, text=True, check=False)
    if done.returncode:
        last = (done.stderr.strip() or done.stdout.strip() or "no message").splitlines()[-1]
        raise ServiceError(f"The browser tests need Chromium: install it (Debian: apt install chromium). {last}")
    from playwright.sync_api import sync_playwright  # noqa: PLC0415  # a development package, slow to import

    with sync_playwright() as playwright:
        return playwright.chromium.executable_path
