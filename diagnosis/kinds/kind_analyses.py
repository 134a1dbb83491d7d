"""What the files of each kind mean: one row a kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from diagnosis.kinds.checks import Result
from diagnosis.kinds.states import judgement
from diagnosis.model import Kind, Parsed

#: What the parsed files of a kind show, for a job.
TABLE: Final[dict[Kind, Callable[[Sequence[Parsed]], list[Result]]]] = {Kind.STATE: judgement.analyse}


def analyse(parsed: Sequence[Parsed]) -> list[Result]:
    """What the files of all kinds in the table show, in the order of the table."""
    found: list[Result] = []
    for kind, analyse_kind in TABLE.items():
        found += analyse_kind([one for one in parsed if one.kind is kind and one.skipped is None])
    return found
