"""The client as nodes get it: one file, on the Pythons they have, called by the scripts in deploy/."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from faultline.main import parser
from faultline.words import Words
from ingest.services import token_create
from tests.factories import make_user
from tests.patience import PATIENCE_S
from triage.places import version

ROOT = Path(__file__).resolve().parent.parent.parent
pytestmark = pytest.mark.django_db


@pytest.fixture
def program(client: Any, tmp_path: Path) -> Path:
    answer = client.get("/faultline.pyz")
    assert answer.status_code == 200
    assert client.get("/faultline.pyz", headers={"If-None-Match": answer["ETag"]}).status_code == 304
    path = tmp_path / "faultline.pyz"
    path.write_bytes(answer.content)
    return path


def run(*argv: object, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(word) for word in argv],
        env={"PATH": "/usr/bin:/bin", **env},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def test_the_site_serves_it_as_one_file_that_runs_without_anything_else(program: Path) -> None:
    done = run(sys.executable, "-I", program, "--version")
    assert (done.returncode, done.stdout) == (0, f"{version()}\n")
    done = run(sys.executable, "-I", program, "upload", ".", "--job", "x")
    assert done.returncode == 2
    assert "FAULTLINE_URL" in done.stderr and "Traceback" not in done.stderr


def test_a_reader_that_has_enough_ends_the_program_without_a_traceback(
    live_server: Any,
) -> None:
    _, secret = token_create(user=make_user("engineer", "engineer"), name="x", scopes=["upload", "read"])
    env = {"PATH": "/usr/bin:/bin", "FAULTLINE_URL": live_server.url, "FAULTLINE_TOKEN": secret, "no_proxy": "*"}
    command = [sys.executable, "-m", "faultline", "check"]
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        command, cwd=ROOT / "client", env=env, stdout=writer, stderr=subprocess.PIPE, text=True,
        timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    os.close(writer)
    assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, "")


def test_no_name_of_a_file_acts_on_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    told = Words(is_quiet=False, is_json=False)
    told.note("logs/\x1b[2J\x9b1m\u202etxt.log was refused")
    told.line("logs/\x07a.log: sent\ton")
    out, error = capsys.readouterr()
    assert error == "faultline: logs/[U+001B][2J[U+009B]1m[U+202E]txt.log was refused\n"
    assert out == "logs/[U+0007]a.log: sent\ton\n"


def test_it_runs_on_the_older_pythons_of_this_machine(program: Path) -> None:
    pythons = [path for minor in range(9, 13) if (path := shutil.which(f"python3.{minor}"))]
    pythons = [python for python in pythons if run(python, "--version").returncode == 0]
    if not pythons:
        pytest.skip("there is no Python from 3.9 to 3.12 on this machine")
    for python in pythons:
        assert "upload" in run(python, "-I", program, "--help").stdout, python


def test_the_scripts_for_schedulers_use_options_that_exist(tmp_path: Path) -> None:
    known = {
        word
        for action in parser()._subparsers._group_actions[0].choices["upload"]._actions
        for word in action.option_strings
    }  # type: ignore[union-attr, index]
    used: set[str] = set()
    for name in ("deploy/slurm-epilog.sh", "deploy/kubernetes-job.yaml", "docs/client.md"):
        text = (ROOT / name).read_text().replace("\\\n", " ")
        for call in re.findall(r"faultline(?:\.pyz)? upload ([^\n`]*)", text):
            used |= set(re.findall(r"(?<!\S)--[\w-]+", call))
    assert {"--job", "--slug", "--diagnose", "--nodes"} <= used, "the search itself broke"
    assert used - known - {"--help"} == set()


def test_the_epilog_sends_a_jobs_directory_and_holds_nobody_up(tmp_path: Path) -> None:
    (tmp_path / "logs" / "4711").mkdir(parents=True)
    (tmp_path / "env").write_text("FAULTLINE_URL=http://x\nFAULTLINE_TOKEN_FILE=/token\n")
    fake = tmp_path / "bin"
    fake.mkdir()
    (fake / "python3").write_text(f'#!/bin/sh\necho "$@" "$FAULTLINE_URL" >{tmp_path}/called\n')
    (fake / "python3").chmod(0o755)
    script = (ROOT / "deploy" / "slurm-epilog.sh").read_text()
    script = script.replace("/etc/faultline/client.env", str(tmp_path / "env")).replace("/var/log", str(tmp_path))
    (tmp_path / "epilog.sh").write_text(script)
    env = {
        "PATH": f"{fake}:/usr/bin:/bin",
        "FAULTLINE_LOGS": str(tmp_path / "logs"),
        "SLURM_JOB_ID": "4711",
        "SLURM_JOB_NAME": "my job",
        "SLURM_JOB_EXIT_CODE2": "1:0",
        "SLURM_JOB_NODELIST": "gpu[01-02]",
    }
    assert run("sh", tmp_path / "epilog.sh", **env).returncode == 0
    for _ in range(100):
        if (tmp_path / "called").exists() and (tmp_path / "called").read_text():
            break
        subprocess.run(["sleep", "0.05"], check=True)
    said = (tmp_path / "called").read_text()
    assert "upload" in said and "--slug 4711 " in said and "--outcome failed" in said and "gpu[01-02]" in said
    assert run("sh", tmp_path / "epilog.sh", **{**env, "SLURM_JOB_ID": "1"}).returncode == 0, "no logs, no work"
