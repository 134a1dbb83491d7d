"""Stack evidence: what each rank was doing when the job hung (ByteRobust, arXiv 2509.16293, sections 4 and 5).

:func:`sniff` and :func:`parse_stack` read one artifact, :func:`diagnose_stacks` compares all of them.
"""

from __future__ import annotations

from diagnosis.stacks.diagnose import diagnose_stacks
from diagnosis.stacks.dump_reading import parse_stack, sniff

__all__ = ["diagnose_stacks", "parse_stack", "sniff"]
