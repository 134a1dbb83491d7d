"""Imports a record of node faults as resolved incidents: ``manage.py import_faults trace.json --start 2024-03-30``."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from ingest.models import Cluster
from triage.services.importing import ImportRefused, faults_import, faults_of_trace


class Command(BaseCommand):
    help = "Import a JSON trace of node faults (fault_start and fault_end events) as resolved incidents."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", type=Path)
        parser.add_argument("--start", required=True, help="the day of the trace's time 0, as 2024-03-30")
        parser.add_argument("--cluster", default="default", help="slug of the cluster (made if missing)")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            epoch = datetime.fromisoformat(options["start"]).replace(tzinfo=UTC)
        except ValueError:
            raise CommandError(f"--start {options['start']} is not a day: write it as 2024-03-30.") from None
        try:
            rows = json.loads(options["file"].read_bytes())
        except OSError as error:
            raise CommandError(f"{options['file']} cannot be read: {error.strerror}.") from error
        except ValueError as error:
            raise CommandError(f"{options['file']} is not JSON: {error}.") from error
        cluster, _ = Cluster.objects.get_or_create(slug=options["cluster"])
        try:
            made = faults_import(
                cluster=cluster, slug=f"faults-{cluster.slug}", faults=faults_of_trace(rows, epoch=epoch)
            )
        except ImportRefused as error:
            raise CommandError(str(error)) from error
        sentence = f"Imported {made} faults as incidents." if made else "They were imported before: nothing was added."
        self.stdout.write(sentence)
