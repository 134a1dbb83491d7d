"""Rows of the evidence layer: access, jobs, artifacts and the work done on them, history."""

from ingest.models.access import Cluster, Team, Token
from ingest.models.evidence import Artifact, Blob, Run, RunLog, Upload
from ingest.models.history import HistoryEntry
from ingest.models.job import Attempt, Job, Node

__all__ = [
    "Artifact",
    "Attempt",
    "Blob",
    "Cluster",
    "HistoryEntry",
    "Job",
    "Node",
    "Run",
    "RunLog",
    "Team",
    "Token",
    "Upload",
]
