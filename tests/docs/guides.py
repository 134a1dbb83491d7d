"""The shell commands of the documents, and how each of them is tested.

A block of shell begins with ```` ```sh ````. `tests/docs/test_guides.py` runs the commands of a document from top to
bottom in one shell, exactly as they are printed, except addresses and the token (:data:`SITES`, :data:`TOKEN`), which
every reader replaces, and :data:`FOLDERS`, which lie below the reader's folder. A command that cannot run there is in
:data:`ELSEWHERE`, with the reason and the test that covers it.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent.parent
DOCUMENTS = ("README.md", "CONTRIBUTING.md", *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")))
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)


class Command(NamedTuple):
    """One command of a document, with all of its lines."""

    document: str
    text: str


class Elsewhere(NamedTuple):
    """Commands of one document that other tests cover. ``begins`` is how their lines begin."""

    document: str
    begins: str
    reason: str
    test: str


@dataclass(frozen=True)
class Needs:
    """What a reader of a document has before the first command."""

    #: files and folders: their name in the reader's folder, and their place in the repository
    files: tuple[tuple[str, str], ...] = ()
    #: variables that the surroundings set, such as a scheduler
    variables: tuple[tuple[str, str], ...] = ()
    #: a site with a worker, whose address and token replace the printed ones
    has_site: bool = False


#: The addresses and the token of the documents; `test_guides` replaces them by those of the site that it starts.
SITES = ("http://localhost:8000", "https://faultline.example")
TOKEN = "fl_…"
#: folders of machines of a cluster, with what stands before them in a command
FOLDERS = (" /logs/",)

#: Documents whose commands need more than a checkout.
NEEDS = {
    "README.md": Needs(
        files=(
            ("path/to/job", "samples/sigkill_rank5.tar.gz"),
            ("healthy-run", "samples/healthy_ddp_a.tar.gz"),
            ("broken-run", "samples/sigkill_rank5.tar.gz"),
        ),
        has_site=True,
    ),
    "docs/accounts.md": Needs(has_site=True),
    "docs/client.md": Needs(files=(("logs/4711", "samples/sigkill_rank5.tar.gz"),), has_site=True),
    "docs/evidence.md": Needs(
        files=(("logs.tar.gz", "samples/sigkill_rank5.tar.gz"),),
        variables=(("SLURM_JOB_ID", "4711"),),
        has_site=True,
    ),
    "docs/first-five-minutes.md": Needs(files=(("logs", "samples/sigkill_rank5.tar.gz"),), has_site=True),
}

_MAKES = "It starts or checks everything: another test starts the same program"
_CHECKS = "It is one stage of `make test`, or a part of one"
_CLUSTER = "It needs the machines and the scheduler of a cluster"
_ROOT = "It installs software as root"

ELSEWHERE = (
    Elsewhere("README.md", "make run", _MAKES, "tests/e2e/test_start.py"),
    Elsewhere("README.md", "make test", _CHECKS, "tests/scripts/test_check.py"),
    Elsewhere("README.md", "python3 faultline.pyz run", "It hangs on purpose", "tests/client/test_follow.py"),
    Elsewhere("CONTRIBUTING.md", ".venv/bin/", _CHECKS, "tests/scripts/test_check.py"),
    Elsewhere("CONTRIBUTING.md", "PATIENCE_S=20", _CHECKS, "tests/scripts/test_check.py"),
    Elsewhere("CONTRIBUTING.md", "O=", "It asks a package index", "tests/scripts/test_install.py"),
    Elsewhere("docs/first-five-minutes.md", "make run", _MAKES, "tests/e2e/test_start.py"),
    Elsewhere(
        "docs/first-five-minutes.md",
        ".venv/bin/python -m diagnosis samples/sigkill_rank5.tar.gz",
        "The README has the same command",
        "tests/docs/test_guides.py",
    ),
    Elsewhere(
        "docs/first-five-minutes.md",
        ".venv/bin/python -m diagnosis --batch samples",
        "Seven diagnoses take seconds",
        "tests/diagnosis/test_cli.py",
    ),
    *(
        Elsewhere(f"docs/{name}.md", begins, _CLUSTER, "tests/client/test_slurm_guides.py")
        for name, begins in (
            ("client", "d="),
            ("client", "dmesg"),
            ("client", "faultline upload"),
            ("live", "exec faultline run"),
            ("live", "systemd-run"),
            ("live", "systemctl"),
        )
    ),
    Elsewhere("docs/live.md", "faultline", "It runs until a job ends", "tests/client/test_slurm_guides.py"),
    Elsewhere("docs/restarts.md", "export", "It runs until it is ended", "tests/client/test_attribution.py"),
    Elsewhere(
        "docs/restarts.md", "faultline attribution", "It runs until it is ended", "tests/client/test_attribution.py"
    ),
    Elsewhere("docs/restarts.md", "ft_launcher", "It needs GPUs", "tests/client/test_attribution.py"),
    Elsewhere("docs/install.md", "pip install", _ROOT, "tests/deploy/test_wheel.py"),
    Elsewhere("docs/install.md", "uv tool install", "It asks a package index", "tests/deploy/test_wheel.py"),
    Elsewhere("docs/install.md", "python3 -m pip wheel", "It asks a package index", "tests/deploy/conftest.py"),
    Elsewhere("docs/install.md", "faultline", _ROOT, "tests/deploy/test_wheel.py"),
    *(
        Elsewhere("docs/install.md", begins, _ROOT, "tests/deploy/test_systemd.py")
        for begins in ("useradd", "python3 -m venv", "install", "runuser", "echo", "openssl", "cp ", "systemctl")
    ),
    *(
        Elsewhere("docs/install.md", begins, "It builds an image", "tests/deploy/test_image.py")
        for begins in ("buildah", "podman", "mmdebstrap", "printf")
    ),
    Elsewhere("docs/install.md", "mkdir", "It writes into deploy/", "tests/deploy/test_units.py"),
    Elsewhere("docs/install.md", "docker", "It needs a registry", "tests/deploy/test_units.py"),
    Elsewhere("docs/install.md", "kubectl", "It needs a Kubernetes cluster", "tests/deploy/test_chart.py"),
    Elsewhere("docs/install.md", "helm", "It needs a Kubernetes cluster", "tests/deploy/test_chart.py"),
    *(
        Elsewhere("docs/accounts.md", begins, "It needs an installation", "tests/triage/test_ensuring.py")
        for begins in ("faultline manage ensure", "kubectl")
    ),
    Elsewhere("docs/operations.md", "faultline backup", "It needs a whole installation", "tests/triage/test_backup.py"),
    Elsewhere(
        "docs/operations.md", "faultline restore", "It needs a whole installation", "tests/triage/test_backup.py"
    ),
)


def fences(document: str) -> list[tuple[str, str]]:
    """(language, text) of each block of code of a document."""
    return _FENCE.findall((ROOT / document).read_text(encoding="utf-8"))


@cache
def commands(document: str) -> tuple[Command, ...]:
    """The shell commands of a document, in order."""
    blocks = [text for language, text in fences(document) if language == "sh"]
    return tuple(Command(document, text) for block in blocks for text in _split(block))


def _split(block: str) -> Iterator[str]:
    """The commands of a block: a command goes on until the shell accepts its lines."""
    pending = ""
    for line in block.splitlines():
        if not pending and (not line.strip() or line.startswith("#")):
            continue
        pending += line + "\n"
        if _is_whole(pending):
            yield pending
            pending = ""
    assert not pending, f"the shell does not accept {pending!r}"


def _is_whole(lines: str) -> bool:
    if lines.endswith("\\\n"):
        return False
    read = subprocess.run(["bash", "-n"], input=lines, capture_output=True, text=True, check=False)
    return not read.stderr  # a here-document without an end is only a warning


def elsewhere(command: Command) -> Elsewhere | None:
    """The row of the table for a command that is not run with its document."""
    for row in ELSEWHERE:
        if row.document == command.document and command.text.startswith(row.begins):
            return row
    return None


def commands_to_run(document: str) -> list[Command]:
    return [command for command in commands(document) if elsewhere(command) is None]
