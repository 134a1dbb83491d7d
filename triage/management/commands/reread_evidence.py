"""Parses evidence again: ``manage.py reread_evidence [JOB …]``, after a restore without column files or an upgrade."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from ingest.models import Job
from ingest.services.rereading import artifacts_reread


class Command(BaseCommand):
    help = "Queue the reading of files whose column files are lost or were written by another version of the engine."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("jobs", nargs="*", metavar="JOB", help="ids of jobs; default: all")
        parser.add_argument("--all", action="store_true", help="also files whose column files are valid")

    def handle(self, *args: Any, **options: Any) -> None:
        jobs = Job.objects.order_by("pk")
        if options["jobs"]:
            jobs = jobs.filter(slug__in=options["jobs"])
            if missing := set(options["jobs"]) - set(jobs.values_list("slug", flat=True)):
                raise CommandError(f"There is no job {', '.join(sorted(missing))}.")
        total = 0
        for job in jobs.iterator():
            count = artifacts_reread(job=job, is_forced=options["all"])
            total += count
            if count:
                self.stdout.write(f"{job.slug}: {count:,} files")
        self.stdout.write(f"{total:,} files are queued; workers read them, then each job is diagnosed again.")
