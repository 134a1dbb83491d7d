"""The site's commands are there where the site is installed, and nowhere else."""

import os
import subprocess
import sys

import pytest

from faultline import server
from tests.patience import PATIENCE_S
from triage.places import CLIENT, ROOT


def call(*arguments: str, path: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": path}
    argv = [sys.executable, "-m", "faultline", *arguments]
    return subprocess.run(
        argv, env=env, cwd=CLIENT.parent, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )


@pytest.mark.parametrize("command", ["serve", "manage", "doctor", "backup", "restore"])
def test_a_command_of_the_site_says_where_it_is_missing(command: str) -> None:
    done = call(command, path="")
    assert done.returncode == 1
    assert done.stderr.startswith(f"faultline {command}: only the client is installed here.")


def test_without_a_command_the_client_alone_shows_its_usage() -> None:
    done = call(path="")
    assert done.returncode == 2
    assert "usage: faultline" in done.stderr


def test_beside_the_site_the_same_command_knows_its_parts() -> None:
    done = call("serve", "--help", path=str(ROOT))
    assert done.returncode == 0
    assert "faultline serve PART" in done.stdout
    refused = call("serve", "everything", path=str(ROOT))
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.startswith("There is no part 'everything'; there are: web, uploads, parse")


def test_a_python_that_is_too_old_for_the_site_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """pip refuses to install the wheel there, unless it was told to ignore that."""
    monkeypatch.setattr(sys, "version_info", (3, 11, 2))
    command = server.command_of(["serve", "web"])
    assert command is not None
    said = str(command())
    assert "needs Python 3.12 or newer, this is 3.11" in said and "uv tool install --python 3.13" in said
