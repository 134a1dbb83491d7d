"""A column of the table that all pages read."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = (("triage", "0012_words_in_their_row"), ("ingest", "1002_shelf"))
    operations = (
        migrations.AddField("incident", "shift", models.CharField(blank=True, default="", db_default="", max_length=9)),
    )
