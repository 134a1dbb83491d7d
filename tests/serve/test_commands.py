"""Commands behind ``manage``."""

from __future__ import annotations

import os
import signal
import sys

import pytest

from triage.serve import commands


def test_a_reader_that_has_enough_ends_a_command_quietly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("django.core.management.execute_from_command_line", lambda _: print("one row\n" * 10_000))
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as out:
        monkeypatch.setattr(sys, "stdout", out)
        status = commands.main(["manage", "ensure", "setup.toml"])
    assert status == 128 + signal.SIGPIPE
