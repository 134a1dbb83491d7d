"""A made-up next version: its migrations change tables as docs/upgrading.md allows. Tests and measurements migrate a
database to it while this version serves.
"""

from triage.places import ROOT


def last(app: str) -> tuple[str, str]:
    """The last migration of this version."""
    return app, max(path.stem for path in (ROOT / app / "migrations").glob("[0-9]*.py"))
