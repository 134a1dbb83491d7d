from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("ingest", "0008_kept_lines")]

    operations = [
        migrations.AddIndex(
            model_name="upload", index=models.Index(fields=["state", "attempt"], name="upload_state_attempt")
        ),
    ]
