"""Outcome and framework as people state them, beside those that the evidence shows."""

from typing import Any

from django.db import migrations, models
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
    dependencies = [("ingest", "0012_team_max_bytes")]

    operations = [
        migrations.AddField(
            model_name="job",
            name="declared_framework",
            field=models.CharField(blank=True, db_default="", default="", max_length=40),
        ),
        migrations.AddField(
            model_name="job",
            name="found_outcome",
            field=models.CharField(
                choices=[
                    ("unknown", "unknown"),
                    ("running", "running"),
                    ("succeeded", "succeeded"),
                    ("failed", "failed"),
                    ("cancelled", "cancelled"),
                ],
                db_default="unknown",
                default="unknown",
                max_length=12,
            ),
        ),
        migrations.RunPython(separate, migrations.RunPython.noop),
    ]
