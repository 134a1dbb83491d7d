import sys
from pathlib import Path
from typing import Any

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
        (
            "  error: command 'gcc' failed: No such file or directory\nERROR: Failed building wheel for numba\n",
            "numba is not ready-made for Python 3.",
        ),
        (
            "  x Failed to build `drain3==0.9`\n  error: [Errno 2] unable to execute 'cc'\n",
            "drain3 is not ready-made for Python 3.",
        ),
        ("fatal error: Python.h: No such file or directory\n", "no compiler is here to make it"),
        ("error: failed to write: No space left on device (os error 28)", "disk is full"),
    ],
)
def test_a_failed_installation_is_reported_in_one_line(output: str, words: str) -> None:
    sentence = install.explain(output)
    assert words in sentence
    assert "\n" not in sentence


def test_a_full_disk_is_reported_before_anything_is_fetched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(install.sys, "prefix", str(tmp_path))
    monkeypatch.setattr(install, "NEEDED_BYTES", 2**80)
    assert install.install("run").startswith("The disk is nearly full: ")


def test_while_it_installs_it_says_how_far_it_is(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setattr(install, "REPORT_EVERY_S", 0.05)
    argv = [sys.executable, "-c", "import time; time.sleep(0.5); print('it fails'); raise SystemExit(3)"]
    assert install.run_watched(argv, 90) == (3, "it fails\n")
    told = capsys.readouterr().out.splitlines()
    assert told
    assert all("of 90 installed" in line or "downloading" in line for line in told)


def test_the_lock_of_every_kind_is_distinguished_by_package() -> None:
    found = install.entries(install.LOCKS["dev"].read_text())
    assert found["uv"].startswith("uv==")
    assert "--hash=sha256:" in found["uv"]
    assert "\\" not in found["uv"]
