"""Webhooks become routes: one kind of destination among several, with a search instead of a cluster."""

from typing import Any

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


def clusters_to_searches(apps: Any, schema_editor: Any) -> None:
    for route in apps.get_model("triage", "Route").objects.filter(cluster__isnull=False).select_related("cluster"):
        route.query = f"cluster:{route.cluster.slug}"
        route.save(update_fields=["query"])
    for row in apps.get_model("triage", "Activity").objects.filter(kind__startswith="webhook_"):
        row.kind = row.kind.replace("webhook_", "route_")
        row.save(update_fields=["kind"])


class Migration(migrations.Migration):
    dependencies = [
        ("ingest", "0005_pushed_sources"),
        ("triage", "0006_faster_search"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.RemoveConstraint("delivery", "delivery_subject_once_a_webhook"),
        migrations.RemoveIndex("delivery", "delivery_webhook_created"),
        migrations.RemoveIndex("delivery", "delivery_state_due"),
        migrations.RenameModel("Webhook", "Route"),
        migrations.RenameField("delivery", "webhook", "route"),
        migrations.AddField("route", "kind", models.CharField(default="webhook", max_length=20)),
        migrations.AddField("route", "options", models.JSONField(default=dict)),
        migrations.AddField(
            "route", "query", models.CharField(blank=True, max_length=2000, default=""), preserve_default=False
        ),
        migrations.AddField("route", "quiet_from", models.TimeField(blank=True, null=True)),
        migrations.AddField("route", "quiet_until", models.TimeField(blank=True, null=True)),
        migrations.AddField("route", "zone", models.CharField(default="UTC", max_length=64)),
        migrations.AddField("route", "claimed_until", models.DateTimeField(blank=True, null=True)),
        migrations.AddField("route", "resume_at", models.DateTimeField(blank=True, null=True)),
        migrations.AddField(
            "route",
            "team",
            models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="routes",
                to="ingest.team",
            ),
        ),
        migrations.AlterField(
            "route",
            "owner",
            models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="routes",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AlterField("route", "url", models.CharField(blank=True, max_length=2000)),
        migrations.AlterField("route", "secret", models.CharField(blank=True, max_length=500)),
        migrations.AlterField("route", "former_secret", models.CharField(blank=True, max_length=500)),
        migrations.AlterField(
            "delivery",
            "state",
            models.CharField(
                choices=[
                    ("waiting", "waiting"),
                    ("delivered", "delivered"),
                    ("replaced", "replaced"),
                    ("given_up", "given up"),
                ],
                default="waiting",
                max_length=10,
            ),
        ),
        migrations.AlterField(
            "delivery",
            "route",
            models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, related_name="deliveries", to="triage.route"
            ),
        ),
        migrations.AddField("delivery", "is_in_order", models.BooleanField(default=True)),
        migrations.AddField(
            "delivery",
            "incident",
            models.ForeignKey(
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="+",
                to="triage.incident",
            ),
        ),
        migrations.CreateModel(
            name="Reference",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("data", models.JSONField(default=dict)),
                ("url", models.CharField(blank=True, max_length=2000)),
                ("title", models.CharField(blank=True, max_length=120)),
                ("state", models.CharField(blank=True, max_length=40)),
                ("updated_at", models.DateTimeField(auto_now=True)),
                (
                    "incident",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="references", to="triage.incident"
                    ),
                ),
                (
                    "route",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="references", to="triage.route"
                    ),
                ),
            ],
            options={"ordering": ("route", "incident")},
        ),
        migrations.RunPython(clusters_to_searches, migrations.RunPython.noop),
        migrations.RemoveField("route", "cluster"),
        migrations.AddConstraint(
            "delivery", models.UniqueConstraint(fields=("route", "subject"), name="delivery_subject_once_a_route")
        ),
        migrations.AddIndex(
            "delivery", models.Index(fields=["route", "state", "is_in_order", "created_at", "id"], name="delivery_next")
        ),
        migrations.AddIndex(
            "delivery", models.Index(fields=["route", "-created_at", "-id"], name="delivery_route_created")
        ),
        migrations.AddIndex("delivery", models.Index(fields=["route", "incident"], name="delivery_route_incident")),
        migrations.AddConstraint(
            "reference", models.UniqueConstraint(fields=("route", "incident"), name="reference_once_a_route")
        ),
    ]
