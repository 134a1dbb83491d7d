"""Schemas of the evidence API."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import OpenApiResponse, extend_schema_field
from rest_framework import serializers

from ingest import signals
from ingest.api.strict import StrictSerializer
from ingest.models import Artifact, Job, Outcome, Run, RunLog, Upload
from ingest.parameters import layout_problem
from ingest.selectors import progress

STEP_STATES = [(name, name) for name in ("waiting", "active", "done", "failed")]
DIAGNOSIS_STATES = [(name, name) for name in ("waiting", "queued", "running", "succeeded", "failed", "cancelled")]


class FieldProblemSerializer(serializers.Serializer[Any]):
    field = serializers.CharField()
    detail = serializers.CharField()


class ProblemSerializer(serializers.Serializer[Any]):
    """RFC 9457 problem details, the format of every error."""

    type = serializers.CharField(help_text="urn:faultline:problem:…, equal for problems of the same kind")
    title = serializers.CharField()
    status = serializers.IntegerField()
    detail = serializers.CharField(help_text="What is wrong and what to do, for people")
    errors = FieldProblemSerializer(  # type: ignore[assignment]  # it replaces DRF's own errors, which nobody uses here
        many=True, required=False, help_text="One entry for each invalid field"
    )
    job = serializers.CharField(
        required=False, help_text="The job that has the id already, if you may see it: add the evidence to it"
    )


#: the answer of a refusal, for the schema
PROBLEM = OpenApiResponse(ProblemSerializer, description="What is wrong and what to do")


class LayoutField(serializers.DictField):
    """A layout as programs print it. Refuses text that the database cannot store (NUL, half a surrogate pair)."""

    def to_internal_value(self, data: Any) -> dict[Any, Any]:
        kept: dict[Any, Any] = super().to_internal_value(data)
        if problem := layout_problem(kept):
            raise serializers.ValidationError(problem)
        return kept


class JobInSerializer(StrictSerializer):
    """A failure report. Only the name is required."""

    name = serializers.CharField(max_length=200)
    slug = serializers.SlugField(
        max_length=120, required=False, help_text="The id in addresses; made from the name if left out"
    )
    cluster = serializers.SlugField(
        required=False, help_text="Slug of a cluster; needed if your teams do not have exactly one"
    )
    team = serializers.SlugField(required=False, help_text="Slug of one of your teams; optional if you have only one")
    family = serializers.CharField(
        max_length=120, required=False, allow_blank=True, help_text="Pool of comparable jobs"
    )
    framework = serializers.CharField(max_length=40, required=False, allow_blank=True)
    model = serializers.CharField(max_length=120, required=False, allow_blank=True)
    nodes = serializers.ListField(child=serializers.CharField(max_length=200), required=False, max_length=20_000)
    layout = LayoutField(required=False, help_text='{"tp": 8, "pp": 2, "dp": 4}')
    time_zone = serializers.CharField(
        max_length=64, required=False, help_text="For time stamps without a zone; UTC if left out"
    )
    started_at = serializers.DateTimeField(required=False, allow_null=True)
    ended_at = serializers.DateTimeField(required=False, allow_null=True)
    outcome = serializers.ChoiceField(choices=Outcome.choices, required=False, help_text="As far as you know")
    comment = serializers.CharField(required=False, allow_blank=True, max_length=20_000)


class JobPutSerializer(JobInSerializer):
    """A failure report for the id in the address. Without a name, a new job is called as its id."""

    name = serializers.CharField(max_length=200, required=False)
    slug = None  # type: ignore[assignment]  # DRF's way to leave a field out
    elsewhere: ClassVar = {"slug": "The address has the id: leave it out."}


class JobChangeSerializer(StrictSerializer):
    """Changes of a job's description: all but its id, its cluster and its time zone, which was used to read the
    evidence.
    """

    elsewhere: ClassVar = {
        "slug": "A job keeps its id: make a new job.",
        "cluster": "A manager moves a job to another cluster: POST /api/v1/jobs/ID/move/.",
        "time_zone": "It was used to read the evidence: make a new job.",
        "found_outcome": "The evidence decides on it: send outcome.",
        "declared_outcome": "Send outcome.",
    }

    name = serializers.CharField(max_length=200)
    team = serializers.SlugField(allow_null=True, help_text="Slug of one of your teams; null for none")
    family = serializers.CharField(max_length=120, allow_blank=True)
    framework = serializers.CharField(max_length=40, allow_blank=True)
    model = serializers.CharField(max_length=120, allow_blank=True)
    nodes = serializers.ListField(child=serializers.CharField(max_length=200), max_length=20_000)
    layout = LayoutField()
    started_at = serializers.DateTimeField(allow_null=True)
    ended_at = serializers.DateTimeField(allow_null=True)
    outcome = serializers.ChoiceField(choices=Outcome.choices)
    comment = serializers.CharField(allow_blank=True, max_length=20_000)


class StepSerializer(serializers.Serializer[Any]):
    name = serializers.CharField()
    state = serializers.ChoiceField(choices=STEP_STATES)
    text = serializers.CharField()
    done = serializers.IntegerField()
    total = serializers.IntegerField()


class JobProblemSerializer(serializers.Serializer[Any]):
    path = serializers.CharField()
    sentence = serializers.CharField()
    is_error = serializers.BooleanField()


class ProgressSerializer(serializers.Serializer[Any]):
    """The progress of the work; poll while `is_active`."""

    is_active = serializers.BooleanField()
    is_diagnosed = serializers.BooleanField()
    steps = StepSerializer(many=True)
    problems = JobProblemSerializer(many=True)
    problem_count = serializers.IntegerField()
    waiting = serializers.CharField(help_text="Why nothing moves although it should; else empty")


class JobSerializer(serializers.ModelSerializer[Job]):
    cluster = serializers.CharField(source="cluster.slug")
    team = serializers.CharField(source="team.slug", default=None, allow_null=True)
    nodes = serializers.SerializerMethodField()
    outcome = serializers.CharField(
        help_text="The one that stands: the stated one, unless the evidence contradicts it. The job has ended if it is "
        "succeeded, failed or cancelled"
    )
    declared_outcome = serializers.CharField(help_text="As people state it")
    found_outcome = serializers.CharField(help_text="As the evidence shows it")
    outcome_note = serializers.CharField(help_text="One or two sentences where the two differ; else empty")
    url = serializers.SerializerMethodField()

    class Meta:
        model = Job
        fields = (
            "slug",
            "name",
            "url",
            "cluster",
            "team",
            "family",
            "framework",
            "model",
            "nodes",
            "layout",
            "time_zone",
            "started_at",
            "ended_at",
            "declared_outcome",
            "found_outcome",
            "outcome",
            "outcome_note",
            "comment",
            "revision",
            "diagnosed_revision",
            "created_at",
        )

    def get_nodes(self, job: Job) -> list[str]:
        return job.nodes_text.replace(",", "\n").split()

    def get_url(self, job: Job) -> str:
        return f"/jobs/{job.slug}/"


class VerdictSuspectSerializer(serializers.Serializer[Any]):
    name = serializers.CharField()
    kind = serializers.CharField()
    probability = serializers.FloatField()


class VerdictSerializer(serializers.Serializer[Any]):
    """What the newest diagnosis of the last attempt says."""

    attempt = serializers.IntegerField()
    revision = serializers.IntegerField(help_text="The evidence that it saw: `revision` of the job, or an earlier one")
    condition = serializers.CharField(allow_blank=True, help_text="failed, hung, degraded, healthy, …")
    category = serializers.CharField(allow_blank=True, help_text="/help/categories/; none: nothing failed")
    confidence = serializers.FloatField(allow_null=True)
    sentence = serializers.CharField(allow_blank=True)
    suspects = VerdictSuspectSerializer(many=True, help_text="The accused, most probable first, at most five")


class JobIncidentSerializer(serializers.Serializer[Any]):
    number = serializers.IntegerField()
    url = serializers.CharField(help_text="The page that shows it with its evidence")
    state = serializers.CharField()
    standing_category = serializers.CharField(help_text="The category after review")


class JobDetailSerializer(JobSerializer):
    progress = serializers.SerializerMethodField()
    verdict = VerdictSerializer(read_only=True, allow_null=True, help_text="null: nothing was diagnosed yet")
    incident = JobIncidentSerializer(read_only=True, allow_null=True, help_text="null: nothing failed")

    class Meta(JobSerializer.Meta):
        # progress comes first: it refreshes the revisions that the later fields show
        fields = ("progress", *JobSerializer.Meta.fields, "verdict", "incident")  # type: ignore[assignment]

    def to_representation(self, instance: Job) -> dict[str, Any]:
        answers: list[Any] = [told for _, told in signals.verdict_asked.send(sender=Job, job=instance)]
        for told in answers:
            instance.verdict, instance.incident = told["verdict"], told["incident"]  # type: ignore[attr-defined]
        shown: dict[str, Any] = super().to_representation(instance)
        return shown

    @extend_schema_field(ProgressSerializer)
    def get_progress(self, job: Job) -> Any:
        return ProgressSerializer(progress(job)).data


class ArtifactSerializer(serializers.ModelSerializer[Artifact]):
    attempt = serializers.IntegerField(source="attempt.number")
    sha256 = serializers.CharField(source="blob_id")
    size_bytes = serializers.IntegerField(source="blob.size_bytes")

    class Meta:
        model = Artifact
        fields = (
            "id",
            "path",
            "attempt",
            "sha256",
            "size_bytes",
            "kind",
            "state",
            "lines",
            "problem",
            "notes",
            "received_at",
        )


class UploadSerializer(serializers.ModelSerializer[Upload]):
    """A received upload. The members of an archive become artifacts in the background."""

    job = serializers.CharField(source="job.slug")
    attempt = serializers.IntegerField(source="attempt.number")

    class Meta:
        model = Upload
        fields = (
            "id",
            "job",
            "attempt",
            "path",
            "size_bytes",
            "sha256",
            "is_archive",
            "state",
            "problem",
            "created_at",
        )


class ReceiptSerializer(serializers.Serializer[Any]):
    upload = UploadSerializer()
    artifact = ArtifactSerializer(allow_null=True)
    is_new = serializers.BooleanField()


class FileReceiptSerializer(ReceiptSerializer):
    job = serializers.CharField(help_text="The job's id, with the name of a cluster of teams")


class RunLogSerializer(serializers.ModelSerializer[RunLog]):
    class Meta:
        model = RunLog
        fields = ("at", "level", "path", "message")


class RunSerializer(serializers.ModelSerializer[Run]):
    log = RunLogSerializer(many=True)
    tries = serializers.IntegerField(source="own_tries", read_only=True)

    class Meta:
        model = Run
        fields = (
            "id",
            "kind",
            "state",
            "stage",
            "done",
            "total",
            "error",
            "tries",
            "created_at",
            "started_at",
            "ended_at",
            "log",
        )


class DiagnoseInSerializer(StrictSerializer):
    force = serializers.BooleanField(default=False, help_text="Diagnose again even if nothing changed")


class WantedSerializer(serializers.Serializer[Any]):
    kind = serializers.ChoiceField(choices=["stacks"])
    attempt = serializers.IntegerField()
    since = serializers.DateTimeField(help_text="Names the request: the same moment is the same request")
    reason = serializers.CharField(help_text="The alarm, a sentence")


class WantedListSerializer(serializers.Serializer[Any]):
    wanted = WantedSerializer(many=True)
    ask_again_s = serializers.IntegerField(help_text="Longer for more followers")


class DiagnoseOutSerializer(serializers.Serializer[Any]):
    state = serializers.ChoiceField(choices=DIAGNOSIS_STATES)
    run = serializers.IntegerField(allow_null=True, help_text="null: it begins when the evidence is read")
    revision = serializers.IntegerField(help_text="The evidence that is diagnosed; see `verdict.revision` of the job")
    url = serializers.CharField()


class CapabilitiesSerializer(serializers.Serializer[Any]):
    """The limits of this server."""

    max_bytes = serializers.IntegerField()
    chunk_bytes = serializers.IntegerField(help_text="A good size for one PATCH")
    hash_algorithm = serializers.CharField()
    tus_version = serializers.CharField()
    archives = serializers.ListField(child=serializers.CharField())
    archive_max_members = serializers.IntegerField()
    archive_max_bytes = serializers.IntegerField()
    archive_max_depth = serializers.IntegerField()
