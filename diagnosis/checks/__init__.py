"""Checks that decide a doubtful conclusion: which to run, how their output is recognised, what it says.

The checks are data (``checks.toml``). Output that somebody uploads or pastes is evidence like any other: :func:`read`
finds it among the artifacts, :func:`weighed` moves the suspects by it, :func:`chosen` offers the next one.
"""

from diagnosis.checks.choose import chosen
from diagnosis.checks.load import Check, Outcome, load
from diagnosis.checks.read import Result, placed, read, recognised
from diagnosis.checks.weigh import shares, weighed

__all__ = [
    "Check",
    "Outcome",
    "Result",
    "chosen",
    "load",
    "placed",
    "read",
    "recognised",
    "shares",
    "weighed",
]
