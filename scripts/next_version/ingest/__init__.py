"""This version's migrations of the app, and those of the next one."""

from triage.places import ROOT

__path__ = [str(ROOT / "ingest" / "migrations"), *__path__]
