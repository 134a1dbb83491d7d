import shutil
import subprocess
from pathlib import Path

import pytest

from scripts import install

ROOT = Path(__file__).resolve().parent.parent.parent


def requirements(lock: Path) -> set[str]:
    return {line.split()[0] for line in lock.read_text().splitlines() if line[:1].isalnum()}


def test_the_development_lock_contains_the_runtime_lock_version_by_version() -> None:
    assert requirements(install.LOCKS["run"]) <= requirements(install.LOCKS["dev"])


@pytest.mark.parametrize("lock", install.LOCKS.values(), ids=lambda path: path.name)
def test_every_locked_package_has_a_hash_and_no_host_is_named(lock: Path) -> None:
    text = lock.read_text()
    assert install.entry_without_hash(text) == ""
    assert "://" not in text


def test_a_package_without_a_hash_is_named() -> None:
    lock = "good==1 \\\n    --hash=sha256:aa\nbad==2\nworse==3 \\\n    --hash=sha256:bb\n"
    assert install.entry_without_hash(lock) == "bad==2"


def test_a_stamp_of_the_development_lock_serves_make_run_too_but_not_the_other_way_round() -> None:
    run, dev = install.digest_of(install.LOCKS["run"]), install.digest_of(install.LOCKS["dev"])
    assert install.is_installed(f"dev {run} {dev}", "run")
    assert install.is_installed(f"run {run} {dev}", "run")
    assert not install.is_installed(f"run {run} {dev}", "dev")
    assert not install.is_installed(f"dev {run} {'0' * 64}", "dev")
    assert not install.is_installed("cut short", "run")


@pytest.mark.parametrize(
    ("output", "words"),
    [
        (
            "x\nERROR: Could not install packages due to an OSError: [Errno 28] No space left on device\n",
            "disk is full",
        ),
        ("ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE.", "does not match its hash"),
        (
            "long story\nERROR: No matching distribution found for polars==2\n\n",
            "No matching distribution found for polars",
        ),
        ("", "no message"),
    ],
)
def test_a_failed_installation_is_told_in_one_line(output: str, words: str) -> None:
    sentence = install.explain(output)
    assert words in sentence
    assert "\n" not in sentence


def test_an_old_python_is_refused_with_one_line_that_says_what_to_do(tmp_path: Path) -> None:
    """On a machine whose every Python is a shim that refuses to run, as version managers leave them."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("sh", "dirname", "mkdir"):
        (tools / name).symlink_to(shutil.which(name) or name)
    for name in ("python3", "python3.12", "python3.13", "python3.14"):
        shim = tools / name
        shim.write_text('#!/bin/sh\n[ "$1" = --version ] && echo Python 3.9.2 && exit 0\nexit 1\n')
        shim.chmod(0o755)
    checkout = tmp_path / "checkout" / "scripts"
    checkout.mkdir(parents=True)
    (checkout / "bootstrap").write_text((ROOT / "scripts" / "bootstrap").read_text())
    env = {"PATH": str(tools), "HOME": str(tmp_path), "PYENV_ROOT": str(tmp_path)}
    done = subprocess.run(
        ["/bin/sh", checkout / "bootstrap", "run"], env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "needs Python 3.12 or newer (found: Python 3.9.2)" in done.stderr
