"""Stack evidence: what each rank was doing when the job hung (ByteRobust, arXiv 2509.16293, sections 4 and 5).

:func:`sniff` and :func:`parse_stack` read one artifact, :func:`diagnose_stacks` compares all of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from diagnosis.kinds.stacks.read.dump_reading import parse_stack, sniff
from diagnosis.model import Parsed

if TYPE_CHECKING:
    from diagnosis.kinds.stacks.ranks.layout import Layout

__all__ = ["diagnose_stacks", "find_layout", "parse_stack", "sniff"]


def diagnose_stacks(parsed: Iterable[Parsed], **options: Any) -> dict[str, Any]:
    """Compares all stack artifacts of a job; see ``diagnose.diagnose_stacks``."""
    from diagnosis.kinds.stacks.blame import diagnose  # noqa: PLC0415  # heavy: a tenth of the start, and few jobs have stacks

    return diagnose.diagnose_stacks(parsed, **options)


def find_layout(parsed: Iterable[Parsed], *given: Any) -> Layout:
    """The layout that a job states, in logs too; see ``dump_sources.find_layout``."""
    from diagnosis.kinds.stacks.ranks import dump_sources  # noqa: PLC0415  # heavy, see above

    return dump_sources.find_layout(list(parsed), *given)
