"""The records of a flow capture as a table, at the address of a log."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from ingest.models import Artifact, Job
from ingest.parameters import whole
from triage.selectors.records import records_page


def records(request: HttpRequest, job: Job, artifact: Artifact) -> HttpResponse | None:
    """``page`` of the records, with ``who`` only of one address or switch; None if the file has none."""
    who = request.GET.get("who", "").strip()[:200]
    shown = records_page(artifact, who=who, page=whole(request.GET.get("page"), 1))
    if shown is None:
        return None
    context = {"nav": "jobs", "job": job, "artifact": artifact, "shown": shown, "who": who}
    return render(request, "triage/records.html", context)
