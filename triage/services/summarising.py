"""Summaries by a language model, if the operator named an endpoint. They are shown and never stored as facts."""

from __future__ import annotations

import json
from dataclasses import dataclass

from django.conf import settings
from django.core.cache import cache

from triage.destinations import Request
from triage.domain.model_summary import MAX_LINE, MAX_LINES, Line, Sentence, Unusable, question, sentences_of
from triage.domain.report_facts import findings_of
from triage.models import Incident
from triage.selectors.incident import log_url
from triage.services import outbound

#: a model writes more slowly than a chat answers
LIMIT_S = 30.0
_KEPT_S = 7 * 24 * 3600


@dataclass(frozen=True, slots=True)
class Summary:
    """Sentences with the lines that support them; ``left_out`` others are not supported."""

    sentences: list[Sentence]
    left_out: int
    model: str


def is_on() -> bool:
    return bool(settings.SUMMARY_URL)


def summary_kept(incident: Incident) -> Summary | None:
    """The summary of the incident's diagnosis that was made before."""
    found = cache.get(_key(incident))
    return found if isinstance(found, Summary) else None


def summary_make(incident: Incident) -> Summary:
    """Ask the endpoint for a summary of the incident's evidence. One request of at most ``LIMIT_S`` seconds.

    Raises:
        Unusable: no evidence, no answer, or one that cannot be read; the sentence says which.
    """
    lines = lines_of(incident)
    if not lines:
        raise Unusable("This incident has no lines of evidence to summarise.")
    body = json.dumps(question(lines, settings.SUMMARY_MODEL)).encode()
    headers = {"Content-Type": "application/json"}
    if settings.SUMMARY_KEY:
        headers["Authorization"] = f"Bearer {settings.SUMMARY_KEY}"
    url = f"{settings.SUMMARY_URL.rstrip('/')}/chat/completions"
    with outbound.Sender(limit_s=LIMIT_S) as sender:
        answer = sender.send(Request(url, body, headers))
    if answer.status != 200:
        raise Unusable(f"The model's endpoint gave no answer: {answer.error or f'status {answer.status}'}")
    sentences, left_out = sentences_of(answer.text, lines)
    made = Summary(sentences, left_out, settings.SUMMARY_MODEL)
    cache.set(_key(incident), made, _KEPT_S)
    return made


def lines_of(incident: Incident) -> list[Line]:
    """The lines that may be cited: an example of each event of the evidence, root causes first."""
    slug, attempt = incident.job.slug, incident.attempt.number
    found: list[Line] = []
    for row in findings_of(incident.diagnosis.report)[:MAX_LINES]:
        place = next((line for line in row.lines if line.get("file")), None)
        where = f"{place['file']}:{place.get('line')}" if place else ""
        url = log_url(slug, attempt, str(place["file"]), place.get("line")) if place else ""
        found.append(Line(len(found) + 1, (row.example or row.template)[:MAX_LINE], where, url))
    return found


def _key(incident: Incident) -> str:
    return f"model-summary:{incident.diagnosis_id}:{settings.SUMMARY_MODEL}"
