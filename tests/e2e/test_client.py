"""The command-line client against the product as it runs: a job dies, its epilog sends, a worker diagnoses."""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from playwright.sync_api import Page

from tests.e2e.conftest import ROOT, Site
from tests.patience import WORK_S

pytestmark = pytest.mark.e2e


def test_an_epilog_sends_a_failed_job_and_is_told_what_failed(site: Site, engineer: Page, tmp_path: Path) -> None:
    engineer.goto("/account/tokens/")
    engineer.get_by_label("Name").fill("epilog")
    engineer.get_by_role("button", name="Create token").click()
    token = tmp_path / "token"
    token.write_text(engineer.get_by_test_id("token-secret").inner_text())
    token.chmod(0o600)
    program = tmp_path / "faultline.pyz"
    program.write_bytes(engineer.request.get("/faultline.pyz").body())
    with tarfile.open(ROOT / "samples" / "sigkill_rank5.tar.gz") as archive:
        archive.extractall(tmp_path / "logs", filter="data")
    argv = [sys.executable, "-I", str(program), "upload", str(tmp_path / "logs"), "--job", "Killed in the night"]
    argv += ["--url", site.url, "--token-file", str(token), "--outcome", "failed", "--diagnose", "--wait", str(WORK_S)]
    done = subprocess.run([*argv, "--json"], capture_output=True, text=True, timeout=WORK_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    said = json.loads(done.stdout)
    assert (said["diagnosis"], len(said["incidents"])) == ("succeeded", 1)
    engineer.goto(said["incidents"][0]["url"])
    assert said["incidents"][0]["headline"] in engineer.locator("main").inner_text()
    again = json.loads(
        subprocess.run([*argv, "--json"], capture_output=True, text=True, timeout=WORK_S, check=False).stdout
    )
    assert (again["sent"], again["known"], again["is_new"]) == (0, said["sent"], False)
