"""Every variable that any part reads is in docs/settings.md, and nothing is there that no part reads."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
ROWS = re.findall(r"^\| (`.+?) \|", (ROOT / "docs" / "settings.md").read_text(), re.M)
DOCUMENTED = {name for row in ROWS for name in re.findall(r"`([A-Z0-9_]+)`", row)}
#: whatever reads a variable: env_int(…), os.environ[…], environ.get(…), env.get(…), ${…:-}
READ = re.compile(
    r"""(?:env_\w+\(|environ(?:\.get\()?\[?|env\.get\()\s*["']([A-Z][A-Z0-9_]{2,})["']|\$\{([A-Z_]+):-\}"""
)
#: of the operating system or of the libraries, not of ours
FOREIGN = {"DJANGO_SETTINGS_MODULE", "DJANGO_ALLOW_ASYNC_UNSAFE", "DEBIAN_FRONTEND", "PATH", "PYTHONUNBUFFERED"} | {
    "XDG_DATA_HOME",
    "KUBERNETES_SERVICE_HOST",
    "KUBERNETES_SERVICE_PORT",
    "PYTEST_XDIST_TESTRUNUID",
}


def sources() -> list[Path]:
    folders = ("client", "diagnosis", "ingest", "triage", "scripts", "tests", "lab")
    return [path for name in folders for path in (ROOT / name).rglob("*.py")] + [ROOT / "scripts" / "bootstrap"]


def variables_read() -> set[str]:
    found = {name for path in sources() for pair in READ.findall(path.read_text()) for name in pair if name}
    # NAME_FILE is another way to say NAME
    return {
        name for name in found if name.removesuffix("_FILE") == name or name.removesuffix("_FILE") not in found
    } - FOREIGN


def test_every_variable_that_is_read_is_documented() -> None:
    read = variables_read()
    assert {"DATABASE_URL", "FAULTLINE_PORT", "FAULTLINE_UPLOAD_MAX_BYTES", "PYTHON"} <= read, "the search itself broke"
    assert sorted(read - DOCUMENTED) == []


def test_nothing_is_documented_that_is_not_read() -> None:
    assert sorted(DOCUMENTED - variables_read() - {"REDIS_URL"}) == []


def test_every_variable_that_the_deployment_sets_is_documented() -> None:
    lines = (ROOT / "deploy" / "systemd" / "faultline.env").read_text().splitlines()
    names = {line.partition("=")[0].removesuffix("_FILE") for line in lines if "=" in line and not line.startswith("#")}
    assert sorted(names - DOCUMENTED - FOREIGN) == []
