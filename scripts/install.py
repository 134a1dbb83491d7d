"""Install a lock file into the environment that runs this, once for each state of the lock. Standard library only."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCKS = {"run": ROOT / "requirements.lock", "dev": ROOT / "requirements-dev.lock"}
NEEDED_BYTES = 1_500_000_000
REPORT_EVERY_S = 4
#: packages that every new environment has, or that install others
BASE_PACKAGES = 3


def digest_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def is_installed(stamp: str, kind: str) -> bool:
    """``stamp`` holds ``kind digest-of-run-lock digest-of-dev-lock``; the dev lock contains the run lock."""
    stamped_kind, *digests = stamp.split()
    if len(digests) != 2:
        return False
    if kind == "run":
        return digests[0] == digest_of(LOCKS["run"])
    return stamped_kind == "dev" and digests[1] == digest_of(LOCKS["dev"])


def entry_without_hash(lock: str) -> str:
    """The first requirement of a lock without a hash, or ''."""
    entries = lock.replace("\\\n", " ").splitlines()
    named = (line for line in entries if line.strip() and not line.lstrip().startswith("#"))
    return next((line.split()[0] for line in named if "--hash=" not in line), "")


def entries(lock: str) -> dict[str, str]:
    """Each requirement of a lock by its package, with its hashes."""
    joined = lock.replace("\\\n", " ").splitlines()
    return {line.split("==")[0]: line for line in joined if line[:1].isalnum()}


def installers(folder: Path) -> Iterator[list[str]]:
    """Commands that install a lock: uv, installed by pip if the machine has none, because pip alone takes five times as
    long; then pip, for machines where uv reaches no registry. ``folder`` is for temporary files.
    """
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    pip += ["--no-deps", "--require-hashes", "-r"]
    has_pip = find_spec("pip") is not None
    own = Path(sys.prefix) / "bin" / "uv"
    if not shutil.which("uv") and not own.exists() and has_pip:
        wanted = folder / "uv.lock"
        wanted.write_text(entries(LOCKS["dev"].read_text())["uv"])
        subprocess.run([*pip, str(wanted)], capture_output=True, check=False)
    uv = shutil.which("uv") or (str(own) if own.exists() else "")
    if uv:
        yield [uv, "pip", "install", "--quiet", "--no-deps", "--require-hashes", "--python", sys.executable, "-r"]
    if has_pip:
        yield pip


_NO_COMPILER = re.compile(
    r"(gcc|g\+\+|clang|\bcc\b|cl\.exe|rustc|cargo)\W.{0,80}(No such file|not found|not installed|failed: None)"
    r"|unable to execute|Unable to find a compatible|Unknown compiler|linker .cc. not found|Python\.h: No such file",
    re.IGNORECASE,
)
_BUILT = re.compile(r"(?:Failed building wheel for|Failed to build(?: installable wheels for)?:?) `?([\w.-]+)")


def explain(output: str) -> str:
    """One line with the reason of a failure, from the installer's output."""
    if "No space left" in output or "os error 28" in output:
        return f"The disk is full: free some space below {ROOT} and start again."
    if _NO_COMPILER.search(output):
        built = _BUILT.search(output)
        python = f"Python {sys.version_info.major}.{sys.version_info.minor}"
        return (
            f"{built[1].split('==')[0] if built else 'A package'} is not ready-made for {python} on this machine and no"
            " compiler is here to make it: take another Python (PYTHON=python3.13 make run), or install a compiler"
            " (Debian: apt install build-essential python3-dev)."
        )
    if "do not match" in output.lower() or "hash mismatch" in output.lower():
        return "A downloaded package does not match its hash in the lock file and was not installed: try again."
    last = next((line for line in reversed(output.splitlines()) if line.strip()), "no message")
    return f"Installing the packages failed: {last.strip()}"


def run_watched(argv: list[str], count: int) -> tuple[int, str]:
    """Run an installer; returns its status and output. Every few seconds a line shows the progress among ``count``
    packages.
    """
    env = {key: value for key, value in os.environ.items() if key != "VIRTUAL_ENV"}
    packages = Path(sysconfig.get_path("purelib"))
    began = time.monotonic()
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(argv, cwd=ROOT, env=env, stdout=output, stderr=subprocess.STDOUT)
        while process.poll() is None:
            try:
                process.wait(REPORT_EVERY_S)
            except subprocess.TimeoutExpired:
                done = len(list(packages.glob("*.dist-info")))
                how = f"{min(done, count)} of {count} installed" if done > BASE_PACKAGES else "downloading"
                print(f"  {Path(argv[0]).name} has worked for {time.monotonic() - began:.0f} s: {how} …", flush=True)
        output.seek(0)
        return process.returncode, output.read()


def install(kind: str) -> str:
    """Install the lock ``run`` or ``dev`` if it is not installed yet; returns '' or a sentence with the reason."""
    lock, stamp = LOCKS[kind], Path(sys.prefix) / "faultline-installed"
    if stamp.exists() and is_installed(stamp.read_text(), kind):
        return ""
    unhashed = entry_without_hash(lock.read_text())
    if unhashed:
        return f"{lock.name} has no hash for {unhashed}: make it again as CONTRIBUTING.md says (Locks)."
    free = shutil.disk_usage(sys.prefix).free
    if free < NEEDED_BYTES:
        need = NEEDED_BYTES // 10**6
        return f"The disk is nearly full: {free // 10**6} MB free below {ROOT}, the packages need {need} MB."
    count = len(entries(lock.read_text()))
    print(
        f"Installing {count} packages of {lock.name} into {Path(sys.prefix).name}: half a minute or more.", flush=True
    )
    with tempfile.TemporaryDirectory() as folder:
        said = "Neither uv nor pip is here to install packages: install uv, or Python's pip."
        for argv in installers(Path(folder)):
            status, said = run_watched([*argv, str(lock)], count)
            if status == 0:
                break
        else:
            return explain(said)
    stamp.write_text(f"{kind} {digest_of(LOCKS['run'])} {digest_of(LOCKS['dev'])}\n")
    return ""


if __name__ == "__main__":
    sys.exit(install(sys.argv[1]) or 0)
