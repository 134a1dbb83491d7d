"""Reads of the evidence layer: each function returns exactly what one page, endpoint or the engine needs."""

from ingest.selectors.access import (
    CLUSTER_SEPARATOR,
    clusters_visible_to,
    job_named,
    jobs_visible_to,
    people_who_see,
    teams_of,
)
from ingest.selectors.evidence import (
    artifacts_of,
    has_whole_evidence,
    hints_for,
    is_removed,
    jobs_with_files,
    kept_lines,
    lines_of,
    lost_evidence,
    messages_of,
    parsed_for,
    parsed_of,
    read_range,
    reader_for,
    reader_of_several,
    records_path,
)
from ingest.selectors.progress import Progress, busy_jobs, progress
from ingest.selectors.quotas import Quota, quota_of, quotas_of
from ingest.selectors.wanted import ask_again_s, wanted_evidence

__all__ = [
    "CLUSTER_SEPARATOR",
    "Progress",
    "Quota",
    "artifacts_of",
    "ask_again_s",
    "busy_jobs",
    "clusters_visible_to",
    "has_whole_evidence",
    "hints_for",
    "is_removed",
    "job_named",
    "jobs_visible_to",
    "jobs_with_files",
    "kept_lines",
    "lines_of",
    "lost_evidence",
    "messages_of",
    "parsed_for",
    "parsed_of",
    "people_who_see",
    "progress",
    "quota_of",
    "quotas_of",
    "read_range",
    "reader_for",
    "reader_of_several",
    "records_path",
    "teams_of",
    "wanted_evidence",
]
