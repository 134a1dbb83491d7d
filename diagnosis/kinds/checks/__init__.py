"""Checks that settle a doubtful conclusion: how their output is recognised, and what it means.

The checks are data (``checks.toml``). Uploaded or pasted output is evidence: :func:`read_results` finds it among the
artifacts. ``conclusion.weigh`` weighs suspects and categories with it, ``conclusion.next_check`` offers the next one.
"""

from diagnosis.kinds.checks.check_outputs import read_results, recognise_output, with_targets
from diagnosis.kinds.checks.check_table import load

__all__ = ["load", "read_results", "recognise_output", "with_targets"]
