"""The repository describes only itself: no file depends on the machine it was written on or on one package host."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
TEXT = {
    ".py",
    ".md",
    ".toml",
    ".lock",
    ".html",
    ".css",
    ".js",
    ".yaml",
    ".yml",
    ".service",
    ".conf",
    ".env",
    ".txt",
    "",
}


def files() -> list[Path]:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [ROOT / name for name in listed.splitlines() if Path(name).suffix in TEXT and "vendor" not in name]


@pytest.mark.parametrize(
    ("what", "pattern"),
    [
        ("the place of this checkout", re.escape(str(ROOT))),
        ("a package index", r"(?i)--(?:extra-)?index-url\b|\bfind-links\b"),
        ("a package host", r"(?i)https?://[^\s/)]*(?:pypi|pythonhosted|npmjs|unpkg|jsdelivr|cdnjs)"),
    ],
)
def test_no_file_names(what: str, pattern: str) -> None:
    found = re.compile(pattern)
    own = Path(__file__).resolve()
    named = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in files()
        if path.exists() and path.resolve() != own
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1)
        if found.search(line.replace("--no-emit-index-url", ""))
    ]
    assert named == [], what


def test_the_reference_evidence_is_only_reached_through_its_variable() -> None:
    """Product code never reads files outside its checkout; tests and measuring commands do if a variable names the
    place.
    """
    product = [
        path
        for path in files()
        if path.relative_to(ROOT).parts[0] in {"diagnosis", "ingest", "triage", "templates", "static"}
    ]
    assert [str(path) for path in product if path.exists() and "FAULTLINE_SHARED" in path.read_text()] == []
