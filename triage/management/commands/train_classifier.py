"""Trains the classifier on confirmed incidents, lists its versions, or rolls back to one."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from triage.models import ClassifierVersion
from triage.services.learning import classifier_activate, classifier_train


class Command(BaseCommand):
    help = "Train the classifier on confirmed incidents; it is activated only if it beats the rules on held-out ones."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--list", action="store_true", help="show the versions with their measurements")
        parser.add_argument("--activate", metavar="N", help="roll back to version N; 0 is the engine's own model")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["list"]:
            for version in ClassifierVersion.objects.all():
                mark = "*" if version.is_active else " "
                self.stdout.write(f"{mark} {version.pk:4} {version.trained_at:%Y-%m-%d %H:%M} {version.note}")
            return
        if options["activate"] is not None:
            self._activate(options["activate"])
            return
        version = classifier_train()
        self.stdout.write(f"Version {version.pk}: {version.note}")

    def _activate(self, number: str) -> None:
        version = None
        if number != "0":
            version = ClassifierVersion.objects.filter(pk=number).first() if number.isdigit() else None
            if version is None:
                raise CommandError(f"There is no version {number}: see --list.")
        classifier_activate(version=version)
        self.stdout.write(f"{version or 'The engine’s own model'} is active.")
