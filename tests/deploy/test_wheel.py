"""The wheel has everything that a checkout has, and starts without one."""

import ast
import json
import os
import re
import subprocess
import sys
import sysconfig
import tomllib
import urllib.request
import zipfile
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path
from urllib.parse import urljoin

import pytest

from tests.patience import PATIENCE_S, WORK_S
from triage.places import ROOT
from triage.serve.children import free_port, spawn, stop, wait_until

#: where a wheel has the folders that are outside of packages in a checkout
MOVED = {"client/faultline": "faultline"} | {
    name: f"triage/resources/{name}" for name in ("docs", "samples", "static", "templates")
}
PACKAGES = ("diagnosis", "ingest", "triage", "client/faultline")
#: optional: the extras of pyproject.toml with what they bring
GUARDED = {"boto3", "botocore", "mcp", "anyio", "pydantic", "uvicorn", "distributed"}
#: the address of another file in a script's `import`, or in a style's `url()`
_NAMED_BY_FILES = r"""(?:^(?:import|export)[^"';]*["']|url\(["']?)(\.{1,2}/[^"')]+)"""


def test_the_wheel_has_every_file_of_the_product(wheel: Path) -> None:
    done = subprocess.run(["git", "ls-files", *PACKAGES, *MOVED], cwd=ROOT, capture_output=True, text=True, check=True)
    expected = set()
    for name in done.stdout.split():
        folder = next((old for old in MOVED if name.startswith(f"{old}/")), "")
        expected.add(MOVED[folder] + name.removeprefix(folder) if folder else name)
    found = set(zipfile.ZipFile(wheel).namelist())
    assert sorted(name for name in expected - found if (ROOT / name).exists()) == []
    others = {name for name in found - expected if ".dist-info/" not in name}
    assert sorted(name for name in others if "/__pycache__/" in name or name.startswith(("tests/", "lab/"))) == []


def test_the_wheel_passes_its_linter(wheel: Path) -> None:
    argv = [str(Path(sys.executable).with_name("check-wheel-contents")), str(wheel)]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=WORK_S, check=False)
    assert done.returncode == 0, done.stdout


def test_the_version_is_written_in_one_place(wheel: Path) -> None:
    version = re.search(r'__version__ = "(.+)"', (ROOT / "client/faultline/__init__.py").read_text())
    assert version
    assert re.fullmatch(rf"faultline_triage-{re.escape(version[1])}(\.post\d+)?-py3-none-any\.whl", wheel.name)
    for path in ("pyproject.toml", "client/pyproject.toml"):
        assert tomllib.loads((ROOT / path).read_text())["project"]["dynamic"] == ["version"]


def test_every_package_that_the_product_imports_is_one_that_it_asks_for() -> None:
    locked = {line.split("==")[0] for line in (ROOT / "requirements.lock").read_text().splitlines() if "==" in line}
    known = packages_distributions()
    own = {Path(name).name for name in PACKAGES} | GUARDED
    missing = {
        (module, str(path.relative_to(ROOT)))
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        for module in _imported(path)
        if module not in own and module not in sys.stdlib_module_names
        if not {re.sub(r"[-_.]+", "-", name).lower() for name in known.get(module, ())} & locked
    }
    assert missing == set()


def _imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of commands of a fresh environment with the wheel. Other packages come from this environment, because
    compiling a fresh copy of them takes 15 s.
    """
    home = tmp_path_factory.mktemp("installed")
    uv = str(Path(sys.executable).with_name("uv"))
    subprocess.run([uv, "venv", "-q", "--python", sys.executable, home], check=True, timeout=WORK_S)
    python = home / "bin" / "python"
    argv = [uv, "pip", "install", "-q", "--python", python, "--no-deps", "--no-index", wheel]
    subprocess.run(argv, check=True, timeout=WORK_S)
    (packages,) = home.glob("lib/python*/site-packages")
    (packages / "others.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return home / "bin"


@pytest.mark.broker
def test_an_installed_wheel_starts_the_site_to_its_first_page(installed: Path, tmp_path: Path) -> None:
    foreign = ("DATABASE_URL", "REDIS_URL", "DJANGO_SETTINGS_MODULE", "FAULTLINE_DATA_DIR", "PYTHONPATH")
    env = {name: value for name, value in os.environ.items() if name not in foreign}
    port, log = free_port(), tmp_path / "log"
    env |= {"XDG_DATA_HOME": str(tmp_path), "FAULTLINE_PORT": str(port), "FAULTLINE_DEMO": "0"}
    env |= {"FAULTLINE_WEB_PROCESSES": "1", "FAULTLINE_WORKER_PROCESSES": "1", "PYTHONUNBUFFERED": "1"}
    process = spawn([str(installed / "faultline")], log=log, env=env)
    try:
        wait_until(lambda: "Ctrl-C ends it" in log.read_text(), process, what="faultline", log=log, timeout_s=WORK_S)
        page = _get(port, "/sign-in/").decode()
        assert "<title>Sign in · Faultline</title>" in page
        assert re.search(r'href="/static/css/base\.[0-9a-f]+\.css"', page), "the wheel's files were not collected"
        collected = json.loads((tmp_path / "faultline" / "static" / "staticfiles.json").read_text())["paths"]
        named = {f"/static/{collected[name]}" for name in _named_by_pages()}
        served: set[str] = set()
        while named - served:  # scripts and styles name others
            address = (named - served).pop()
            served.add(address)
            text = _get(port, address).decode()
            named |= {urljoin(address, found) for found in re.findall(_NAMED_BY_FILES, text, re.MULTILINE)}
        assert len(served) > len(set(_named_by_pages())), "no script imports another"
        (tmp_path / "faultline.pyz").write_bytes(_get(port, "/faultline.pyz"))
    finally:
        stop(process)
    assert (tmp_path / "faultline" / "faultline.sqlite3").exists(), "the data are not in the user's directory"
    for argv in ([str(installed / "faultline")], [sys.executable, str(tmp_path / "faultline.pyz")]):
        done = subprocess.run([*argv, "--version"], capture_output=True, text=True, timeout=PATIENCE_S, check=True)
        assert re.fullmatch(r"\d+\.\d+\.\d+\n", done.stdout)


def _named_by_pages() -> Iterator[str]:
    """The static files that templates of the product name."""
    for path in (ROOT / "templates").rglob("*.*"):
        yield from re.findall(r"{% static ['\"](.+?)['\"] %}", path.read_text())


def _get(port: int, path: str) -> bytes:
    with urllib.request.urlopen(f"http://localhost:{port}{path}", timeout=PATIENCE_S) as answer:
        return bytes(answer.read())


def test_djangos_commands_are_behind_manage(installed: Path, tmp_path: Path) -> None:
    env = {**os.environ, "FAULTLINE_DATA_DIR": str(tmp_path), "DJANGO_SETTINGS_MODULE": "triage.settings"}
    argv = [str(installed / "faultline"), "manage", "findstatic", "css/base.css"]
    done = subprocess.run(argv, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=WORK_S, check=False)
    assert "triage/resources/static/css/base.css" in done.stdout, done.stderr
