"""The wheel, built once for all tests here."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import WORK_S
from triage.places import ROOT


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    printed = re.findall(r"^python3 (-m pip wheel .*)$", (ROOT / "docs" / "install.md").read_text(), re.M)
    assert len(printed) == 1, "the guide says how to build one"
    words = printed[0].replace("--wheel-dir dist", f"--wheel-dir {folder}").split()
    argv = [sys.executable, *words, "--no-build-isolation"]  # hatchling is here, and no package index
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=WORK_S, check=False)
    assert done.returncode == 0, done.stderr
    (built,) = folder.glob("*.whl")
    return built
