"""Summaries by a language model, if the operator named an endpoint. They are shown and never stored as facts."""

from __future__ import annotations

import json
from dataclasses import dataclass

from django.conf import settings
from django.core.cache import cache

from triage.destinations import Request
from triage.domain.finding_facts import findings_of
from triage.domain.model_summary import MAX_LINE, MAX_LINES, Line, Sentence, UnusableAnswer, request_body, sentences_of
from triage.models import Incident
from triage.selectors.incident import log_url
from triage.services import outbound

#: a model writes more slowly than a chat answers
TIMEOUT_S = 30.0
_CACHED_S = 7 * 24 * 3600


@dataclass(frozen=True, slots=True)
class Summary:
    """Sentences with the lines that support them; ``left_out`` others are not supported."""

    sentences: list[Sentence]
    left_out: int
    model: str


def is_on() -> bool:
    return bool(settings.SUMMARY_URL)


def cached_summary(incident: Incident) -> Summary | None:
    """The summary of the incident's diagnosis that was made before."""
    cached = cache.get(_key(incident))
    return cached if isinstance(cached, Summary) else None


def summary_make(incident: Incident) -> Summary:
    """Ask the endpoint for a summary of the incident's evidence. One request of at most ``TIMEOUT_S`` seconds.

    Raises:
        Unusable: no evidence, no answer, or one that cannot be read; the sentence says which.
    """
    lines = lines_of(incident)
    if not lines:
        raise UnusableAnswer("This incident has no lines of evidence to summarise.")
    body = json.dumps(request_body(lines, settings.SUMMARY_MODEL)).encode()
    headers = {"Content-Type": "application/json"}
    if settings.SUMMARY_KEY:
        headers["Authorization"] = f"Bearer {settings.SUMMARY_KEY}"
    url = f"{settings.SUMMARY_URL.rstrip('/')}/chat/completions"
    with outbound.Sender(limit_s=TIMEOUT_S) as sender:
        answer = sender.send(Request(url, body, headers))
    if answer.status != 200:
        raise UnusableAnswer(f"The model's endpoint gave no answer: {answer.error or f'status {answer.status}'}")
    sentences, left_out = sentences_of(answer.text, lines)
    new_summary = Summary(sentences, left_out, settings.SUMMARY_MODEL)
    cache.set(_key(incident), new_summary, _CACHED_S)
    return new_summary


def lines_of(incident: Incident) -> list[Line]:
    """The lines that may be cited: an example of each event of the evidence, root causes first."""
    slug, attempt = incident.job.slug, incident.attempt.number
    lines: list[Line] = []
    for row in findings_of(incident.diagnosis.report)[:MAX_LINES]:
        position = next((line for line in row.lines if line.get("file")), None)
        where = f"{position['file']}:{position.get('line')}" if position else ""
        url = log_url(slug, attempt, str(position["file"]), position.get("line")) if position else ""
        lines.append(Line(len(lines) + 1, (row.example or row.template)[:MAX_LINE], where, url))
    return lines


def _key(incident: Incident) -> str:
    return f"model-summary:{incident.diagnosis_id}:{settings.SUMMARY_MODEL}"
