"""Schemas of the triage endpoints; docs/openapi.yaml is made from them."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from ingest.api.strict import StrictSerializer
from triage.models import Decision, Incident
from triage.selectors.advice import standing_advice


class IncidentSerializer(serializers.ModelSerializer[Incident]):
    """One row of the list. ``category`` is the machine's verdict, ``standing_category`` the one that stands after
    review; the category of an imported record (``is_imported``) is nobody's verdict.
    """

    number = serializers.IntegerField(source="pk", read_only=True)
    job: Any = serializers.SlugRelatedField("slug", read_only=True)
    cluster: Any = serializers.SlugRelatedField("slug", read_only=True)
    assignee: Any = serializers.SlugRelatedField("username", read_only=True, allow_null=True)
    url = serializers.SerializerMethodField()

    class Meta:
        model = Incident
        fields: Any = (
            *("number", "url", "headline", "job", "cluster", "state", "category", "confidence", "runner_up"),
            *("runner_up_confidence", "standing_category", "condition"),
            *("symptom", "stage", "iteration", "node_count", "accused"),
            *("fingerprint", "happened_at", "opened_at", "reviewed_at", "resolved_at", "gpu_hours", "node_hours"),
            *("assignee", "group", "regressed_from", "snoozed_until", "is_withdrawn", "is_imported"),
        )
        read_only_fields = fields

    def get_url(self, incident: Incident) -> str:
        return f"/incidents/{incident.pk}/"


class DecisionSerializer(serializers.ModelSerializer[Decision]):
    """A person's decision on one claim."""

    made_by: Any = serializers.SlugRelatedField("username", read_only=True)

    class Meta:
        model = Decision
        fields = (
            "id",
            "claim",
            "subject",
            "word",
            "machine_value",
            "value",
            "reason",
            "made_by",
            "made_at",
            "undone_at",
        )
        read_only_fields = fields


class DecisionInSerializer(StrictSerializer):
    """A new decision: ``value`` only with ``correct``; ``subject`` only for a suspect. ``seen``: the id of the newest
    decision that you know, 0 for none; then a newer one of somebody else is not replaced.
    """

    claim = serializers.ChoiceField(Decision.Claim.choices)
    subject = serializers.CharField(required=False, allow_blank=True, max_length=200, default="")
    word = serializers.ChoiceField(Decision.Word.choices)
    value = serializers.CharField(required=False, allow_blank=True, max_length=200, default="")
    reason = serializers.CharField(required=False, allow_blank=True, max_length=2000, default="")
    seen = serializers.IntegerField(required=False, min_value=0)


class IncidentDetailSerializer(IncidentSerializer):
    """An incident with its report and all decisions."""

    decisions = DecisionSerializer(many=True, read_only=True)
    advice = serializers.SerializerMethodField()
    report = serializers.SerializerMethodField()

    class Meta(IncidentSerializer.Meta):
        fields: Any = (*IncidentSerializer.Meta.fields, "decisions", "advice", "report")
        read_only_fields = fields

    @extend_schema_field(
        {
            "type": "object",
            "additionalProperties": True,
            "description": "The current advice: it follows what people decided and which actions failed",
        }
    )
    def get_advice(self, incident: Incident) -> dict[str, Any]:
        return standing_advice(incident)

    @extend_schema_field({"type": "object", "additionalProperties": True, "description": "explained at /help/report/"})
    def get_report(self, incident: Incident) -> dict[str, Any]:
        return incident.diagnosis.whole_report


class FindingSerializer(serializers.Serializer[Any]):
    """One event of the evidence."""

    role = serializers.CharField()
    template = serializers.CharField()
    signature = serializers.CharField()
    count = serializers.IntegerField()
    nodes = serializers.IntegerField()
    of_nodes = serializers.IntegerField()
    jobs_with_it = serializers.IntegerField()
    healthy_jobs = serializers.IntegerField()
    example = serializers.CharField()
    node_names = serializers.ListField(child=serializers.CharField())
    lines = serializers.ListField(child=serializers.DictField())
