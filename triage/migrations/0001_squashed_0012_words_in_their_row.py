"""The tables of version 0.1.0 and the index of the search, made at once for a new database. Older ones take the
steps that this replaces.
"""

from importlib import import_module
import django.db.models.deletion
import django.utils.timezone
import uuid
from django.conf import settings
from django.db import migrations, models

_entries, _faster, _in_their_row = (
    import_module(f"triage.migrations.{name}")
    for name in ("0004_search_entries", "0006_faster_search", "0012_words_in_their_row")
)


class Migration(migrations.Migration):
    replaces = [
        ("triage", "0001_initial"),
        ("triage", "0002_rules_of_a_cluster"),
        ("triage", "0003_suspect_word_and_imported"),
        ("triage", "0004_search_entries"),
        ("triage", "0005_condition"),
        ("triage", "0006_faster_search"),
        ("triage", "0007_routes"),
        ("triage", "0008_waiting_deliveries"),
        ("triage", "0009_route_holder"),
        ("triage", "0010_heard"),
        ("triage", "0011_tickets_of_nodes"),
        ("triage", "0012_words_in_their_row"),
    ]

    initial = True

    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
        ("ingest", "0001_squashed_0008_kept_lines"),
    ]

    operations = [
        migrations.CreateModel(
            name="ClassifierVersion",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("weights", models.JSONField()),
                ("measured", models.JSONField(default=dict)),
                ("is_active", models.BooleanField(default=False)),
                ("note", models.CharField(blank=True, max_length=300)),
                ("trained_at", models.DateTimeField(auto_now_add=True)),
            ],
            options={
                "ordering": ("-trained_at", "-id"),
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("is_active", True)), fields=("is_active",), name="one_active_classifier"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="CustomRule",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("rule_id", models.CharField(max_length=120, unique=True)),
                ("body", models.TextField()),
                ("is_active", models.BooleanField(default=True)),
                (
                    "created_by",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to=settings.AUTH_USER_MODEL
                    ),
                ),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("updated_at", models.DateTimeField(auto_now=True)),
            ],
            options={
                "ordering": ("rule_id",),
            },
        ),
        migrations.CreateModel(
            name="Diagnosis",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "job",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="diagnoses", to="ingest.job"
                    ),
                ),
                (
                    "attempt",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="diagnoses", to="ingest.attempt"
                    ),
                ),
                ("revision", models.PositiveIntegerField()),
                ("engine", models.CharField(max_length=40)),
                ("history_digest", models.CharField(blank=True, max_length=64)),
                ("input_digests", models.JSONField(default=dict)),
                ("report", models.JSONField()),
                ("timeline", models.JSONField(default=dict)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
            ],
            options={
                "verbose_name_plural": "diagnoses",
                "ordering": ("-created_at", "-id"),
                "constraints": [
                    models.UniqueConstraint(
                        fields=("attempt", "revision"), name="diagnosis_once_an_attempt_and_revision"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="Group",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("title", models.CharField(blank=True, max_length=200)),
                (
                    "made_by",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to=settings.AUTH_USER_MODEL
                    ),
                ),
                ("made_at", models.DateTimeField(auto_now_add=True)),
            ],
            options={
                "ordering": ("-made_at",),
            },
        ),
        migrations.CreateModel(
            name="Route",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=120)),
                ("kind", models.CharField(default="webhook", max_length=20)),
                ("url", models.CharField(blank=True, max_length=2000)),
                ("options", models.JSONField(default=dict)),
                ("events", models.JSONField(default=list)),
                ("query", models.CharField(blank=True, max_length=2000)),
                (
                    "owner",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="routes",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "team",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="routes",
                        to="ingest.team",
                    ),
                ),
                ("quiet_from", models.TimeField(blank=True, null=True)),
                ("quiet_until", models.TimeField(blank=True, null=True)),
                ("zone", models.CharField(default="UTC", max_length=64)),
                ("secret", models.CharField(blank=True, max_length=500)),
                ("former_secret", models.CharField(blank=True, max_length=500)),
                ("former_until", models.DateTimeField(blank=True, null=True)),
                ("inbound_secret", models.CharField(blank=True, db_default="", default="", max_length=500)),
                ("is_active", models.BooleanField(default=True)),
                ("problem", models.CharField(blank=True, max_length=300)),
                ("given_up", models.PositiveIntegerField(default=0)),
                ("claimed_until", models.DateTimeField(blank=True, null=True)),
                ("holder", models.CharField(blank=True, db_default="", default="", max_length=250)),
                ("resume_at", models.DateTimeField(blank=True, null=True)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
            ],
            options={
                "ordering": ("-created_at", "-id"),
            },
        ),
        migrations.CreateModel(
            name="SavedView",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("slug", models.SlugField(max_length=80)),
                ("name", models.CharField(max_length=120)),
                ("query", models.TextField(blank=True)),
                ("is_shared", models.BooleanField(default=False)),
                (
                    "owner",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="saved_views",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                ("created_at", models.DateTimeField(auto_now_add=True)),
            ],
            options={
                "ordering": ("name",),
                "constraints": [
                    models.UniqueConstraint(fields=("owner", "slug"), name="saved_view_slug_once_an_owner")
                ],
            },
        ),
        migrations.CreateModel(
            name="GroupRule",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "cluster",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="ingest.cluster"
                    ),
                ),
                ("fingerprint", models.CharField(db_index=True, max_length=64)),
                (
                    "group",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="rules",
                        to="triage.group",
                    ),
                ),
                (
                    "made_by",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to=settings.AUTH_USER_MODEL
                    ),
                ),
                ("made_at", models.DateTimeField(auto_now_add=True)),
            ],
            options={
                "ordering": ("made_at", "id"),
            },
        ),
        migrations.CreateModel(
            name="Incident",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "job",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="incidents", to="ingest.job"
                    ),
                ),
                (
                    "attempt",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="incidents", to="ingest.attempt"
                    ),
                ),
                ("ordinal", models.PositiveIntegerField(default=0)),
                (
                    "cluster",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="incidents", to="ingest.cluster"
                    ),
                ),
                (
                    "team",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="incidents",
                        to="ingest.team",
                    ),
                ),
                (
                    "diagnosis",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.RESTRICT, related_name="incidents", to="triage.diagnosis"
                    ),
                ),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("awaiting_review", "awaiting review"),
                            ("confirmed", "confirmed"),
                            ("corrected", "corrected"),
                            ("rejected", "rejected"),
                            ("inconclusive", "inconclusive"),
                            ("actioned", "actioned"),
                            ("resolved", "resolved"),
                        ],
                        db_index=True,
                        default="awaiting_review",
                        max_length=16,
                    ),
                ),
                ("headline", models.CharField(max_length=500)),
                ("category", models.CharField(db_index=True, max_length=120)),
                ("confidence", models.FloatField(default=0)),
                ("runner_up", models.CharField(blank=True, max_length=120)),
                ("runner_up_confidence", models.FloatField(blank=True, null=True)),
                ("standing_category", models.CharField(db_index=True, max_length=120)),
                ("condition", models.CharField(blank=True, default="", max_length=16)),
                ("symptom", models.CharField(blank=True, max_length=40)),
                ("stage", models.CharField(blank=True, max_length=40)),
                ("iteration", models.BigIntegerField(blank=True, null=True)),
                ("fingerprint", models.CharField(blank=True, db_index=True, max_length=64)),
                ("node_count", models.PositiveIntegerField(blank=True, null=True)),
                ("accused", models.JSONField(default=list)),
                ("happened_at", models.DateTimeField(db_index=True, default=django.utils.timezone.now)),
                ("is_time_known", models.BooleanField(default=True)),
                ("week", models.DateField()),
                ("opened_at", models.DateTimeField(default=django.utils.timezone.now)),
                ("lost_s", models.FloatField(blank=True, null=True)),
                ("node_hours", models.FloatField(blank=True, null=True)),
                ("gpu_hours", models.FloatField(blank=True, null=True)),
                ("detected_s", models.FloatField(blank=True, null=True)),
                ("repaired_s", models.FloatField(blank=True, null=True)),
                ("reviewed_at", models.DateTimeField(blank=True, null=True)),
                ("resolved_at", models.DateTimeField(blank=True, null=True)),
                (
                    "assignee",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="assigned_incidents",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "regressed_from",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="regressions",
                        to="triage.incident",
                    ),
                ),
                ("snoozed_until", models.DateTimeField(blank=True, null=True)),
                (
                    "group",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="incidents",
                        to="triage.group",
                    ),
                ),
                ("is_withdrawn", models.BooleanField(default=False)),
                ("is_imported", models.BooleanField(default=False)),
            ],
            options={
                "ordering": ("-opened_at", "-id"),
                "indexes": [
                    models.Index(
                        fields=["state", "is_withdrawn", "-opened_at", "-id", "cluster", "snoozed_until"],
                        name="incident_state_opened",
                    ),
                    models.Index(fields=["cluster", "-opened_at", "-id"], name="incident_cluster_opened"),
                    models.Index(
                        fields=[
                            "-opened_at",
                            "-id",
                            "is_withdrawn",
                            "cluster",
                            "state",
                            "standing_category",
                            "symptom",
                            "team",
                        ],
                        name="incident_opened",
                    ),
                    models.Index(
                        fields=[
                            "is_withdrawn",
                            "cluster",
                            "state",
                            "standing_category",
                            "symptom",
                            "team",
                            "opened_at",
                        ],
                        name="incident_facets",
                    ),
                    models.Index(
                        fields=[
                            "week",
                            "standing_category",
                            "happened_at",
                            "cluster",
                            "is_withdrawn",
                            "category",
                            "state",
                            "gpu_hours",
                            "node_hours",
                            "lost_s",
                            "detected_s",
                            "repaired_s",
                            "is_imported",
                            "id",
                        ],
                        name="incident_statistics",
                    ),
                    models.Index(
                        condition=models.Q(("snoozed_until__isnull", False)),
                        fields=["snoozed_until"],
                        name="incident_snoozed",
                    ),
                ],
                "constraints": [
                    models.UniqueConstraint(fields=("attempt", "ordinal"), name="incident_ordinal_once_an_attempt")
                ],
            },
        ),
        migrations.CreateModel(
            name="Activity",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "incident",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="activities",
                        to="triage.incident",
                    ),
                ),
                (
                    "job",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="activities",
                        to="ingest.job",
                    ),
                ),
                ("kind", models.CharField(max_length=40)),
                (
                    "actor",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                ("at", models.DateTimeField(auto_now_add=True, db_index=True)),
                ("request_id", models.UUIDField(db_index=True, default=uuid.uuid4)),
                ("data", models.JSONField(default=dict)),
            ],
            options={
                "verbose_name_plural": "activities",
                "ordering": ("at", "id"),
            },
        ),
        migrations.CreateModel(
            name="Decision",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "incident",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="decisions", to="triage.incident"
                    ),
                ),
                (
                    "claim",
                    models.CharField(
                        choices=[
                            ("category", "category"),
                            ("suspect", "suspect"),
                            ("stage", "stage"),
                            ("iteration", "iteration"),
                        ],
                        max_length=10,
                    ),
                ),
                ("subject", models.CharField(blank=True, max_length=200)),
                (
                    "word",
                    models.CharField(
                        choices=[
                            ("confirm", "confirmed"),
                            ("correct", "corrected"),
                            ("reject", "rejected"),
                            ("inconclusive", "judged inconclusive"),
                        ],
                        max_length=12,
                    ),
                ),
                ("machine_value", models.CharField(blank=True, max_length=200)),
                ("value", models.CharField(blank=True, max_length=200)),
                ("reason", models.TextField(blank=True)),
                (
                    "diagnosis",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.RESTRICT, related_name="decisions", to="triage.diagnosis"
                    ),
                ),
                (
                    "made_by",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="decisions",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                ("made_at", models.DateTimeField(auto_now_add=True)),
                ("undone_at", models.DateTimeField(blank=True, null=True)),
                (
                    "undone_by",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "ordering": ("made_at", "id"),
                "indexes": [models.Index(fields=["incident", "claim", "subject"], name="decision_incident_claim")],
            },
        ),
        migrations.CreateModel(
            name="Delivery",
            fields=[
                ("id", models.UUIDField(default=uuid.uuid4, primary_key=True, serialize=False)),
                (
                    "route",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="deliveries", to="triage.route"
                    ),
                ),
                ("event", models.CharField(max_length=40)),
                ("subject", models.CharField(max_length=120)),
                (
                    "cluster",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.CASCADE, related_name="+", to="ingest.cluster"
                    ),
                ),
                (
                    "incident",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="triage.incident",
                    ),
                ),
                (
                    "node",
                    models.ForeignKey(
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="ingest.node",
                    ),
                ),
                ("body", models.TextField()),
                (
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
                ("is_in_order", models.BooleanField(default=True)),
                ("tries", models.PositiveIntegerField(default=0)),
                ("due_at", models.DateTimeField(blank=True, null=True)),
                ("attempts", models.JSONField(default=list)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("delivered_at", models.DateTimeField(blank=True, null=True)),
            ],
            options={
                "verbose_name_plural": "deliveries",
                "ordering": ("-created_at", "-id"),
                "indexes": [
                    models.Index(
                        condition=models.Q(("state", "waiting")),
                        fields=["route", "is_in_order", "created_at", "id"],
                        name="delivery_waiting",
                    ),
                    models.Index(fields=["route", "-created_at", "-id"], name="delivery_route_created"),
                    models.Index(fields=["route", "incident"], name="delivery_route_incident"),
                    models.Index(
                        condition=models.Q(("node__isnull", False)),
                        fields=["node", "route"],
                        name="delivery_node_route",
                    ),
                ],
                "constraints": [
                    models.UniqueConstraint(fields=("route", "subject"), name="delivery_subject_once_a_route")
                ],
            },
        ),
        migrations.CreateModel(
            name="Finding",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "incident",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="findings", to="triage.incident"
                    ),
                ),
                ("position", models.PositiveIntegerField()),
                ("role", models.CharField(max_length=14)),
                ("template_id", models.CharField(blank=True, max_length=64)),
                ("template", models.TextField()),
                ("signature", models.CharField(blank=True, max_length=120)),
                ("count", models.BigIntegerField(default=0)),
                ("nodes", models.PositiveIntegerField(default=0)),
                ("of_nodes", models.PositiveIntegerField(default=0)),
                ("jobs_with_it", models.PositiveIntegerField(default=0)),
                ("healthy_jobs", models.PositiveIntegerField(default=0)),
                ("level", models.PositiveSmallIntegerField(default=0)),
                ("example", models.TextField(blank=True)),
                ("node_names", models.JSONField(default=list)),
                ("is_recovered", models.BooleanField(default=False)),
                ("lines", models.JSONField(default=list)),
                ("indicators", models.JSONField(default=list)),
            ],
            options={
                "ordering": ("position",),
            },
        ),
        migrations.CreateModel(
            name="Reference",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "route",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="references", to="triage.route"
                    ),
                ),
                (
                    "incident",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="references",
                        to="triage.incident",
                    ),
                ),
                (
                    "node",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="references",
                        to="ingest.node",
                    ),
                ),
                ("data", models.JSONField(default=dict)),
                ("url", models.CharField(blank=True, max_length=2000)),
                ("title", models.CharField(blank=True, max_length=120)),
                ("state", models.CharField(blank=True, max_length=40)),
                ("heard", models.JSONField(blank=True, null=True)),
                ("updated_at", models.DateTimeField(auto_now=True)),
            ],
            options={
                "ordering": ("route", "pk"),
                "constraints": [
                    models.UniqueConstraint(fields=("route", "incident"), name="reference_once_a_route"),
                    models.UniqueConstraint(fields=("route", "node"), name="reference_of_node_once_a_route"),
                    models.CheckConstraint(
                        condition=models.Q(("incident__isnull", True), ("node__isnull", True), _connector="XOR"),
                        name="reference_is_about_one",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="SearchEntry",
            fields=[
                (
                    "incident",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="search_entry",
                        serialize=False,
                        to="triage.incident",
                    ),
                ),
                ("about", models.TextField(blank=True)),
                ("said", models.TextField(blank=True)),
                ("places", models.TextField(blank=True)),
            ],
            options={
                "verbose_name_plural": "search entries",
            },
        ),
        migrations.CreateModel(
            name="Suspect",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "incident",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="suspects",
                        to="triage.incident",
                    ),
                ),
                ("position", models.PositiveIntegerField()),
                ("entity", models.CharField(db_index=True, max_length=200)),
                ("kind", models.CharField(max_length=10)),
                (
                    "node",
                    models.ForeignKey(
                        blank=True,
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="suspicions",
                        to="ingest.node",
                    ),
                ),
                ("score", models.FloatField()),
                ("is_accused", models.BooleanField(default=True)),
                ("reasons", models.JSONField(default=list)),
                ("sources", models.JSONField(default=list)),
                ("word", models.CharField(blank=True, max_length=12)),
            ],
            options={
                "ordering": ("position",),
                "indexes": [
                    models.Index(fields=["incident", "is_accused", "node"], name="suspect_of_incident"),
                    models.Index(fields=["node", "is_accused", "word", "incident"], name="suspect_of_node"),
                ],
            },
        ),
        migrations.RunPython(_entries.make, _entries.take_away),
        migrations.RunPython(_faster.with_positions, _faster.without_positions),
        migrations.RunPython(_in_their_row.in_the_row, _in_their_row.out_of_line),
    ]
