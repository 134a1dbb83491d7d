"""``faultline doctor``: checks this installation and says what to do. Exit code 1 if something is a problem."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from triage.services.doctor import examine


class Command(BaseCommand):
    help = "Check this installation: database, queue, workers, store, clocks, migrations, secrets, disk, versions."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true", help="print one JSON object: {check: {state, said, todo}}")

        parser.add_argument("--evidence", action="store_true", help="also read all stored evidence: is it unchanged?")

    def handle(self, *args: Any, **options: Any) -> None:
        found = examine(is_evidence_read=options["evidence"])
        if options["json"]:
            rows = {name: {"state": f.state, "said": f.sentence, "todo": f.todo} for name, f in found.items()}
            self.stdout.write(json.dumps(rows, indent=2))
        else:
            for name, finding in found.items():
                self.stdout.write(f"{finding.state:9}{name:12}{finding.sentence}")
                if finding.todo:
                    self.stdout.write(f"{'':21}→ {finding.todo}")
        if any(finding.state == "problem" for finding in found.values()):
            sys.exit(1)
