"""The tables of version 0.1.0, made at once for a new database. Older ones take the steps that this replaces."""

import django.db.models.deletion
import ingest.tracing
import uuid
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    replaces = [
        ("ingest", "0001_initial"),
        ("ingest", "0002_cluster_shares_history"),
        ("ingest", "0003_run_is_long"),
        ("ingest", "0004_watches"),
        ("ingest", "0005_pushed_sources"),
        ("ingest", "0006_run_trace"),
        ("ingest", "0007_machine"),
        ("ingest", "0008_kept_lines"),
    ]

    initial = True

    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="Blob",
            fields=[
                ("sha256", models.CharField(max_length=64, primary_key=True, serialize=False)),
                ("size_bytes", models.BigIntegerField()),
                ("created_at", models.DateTimeField(auto_now_add=True)),
            ],
        ),
        migrations.CreateModel(
            name="Cluster",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("slug", models.SlugField(max_length=64, unique=True)),
                ("title", models.CharField(blank=True, max_length=120)),
                ("gpus_per_node", models.PositiveIntegerField(default=8)),
                (
                    "shares_history",
                    models.BooleanField(
                        default=False,
                        help_text="Healthy jobs of all clusters that share are compared with each other's, and counted on each other's pages. Without it a job is compared with those of its own cluster alone.",
                        verbose_name="shares its healthy jobs",
                    ),
                ),
                ("created_at", models.DateTimeField(auto_now_add=True)),
            ],
            options={
                "ordering": ("slug",),
            },
        ),
        migrations.CreateModel(
            name="IdempotencyKey",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to=settings.AUTH_USER_MODEL
                    ),
                ),
                ("key", models.CharField(max_length=128)),
                ("request_digest", models.CharField(max_length=64)),
                ("status", models.PositiveIntegerField(blank=True, null=True)),
                ("response", models.JSONField(blank=True, null=True)),
                ("created_at", models.DateTimeField(auto_now_add=True, db_index=True)),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("user", "key"), name="idempotency_key_once_a_user")],
            },
        ),
        migrations.CreateModel(
            name="Machine",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=150, unique=True)),
                ("seen_at", models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name="ServiceAccount",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "user",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="service_account",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                ("purpose", models.CharField(blank=True, max_length=300)),
                (
                    "made_by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                ("created_at", models.DateTimeField(auto_now_add=True)),
            ],
            options={
                "ordering": ("user__username",),
            },
        ),
        migrations.CreateModel(
            name="Token",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="api_tokens",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                ("name", models.CharField(max_length=120)),
                ("prefix", models.CharField(max_length=12, unique=True)),
                ("digest", models.CharField(max_length=64, unique=True)),
                ("scopes", models.JSONField(default=list)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("last_used_at", models.DateTimeField(blank=True, null=True)),
                ("revoked_at", models.DateTimeField(blank=True, null=True)),
                ("expires_at", models.DateTimeField(blank=True, null=True)),
            ],
            options={
                "ordering": ("-created_at", "-id"),
            },
        ),
        migrations.CreateModel(
            name="Node",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "cluster",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="nodes", to="ingest.cluster"
                    ),
                ),
                ("name", models.CharField(max_length=200)),
                ("note", models.TextField(blank=True)),
                ("drained_at", models.DateTimeField(blank=True, null=True)),
            ],
            options={
                "ordering": ("name",),
                "constraints": [models.UniqueConstraint(fields=("cluster", "name"), name="node_name_once_a_cluster")],
            },
        ),
        migrations.CreateModel(
            name="Team",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("slug", models.SlugField(max_length=64, unique=True)),
                ("title", models.CharField(blank=True, max_length=120)),
                ("clusters", models.ManyToManyField(blank=True, related_name="teams", to="ingest.cluster")),
                ("members", models.ManyToManyField(blank=True, related_name="teams", to=settings.AUTH_USER_MODEL)),
            ],
            options={
                "ordering": ("slug",),
            },
        ),
        migrations.CreateModel(
            name="Job",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("slug", models.SlugField(max_length=120, unique=True)),
                ("name", models.CharField(max_length=200)),
                ("family", models.CharField(blank=True, db_index=True, max_length=120)),
                ("framework", models.CharField(blank=True, max_length=40)),
                ("model", models.CharField(blank=True, max_length=120)),
                (
                    "cluster",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="jobs", to="ingest.cluster"
                    ),
                ),
                (
                    "team",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="jobs",
                        to="ingest.team",
                    ),
                ),
                (
                    "nodes_text",
                    models.TextField(blank=True, help_text="Node names as given, one a line or comma separated"),
                ),
                ("layout", models.JSONField(blank=True, default=dict)),
                ("time_zone", models.CharField(default="UTC", max_length=64)),
                ("started_at", models.DateTimeField(blank=True, null=True)),
                ("ended_at", models.DateTimeField(blank=True, null=True)),
                (
                    "declared_outcome",
                    models.CharField(
                        choices=[
                            ("unknown", "unknown"),
                            ("running", "running"),
                            ("succeeded", "succeeded"),
                            ("failed", "failed"),
                            ("cancelled", "cancelled"),
                        ],
                        default="unknown",
                        max_length=12,
                    ),
                ),
                (
                    "outcome",
                    models.CharField(
                        choices=[
                            ("unknown", "unknown"),
                            ("running", "running"),
                            ("succeeded", "succeeded"),
                            ("failed", "failed"),
                            ("cancelled", "cancelled"),
                        ],
                        default="unknown",
                        max_length=12,
                    ),
                ),
                ("comment", models.TextField(blank=True)),
                ("revision", models.PositiveIntegerField(default=0)),
                ("diagnosing_revision", models.PositiveIntegerField(default=0)),
                ("diagnosed_revision", models.PositiveIntegerField(default=0)),
                ("is_diagnosis_wanted", models.BooleanField(default=False)),
                ("evidence_changed_at", models.DateTimeField(blank=True, null=True)),
                (
                    "created_by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                ("created_at", models.DateTimeField(auto_now_add=True, db_index=True)),
            ],
            options={
                "ordering": ("-created_at", "-id"),
            },
        ),
        migrations.CreateModel(
            name="Attempt",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "job",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="attempts", to="ingest.job"
                    ),
                ),
                ("number", models.PositiveIntegerField(default=0)),
                ("started_at", models.DateTimeField(blank=True, null=True)),
                ("ended_at", models.DateTimeField(blank=True, null=True)),
                ("ran_s", models.FloatField(blank=True, null=True)),
                (
                    "outcome",
                    models.CharField(
                        choices=[
                            ("unknown", "unknown"),
                            ("running", "running"),
                            ("succeeded", "succeeded"),
                            ("failed", "failed"),
                            ("cancelled", "cancelled"),
                        ],
                        default="unknown",
                        max_length=12,
                    ),
                ),
                ("node_count", models.PositiveIntegerField(blank=True, null=True)),
            ],
            options={
                "ordering": ("job", "number"),
                "indexes": [models.Index(fields=["ended_at", "job", "ran_s", "node_count"], name="attempt_ran")],
                "constraints": [models.UniqueConstraint(fields=("job", "number"), name="attempt_number_once_a_job")],
            },
        ),
        migrations.CreateModel(
            name="HistoryEntry",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "job",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE, related_name="history_entry", to="ingest.job"
                    ),
                ),
                ("family", models.CharField(db_index=True, max_length=120)),
                ("framework", models.CharField(blank=True, db_index=True, max_length=40)),
                ("mask_version", models.CharField(max_length=20)),
                ("digest", models.CharField(max_length=64)),
                ("key", models.CharField(max_length=200)),
                ("node_hours", models.FloatField(default=0)),
                ("is_excluded", models.BooleanField(default=False)),
                ("learned_at", models.DateTimeField(auto_now=True)),
            ],
            options={
                "verbose_name_plural": "history entries",
                "ordering": ("-learned_at",),
            },
        ),
        migrations.CreateModel(
            name="Upload",
            fields=[
                ("id", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                (
                    "job",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="uploads", to="ingest.job"
                    ),
                ),
                (
                    "attempt",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="uploads", to="ingest.attempt"
                    ),
                ),
                ("path", models.CharField(max_length=1024)),
                ("size_bytes", models.BigIntegerField(blank=True, null=True)),
                ("offset_bytes", models.BigIntegerField(default=0)),
                ("observed_bytes", models.BigIntegerField(default=0)),
                ("source", models.CharField(blank=True, max_length=1024)),
                ("line_form", models.CharField(blank=True, max_length=8)),
                ("recent_batches", models.BinaryField(blank=True, default=bytes)),
                ("sha256", models.CharField(blank=True, max_length=64)),
                (
                    "blob",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="uploads",
                        to="ingest.blob",
                    ),
                ),
                ("is_archive", models.BooleanField(default=False)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("receiving", "receiving"),
                            ("received", "received"),
                            ("settled", "settled"),
                            ("refused", "refused"),
                        ],
                        default="receiving",
                        max_length=10,
                    ),
                ),
                ("problem", models.TextField(blank=True)),
                (
                    "created_by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("updated_at", models.DateTimeField(auto_now=True)),
            ],
            options={
                "ordering": ("-created_at",),
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("state__in", ("received", "settled"))),
                        fields=("attempt", "path", "sha256"),
                        name="upload_once_an_attempt_path_and_digest",
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("state", "receiving"), models.Q(("source", ""), _negated=True)),
                        fields=("attempt", "source"),
                        name="upload_open_once_an_attempt_and_source",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Watch",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "attempt",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE, related_name="watch", to="ingest.attempt"
                    ),
                ),
                ("state", models.JSONField(default=dict)),
                ("iteration", models.BigIntegerField(blank=True, null=True)),
                ("step_s", models.FloatField(blank=True, null=True)),
                ("stage", models.CharField(blank=True, max_length=24)),
                ("advanced_at", models.DateTimeField(blank=True, null=True)),
                ("alarm", models.CharField(blank=True, max_length=12)),
                ("alarm_text", models.TextField(blank=True)),
                ("alarm_since", models.DateTimeField(blank=True, null=True)),
                ("observed_at", models.DateTimeField(blank=True, null=True)),
                ("claimed_until", models.DateTimeField(blank=True, null=True)),
            ],
        ),
        migrations.CreateModel(
            name="Artifact",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "attempt",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="artifacts", to="ingest.attempt"
                    ),
                ),
                ("path", models.CharField(max_length=1024)),
                (
                    "blob",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="artifacts", to="ingest.blob"
                    ),
                ),
                ("kind", models.CharField(blank=True, max_length=12)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("received", "received"),
                            ("parsing", "parsing"),
                            ("parsed", "parsed"),
                            ("skipped", "skipped"),
                            ("failed", "failed"),
                            ("removed", "removed"),
                        ],
                        default="received",
                        max_length=10,
                    ),
                ),
                ("lines", models.BigIntegerField(default=0)),
                ("problem", models.TextField(blank=True)),
                ("notes", models.JSONField(blank=True, default=list)),
                ("parsed_key", models.CharField(blank=True, max_length=200)),
                (
                    "kept",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="kept_artifacts",
                        to="ingest.blob",
                    ),
                ),
                ("kept_lines", models.BigIntegerField(db_default=0, default=0)),
                ("is_superseded", models.BooleanField(default=False)),
                (
                    "upload",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="artifacts",
                        to="ingest.upload",
                    ),
                ),
                ("received_at", models.DateTimeField(auto_now_add=True)),
                ("settled_at", models.DateTimeField(blank=True, null=True)),
            ],
            options={
                "ordering": ("path", "id"),
                "indexes": [models.Index(fields=["attempt", "state"], name="artifact_attempt_state")],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("attempt", "path", "blob"), name="artifact_once_an_attempt_path_and_blob"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="Run",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "job",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="runs", to="ingest.job"
                    ),
                ),
                (
                    "attempt",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="runs",
                        to="ingest.attempt",
                    ),
                ),
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("unpack", "unpack"),
                            ("parse", "parse"),
                            ("diagnose", "diagnose"),
                            ("condense", "condense"),
                        ],
                        max_length=10,
                    ),
                ),
                (
                    "upload",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="runs",
                        to="ingest.upload",
                    ),
                ),
                (
                    "artifact",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="range_runs",
                        to="ingest.artifact",
                    ),
                ),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("queued", "queued"),
                            ("running", "running"),
                            ("succeeded", "succeeded"),
                            ("failed", "failed"),
                        ],
                        db_index=True,
                        default="queued",
                        max_length=10,
                    ),
                ),
                ("stage", models.CharField(blank=True, max_length=60)),
                ("done", models.BigIntegerField(default=0)),
                ("total", models.BigIntegerField(default=0)),
                ("is_long", models.BooleanField(default=False)),
                ("parameters", models.JSONField(blank=True, default=dict)),
                ("error", models.TextField(blank=True)),
                ("tries", models.PositiveIntegerField(default=0)),
                ("worker", models.CharField(blank=True, max_length=200)),
                ("trace", models.CharField(blank=True, db_default="", default=ingest.tracing.current_trace, max_length=32)),
                ("sent_at", models.DateTimeField(blank=True, null=True)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("started_at", models.DateTimeField(blank=True, null=True)),
                ("heartbeat_at", models.DateTimeField(blank=True, null=True)),
                ("ended_at", models.DateTimeField(blank=True, null=True)),
            ],
            options={
                "ordering": ("-created_at", "-id"),
                "indexes": [
                    models.Index(fields=["job", "state"], name="run_job_state"),
                    models.Index(fields=["state", "sent_at"], name="run_state_sent"),
                ],
            },
        ),
        migrations.AddField(
            model_name="artifact",
            name="run",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="artifacts",
                to="ingest.run",
            ),
        ),
        migrations.CreateModel(
            name="RunLog",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "run",
                    models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name="log", to="ingest.run"),
                ),
                ("at", models.DateTimeField(auto_now_add=True)),
                (
                    "level",
                    models.CharField(
                        choices=[("info", "info"), ("warning", "warning"), ("error", "error")],
                        default="info",
                        max_length=8,
                    ),
                ),
                ("path", models.CharField(blank=True, max_length=1024)),
                ("message", models.TextField()),
            ],
            options={
                "ordering": ("id",),
            },
        ),
    ]
