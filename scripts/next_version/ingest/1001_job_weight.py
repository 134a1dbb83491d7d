"""A number of each row."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = (("ingest", "1000_run_note"),)
    operations = (migrations.AddField("job", "weight", models.IntegerField(default=1, db_default=1)),)
