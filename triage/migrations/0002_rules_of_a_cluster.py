import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


def part(apps, schema_editor) -> None:  # type: ignore[no-untyped-def]
    """What was said of a fingerprint held in every cluster: it is said again for each where incidents have it."""
    rules, incidents = apps.get_model('triage', 'GroupRule'), apps.get_model('triage', 'Incident')
    for rule in list(rules.objects.order_by('pk')):
        found = incidents.objects.filter(fingerprint=rule.fingerprint).order_by('cluster_id')
        first, *rest = list(found.values_list('cluster_id', flat=True).distinct()) or [None]
        if first is None:
            rule.delete()
            continue
        rules.objects.filter(pk=rule.pk).update(cluster_id=first)
        for cluster_id in rest:
            copy = rules.objects.create(fingerprint=rule.fingerprint, group_id=rule.group_id, made_by_id=rule.made_by_id, cluster_id=cluster_id)
            rules.objects.filter(pk=copy.pk).update(made_at=rule.made_at)


class Migration(migrations.Migration):

    # PostgreSQL changes no table that has rows changed in the same transaction
    atomic = False

    dependencies = [
        ('ingest', '0002_cluster_shares_history'),
        ('triage', '0001_initial'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddField(
            model_name='grouprule',
            name='cluster',
            field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='ingest.cluster'),
        ),
        migrations.RunPython(part, migrations.RunPython.noop),
        migrations.AlterField(
            model_name='grouprule',
            name='cluster',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='ingest.cluster'),
        ),
        migrations.AlterField(
            model_name='savedview',
            name='slug',
            field=models.SlugField(max_length=80),
        ),
        migrations.AddConstraint(
            model_name='savedview',
            constraint=models.UniqueConstraint(fields=('owner', 'slug'), name='saved_view_slug_once_an_owner'),
        ),
    ]
