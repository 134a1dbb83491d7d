"""Install a lock file into the environment that runs this, once for each state of the lock. Standard library only."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCKS = {"run": ROOT / "requirements.lock", "dev": ROOT / "requirements-dev.lock"}
NEEDED_BYTES = 1_500_000_000


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
    """The first requirement of a lock that carries no hash, or ''."""
    entries = lock.replace("\\\n", " ").splitlines()
    named = (line for line in entries if line.strip() and not line.lstrip().startswith("#"))
    return next((line.split()[0] for line in named if "--hash=" not in line), "")


def installer() -> list[str]:
    uv = shutil.which("uv")
    if uv:
        return [uv, "pip", "install", "--quiet", "--no-deps", "--require-hashes", "--python", sys.executable, "-r"]
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    return [*pip, "--no-deps", "--require-hashes", "-r"]


def explain(output: str) -> str:
    """One line that says what is wrong, from the installer's own words."""
    if "No space left" in output:
        return f"The disk is full: free some space below {ROOT} and start again."
    if "do not match" in output.lower() or "hash mismatch" in output.lower():
        return "A downloaded package does not match its hash in the lock file and was not installed: try again."
    last = next((line for line in reversed(output.splitlines()) if line.strip()), "no message")
    return f"Installing the packages failed: {last.strip()}"


def install(kind: str) -> str:
    """Install the lock ``run`` or ``dev`` if it is not there yet; returns '' or a sentence with the reason."""
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
    print(f"Installing {lock.name} into {Path(sys.prefix).name} …", flush=True)
    env = {key: value for key, value in os.environ.items() if key != "VIRTUAL_ENV"}
    argv = [*installer(), str(lock)]
    done = subprocess.run(argv, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        return explain(done.stdout + done.stderr)
    stamp.write_text(f"{kind} {digest_of(LOCKS['run'])} {digest_of(LOCKS['dev'])}\n")
    return ""


if __name__ == "__main__":
    sys.exit(install(sys.argv[1]) or 0)
