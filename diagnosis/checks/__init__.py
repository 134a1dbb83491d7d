"""Checks that decide a doubtful conclusion: how their output is recognised, and what it says.

The checks are data (``checks.toml``). Output that somebody uploads or pastes is evidence like any other: :func:`read`
finds it among the artifacts, :func:`weighed` moves the suspects by it. ``conclusion.next_check`` offers the next one.
"""

from diagnosis.checks.check_outputs import Result, placed, read, recognised
from diagnosis.checks.check_table import Check, Outcome, load
from diagnosis.checks.weigh import shares, weighed

__all__ = [
    "Check",
    "Outcome",
    "Result",
    "load",
    "placed",
    "read",
    "recognised",
    "shares",
    "weighed",
]
