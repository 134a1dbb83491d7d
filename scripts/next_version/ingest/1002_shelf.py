"""A new table that refers to an old one."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = (("ingest", "1001_job_weight"),)
    operations = (
        migrations.CreateModel(
            "Shelf",
            [("id", models.BigAutoField(primary_key=True)), ("job", models.ForeignKey("ingest.job", models.CASCADE))],
        ),
    )
