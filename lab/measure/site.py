"""A separate site for a measuring program, started like `make run` in its own directory, or its web server alone."""

from __future__ import annotations

import http.client
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ingest import processes
from triage.serve.children import free_port, spawn, stop, wait_until

ROOT = Path(__file__).resolve().parents[2]
_PEAK = re.compile(r"^VmHWM:\s+(\d+) kB", re.M)
_CAST = """
from django.contrib.auth import get_user_model
from django.test import Client
from ingest.services import job_create, token_create
user = get_user_model().objects.create_superuser("measure")
print("token", token_create(user=user, name="measure", scopes=["upload", "read"])[1])
other = get_user_model().objects.create_superuser("other")
print("other_token", token_create(user=other, name="measure", scopes=["upload", "read"])[1])
client = Client(headers={"host": "localhost"})
client.force_login(user)
print("cookie", client.cookies["sessionid"].value)
"""


@dataclass(frozen=True, slots=True)
class Site:
    port: int
    token: str
    #: of another person, who sends for no team either: both take turns, as two teams do
    other_token: str
    cookie: str
    data: Path
    pid: int

    def cpu_s(self) -> float:
        """Seconds of processor time that all its processes have taken, those that ended included."""
        return sum(filter(None, map(processes.cpu_s, processes.tree(self.pid))))

    def peak_bytes(self) -> int:
        """The most memory that one of its processes that runs now has ever had; what it shares counts too."""
        return max(map(_peak_bytes, processes.tree(self.pid)), default=0)

    @property
    def url(self) -> str:
        return f"http://localhost:{self.port}"


def _peak_bytes(pid: int) -> int:
    """0 if it has ended."""
    with suppress(OSError):
        found = _PEAK.search(Path(f"/proc/{pid}/status").read_text())
        return int(found[1]) << 10 if found else 0
    return 0


@contextmanager
def running(root: Path = ROOT, **variables: str) -> Iterator[Site]:
    """The checkout at ``root``, without demo people; an administrator's token and session are made, and another one's
    token.
    """
    with tempfile.TemporaryDirectory(prefix="faultline-measure-", ignore_cleanup_errors=True) as folder:
        data, port, log = Path(folder) / "data", free_port(), Path(folder) / "run.log"
        # the last one: an installation compiles each module once, and not in each process
        ours = ("DATABASE_URL", "REDIS_URL", "FAULTLINE_DATA_DIR", "PYTHONDONTWRITEBYTECODE")
        env = {name: value for name, value in os.environ.items() if name not in ours}
        env |= {"FAULTLINE_DATA_DIR": str(data), "FAULTLINE_PORT": str(port), "FAULTLINE_DEMO": "0"}
        env |= {"PYTHONPATH": str(root), **variables}
        argv = ["sh", "-c", f"cd {root} && exec {sys.executable} -m triage.serve"]
        process = spawn(argv, log=log, env=env)
        try:
            wait_until(lambda: "Ctrl-C ends it" in log.read_text(), process, what="The site", log=log, timeout_s=240)
            said = subprocess.run(
                [sys.executable, "manage.py", "shell", "-v", "0", "-c", _CAST],
                cwd=root,
                env=env,
                capture_output=True,
                text=True,
                check=True,
            ).stdout
            found = dict(re.findall(r"^(token|other_token|cookie) (\S+)$", said, re.M))
            yield Site(port, found["token"], found["other_token"], found["cookie"], data, process.pid)
        finally:
            stop(process, grace_s=30)


@contextmanager
def served(folder: Path, user: Any) -> Iterator[Reader]:
    """A web server (two processes) and a broker over the database that Django is set up with; yields a reader that is
    signed in as ``user``.
    """
    from django.conf import settings
    from django.core.management import call_command
    from django.test import Client

    from triage.serve.parts import web_command
    from triage.serve.valkey import start_valkey

    call_command("collectstatic", verbosity=0, interactive=False)
    client = Client(headers={"host": "localhost"})
    client.force_login(user)
    cookie = f"{settings.SESSION_COOKIE_NAME}={client.cookies[settings.SESSION_COOKIE_NAME].value}"
    valkey = start_valkey(folder, url=settings.REDIS_URL)
    port = free_port()
    server = spawn(web_command("127.0.0.1", port, "2"), log=folder / "web.log", env={**os.environ})

    def is_up() -> bool:
        with suppress(OSError):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=1)
            connection.request("GET", "/healthz")
            return connection.getresponse().status < 500
        return False

    try:
        wait_until(is_up, server, what="The server", log=folder / "web.log", timeout_s=120)
        yield Reader(port, cookie)
    finally:
        stop(server)
        stop(valkey.process)


class Reader:
    """One person with one connection."""

    def __init__(self, port: int, cookie: str) -> None:
        self.port, self.cookie = port, cookie
        self.connection = http.client.HTTPConnection("127.0.0.1", port)

    def read(self, path: str) -> tuple[float, bytes]:
        """Milliseconds until the page is here, and the page."""
        began = time.perf_counter()
        self.connection.request("GET", path, headers={"Cookie": self.cookie})
        response = self.connection.getresponse()
        body = response.read()
        if response.status != 200:
            raise SystemExit(f"{path} answered {response.status}")
        return (time.perf_counter() - began) * 1000, body


def quantile(values: list[float], share: float) -> float:
    """The smallest value that ``share`` of the values do not exceed; 0 of none."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0
