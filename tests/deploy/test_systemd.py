"""The commands of docs/install.md for systemd, on a machine of their own: ``FAULTLINE_TEST_MACHINE`` names a directory
with Debian, systemd, PostgreSQL and Valkey (the page says how to make it). As root; nothing in the directory changes.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.patience import WORK_S, wait_for
from triage.places import ROOT
from triage.serve.children import Process, spawn, stop

MACHINE = os.environ.get("FAULTLINE_TEST_MACHINE", "")
#: boots a copy of a directory with systemd as its first process, without a network
BOOT = """set -e
machine=$1 work=$2 packages=$3
mount --make-rprivate /
mkdir -p "$work/upper" "$work/own" "$work/root" && root=$work/root
mount -t overlay overlay -o "lowerdir=$machine,upperdir=$work/upper,workdir=$work/own" "$root"
mkdir -p "$root/src" "$root/srv/packages"
mount --bind "$work/src" "$root/src" && mount --bind -o ro "$packages" "$root/srv/packages"
mount -t proc proc "$root/proc" && mount -t sysfs -o ro sysfs "$root/sys"
mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
mount -t tmpfs -o mode=755 tmpfs "$root/run" && mount -t tmpfs tmpfs "$root/tmp"
mount -t tmpfs -o mode=755 tmpfs "$root/dev" && mkdir "$root/dev/pts" "$root/dev/shm"
for name in null zero full random urandom tty; do
  touch "$root/dev/$name" && mount --bind "/dev/$name" "$root/dev/$name"
done
mount -t devpts -o newinstance,ptmxmode=666 devpts "$root/dev/pts" && mount -t tmpfs tmpfs "$root/dev/shm"
ln -s pts/ptmx "$root/dev/ptmx" && ln -s /proc/self/fd "$root/dev/fd"
cd "$root" && pivot_root . mnt && umount -l /mnt
exec env -i container=other /usr/lib/systemd/systemd systemd.unit=multi-user.target"""
#: sends a file to the site and waits until it was read
SEND = r"""
import hashlib, json, subprocess, time, urllib.request
make = (
    "from django.contrib.auth import get_user_model as m; from ingest.services import token_create as t; "
    "print(t(user=m().objects.get(username='admin'), name='test', scopes=['upload', 'read'])[1])"
)
token = subprocess.check_output(["bash", "-c", FUNCTION + "\nfaultline manage shell -v 0 -c \"$1\"", "sh", make])
headers = {"Authorization": "Bearer " + token.split()[-1].decode(), "Content-Type": "application/json"}
headers |= {"Host": "faultline.example", "X-Forwarded-Proto": "https"}
def ask(method, path, body=None):
    request = urllib.request.Request("http://127.0.0.1:8000" + path, body, headers, method=method)
    return json.load(urllib.request.urlopen(request, timeout=60))
ask("POST", "/api/v1/jobs/", json.dumps({"name": "first", "slug": "first", "outcome": "failed"}).encode())
data = b"2026-11-21 03:00:00,000 ERROR [rank3] CUDA error: an illegal memory access was encountered\n"
path = f"/api/v1/jobs/first/artifacts/{hashlib.sha256(data).hexdigest()}?path=node-1.log"
headers["Content-Type"] = "application/octet-stream"
ask("PUT", path, data)
for _ in range(600):
    rows = ask("GET", "/api/v1/jobs/first/artifacts/")
    rows = rows.get("results", rows) if isinstance(rows, dict) else rows
    if rows[0]["state"] == "parsed":
        break
    time.sleep(1)
print(rows[0]["state"], rows[0]["lines"])
"""

#: of `systemd-analyze security`, from 0 (confined) to 10
MAX_EXPOSURE = 3.0

pytestmark = [
    pytest.mark.broker,
    pytest.mark.skipif(
        not MACHINE or os.getuid() != 0, reason="FAULTLINE_TEST_MACHINE names no directory with systemd, or not root"
    ),
]


def blocks() -> list[str]:
    """The shell commands of the page's section."""
    section = (ROOT / "docs" / "install.md").read_text().partition("\n## systemd\n")[2].partition("\n## ")[0]
    return [text for text in re.findall(r"```sh\n(.*?)```", section, re.S) if "mmdebstrap" not in text]


