"""Stack evidence: what each rank was doing when the job hung (ByteRobust, arXiv 2509.16293, sections 4 and 5).

:func:`sniff` and :func:`parse_stack` read one artifact, :func:`diagnose_stacks` compares all of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from diagnosis.model import Parsed
from diagnosis.stacks.dump_reading import parse_stack, sniff

__all__ = ["diagnose_stacks", "parse_stack", "sniff"]


def diagnose_stacks(parsed: Iterable[Parsed], **options: Any) -> dict[str, Any]:
    """Compares all stack artifacts of a job; see ``diagnose.diagnose_stacks``."""
    from diagnosis.stacks import diagnose  # noqa: PLC0415  # heavy: a tenth of the start, and few jobs have stacks

    return diagnose.diagnose_stacks(parsed, **options)
