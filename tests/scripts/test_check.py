"""What `make test` relies on and prints."""

import pytest

from scripts import check


def test_the_slowest_tests_are_printed() -> None:
    assert "--durations=10" in check.PYTEST


def test_a_stage_that_is_not_there_is_told_with_those_that_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert check.main(["rain"]) == 2
    assert "there are: ruff, format, " in capsys.readouterr().err
