"""A new column with a default in the database. Each migration changes one table, whose lock PostgreSQL holds."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = (("ingest", "0008_kept_lines"),)
    operations = (
        migrations.AddField("run", "note", models.CharField(blank=True, default="", db_default="", max_length=40)),
    )
