"""``manage.py rewrite_costs``: works out the costs of stored incidents again, after an upgrade that
defines them.
"""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from triage.services.costing import costs_rewrite


class Command(BaseCommand):
    help = "Work out the costs of all stored incidents again from the stored diagnoses. The site may run meanwhile."

    def handle(self, *args: Any, **options: Any) -> None:
        done = 0
        for done in costs_rewrite():
            if done % 1000 == 0:
                self.stdout.write(f"{done:,} jobs")
        self.stdout.write(f"The costs of {done:,} jobs are written.")
