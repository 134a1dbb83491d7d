from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("ingest", "0011_part_runs")]

    operations = [
        migrations.AddField(
            model_name="team",
            name="max_bytes",
            field=models.PositiveBigIntegerField(
                blank=True,
                help_text="Evidence that the jobs of the team may hold. Empty: the limit of the installation "
                "(FAULTLINE_TEAM_MAX_BYTES); 0: any amount.",
                null=True,
                verbose_name="quota in bytes",
            ),
        ),
    ]
