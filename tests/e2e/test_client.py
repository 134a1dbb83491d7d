"""The command-line client against the product as it runs: a job dies, its epilog sends, a worker diagnoses."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from playwright.sync_api import Page

from tests.e2e.conftest import ROOT, Site
from tests.patience import WORK_S, wait_for

pytestmark = pytest.mark.e2e


def make_token(engineer: Page) -> str:
    engineer.goto("/account/tokens/")
    engineer.get_by_label("Name").fill("program")
    engineer.get_by_role("button", name="Create token").click()
    return engineer.get_by_test_id("token-secret").inner_text()


def test_the_ten_lines_of_the_readme_upload_a_log_wait_and_print_the_verdict(
    site: Site, engineer: Page, tmp_path: Path
) -> None:
    script = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S)[0]
    assert len(list(filter(str.strip, script.splitlines()))) <= 10
    steps = [f"2026-11-20 10:00:{n:02d},000 [rank0] INFO iteration {n} loss 2.5" for n in range(30)]
    error = "2026-11-20 10:00:31,000 [rank0] ERROR torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB."
    (tmp_path / "train.log").write_text("\n".join([*steps, error, ""]))
    env = {**os.environ, "FAULTLINE_URL": site.url, "FAULTLINE_TOKEN": make_token(engineer)}
    argv = [sys.executable, "-c", script]

    said: list[str] = []

    def has_verdict() -> bool:
        """Each call may be repeated: a busy machine needs more than the 50 seconds of one."""
        done = subprocess.run(argv, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=WORK_S, check=False)
        assert done.returncode == 0 or "'NoneType' object" in done.stderr, done.stderr
        said.append(done.stdout)
        return done.returncode == 0

    wait_for(has_verdict, "the verdict", WORK_S)
    assert "memory" in said[-1]


def test_an_epilog_sends_a_failed_job_and_is_told_what_failed(site: Site, engineer: Page, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text(make_token(engineer))
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
