"""Every command of every guide runs as it is printed, or says which test runs it instead."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.docs.guides import (
    DOCUMENTS,
    ELSEWHERE,
    FOLDERS,
    NEEDS,
    ROOT,
    SITES,
    TOKEN,
    Needs,
    commands,
    commands_to_run,
    fences,
)
from tests.patience import WORK_S

#: says which command failed; `set -e` alone ends without a word
_PRELUDE = "set -eEu -o pipefail\ntrap 'echo \"FAILED: $BASH_COMMAND\" >&2' ERR\n"
_RUNNING = [name for name in DOCUMENTS if commands_to_run(name)]


@pytest.fixture
def reader(tmp_path: Path) -> Path:
    """The folder of a reader: a checkout, into which commands may write."""
    folder = tmp_path / "faultline"
    folder.mkdir()
    for path in ROOT.iterdir():
        if not path.name.startswith("."):
            (folder / path.name).symlink_to(path)
    (folder / ".venv").symlink_to(sys.prefix)
    programs = tmp_path / "bin"
    programs.mkdir()
    _program(programs / "python3", f'exec "{sys.executable}" "$@"')
    _program(programs / "python", f'exec "{sys.executable}" "$@"')
    _program(programs / "faultline", f'PYTHONPATH="{ROOT}/client" exec "{sys.executable}" -m faultline "$@"')
    return folder


def _program(path: Path, line: str) -> None:
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(0o755)


@pytest.fixture
def site(live_server: Any, worker: Any) -> tuple[str, str]:
    """Address and token of a site that reads and diagnoses what it is sent."""
    from ingest.services import token_create
    from tests.factories import make_user

    admin = make_user("engineer", "engineer", "admin")
    _, secret = token_create(user=admin, name="guide", scopes=["upload", "read", "administer"])
    return live_server.url, secret


@pytest.fixture
def follow(reader: Path) -> Callable[..., str]:
    """Runs the commands of a document in the reader's folder; returns what they printed."""

    def run(document: str, needs: Needs, site: tuple[str, str] | None) -> str:
        for name, place in needs.files:
            _put(reader / name, ROOT / place)
        script = _PRELUDE + "".join(command.text for command in commands_to_run(document))
        env = {"PATH": f"{reader.parent}/bin:{os.environ['PATH']}", "HOME": str(reader.parent), "no_proxy": "*"}
        env |= dict(needs.variables)
        if site:
            url, token = site
            for printed in SITES:
                script = script.replace(printed, url)
            script = script.replace(TOKEN, token)
            env["FAULTLINE_TOKEN"] = token
        for printed in FOLDERS:
            script = script.replace(printed, f" {reader}{printed.strip()}")
        argv = ["bash", "-c", script]
        done = subprocess.run(argv, cwd=reader, env=env, capture_output=True, text=True, timeout=WORK_S, check=False)
        assert done.returncode == 0, f"{document}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    return run


def _put(target: Path, source: Path) -> None:
    """A file as it is; an archive opened, where the reader has a folder."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.suffixes[-2:] == [".tar", ".gz"] and not target.suffixes:
        with tarfile.open(source) as archive:
            archive.extractall(target, filter="data")
    else:
        target.symlink_to(source)


@pytest.mark.parametrize("document", [name for name in _RUNNING if not NEEDS.get(name, Needs()).has_site])
def test_the_commands_of_a_guide_run_as_printed(document: str, follow: Callable[..., str]) -> None:
    follow(document, NEEDS.get(document, Needs()), None)


@pytest.mark.broker
@pytest.mark.django_db(transaction=True)
def test_the_commands_of_guides_run_as_printed_with_a_site(follow: Callable[..., str], site: tuple[str, str]) -> None:
    """One guide after the other, as a reader does: a worker of its own for each costs more than its commands."""
    guides = [name for name in _RUNNING if NEEDS.get(name, Needs()).has_site]
    assert len(guides) >= 3
    for document in guides:
        follow(document, NEEDS[document], site)


@pytest.mark.parametrize("document", DOCUMENTS)
def test_each_block_of_code_states_its_language(document: str) -> None:
    """A block without a language would hide its commands from these tests."""
    assert [text.partition("\n")[0] for language, text in fences(document) if not language] == []


@pytest.mark.parametrize("row", ELSEWHERE, ids=lambda row: f"{row.document}: {row.begins}")
def test_a_command_that_runs_elsewhere_is_printed_and_has_its_test(row: Any) -> None:
    assert any(command.text.startswith(row.begins) for command in commands(row.document)), "printed no longer"
    file, _, name = row.test.partition("::")
    text = (ROOT / file).read_text()
    assert not name or f"def {name}(" in text


def test_the_guides_have_commands() -> None:
    assert len([command for document in DOCUMENTS for command in commands(document)]) > 40, "the search itself broke"
