"""Stores the pasted output of a check as evidence of the incident's job, which is diagnosed again."""

from __future__ import annotations

import re
from typing import Any

from django.db import transaction

from diagnosis.kinds import checks, stacks
from ingest.models import Artifact
from ingest.refusals import Refused
from ingest.services import artifact_receive, diagnosis_request
from triage.models import Activity, Incident
from triage.services.reviewing import ReviewError

#: Characters of one output.
MAX_CHARS = 500_000
_UNSAFE = re.compile(r"[^\w.\-]+")


@transaction.atomic
def check_output_keep(*, incident: Incident, text: str, target: str, by: Any) -> str:
    """Store a pasted output below ``checks/<target>/`` of the incident's attempt; returns its meaning in a sentence.

    Raises:
        ReviewError: the text is not the output of a known check, or cannot be stored.
    """
    text = text.replace("\r\n", "\n").strip()
    if not text:
        raise ReviewError("Nothing was pasted: paste the whole output of the command.")
    if len(text) > MAX_CHARS:
        raise ReviewError(f"An output of more than {MAX_CHARS:,} characters is better uploaded as a file of the job.")
    data = f"{text}\n".encode()
    recognised = checks.recognise_output(text)
    if recognised is None and not stacks.sniff(data[:65536], "py-spy.txt"):
        raise ReviewError("This is not recognised as the output of a check: paste all of it, with its first lines.")
    name = recognised.check.id if recognised else "py-spy"
    folder = f"checks/{_UNSAFE.sub('-', target).strip('.-') or 'unknown'}"
    earlier_outputs = Artifact.objects.filter(attempt=incident.attempt, path__startswith=f"{folder}/{name}-").count()
    path = f"{folder}/{name}-{earlier_outputs + 1}.txt"
    try:
        artifact_receive(job=incident.job, path=path, chunks=[data], attempt=incident.attempt, user=by)
    except Refused as refusal:
        raise ReviewError(refusal.detail) from refusal
    meaning = f"{recognised.check.title}: {recognised.outcome.says}" if recognised else "stacks of a process"
    Activity.objects.create(
        incident=incident, job=incident.job, actor=by, kind="checked", data={"subject": target, "after": meaning}
    )
    diagnosis_request(job=incident.job, user=by)
    return meaning
