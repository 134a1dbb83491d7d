"""The upload form, in the order of a failure report. Only the name is required."""

from __future__ import annotations

import json
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from django import forms
from django.db.models import QuerySet

from ingest import selectors
from ingest.models import DEMONSTRATION, Cluster, Job, Outcome, Team
from ingest.parameters import MAX_LAYOUT_BYTES, layout_problem, whole
from ingest.refusals import Refused
from ingest.services import cluster_choose

#: characters of the name of a job
MAX_NAME = 200


class ManyFilesInput(forms.ClearableFileInput):
    allow_multiple_selected = True


class ManyFilesField(forms.FileField):
    """Any number of files. Empty files pass: the engine has the better message for them."""

    widget = ManyFilesInput

    def clean(self, data: Any, initial: Any = None) -> list[Any]:
        return list(data) if isinstance(data, (list, tuple)) else [data] if data else []


class DescriptionForm(forms.Form):
    """The description of a job, for a new job or a later change. ``teams``: the teams that the user may choose."""

    name = forms.CharField(
        label="Name", widget=forms.TextInput(attrs={"autocomplete": "off", "maxlength": str(MAX_NAME)})
    )
    outcome = forms.ChoiceField(
        choices=Outcome.choices,
        required=False,
        initial=Outcome.UNKNOWN,
        label="Outcome",
        help_text="As far as you know.",
    )
    family = forms.CharField(
        max_length=120, required=False, label="Family", help_text="Jobs of one family are compared with each other."
    )
    framework = forms.CharField(max_length=40, required=False, label="Framework")
    model = forms.CharField(max_length=120, required=False, label="Model")
    team = forms.ModelChoiceField(
        queryset=Team.objects.none(), required=False, to_field_name="slug", empty_label="none", label="Team"
    )
    nodes_text = forms.CharField(
        required=False,
        label="Nodes",
        widget=forms.Textarea(attrs={"rows": 2}),
        help_text="One per line, or separated by commas.",
    )
    layout = forms.CharField(
        required=False, label="Layout", max_length=MAX_LAYOUT_BYTES, help_text="Such as tp=8 pp=2 dp=4, or JSON."
    )
    started_at = forms.DateTimeField(
        required=False, label="Start (UTC)", widget=forms.DateTimeInput(attrs={"type": "datetime-local", "step": "1"})
    )
    ended_at = forms.DateTimeField(
        required=False, label="End (UTC)", widget=forms.DateTimeInput(attrs={"type": "datetime-local", "step": "1"})
    )
    time_zone = forms.CharField(
        required=False, label="Time zone", max_length=64, help_text="For time stamps without a zone. Empty means UTC."
    )
    comment = forms.CharField(required=False, label="Comment", widget=forms.Textarea(attrs={"rows": 3}))

    def __init__(self, *args: Any, teams: QuerySet[Team], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["team"].queryset = teams  # type: ignore[attr-defined]
        for name, field in self.fields.items():
            field.widget.attrs.setdefault("data-testid", f"upload-{name}")
            if field.help_text:
                field.widget.attrs.setdefault("aria-describedby", f"id_{name}_help")

    def clean_name(self) -> str:
        name = " ".join(self.cleaned_data["name"].split())
        if not name and self.fields["name"].required:
            raise forms.ValidationError("Give the job a name.")
        if len(name) > MAX_NAME:
            proposed: Any = self.data
            self.data = proposed = proposed.copy()
            proposed["name"] = f"{name[: MAX_NAME - 1]}…"
            raise forms.ValidationError(
                f"The name has {len(name):,} characters, and {MAX_NAME} fit. "
                "A shorter one is proposed: change it, or send it."
            )
        return name

    def clean_time_zone(self) -> str:
        zone: str = self.cleaned_data["time_zone"].strip() or "UTC"
        try:
            ZoneInfo(zone)
        except (ZoneInfoNotFoundError, ValueError) as error:
            sentence = f"“{zone}” is not a time zone: use a name such as Europe/Berlin, or UTC."
            raise forms.ValidationError(sentence) from error
        return zone

    def clean_layout(self) -> dict[str, Any]:
        """``tp=8 pp=2`` or a JSON object."""
        text = self.cleaned_data["layout"].strip()
        if not text:
            return {}
        sentence = "Write it as tp=8 pp=2 dp=4, or as a JSON object."
        layout: dict[str, Any] = {}
        if text.startswith("{"):
            try:
                layout = dict(json.loads(text))
            except (ValueError, RecursionError) as error:
                raise forms.ValidationError(sentence) from error
        else:
            for word in text.replace(",", " ").split():
                key, _, value = word.partition("=")
                if not key or not value:
                    raise forms.ValidationError(sentence)
                layout[key] = whole(value, -1) if whole(value, -1) >= 0 else value
        if problem := layout_problem(layout):
            raise forms.ValidationError(problem)
        return layout

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        start, end = cleaned.get("started_at"), cleaned.get("ended_at")
        if start and end and end < start:
            self.add_error("ended_at", "The end is before the start: check both.")
        return cleaned

    def job_fields(self) -> dict[str, Any]:
        """The arguments of :func:`ingest.services.job_create` and ``job_change``."""
        fields = {name: value for name, value in self.cleaned_data.items() if name not in ("files", "outcome")}
        fields["declared_outcome"] = self.cleaned_data["outcome"] or Outcome.UNKNOWN
        return fields


class JobForm(DescriptionForm):
    """Creates a job. Browsers without JavaScript send ``files`` here; with JavaScript, files are sent one by one."""

    files = ManyFilesField(required=False, label="Evidence")  # type: ignore[assignment]  # read only when cleaned
    slug = forms.SlugField(
        max_length=120, required=False, label="Id", help_text="Used in addresses. Made from the name if left empty."
    )
    #: False: the files go to an existing job, which has its cluster
    is_for_new_job = True
    cluster = forms.ModelChoiceField(
        queryset=Cluster.objects.none(), required=False, to_field_name="slug", label="Cluster"
    )

    def __init__(self, *args: Any, user: Any, **kwargs: Any) -> None:
        super().__init__(*args, teams=selectors.teams_of(user), **kwargs)
        self._user = user
        clusters = selectors.clusters_visible_to(user).exclude(slug=DEMONSTRATION)
        field = self.fields["cluster"]
        self.must_choose_cluster = False
        field.queryset = clusters  # type: ignore[attr-defined]
        try:
            field.empty_label = str(cluster_choose(user=user))  # type: ignore[attr-defined]
        except Refused as refusal:
            self.must_choose_cluster = True
            field.empty_label = "choose one"  # type: ignore[attr-defined]
            field.help_text = refusal.detail

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean()
        if self.is_for_new_job and "cluster" not in self.errors and not cleaned.get("cluster"):
            try:
                cleaned["cluster"] = cluster_choose(user=self._user, team=cleaned.get("team"))
            except Refused as refusal:
                self.add_error("cluster", refusal.detail)
        return cleaned


#: sizes of a layout in their usual order
_LAYOUT_KEYS = ("tp", "pp", "dp", "cp", "ep")


def initial_values(job: Job) -> dict[str, Any]:
    """The initial values of :class:`DescriptionForm` for an existing job."""
    is_flat = all(isinstance(value, (int, str)) and " " not in str(value) for value in job.layout.values())
    sizes = [key for key in _LAYOUT_KEYS if key in job.layout]  # PostgreSQL keeps no order
    keys = [*sizes, *sorted(job.layout.keys() - set(_LAYOUT_KEYS))]
    layout = " ".join(f"{key}={job.layout[key]}" for key in keys) if is_flat else json.dumps(job.layout)
    names = ("name", "family", "model", "nodes_text", "time_zone", "started_at", "ended_at", "comment")
    team = job.team.slug if job.team else None
    kept = {name: getattr(job, name) for name in names}
    kept |= {"framework": job.declared_framework, "outcome": job.declared_outcome}
    return {**kept, "layout": layout, "team": team}
