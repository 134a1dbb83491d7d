"""``faultline backup DIRECTORY``: the database and the evidence, while the site runs; again: only what is new."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from triage.services.backup import backup
from triage.services.backup_rows import UnusableBackup


class Command(BaseCommand):
    help = "Back up database and evidence into a directory. Into the same directory again: copies only new evidence."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("directory", type=Path)
        parser.add_argument(
            "--without-parsed", action="store_true", help="leave out column files, which can be computed again"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            summary = backup(options["directory"].absolute(), with_parsed=not options["without_parsed"])
        except UnusableBackup as error:
            raise CommandError(str(error)) from error
        self.stdout.write(
            f"{summary.rows:,} rows, {summary.copied:,} files with {summary.copied_bytes:,} bytes; "
            f"{summary.known:,} files were there before."
        )
        if summary.missing:
            self.stdout.write(
                f"{summary.missing:,} files are missing from the store: their rows say so on their pages."
            )
