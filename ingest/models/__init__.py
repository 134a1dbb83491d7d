"""Rows of the evidence layer: access, jobs, artifacts and the work done on them, history."""

from ingest.models.access import DEMONSTRATION, Cluster, IdempotencyKey, ServiceAccount, Team, Token
from ingest.models.evidence import Artifact, Blob, Run, RunLog, Upload
from ingest.models.history import HistoryEntry
from ingest.models.job import Attempt, Job, Node
from ingest.models.machine import Machine
from ingest.models.outcome import Outcome
from ingest.models.watch import Watch

__all__ = [
    "DEMONSTRATION",
    "Artifact",
    "Attempt",
    "Blob",
    "Cluster",
    "HistoryEntry",
    "IdempotencyKey",
    "Job",
    "Machine",
    "Node",
    "Outcome",
    "Run",
    "RunLog",
    "ServiceAccount",
    "Team",
    "Token",
    "Upload",
    "Watch",
]
