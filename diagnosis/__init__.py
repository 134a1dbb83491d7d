"""Faultline's engine: evidence of a training job in, a diagnosis with its evidence out.

Pure library: no Django, no Celery, no clock, no environment. There are two calls:

* :func:`parse` turns one artifact's bytes into a :class:`Parsed` (once per artifact, streaming);
* ``diagnosis.pipeline.diagnose`` turns all of a job's ``Parsed`` into one ``Diagnosis``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from diagnosis.model import JobHints, Kind, Level, Parsed, ParseHints, Role, Source

if TYPE_CHECKING:
    from diagnosis.files.parsing import parse
    from diagnosis.kinds.logs.log_parsing import merge

__all__ = ["JobHints", "Kind", "Level", "ParseHints", "Parsed", "Role", "Source", "merge", "parse"]


def __getattr__(name: str) -> Any:
    """``parse`` and ``merge`` are imported at first use: pages never parse."""
    if name in ("merge", "parse"):
        from diagnosis.files import parsing  # noqa: PLC0415  # heavy: polars
        from diagnosis.kinds.logs import log_parsing  # noqa: PLC0415  # heavy: polars

        return parsing.parse if name == "parse" else log_parsing.merge
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
