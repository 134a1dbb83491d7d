"""Hosts of network namespaces on this machine, and the services of an installation on them (needs root and Linux).

The program that imports this runs in a namespace of its own with a bridge (:func:`own_network`), at ``GATEWAY``. Each
:class:`Host` has a namespace with an address and a host name, so that Faultline takes it for a machine. Everything ends
with the program.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from triage.serve.children import Process, spawn, stop, wait_until

GATEWAY = "10.77.0.1"
_MARK = "FAULTLINE_MEASURE_NETWORK"


def own_network() -> None:
    """Run this program again in a network of its own; returns there."""
    if os.environ.get(_MARK) != "1":
        os.environ[_MARK] = "1"
        argv = ["unshare", "--net", "--mount", "--", sys.executable, "-m", "lab.measure", *_arguments()]
        os.execvp(argv[0], argv)
    for command in ("link set lo up", "link add br0 type bridge", f"addr add {GATEWAY}/24 dev br0", "link set br0 up"):
        _ip(command)


def disk(folder: Path, size: str) -> None:
    """Mount a disk of ``size`` in memory at ``folder``, which only the hosts see."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)], check=True)


def _arguments() -> list[str]:
    return [sys.argv[0].rpartition(" ")[2], *sys.argv[1:]]


def _ip(command: str, inside: list[str] | None = None) -> None:
    subprocess.run([*(inside or []), "ip", *command.split()], check=True)


@dataclass
class Service:
    """A process of a host that is started again if it ends, as systemd does."""

    host: Host
    name: str
    argv: list[str]
    env: dict[str, str]
    log: Path
    ready: str
    process: Process | None = None
    starts: int = 0

    def start(self) -> None:
        self.starts += 1
        size = self.log.stat().st_size if self.log.exists() else 0
        self.process = process = spawn([*self.host.inside, *self.argv], log=self.log, env=self.env)
        wait_until(lambda: self.ready in self._said(size), process, what=self.name, log=self.log, timeout_s=600)

    def _said(self, since: int) -> str:
        with self.log.open("rb") as file:
            file.seek(since)
            return file.read().decode("utf-8", "replace")

    def stop(self) -> None:
        if self.process is not None:
            stop(self.process, grace_s=60)

    def restart_if_dead(self) -> None:
        if self.process is not None and self.process.poll() is not None:
            stop(self.process)
            self.start()

    def pids(self) -> list[int]:
        """The processes of this service: the first is the one that was started."""
        assert self.process is not None
        found = [self.process.pid]
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                session = int(stat.read_text().rpartition(")")[2].split()[3])
            except (OSError, IndexError, ValueError):
                continue
            if session == self.process.pid and int(stat.parent.name) not in found:
                found.append(int(stat.parent.name))
        return found

    def signal(self, number: signal.Signals) -> None:
        """To all its processes, also those that lead sessions of their own below it."""
        for pid in below(self.pids()):
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                continue


def below(pids: list[int]) -> list[int]:
    """These processes and all that descend from them, also those that lead sessions of their own."""
    parents: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
        except (OSError, IndexError, ValueError):
            continue
    found, more = set(pids), set(pids)
    while more:
        more = {pid for pid, parent in parents.items() if parent in more} - found
        found |= more
    return sorted(found)


@dataclass
class Host:
    """A namespace with the address 10.77.0.``number`` and the host name ``name``."""

    name: str
    number: int
    inside: list[str] = field(default_factory=list)
    _holder: Process | None = None

    @property
    def address(self) -> str:
        return f"10.77.0.{self.number}"

    def up(self, log: Path) -> None:
        self._holder = holder = spawn(
            ["unshare", "--net", "--uts", "sh", "-c", f"hostname {self.name} && exec sleep infinity"], log=log
        )
        while b"sleep" not in Path(f"/proc/{holder.pid}/cmdline").read_bytes():
            time.sleep(0.01)
        while Path(f"/proc/{holder.pid}/comm").read_text().strip() != "sleep":
            time.sleep(0.01)
        self.inside = ["nsenter", "-t", str(holder.pid), "--net", "--uts", "--"]
        _ip(f"link add v{self.number} type veth peer name eth0 netns {holder.pid}")
        _ip(f"link set v{self.number} master br0 up")
        for command in ("link set lo up", f"addr add {self.address}/24 dev eth0", "link set eth0 up"):
            _ip(command, self.inside)

    def link(self, state: str) -> None:
        """``down`` cuts the host off, ``up`` joins it again."""
        _ip(f"link set v{self.number} {state}")

    def down(self) -> None:
        if self._holder is not None:
            stop(self._holder)
