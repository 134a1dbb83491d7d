"""A column of the table that all pages read."""

from django.db import migrations, models

from scripts.next_version import last


class Migration(migrations.Migration):
    dependencies = (last("triage"), ("ingest", "1002_shelf"))
    operations = (
        migrations.AddField("incident", "shift", models.CharField(blank=True, default="", db_default="", max_length=9)),
    )
