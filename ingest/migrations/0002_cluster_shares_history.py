from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('ingest', '0001_initial'),
    ]

    operations = [
        migrations.AddField(
            model_name='cluster',
            name='shares_history',
            field=models.BooleanField(default=False, help_text="Healthy jobs of all clusters that share are compared with each other's, and counted on each other's pages. Without it a job is compared with those of its own cluster alone.", verbose_name='shares its healthy jobs'),
        ),
    ]
