"""A new column with a default in the database. Each migration changes one table, whose lock PostgreSQL holds."""

from django.db import migrations, models

from scripts.next_version import last


class Migration(migrations.Migration):
    dependencies = (last("ingest"),)
    operations = (
        migrations.AddField("run", "note", models.CharField(blank=True, default="", db_default="", max_length=40)),
    )
