"""Writes of the evidence layer: one function per action, keyword arguments, side effects on commit."""

from ingest.refusals import Refused
from ingest.services.artifacts import artifact_delete
from ingest.services.cancelling import run_cancel, runs_cancel, runs_resume
from ingest.services.clusters import DEFAULT_CLUSTER, cluster_choose
from ingest.services.deleting import busy_with, cluster_delete, job_delete
from ingest.services.jobs import attempt_get, job_change, job_create, job_put
from ingest.services.receiving import Receipt, artifact_receive, part_receive
from ingest.services.revisions import diagnosis_request, revision_close
from ingest.services.runs import run_do, run_retry
from ingest.services.tokens import token_create, token_revoke, token_use, tokens_revoke
from ingest.services.work import Work

__all__ = [
    "DEFAULT_CLUSTER",
    "Receipt",
    "Refused",
    "Work",
    "artifact_delete",
    "artifact_receive",
    "attempt_get",
    "busy_with",
    "cluster_choose",
    "cluster_delete",
    "diagnosis_request",
    "job_change",
    "job_create",
    "job_delete",
    "job_put",
    "part_receive",
    "revision_close",
    "run_cancel",
    "run_do",
    "run_retry",
    "runs_cancel",
    "runs_resume",
    "token_create",
    "token_revoke",
    "token_use",
    "tokens_revoke",
]
