"""Faultline's engine: evidence of a training job in, a diagnosis with its evidence out.

Pure library: no Django, no Celery, no clock, no environment. Two calls carry everything:

* :func:`parse` turns one artifact's bytes into a :class:`Parsed` (once per artifact, streaming);
* :func:`diagnose` turns all of a job's ``Parsed`` into one :class:`Diagnosis`.
"""
