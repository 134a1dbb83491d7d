"""An incident as a picture: what it says, and that no evidence makes it large or breaks it."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from PIL import Image

from tests.factories import make_attempt, make_job
from tests.pages import page_text
from tests.triage.test_agreement import told
from triage.selectors.strip import strip_of
from triage.services.diagnosing import diagnosis_store
from triage.services.reviewing import decision_make
from triage.share_picture import WIDTH, Card, card_of, draw

CARD = Card(7, "llama, attempt 0", "Disk full on gpu-7.", (("Who", "gpu-7"),), None, "https://f.example/incidents/7/")


def size_of(png: bytes) -> tuple[int, int]:
    return Image.open(io.BytesIO(png)).size


@pytest.mark.django_db
def test_the_picture_of_an_incident_is_offered_on_its_page_and_shows_what_people_decided(client, ada):
    attempt = make_attempt(make_job("llama"))
    diagnosis_store(attempt=attempt, revision=1, report=told("a broken machine"))
    incident = attempt.incidents.get()
    assert f"/incidents/{incident.pk}.png" in page_text(client.get(f"/incidents/{incident.pk}/"))
    answer = client.get(f"/incidents/{incident.pk}.png")
    assert answer.headers["Content-Type"] == "image/png"
    before = answer.content
    assert size_of(before)[0] == WIDTH
    decision_make(incident=incident, claim="suspect", subject="node-3", word="reject", by=ada)
    assert client.get(f"/incidents/{incident.pk}.png").content != before


@pytest.mark.django_db
def test_its_facts_are_who_what_and_what_to_do_now():
    attempt = make_attempt(make_job("llama"))
    report = told("a broken machine")
    diagnosis_store(attempt=attempt, revision=1, report=report)
    advice = {"action": "evict", "action_title": "Evict", "targets": ["node-3"]}
    card = card_of(attempt.incidents.get(), strip_of(report), accused=["node-3"], advice=advice, url="x")
    assert dict(card.facts)["Who"] == "node-3"
    assert dict(card.facts)["Do now"] == "Evict node-3"
    assert (
        dict(card_of(attempt.incidents.get(), None, accused=[], advice={}, url="x").facts)["Who"] == "nobody is accused"
    )


def test_a_long_or_odd_sentence_makes_no_large_picture():
    usual, longest = (size_of(draw(replace(CARD, sentence=text))) for text in ("Disk full.", "long words " * 9000))
    assert longest[1] - usual[1] <= 3 * 44
    assert size_of(draw(replace(CARD, sentence="x" * 90_000, facts=(("Who", "\x00\u202e" * 5000),))))[0] == WIDTH
