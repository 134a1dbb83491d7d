"""The questions that an assistant may ask, each answered for one person by the selectors of the pages.

Every answer is a JSON object below 25 kB with ``links`` to the pages that show the same; what logs say is below
``untrusted``. A question that cannot be answered raises :class:`InvalidQuestion` with a sentence.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.utils import timezone

from diagnosis import taxonomy
from diagnosis.model import LOG_KINDS
from ingest import selectors as evidence
from ingest.models import Artifact, Attempt
from triage import search
from triage.assistant.bounds import UNTRUSTED, clip, limit_size
from triage.domain.finding_facts import FindingFacts, findings_of
from triage.domain.report_facts import suspects_of
from triage.models import Diagnosis, Incident
from triage.selectors.advice import standing_advice
from triage.selectors.comparing import comparison
from triage.selectors.incident import incident_view, log_url
from triage.selectors.incidents import incident_for, incidents_visible_to
from triage.selectors.jobs import artifact_for, job_for
from triage.selectors.logs import window
from triage.selectors.logsearch import TextSearch, UnreadablePattern, find_in_all
from triage.selectors.nodes import node_page
from triage.selectors.payloads import link
from triage.selectors.tickets import tickets_of

MAX_ROWS, MAX_LINES, MAX_FILES = 25, 120, 512


class InvalidQuestion(Exception):
    """The question names nothing that this person may see, or cannot be read; the message says which."""


def find_incidents(user: Any, query: str, *, limit: int = 10, before: int = 0) -> dict[str, Any]:
    """Incidents that match a search, newest first; ``before`` is the last number of the page before."""
    try:
        parsed = search.parse(query)
    except search.SearchError as error:
        raise InvalidQuestion(str(error)) from error
    rows = parsed.apply(incidents_visible_to(user), user=user).order_by("-opened_at", "-id")
    if before:
        last = incidents_visible_to(user).filter(pk=before).values_list("opened_at", flat=True).first()
        if last is None:
            raise InvalidQuestion(f"There is no incident #{before} to continue after.")
        rows = rows.filter(opened_at__lte=last).exclude(opened_at=last, pk__gte=before)
    limit = max(1, min(limit, MAX_ROWS))
    rows_and_one = list(rows.select_related("job", "cluster")[: limit + 1])
    page = rows_and_one[:limit]
    return limit_size(
        {
            "search": parsed.words(),
            "incidents": [_incident_row(row) for row in page],
            "continue_before": page[-1].pk if len(rows_and_one) > limit else None,
            "links": {"list": link("/incidents/")},
        }
    )


def describe_incident(user: Any, number: int) -> dict[str, Any]:
    """One incident: what, where, how sure, what to do, what it cost, what people said."""
    incident = _incident(user, number)
    report = incident.diagnosis.report
    decisions = incident.decisions.select_related("made_by").filter(undone_at=None)
    advice = standing_advice(incident)
    conclusion = report.get("conclusion") or {}
    return limit_size(
        {
            **_incident_row(incident),
            "alternatives": [
                {"category": row["id"], "p": row["p"]} for row in (conclusion.get("alternatives") or [])[:5]
            ],
            "lost_s": incident.lost_s,
            "gpu_hours": incident.gpu_hours,
            "suspects": [_suspect(row) for row in suspects_of(report)[:10]],
            "advice": {
                name: advice.get(name)
                for name in ("action", "action_title", "targets", "because", "commands")
                if advice.get(name)
            },
            "missing_evidence": [clip(text) for text in (report.get("missing") or [])[:10]],
            "decisions": [
                {"claim": row.claim, "word": row.word, "value": row.value, "by": row.made_by.get_username()}
                for row in decisions
            ],
            "note": UNTRUSTED,
            "links": {**_links(incident), "timeline": link(f"/jobs/{incident.job.slug}/")},
        }
    )


def evidence_of(user: Any, number: int) -> dict[str, Any]:
    """The events of an incident's evidence, root causes first, each with example lines and where they are."""
    incident = _incident(user, number)
    slug, attempt = incident.job.slug, incident.attempt.number
    return limit_size(
        {
            "number": number,
            "note": UNTRUSTED,
            "events": [_event(row, slug, attempt) for row in findings_of(incident.diagnosis.report)[:30]],
            "links": _links(incident),
        }
    )


