"""A release has one version, written in one place: whoever names it elsewhere names the same."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from packaging.version import Version

from diagnosis.pipeline import ENGINE
from scripts import release
from scripts import version as versions
from tests.patience import WORK_S
from tests.upgrades import RELEASES
from triage.places import ROOT, version

NAMED = r"(?:faultline:|^appVersion: |^ *version: |__version__ = \"|ENGINE: Final = \")(\d+\.\d+\.\d+)"


@pytest.mark.parametrize("path", release.PLACES)
def test_a_file_that_names_the_version_names_this_one(path: str) -> None:
    assert set(re.findall(NAMED, (ROOT / path).read_text(), re.M)) == {version()}


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with the files that name the version, in one commit."""
    for name in (*release.PLACES, "CHANGELOG.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    for module in (release, versions):
        monkeypatch.setattr(module, "ROOT", tmp_path)
    git(tmp_path, "init", "-q")
    commit(tmp_path)
    return tmp_path


def git(folder: Path, *words: str) -> None:
    argv = ["git", "-c", "user.name=x", "-c", "user.email=x@example.org", "-C", str(folder), *words]
    subprocess.run(argv, check=True, capture_output=True, timeout=WORK_S)


def commit(folder: Path) -> None:
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "--allow-empty", "-m", "x")


def test_each_build_is_newer_than_the_one_before(checkout: Path) -> None:
    built = [versions.build_version()]
    for _ in range(2):
        commit(checkout)
        built.append(versions.build_version())
    release.release("9.8.7")
    commit(checkout)
    built.append(versions.build_version())
    assert built == [version(), f"{version()}.post1", f"{version()}.post2", "9.8.7"]
    assert built == sorted(built, key=Version)


def test_a_release_is_written_everywhere_at_once(checkout: Path) -> None:
    for name in release.release("9.8.7"):
        text = (checkout / name).read_text()
        assert name == "CHANGELOG.md" or set(re.findall(NAMED, text, re.M)) == {"9.8.7"}
    assert re.search(r"^## Unreleased\n\n## 9\.8\.7 \(\d+ \w+ \d{4}\)\n", text, re.M)
    for wrong in ("9.8.7", "0.0.1", "10", ""):
        with pytest.raises(SystemExit, match="newer than"):
            release.release(wrong)


def test_a_source_archive_builds_the_version_that_it_states(checkout: Path) -> None:
    (checkout / "PKG-INFO").write_text("Metadata-Version: 2.4\nName: faultline-triage\nVersion: 1.2.3.post4\n")
    assert versions.build_version() == "1.2.3.post4"


def test_the_engine_has_the_version_of_the_product() -> None:
    assert version() == ENGINE


def test_the_changelog_begins_with_what_is_not_released_and_then_with_this_version() -> None:
    sections = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert sections[0] == "Unreleased"
    assert re.fullmatch(rf"{re.escape(version())} \(\d+ \w+ \d{{4}}\)", sections[1])


def test_upgrades_from_this_version_are_tested() -> None:
    assert version() in RELEASES
