"""``faultline restore DIRECTORY``: puts a backup back, into either database and any later version."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from triage.services.backup import restore
from triage.services.backup_rows import UnusableBackup


class Command(BaseCommand):
    help = "Restore a backup. Stop web servers and workers before; then start them as usual."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("directory", type=Path)
        parser.add_argument("--force", action="store_true", help="replace all rows, although there are jobs")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            summary = restore(options["directory"].absolute(), is_forced=options["force"])
        except UnusableBackup as error:
            raise CommandError(str(error)) from error
        self.stdout.write(
            f"{summary.rows:,} rows, {summary.copied:,} files with {summary.copied_bytes:,} bytes; "
            f"{summary.known:,} files were there before. Now check: faultline doctor"
        )
