from typing import Any

from django.conf import settings
from django.db import migrations, models
from django.db.models import F, Value


def fill(apps: Any, _editor: Any) -> None:
    """What the new columns say of the rows that are there: imported faults, and the last word on each suspect."""
    apps.get_model("triage", "Incident").objects.filter(diagnosis__engine="imported").update(is_imported=True)
    # what the first alternative leaves is the most that the second can have
    rest = Value(1.0) - F("confidence")
    doubtful = apps.get_model("triage", "Incident").objects.filter(runner_up_confidence__gt=rest)
    doubtful.update(runner_up_confidence=rest)
    suspects = apps.get_model("triage", "Suspect").objects
    words = apps.get_model("triage", "Decision").objects.filter(claim="suspect", undone_at=None)
    for said in words.order_by("made_at", "pk").iterator():
        suspects.filter(incident=said.incident_id, entity=said.subject).update(word=said.word)


class Migration(migrations.Migration):

    dependencies = [
        ('ingest', '0001_initial'),
        ('triage', '0002_rules_of_a_cluster'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.RemoveIndex(
            model_name='incident',
            name='incident_statistics',
        ),
        migrations.RemoveIndex(
            model_name='suspect',
            name='suspect_of_node',
        ),
        migrations.AddField(
            model_name='incident',
            name='is_imported',
            field=models.BooleanField(default=False),
        ),
        migrations.AddField(
            model_name='suspect',
            name='word',
            field=models.CharField(blank=True, max_length=12),
        ),
        migrations.RunPython(fill, migrations.RunPython.noop),
        migrations.AddIndex(
            model_name='incident',
            index=models.Index(fields=['week', 'standing_category', 'happened_at', 'cluster', 'is_withdrawn', 'category', 'state', 'gpu_hours', 'node_hours', 'lost_s', 'detected_s', 'repaired_s', 'is_imported', 'id'], name='incident_statistics'),
        ),
        migrations.AddIndex(
            model_name='suspect',
            index=models.Index(fields=['node', 'is_accused', 'word', 'incident'], name='suspect_of_node'),
        ),
    ]
