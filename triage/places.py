"""Where code and data are: in a checkout, and where a wheel was installed. Standard library only."""

from __future__ import annotations

import os
import re
import sys
from importlib import metadata
from pathlib import Path

#: the directory of the packages: the checkout, or site-packages
ROOT = Path(__file__).resolve().parent.parent
IS_CHECKOUT = (ROOT / "manage.py").exists()
#: has docs/, templates/, static/ and samples/; a wheel has them inside this package
RESOURCES = ROOT if IS_CHECKOUT else ROOT / "triage" / "resources"
#: sources of the command-line client
CLIENT = ROOT / "client" / "faultline" if IS_CHECKOUT else ROOT / "faultline"


def data_dir() -> Path:
    """``FAULTLINE_DATA_DIR``; else ``var`` in a checkout, and the user's directory for data of programs in a wheel."""
    named = os.environ.get("FAULTLINE_DATA_DIR")
    if named:
        return Path(named).resolve()
    if IS_CHECKOUT:
        return ROOT / "var"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "faultline"
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "faultline"


def installed_version() -> str:
    """The version that pip shows, of a later wheel with `.postN`; without pip's record that of the product."""
    try:
        return metadata.version("faultline-triage")
    except metadata.PackageNotFoundError:
        return version()


def version() -> str:
    """The product's version, from the only place where it is written."""
    found = re.search(r'^__version__ = "(.+)"', (CLIENT / "__init__.py").read_text(), re.M)
    return found[1] if found else "unknown"
