"""Outcome and framework as people state them, beside those that the evidence shows."""

from django.db import migrations, models

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
    ]
