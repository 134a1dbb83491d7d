"""Removes old evidence and keeps its verdicts: ``manage.py remove_evidence --days 180 [--dry-run]``."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.template.defaultfilters import filesizeformat

from ingest.services import evidence_removal
from triage.services.retention import FreedEvidence, evidence_free, jobs_to_free


class Command(BaseCommand):
    help = "Delete the bytes and column files of jobs that got no evidence for some days. Their diagnoses stay."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--days", type=int, required=True, help="how old the newest evidence of a job must be")
        parser.add_argument("--unreviewed", action="store_true", help="include jobs with incidents that await review")
        parser.add_argument("--dry-run", action="store_true", help="only print what would be removed")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["days"] < 0:
            raise CommandError("--days must be 0 or more")
        jobs = jobs_to_free(days=options["days"], with_unreviewed=options["unreviewed"])
        if options["dry_run"]:
            rows = [FreedEvidence(job, *evidence_removal.evidence_size(job)) for job in jobs]
        else:
            rows = []
            for row in evidence_free(jobs):
                rows.append(row)
                self.stdout.write(f"{row.job.slug}: {row.files:,} files, {filesizeformat(row.size_bytes)}")
        verb = "would be" if options["dry_run"] else "were"
        size = filesizeformat(sum(row.size_bytes for row in rows))
        self.stdout.write(f"{sum(r.files for r in rows):,} files of {len(rows):,} jobs, {size}, {verb} removed.")
