"""Reads evidence in a separate process with limits on memory and time: a crash costs one file, never a worker.

``call`` (:mod:`ingest.isolation.client`) runs a function of :mod:`ingest.isolation.inside` in a *reader*: a process
that stays warm and takes one call after the other. A *fork server* (:mod:`ingest.isolation.forkserver`) forks readers.
It has the engine loaded and never uses it, so that a new reader after a crash costs milliseconds. Each worker process
has a fork server and at most one reader. Neither knows Django, the database or the broker.
"""

from ingest.isolation.client import End, Limits, ReaderLost, call, warm

__all__ = ["End", "Limits", "ReaderLost", "call", "warm"]
