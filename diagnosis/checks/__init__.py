"""Checks that settle a doubtful conclusion: how their output is recognised, and what it means.

The checks are data (``checks.toml``). Uploaded or pasted output is evidence: :func:`read` finds it among the artifacts,
:func:`weighed` updates the suspects with it. ``conclusion.next_check`` offers the next check.
"""

from diagnosis.checks.check_outputs import Result, placed, read, recognised
from diagnosis.checks.check_table import Check, Outcome, load
from diagnosis.checks.weigh import PLACES, shares, weighed

__all__ = [
    "PLACES",
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
