"""Load the recordings in samples/ as demo jobs, through the same services as any upload."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand


class Command(BaseCommand):
    help = "Load and diagnose the sample jobs that are not there yet (FAULTLINE_DEMO=0: none)."

    def handle(self, *args: Any, **options: Any) -> None:
        pass
