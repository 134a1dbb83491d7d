"""A column and an index over rows that are there."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = (("triage", "1000_incident_shift"),)
    operations = (
        migrations.AddField("activity", "place", models.CharField(blank=True, default="", db_default="", max_length=9)),
        migrations.AddIndex("activity", models.Index(fields=["kind", "at"], name="activity_kind_at")),
    )
