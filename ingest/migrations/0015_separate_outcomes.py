"""What was one column of a job becomes two: the stated outcome and the one that its evidence shows."""

from typing import Any

from django.db import migrations
from django.db.models import F, Q

ENDS = ("succeeded", "failed", "cancelled")


def separate(apps: Any, _: Any) -> None:
    """What was one column becomes two; the stated outcome stands unless the evidence contradicts it."""
    jobs = apps.get_model("ingest", "Job").objects
    jobs.update(found_outcome=F("outcome"), declared_framework=F("framework"))
    is_undecided = Q(found_outcome__in=("unknown", "running"), declared_outcome__in=ENDS)
    is_said_to_run = Q(found_outcome="unknown", declared_outcome="running")
    is_unseen = Q(declared_outcome__in=("failed", "cancelled"), found_outcome__in=ENDS)
    jobs.filter(is_undecided | is_said_to_run | is_unseen).update(outcome=F("declared_outcome"))


class Migration(migrations.Migration):
    dependencies = [("ingest", "0014_run_cancelled")]

    operations = [migrations.RunPython(separate, migrations.RunPython.noop)]
