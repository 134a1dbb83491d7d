from django.db import migrations, models

import ingest.tracing


class Migration(migrations.Migration):
    dependencies = [("ingest", "0009_upload_state_attempt")]

    operations = [
        migrations.AddField(
            model_name="run",
            name="span",
            field=models.CharField(blank=True, db_default="", default=ingest.tracing.current_span, max_length=16),
        ),
    ]
