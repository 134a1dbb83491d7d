"""Checks that settle a doubtful conclusion: how their output is recognised, and what it means.

The checks are data (``checks.toml``). Uploaded or pasted output is evidence: :func:`read_results` finds it among the
artifacts, :func:`update_suspects` updates the suspects with it. ``conclusion.next_check`` offers the next check.
"""

from diagnosis.kinds.checks.check_outputs import Result, read_results, recognise_output, with_targets
from diagnosis.kinds.checks.check_table import Check, Outcome, load
from diagnosis.kinds.checks.weigh import CHECKED_KINDS, update_categories, update_suspects

__all__ = [
    "CHECKED_KINDS",
    "Check",
    "Outcome",
    "Result",
    "load",
    "read_results",
    "recognise_output",
    "update_categories",
    "update_suspects",
    "with_targets",
]
