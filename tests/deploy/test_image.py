"""A built image: ``FAULTLINE_TEST_IMAGE`` names one in buildah's store (docs/install.md). As root."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.patience import WORK_S
from triage.places import ROOT
from triage.serve.children import free_port, spawn, stop, wait_until

NAME = os.environ.get("FAULTLINE_TEST_IMAGE", "")
MAX_BYTES = 450 * 10**6
BUILDERS = {"ar", "as", "c++", "cargo", "cc", "clang", "cyclonedx-py", "gcc", "git", "hatchling", "ld", "make", "pip"}
#: what `podman run --read-only --tmpfs /tmp -v …:/var/lib/faultline` does, for a machine without podman
RUN = """set -e
root=$1 data=$2 user=$3; shift 3
mount --make-rprivate / && mount --bind "$root" "$root"
mount -t proc proc "$root/proc" && mount --rbind /dev "$root/dev" && mount -t tmpfs -o mode=1777 tmp "$root/tmp"
mount --bind "$data" "$root/var/lib/faultline"
mount -o remount,bind,ro "$root"
exec setpriv --no-new-privs chroot --userspec="$user" "$root" env -i "$@" """

pytestmark = pytest.mark.skipif(
    not (NAME and shutil.which("buildah")), reason="FAULTLINE_TEST_IMAGE names no image in a store of buildah"
)


def buildah(*arguments: str) -> str:
    done = subprocess.run(["buildah", *arguments], capture_output=True, text=True, timeout=WORK_S, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="module")
def root() -> Iterator[Path]:
    container = buildah("from", "--pull-never", NAME)
    try:
        yield Path(buildah("mount", container))
    finally:
        buildah("rm", container)


@pytest.fixture(scope="module")
def config() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(buildah("inspect", "--type", "image", NAME))["OCIv1"]["config"]
    return found


def argv(root: Path, data: Path, config: dict[str, Any], *command: str) -> list[str]:
    data.mkdir(mode=0o700, exist_ok=True)
    os.chown(data, *map(int, config["User"].split(":")))
    return ["unshare", "-m", "sh", "-c", RUN, "sh", str(root), str(data), config["User"], *config["Env"], *command]


def test_a_registry_sends_no_more_than_was_asked(tmp_path: Path) -> None:
    buildah("push", NAME, f"oci:{tmp_path}:faultline")
    assert sum(blob.stat().st_size for blob in (tmp_path / "blobs").rglob("*") if blob.is_file()) <= MAX_BYTES


def test_nothing_in_it_builds(root: Path) -> None:
    folders = [root / "usr/bin", root / "usr/local/bin", root / "opt/faultline/bin"]
    there = {path.name for folder in folders if folder.is_dir() for path in folder.iterdir()}
    assert there & BUILDERS == set()


def test_its_list_of_packages_is_its_lock(root: Path) -> None:
    listed = json.loads((root / "opt/faultline/sbom.json").read_text())["components"]
    found: dict[str, str] = {canonicalize_name(one["name"]): one["version"] for one in listed}
    assert found.pop("faultline-triage")
    lock = (ROOT / "deploy" / "requirements.lock").read_text()
    wanted = [Requirement(line) for line in re.findall(r"^([a-z0-9].*?) *\\$", lock, re.M)]
    wanted = [one for one in wanted if one.marker is None or one.marker.evaluate()]
    assert found == {canonicalize_name(one.name): str(one.specifier).removeprefix("==") for one in wanted}


def test_nobody_writes_outside_its_data(root: Path, config: dict[str, Any], tmp_path: Path) -> None:
    script = "id -u; for at in / /opt/faultline /tmp /var/lib/faultline; do touch $at/x 2>/dev/null && echo $at; done"
    command = argv(root, tmp_path / "data", config, "sh", "-c", script)
    done = subprocess.run(command, capture_output=True, text=True, timeout=WORK_S, check=False)
    assert done.stdout.split() == ["10001", "/tmp", "/var/lib/faultline"], done.stderr


@pytest.mark.broker
def test_it_answers_with_a_page(root: Path, config: dict[str, Any], tmp_path: Path) -> None:
    port, log = free_port(), tmp_path / "log"
    started = [f"FAULTLINE_PORT={port}", *config["Entrypoint"], *config["Cmd"]]
    process = spawn(argv(root, tmp_path / "data", config, *started), log=log, env=dict(os.environ))

    def page() -> bytes:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=WORK_S) as answer:
                return bytes(answer.read())
        except OSError:
            return b""

    try:
        wait_until(lambda: b"Sign in" in page(), process, what="the image", log=log, timeout_s=WORK_S)
    finally:
        stop(process, grace_s=30)
