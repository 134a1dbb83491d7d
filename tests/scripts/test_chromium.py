"""Which browser the tests take."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts import chromium


def test_the_shell_without_windows_is_preferred_and_any_chromium_serves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FAULTLINE_CHROMIUM", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert chromium.find() == ""
    for name in ("chromium", chromium.SHELL):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
        assert chromium.find() == str(tmp_path / name)
    monkeypatch.setenv("FAULTLINE_CHROMIUM", "/named/by/hand")
    assert chromium.find_or_install() == "/named/by/hand"


def test_a_browser_that_is_there_serves_where_none_can_be_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FAULTLINE_CHROMIUM", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    for name, script in (("chromium", "exit 0"), ("apt-get", "exit 100")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    assert chromium.find_or_install() == str(tmp_path / "chromium")
