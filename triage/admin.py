"""What administrators may view and change. Decisions, diagnoses and activity are read only: they are permanent."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.http import HttpRequest

from ingest.models import Attempt, Cluster, Job, Node, Run, Team, Token
from ingest.services import busy_with, job_delete
from triage.models import Activity, Decision, Diagnosis, Group, GroupRule, Incident, SavedView
from triage.selectors.deletion import deletion_refusal, losses_of

if TYPE_CHECKING:
    Base = admin.ModelAdmin[Any]
else:
    Base = admin.ModelAdmin


class ReadOnlyAdmin(Base):
    """Read only."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


@admin.register(Cluster)
class ClusterAdmin(Base):
    list_display = ("slug", "title", "gpus_per_node")


@admin.register(Team)
class TeamAdmin(Base):
    list_display = ("slug", "title", "max_bytes")
    filter_horizontal = ("members", "clusters")


@admin.register(Node)
class NodeAdmin(Base):
    list_display = ("name", "cluster", "drained_at")
    list_filter = ("cluster",)
    search_fields = ("name",)


@admin.register(Job)
class JobAdmin(Base):
    list_display = ("slug", "name", "cluster", "team", "outcome", "created_at")
    list_filter = ("outcome", "cluster")
    search_fields = ("slug", "name", "family")
    raw_id_fields = ("created_by",)

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Any:
        """The counts of the job's own page instead of every row. Refuses everything that that page refuses."""
        jobs, sums, refused = [], Counter[str](), []
        for job in objs:
            losses = losses_of(job)
            jobs.append(f"{job.name} ({job.slug}): {losses.incidents} incidents, {losses.files} files")
            counts = {"jobs": 1, "incidents": losses.incidents, "files": losses.files}
            sums.update({**counts, "verdicts": losses.decisions, "comments": losses.comments})
            if refusal := deletion_refusal(request.user, job) or busy_with(job):
                refused.append(f"{job.name}: {refusal}")
        return jobs, dict(sums), set(), refused

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        job_delete(job=obj, user=request.user)

    def delete_queryset(self, request: HttpRequest, queryset: Any) -> None:
        for job in queryset:
            job_delete(job=job, user=request.user)


@admin.register(Token)
class TokenAdmin(ReadOnlyAdmin):
    list_display = ("name", "user", "prefix", "created_at", "last_used_at", "revoked_at")


@admin.register(SavedView)
class SavedViewAdmin(Base):
    list_display = ("name", "query", "owner", "is_shared")


@admin.register(Incident)
class IncidentAdmin(ReadOnlyAdmin):
    list_display = ("id", "headline", "job", "state", "standing_category")
    list_filter = ("state", "cluster")
    list_select_related = ("job",)


@admin.register(Decision)
class DecisionAdmin(ReadOnlyAdmin):
    list_display = ("incident_id", "claim", "subject", "word", "value", "made_by", "made_at", "undone_at")
    list_select_related = ("made_by",)


@admin.register(Activity)
class ActivityAdmin(ReadOnlyAdmin):
    list_display = ("at", "kind", "actor", "job", "incident_id", "data")
    list_filter = ("kind",)
    list_select_related = ("actor", "job")
    ordering = ("-id",)


admin.site.register([Attempt, Diagnosis, Group, GroupRule, Run], ReadOnlyAdmin)
admin.site.site_header = admin.site.site_title = "Faultline administration"
