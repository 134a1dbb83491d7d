from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("ingest", "0015_separate_outcomes")]

    operations = [
        migrations.AddField(
            model_name="artifact",
            name="parsed_number",
            field=models.PositiveIntegerField(blank=True, null=True),
        ),
        migrations.AddIndex(
            model_name="artifact",
            index=models.Index(fields=["parsed_key"], name="artifact_parsed_key"),
        ),
    ]
