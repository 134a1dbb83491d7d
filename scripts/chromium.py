"""Finds Chromium for the browser tests: the system's, Debian's package, or Playwright's own; fails without one.

The shell without windows is preferred: it shows pages alike, and a new page costs it a third of the CPU time of the
whole browser, which draws a window around each although nobody sees it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

from triage.serve.children import ServiceError

SHELL = "chromium-headless-shell"
NAMES = (SHELL, "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def find() -> str:
    given = os.environ.get("FAULTLINE_CHROMIUM", "")
    return given or next((path for path in map(shutil.which, NAMES) if path), "")


def find_or_install() -> str:
    """Path of a browser.

    Raises:
        ServiceError: none was found and none could be installed.
    """
    if os.environ.get("FAULTLINE_CHROMIUM") or shutil.which(SHELL):
        return find()
    if os.geteuid() == 0 and shutil.which("apt-get"):
        print(f"Installing Debian's {SHELL} for the browser tests …", flush=True)
        _install_package()
    if found := find():
        return found
    print("Installing Playwright's Chromium for the browser tests …", flush=True)
    download = [sys.executable, "-m", "playwright", "install", "chromium"]
    done = subprocess.run(download, capture_output=True, text=True, check=False)
    if done.returncode:
        last = (done.stderr.strip() or done.stdout.strip() or "no message").splitlines()[-1]
        raise ServiceError(f"The browser tests need Chromium: install it (Debian: apt install {SHELL}). {last}")
    from playwright.sync_api import sync_playwright  # noqa: PLC0415  # a development package, slow to import

    with sync_playwright() as playwright:
        return str(playwright.chromium.executable_path)


def _install_package() -> None:
    """Nothing that is installed goes for it; if it fails, another browser serves."""
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    install = ["apt-get", "install", "-y", "-q", "--no-install-recommends", "--no-remove", SHELL]
    for argv in (install, ["apt-get", "update", "-q"], install):
        done = subprocess.run(argv, env=env, stdin=subprocess.DEVNULL, capture_output=True, check=False)
        if done.returncode == 0 and shutil.which(SHELL):
            return
