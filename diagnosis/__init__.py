"""Faultline's engine: evidence of a training job in, a diagnosis with its evidence out.

Pure library: no Django, no Celery, no clock, no environment. Two calls carry everything:

* :func:`parse` turns one artifact's bytes into a :class:`Parsed` (once per artifact, streaming);
* ``diagnosis.pipeline.diagnose`` turns all of a job's ``Parsed`` into one ``Diagnosis``.
"""

from diagnosis.model import JobHints, Kind, Level, Parsed, ParseHints, Role, Source
from diagnosis.parsing import merge, parse

__all__ = ["JobHints", "Kind", "Level", "ParseHints", "Parsed", "Role", "Source", "merge", "parse"]
