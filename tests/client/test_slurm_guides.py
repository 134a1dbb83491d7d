"""The Slurm commands of the guides, as they are printed, for one job: the site has one job. Slurm's own programs are
scripts here; a real Slurm is in `test_watch`.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from faultline.scheduler import Watcher
from faultline.site import Site
from faultline.slurm import Slurm
from ingest.models import Artifact, Job, Upload
from ingest.services import collecting
from tests.client.followed import evidence
from tests.docs.guides import ROOT, commands
from tests.patience import PATIENCE_S, wait_for

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("token")]
#: folders of the guides that lie below the test's own folder here
FOLDERS = (
    "/local/logs",
    "/logs",
    "/var/lib/faultline",
    "/etc/faultline",
    "/usr/local/bin",
    "/opt/faultline",
    "/var/log",
)
PROGRAMS = {
    "faultline": f'PYTHONPATH="{ROOT}/client" exec "{sys.executable}" -m faultline "$@"',
    # starts what follows its options, as systemd does, apart from the caller
    "systemd-run": 'while [ "${1#--}" != "$1" ]; do shift; done\nsetsid "$@" >/dev/null 2>&1 &\necho $! >"$UNIT"',
    "systemctl": 'kill -TERM "$(cat "$UNIT")"\nwhile kill -0 "$(cat "$UNIT")" 2>/dev/null; do sleep 0.1; done',
    "srun": 'trap \'echo "iteration 2 the last line"; exit 143\' TERM\necho "iteration 1"\neval "$TRAIN"',
    "dmesg": "echo '2026-11-22T03:00:00,000000+00:00 usb 1-1: new device'",
    "hostname": "echo node-1",
    "torchrun": "echo iteration 1",
    "python3": f'shift\nPYTHONPATH="{ROOT}/client" exec "{sys.executable}" -m faultline "$@"',
}


@pytest.fixture
def cluster(tmp_path: Path, token: str, live_server: Any) -> Callable[..., subprocess.Popen[bytes]]:
    """Starts a text of shell on a node of the cluster, in a process group of its own."""
    programs = tmp_path / "usr/local/bin"
    programs.mkdir(parents=True)
    for name, text in PROGRAMS.items():
        (programs / name).write_text(f"#!/bin/sh\n{text}\n")
        (programs / name).chmod(0o755)
    for folder in ("local/logs/4711", "logs/4711", "etc/faultline", "var/lib/faultline", "var/log"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "etc/faultline/token").write_text(token)
    (tmp_path / "etc/faultline/token").chmod(0o600)
    variables = f"FAULTLINE_URL={live_server.url}\nFAULTLINE_TOKEN_FILE={tmp_path}/etc/faultline/token\n"
    (tmp_path / "etc/faultline/client.env").write_text(variables)
    env = {
        "PATH": f"{programs}:/usr/bin:/bin",
        "HOME": str(tmp_path),
        "UNIT": str(tmp_path / "unit"),
        "FAULTLINE_URL": live_server.url,
        "FAULTLINE_TOKEN": token,
        "FAULTLINE_LOGS": str(tmp_path / "logs"),
        "no_proxy": "*",
        "SLURM_JOB_ID": "4711",
        "SLURM_JOB_NAME": "llama",
        "TRAIN": "true",
    }

    def start(text: str, **more: str) -> subprocess.Popen[bytes]:
        script = tmp_path / "script.sh"  # of `sh -c TEXT` the last command replaces the shell anyway
        script.write_text(f"set -eu\n{_below(text, tmp_path)}")
        return subprocess.Popen(["sh", str(script)], env={**env, **more}, start_new_session=True)

    return start


def _below(text: str, folder: Path) -> str:
    """The text with its folders below another one."""
    for name in FOLDERS:
        text = text.replace(f'"{name}', f'"{folder}\0{name}').replace(f" {name}", f" {folder}\0{name}")
        text = text.replace(f">{name}", f">{folder}\0{name}")
    return text.replace("\0", "")


def printed(document: str, begins: str) -> str:
    """The one command of a guide that begins so."""
    (found,) = [command.text for command in commands(f"docs/{document}.md") if command.text.startswith(begins)]
    return found


def test_all_ways_of_the_guides_lead_to_one_job(
    cluster: Callable[..., subprocess.Popen[bytes]], tmp_path: Path, token: str, live_server: Any
) -> None:
    (tmp_path / "local/logs/4711/node.log").write_text("iteration 1 on the node\n")
    (tmp_path / "logs/4711/train.log").write_text("iteration 1 of the job\n")
    batch = printed("live", "exec faultline run")
    node_files = "".join(printed("client", begins) for begins in ("d=", "dmesg", "faultline upload"))
    epilog = (ROOT / "deploy/slurm-epilog.sh").read_text()
    steps = (printed("live", "systemd-run"), batch, node_files, printed("live", "systemctl"), epilog)
    for step in steps:
        assert cluster(step).wait(PATIENCE_S) == 0, step
    wait_for(lambda: Artifact.objects.filter(path="train.log").exists(), "the epilog goes on in the background")
    site = Site(live_server.url, token, retry_for_s=PATIENCE_S)
    row = {"job_id": 4711, "name": "llama", "job_state": "COMPLETED", "nodes": "node-1", "submit_time": 1_700_000_000}
    said = json.dumps({"jobs": [row]})
    Watcher(site, Slurm(lambda command: said if command[0] == "squeue" else ""), is_all=True).tell_changes()
    line = json.dumps({"slurm_job_id": "4711", "file": "collected.log", "message": "iteration 1"}).encode()
    site.ask("POST", "/lines/", line, {"Content-Type": "application/x-ndjson", "Faultline-Job-From": "slurm_job_id"})
    assert list(Job.objects.values_list("slug", flat=True)) == ["4711"]
    paths = set(Upload.objects.values_list("path", flat=True))
    assert {"node-1/node.log", "output.log", "train.log", "node-1/dmesg.txt", "scheduler/slurm.log"} <= paths


def test_scancel_loses_neither_the_rest_of_the_output_nor_the_end(
    cluster: Callable[..., subprocess.Popen[bytes]],
) -> None:
    script = cluster(printed("live", "exec faultline run"), TRAIN="sleep 1000 & wait")
    wait_for(lambda: Upload.objects.filter(path="output.log", offset_bytes__gt=0).exists(), "the output is followed")
    os.killpg(script.pid, signal.SIGTERM)  # as Slurm does, to all processes of the step
    script.wait(PATIENCE_S)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(script.pid, signal.SIGKILL)  # the script has ended: Slurm kills what is left of it
    assert evidence()["output.log"] == b"iteration 1\niteration 2 the last line\n"
    assert Job.objects.get().declared_outcome == "cancelled"


def test_the_first_commands_of_the_live_guide_run_as_they_are_printed(
    cluster: Callable[..., subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    assert cluster(printed("live", "faultline run")).wait(PATIENCE_S) == 0
    (tmp_path / "logs/4711/train.log").write_text("iteration 2\n")
    follower = cluster(f"exec {printed('live', 'faultline follow')}")
    wait_for(lambda: Upload.objects.filter(path="node-1/train.log", offset_bytes=12).exists(), "the file is followed")
    follower.send_signal(signal.SIGTERM)
    assert follower.wait(PATIENCE_S) == 0
    assert evidence() == {"output.log": b"iteration 1\n", "node-1/train.log": b"iteration 2\n"}


def test_files_of_a_follower_that_was_killed_end_with_the_job(
    cluster: Callable[..., subprocess.Popen[bytes]], live_server: Any, token: str
) -> None:
    script = cluster(printed("live", "exec faultline run"), TRAIN="sleep 1000 & wait")
    wait_for(lambda: Upload.objects.filter(path="output.log", offset_bytes__gt=0).exists(), "the output is followed")
    os.killpg(script.pid, signal.SIGKILL)
    script.wait(PATIENCE_S)
    collecting.streams_close()
    assert not Artifact.objects.exists(), "it may come back"
    Site(live_server.url, token).send("PATCH", "/jobs/4711/", {"outcome": "cancelled"})
    Upload.objects.update(updated_at=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - 61)))
    collecting.streams_close()
    assert evidence() == {"output.log": b"iteration 1\n"}
