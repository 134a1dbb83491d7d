"""Every package that pyproject.toml asks for has its reason in docs/dependencies.md."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


def wanted() -> set[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = [name for names in project["project"]["optional-dependencies"].values() for name in names]
    lines = [*project["project"]["dependencies"], *extras, *project["dependency-groups"]["dev"]]
    return {re.split(r"[\[<>=!~ ]", line)[0] for line in lines}


def explained() -> set[str]:
    rows = re.findall(r"^\| ([a-z0-9, -]+) \|", (ROOT / "docs" / "dependencies.md").read_text(), re.M)
    return {name.strip() for row in rows for name in row.split(",")} - {"package"}


def test_every_package_has_a_reason() -> None:
    assert sorted(wanted() - explained()) == []


def test_no_reason_is_left_of_a_package_that_is_missing() -> None:
    assert sorted(explained() - wanted()) == []
