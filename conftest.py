"""What all runs of pytest share, those of the lab, too."""

from __future__ import annotations

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """The browser's plugin empties its folder at the start, which therefore is not the one of all pictures."""
    if config.getoption("output", None) == "test-results":
        config.option.output = "test-results/browser"
