"""`make` on anybody's machine: the choice of Python, the sentence if none is usable; fake interpreters."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
TOOLS = ("sh", "dirname", "mkdir", "cat", "chmod", "tail", "id")
#: makes .venv/bin/python, which tells how it is called
VENV = """mkdir -p .venv/bin
printf '#!/bin/sh\\n[ "$1" = -c ] && exit 0\\necho "called: $*"\\n' > .venv/bin/python
chmod +x .venv/bin/python"""
PYTHON = """[ "$1" = --version ] && echo "Python {version}" && exit 0
[ "$1" = -c ] && exit {is_old}
{venv}"""


@pytest.fixture
def machine(tmp_path: Path):
    """A checkout in a path with spaces, and a PATH with nothing but a few tools: ``has(name, script)``, ``boot()``."""
    tools, checkout = tmp_path / "tools", tmp_path / "a check out" / "fault line"
    tools.mkdir()
    (checkout / "scripts").mkdir(parents=True)
    (checkout / "scripts" / "bootstrap").write_text((ROOT / "scripts" / "bootstrap").read_text())
    for name in TOOLS:
        (tools / name).symlink_to(shutil.which(name) or name)

    class Machine:
        def has(self, name: str, script: str) -> None:
            (tools / name).write_text(f"#!/bin/sh\n{script}\n")
            (tools / name).chmod(0o755)

        def boot(self, **variables: str) -> subprocess.CompletedProcess[str]:
            argv = ["/bin/sh", str(checkout / "scripts" / "bootstrap"), "run"]
            env = {"PATH": str(tools), **variables}  # HOME is not set, as under some service managers
            return subprocess.run(argv, cwd="/", env=env, capture_output=True, text=True, check=False)

    return Machine()


def python(version: str, *, is_old: bool = False, venv: str = VENV) -> str:
    return PYTHON.format(version=version, is_old=int(is_old), venv=venv)


@pytest.mark.parametrize("version", ["3.12", "3.13", "3.14"])
def test_each_python_serves_also_in_a_path_with_spaces_and_without_a_home(machine, version):
    machine.has("python3", python("3.9", is_old=True))
    machine.has(f"python{version}", python(f"{version}.1"))
    done = machine.boot()
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"Making .venv with Python {version}.1 …\ncalled: -m scripts.install run\n"
    assert machine.boot().stdout == "called: -m scripts.install run\n", "the second time it is there"


def test_the_python_that_is_asked_for_comes_first_although_its_path_has_spaces(machine, tmp_path):
    machine.has("python3.13", python("3.13.0"))
    own = tmp_path / "my python" / "python3"
    own.parent.mkdir()
    own.write_text(f"#!/bin/sh\n{python('3.14.0')}\n")
    own.chmod(0o755)
    assert machine.boot(PYTHON=str(own)).stdout.startswith("Making .venv with Python 3.14.0 …\n")


def test_uv_alone_serves(machine):
    machine.has("uv", f'[ "$1" = venv ] || exit 2\n{VENV}')
    assert machine.boot().stdout.endswith("called: -m scripts.install run\n")


def test_an_old_python_is_refused_with_one_line_that_says_what_to_do(machine):
    """On a machine whose every Python is a shim that refuses to run, as version managers leave them."""
    for name in ("python3", "python3.12", "python3.13", "python3.14"):
        machine.has(name, python("3.9.2", is_old=True))
    done = machine.boot()
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "needs Python 3.12 or newer (found: Python 3.9.2; Debian 12 and Ubuntu 22.04 have none)" in done.stderr


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("OSError: [Errno 28] No space left on device: '/x'", "The disk is full: free some space below "),
        ("PermissionError: [Errno 13] Permission denied: '/x'", "Cannot write .venv below "),
        ("Something else", "Making .venv failed: Something else"),
    ],
)
def test_an_environment_that_cannot_be_made_is_one_line(machine, said, told):
    machine.has(
        "python3.12", python("3.12.1", venv=f"echo 'Traceback (most recent call last):'\necho \"{said}\"; exit 1")
    )
    done = machine.boot()
    assert done.returncode == 1
    assert done.stderr.startswith(told)
    assert done.stderr.count("\n") == 1


def test_a_python_without_venv_is_told_what_to_install(machine):
    script = '[ "$1" = --version ] && exit 0\n[ "$2" = "import ensurepip, venv" ] && exit 1\nexit 0'
    machine.has("python3.13", script)
    assert "lacks the venv module: install it (Debian: apt install python3-venv)" in machine.boot().stderr


def test_a_python_that_was_asked_for_and_does_not_run_is_reported_with_its_own_words(machine):
    """Before, another Python or one of uv took its place without a word."""
    machine.has("python3.13", python("3.13.0"))
    machine.has("uv", VENV)
    machine.has("broken", "echo 'error while loading shared libraries: libpython3.12.so.1.0' >&2; exit 127")
    done = machine.boot(PYTHON="broken")
    assert done.returncode == 1
    assert done.stderr.startswith("PYTHON=broken cannot be used (error while loading shared libraries")
    assert done.stderr.count("\n") == 1


def test_a_python_that_uv_cannot_download_is_one_line_that_says_what_to_do(machine):
    failed = "error: Failed to download https://example.org/cpython-3.13.tar.gz\n  cause: failed to lookup address"
    machine.has("uv", f"[ \"$1\" = venv ] || exit 2\nprintf '{failed}' >&2; exit 2")
    done = machine.boot()
    assert done.returncode == 1
    assert done.stderr.startswith("No Python 3.12 or newer is here and uv could not download one: install one")
    assert done.stderr.count("\n") == 1