def _suspect(row: Any) -> dict[str, Any]:
    return {
        "name": row.entity,
        "kind": row.kind,
        "score": row.score,
        "is_accused": row.is_accused,
        "untrusted": [clip(text) for text in row.reasons[:3]],
    }


def _event(row: Any, slug: str, attempt: int) -> dict[str, Any]:
    shown = [line for line in row.lines[:3] if line.get("file")]
    return {
        "role": row.role,
        "signature": row.signature,
        "count": row.count,
        "nodes": f"{row.nodes} of {row.of_nodes}",
        "healthy_jobs_with_it": row.jobs_with_it,
        "untrusted": clip(row.example or row.template),
        "lines": [_line(line, slug, attempt) for line in shown],
    }


def _line(line: Mapping[str, Any], slug: str, attempt: int) -> dict[str, Any]:
    file, number = line.get("file"), line.get("line")
    return {"file": file, "line": number, "url": link(log_url(slug, attempt, str(file), number))}


def read_log(user: Any, job: str, file: str, *, attempt: int = 0, line: int = 1, lines: int = 60) -> dict[str, Any]:
    """Lines of one file around ``line``."""
    count = max(1, min(lines, MAX_LINES))
    found = job_for(user, job)
    artifact = artifact_for(found, attempt, file) if found else None
    if artifact is None:
        raise InvalidQuestion(f"There is no file “{clip(file, 200)}” in attempt {attempt} of {clip(job, 120)}.")
    try:
        lines_of_window = window(artifact, start=max(1, line - count // 2), count=count)
    except FileNotFoundError as error:
        raise InvalidQuestion("The bytes of this file were removed; its diagnosis is kept.") from error
    return limit_size(
        {
            "job": job,
            "file": file,
            "of_lines": lines_of_window.total,
            "evidence_lines": lines_of_window.evidence[:50],
            "note": UNTRUSTED,
            "untrusted": [f"{row.no}: {clip(row.text)}" for row in lines_of_window.lines],
            "links": {"log": link(log_url(job, attempt, file, line))},
        }
    )


def search_log(
    user: Any, job: str, words: str, *, file: str = "", attempt: int = 0, is_pattern: bool = False, cursor: str = ""
) -> dict[str, Any]:
    """Lines of a job's logs that contain words, or match a pattern of Rust's regex dialect. Continues at ``cursor``."""
    try:
        text_search = TextSearch(words.strip()[:500], is_pattern).check()
    except UnreadablePattern as error:
        raise InvalidQuestion(str(error)) from error
    if not text_search.words:
        raise InvalidQuestion("Say what to look for.")
    logs = _logs(user, job, attempt, file)
    step = find_in_all(logs, text_search, cursor=cursor[:40])
    return limit_size(
        {
            "job": job,
            "note": UNTRUSTED,
            "matches": [
                {
                    "file": row["path"],
                    "line": row.get("line"),
                    "untrusted": clip(row.get("text"), 300),
                    "url": link(log_url(job, attempt, row["path"], row.get("line"))),
                }
                for row in step["lines"][:50]
            ],
            "searched_bytes": step["done"],
            "of_bytes": step["size"],
            "cursor": step["next"],
            "files_without_bytes": step["lost"][:20],
            "links": {"search": link(f"/jobs/{job}/search/{attempt}/")},
        }
    )


def compare_job(user: Any, job: str, other: str = "") -> dict[str, Any]:
    """A job beside another of its family (the most alike without ``other``): facts, and messages of one alone."""
    job_row = job_for(user, job)
    if job_row is None:
        raise InvalidQuestion(f"There is no job “{clip(job, 120)}”.")
    compared = comparison(user, job_row, Diagnosis.objects.filter(job=job_row).first(), other)
    if compared.other is None:
        raise InvalidQuestion("Its family has no other diagnosed job.")
    return limit_size(
        {
            "job": job,
            "other": compared.other.slug,
            "why": compared.why,
            "facts": [{"name": row.name, "here": row.here, "there": row.there} for row in compared.rows if row.differs],
            "note": UNTRUSTED,
            "only_here": [{"role": row.role, "untrusted": clip(row.template, 300)} for row in compared.only_here[:20]],
            "only_there": [
                {"role": row.role, "untrusted": clip(row.template, 300)} for row in compared.only_there[:20]
            ],
            "links": {"comparison": link(f"/jobs/{job}/compare/?with={compared.other.slug}")},
        }
    )


def describe_node(user: Any, name: str, cluster: str = "") -> dict[str, Any]:
    """A machine's record: how often it was accused, of what, and in which incidents."""
    page = node_page(user, name, cluster=cluster, now=timezone.now())
    if page is None:
        raise InvalidQuestion(f"There is no node “{clip(name, 200)}”.")
    return limit_size(
        {
            "node": name,
            "cluster": page.row.node.cluster.slug,
            "categories": [{"category": category, "incidents": n} for category, n in page.categories[:20]],
            "incidents": [
                {
                    "number": row.incident_id,
                    "headline": clip(row.incident.headline, 300),
                    "happened_at": row.incident.happened_at.isoformat(),
                    "is_accused": row.is_accused,
                    "word": row.word,
                    "url": link(f"/incidents/{row.incident_id}/"),
                }
                for row in page.accusations[:MAX_ROWS]
            ],
            "tickets": [
                {"title": clip(row.title, 120), "state": clip(row.state, 40), "url": row.url}
                for row in tickets_of(page.row.node).made[:MAX_ROWS]
            ],
            "same_name_in": [other.cluster.slug for other in page.namesakes],
            "links": {"node": link(f"/nodes/{name}/")},
        }
    )


def similar_incidents(user: Any, number: int) -> dict[str, Any]:
    """Incidents like this one: same group, same fingerprint, or same recent category."""
    incident = _incident(user, number)
    return limit_size(
        {
            "number": number,
            "similar": [
                {
                    "number": row.pk,
                    "headline": clip(row.headline, 300),
                    "state": row.state,
                    "category": row.standing_category,
                    "happened_at": row.happened_at.isoformat(),
                    "why": why,
                    "url": link(f"/incidents/{row.pk}/"),
                }
                for row, why in incident_view(user, incident).relatives[:MAX_ROWS]
            ],
            "links": _links(incident),
        }
    )


def describe_category(category: str) -> dict[str, Any]:
    """What a category means and what to do about it."""
    tree = taxonomy.load()
    if category not in tree:
        raise InvalidQuestion(f"There is no category “{clip(category, 120)}”: search with category: lists them.")
    node = tree.categories[category]
    return limit_size(
        {
            "category": category,
            "title": " › ".join(tree.path(category)),
            "explanation": node.explanation,
            "advice": node.advice,
            "links": {"incidents": link(f"/incidents/?q=category:{category}")},
        }
    )


def _incident(user: Any, number: int) -> Incident:
    incident = incident_for(user, number)
    if incident is None:
        raise InvalidQuestion(f"There is no incident #{number}, or it belongs to a cluster that you do not see.")
    return incident


def _logs(user: Any, job: str, attempt: int, file: str) -> list[Artifact]:
    job_row = job_for(user, job)
    part = Attempt.objects.filter(job=job_row, number=attempt).first() if job_row else None
    if job_row is None or part is None:
        raise InvalidQuestion(f"There is no attempt {attempt} of a job “{clip(job, 120)}”.")
    logs = evidence.artifacts_of(job_row).filter(attempt=part, kind__in=LOG_KINDS).order_by("path", "pk")
    if file:
        logs = logs.filter(path=file)
    rows = list(logs[:MAX_FILES])
    if not rows:
        raise InvalidQuestion("There is no such log.")
    return rows


def _message(row: FindingFacts) -> dict[str, str]:
    return {"role": row.role, "untrusted": clip(row.template, 300)}


def _incident_row(row: Incident) -> dict[str, Any]:
    return {
        "number": row.pk,
        "untrusted_headline": clip(row.headline, 300),
        "state": row.state,
        "category": row.standing_category,
        "category_of_machine": None if row.is_imported else row.category,
        "confidence": None if row.is_imported else round(row.confidence, 3),
        "condition": row.condition,
        "stage": row.stage,
        "iteration": row.iteration,
        "accused": row.accused[:10],
        "job": row.job.slug,
        "cluster": row.cluster.slug,
        "happened_at": row.happened_at.isoformat(),
        "url": link(f"/incidents/{row.pk}/"),
    }


def _links(incident: Incident) -> dict[str, str]:
    return {"incident": link(f"/incidents/{incident.pk}/"), "job": link(f"/jobs/{incident.job.slug}/")}