class Machine:
    def __init__(self, process: Process) -> None:
        self.process = process

    def run(self, script: str) -> str:
        (first,) = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        inside = ["nsenter", "--target", first, "--mount", "--pid", "--uts", "--ipc", "--net", "--cgroup", "--"]
        clean = ["env", "-i", "PATH=/usr/sbin:/usr/bin", "PIP_NO_DEPS=1", "PIP_NO_INDEX=1", "HOME=/root"]
        argv = [*inside, *clean, "bash", "-ec", f"cd /src\n{script}"]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=WORK_S, check=False)
        assert done.returncode == 0, f"{script}\n{done.stdout}{done.stderr}"
        return done.stdout

    def is_up(self) -> bool:
        try:
            return "ready" in self.run("pg_isready -q && valkey-cli ping && echo ready")
        except (AssertionError, ValueError):
            return False


@pytest.fixture(scope="module")
def machine(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    folder = tmp_path_factory.mktemp("machine")
    shutil.copytree(ROOT / "deploy", folder / "src" / "deploy")
    shutil.copy(wheel, folder / "src")
    kinds = ["--mount", "--pid", "--fork", "--kill-child", "--cgroup", "--uts", "--ipc", "--net"]
    argv = ["unshare", *kinds, "sh", "-c", BOOT, "sh", MACHINE, str(folder), sysconfig.get_path("purelib")]
    process = spawn(argv, log=folder / "log")
    try:
        made = Machine(process)
        wait_for(made.is_up, (folder / "log").read_text)
        yield made
    finally:
        stop(process)


def test_the_pages_commands_install_a_site_that_works_and_can_be_upgraded(machine: Machine) -> None:
    install, ask = blocks()
    here = f"python{sys.version_info.major}.{sys.version_info.minor}"
    if here not in machine.run("python3 -c 'import sys; print(*sys.version_info[:2], sep=\".\")' | sed s/^/python/"):
        pytest.skip(f"the machine has another Python than {here}, whose packages it uses")
    for line in install.replace("\\\n", " ").splitlines():
        machine.run(line)
        if "pip install" in line:  # other packages come from this environment
            machine.run(f"echo /srv/packages > /opt/faultline/lib/{here}/site-packages/others.pth")
    function, doctor, first = ask.strip().rsplit("\n", 2)
    assert "password, shown only now" in machine.run(f"{function}\n{first}")
    said = machine.run(f"{function}\n{doctor}")
    assert "problem" not in said.lower(), said
    assert machine.run(f"python3 - <<'END'\nFUNCTION = {function!r}\n{SEND}\nEND").split() == ["parsed", "1"]
    ours = "for at in /proc/[0-9]*; do ! grep -qs ^/opt/faultline $at/cmdline || stat -c %U $at; done"
    assert set(machine.run(ours).split()) == {"faultline"}, "nothing runs as root"
    machine.run("systemctl restart faultline-prepare 'faultline@*'")  # docs/upgrading.md
    assert machine.run("systemctl is-active faultline@web faultline@worker").split() == ["active", "active"]
    for part in ("web", "worker"):
        before, after = killed(machine, part)
        assert before != after
    machine.run("journalctl --unit 'faultline@*' --output cat | grep ' (parse of job 1) succeeded after .* 1 lines'")
    for unit in ("faultline@web", "faultline-prepare"):
        exposure = machine.run(f"systemd-analyze security --no-pager {unit} | tail -1")
        assert float(re.findall(r"([\d.]+) \w+", exposure)[0]) < MAX_EXPOSURE, exposure


def killed(machine: Machine, part: str) -> tuple[str, str]:
    """Kill the first process of a part; its number before, and when systemd has started the part again."""
    asked = f"systemctl show --property MainPID --value faultline@{part}"
    before = machine.run(asked)
    machine.run(f"kill -9 {before}")

    def is_started() -> bool:
        return machine.run(asked) not in (before, "0\n")

    wait_for(is_started, lambda: machine.run(f"systemctl status faultline@{part} || true"))
    return before, machine.run(asked)
