"""``manage.py rebuild_search``: writes the search index again from the stored diagnoses."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand
from django.db import transaction

from triage.services.indexing import search_entries_build


class Command(BaseCommand):
    help = "Write the search index again from the stored incidents. Searches use the old one until it is done."

    def handle(self, *args: Any, **options: Any) -> None:
        done = 0
        with transaction.atomic():
            for done in search_entries_build():
                if done % 10_000 == 0:
                    self.stdout.write(f"{done:,} incidents")
        self.stdout.write(f"The search index holds {done:,} incidents.")
