"""Trains a classifier on confirmed incidents: measure, admit or reject, store, roll back."""

from __future__ import annotations

import json
import logging
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet

from diagnosis.kinds.logs.classifying import classify_model
from diagnosis.kinds.logs.classifying.classify_model import Model, Record
from ingest import broker
from ingest.locks import lock_rows
from ingest.models import DEMONSTRATION
from triage.models import Activity, ClassifierVersion, Decision, Finding, Incident
from triage.services.rules import rules_in_force

log = logging.getLogger(__name__)

#: only this many of the newest incidents are used: older ones add nothing
MAX_RECORDS = 20_000


def records_confirmed() -> list[Record]:
    """One record for each incident whose category a person confirmed or corrected, by number. Two queries."""
    columns = ("pk", "category", "standing_category", "confidence")
    rows = list(_judged_incidents().order_by("-pk").values_list(*columns)[:MAX_RECORDS])
    templates: dict[int, list[tuple[str, str]]] = {}
    roots = Finding.objects.filter(role="root", incident__in=[row[0] for row in rows]).order_by("incident", "position")
    for incident, template, signature in roots.values_list("incident", "template", "signature"):
        templates.setdefault(incident, []).append((template, signature))
    records = []
    for number, category, standing, confidence in sorted(rows):
        if number in templates:
            texts, rules = zip(*templates[number], strict=True)
            named = tuple(rule or None for rule in rules)
            records.append(Record(texts, standing, named, confidence, was_right=category == standing))
    return records


def _judged_incidents() -> QuerySet[Incident]:
    """Incidents whose category a person confirmed or corrected here, without imported and generated ones."""
    decisions = Decision.objects.filter(incident=OuterRef("pk"), claim=Decision.Claim.CATEGORY, undone_at=None)
    incidents = Incident.objects.exclude(cluster__slug=DEMONSTRATION)
    return incidents.filter(Exists(decisions), state__in=Incident.STOOD, is_withdrawn=False)


def classifier_train(*, by: Any = None) -> ClassifierVersion:
    """Train on every confirmed incident, measure on held-out ones, store the result, activate it if admitted.

    A model is admitted only if it is right on held-out incidents at least as often as the rules alone.
    """
    from diagnosis import classify_training  # noqa: PLC0415  # heavy: scikit-learn, only workers train

    judged = _judged_incidents().count()
    admission = classify_training.admit(records_confirmed(), rules_in_force())
    weights = json.loads(classify_model.dumps(admission.model))
    measured = {
        "records": admission.model.confirmed,
        "judged": judged,
        "with_model": admission.with_model.leaf,
        "rules_alone": admission.rules_alone.leaf,
        "is_admitted": admission.is_admitted,
    }
    with transaction.atomic():
        version = ClassifierVersion.objects.create(weights=weights, measured=measured, note=admission.reason[:300])
        Activity.objects.create(
            kind="classifier_trained", actor=by, data={"subject": str(version.pk), "after": admission.reason}
        )
        if admission.is_admitted:
            classifier_activate(version=version, by=by)
    return version


@transaction.atomic
def classifier_activate(*, version: ClassifierVersion | None, by: Any = None) -> None:
    """Use ``version`` from the next diagnosis on; None returns to the model that ships with the engine."""
    before = lock_rows(ClassifierVersion.objects.filter(is_active=True)).first()
    ClassifierVersion.objects.filter(is_active=True).update(is_active=False)
    if version:
        version.is_active = True
        version.save(update_fields=["is_active"])
    Activity.objects.create(
        kind="classifier_activated",
        actor=by,
        data={"before": before.pk if before else None, "after": version.pk if version else None},
    )


def classifier_in_force() -> Model | None:
    """The active model, or None for the engine's own. A model that this engine cannot read is logged."""
    version = ClassifierVersion.objects.filter(is_active=True).first()
    if version is None:
        return None
    try:
        return classify_model.loads(json.dumps(version.weights))
    except classify_model.ModelError as error:
        log.error("Classifier %s is ignored: %s", version.pk, error)
        return None


def is_learning_due() -> bool:
    """Whether RETRAIN_AFTER more incidents were judged since the newest version was trained. Two small queries."""
    if not settings.RETRAIN_AFTER:
        return False
    newest = ClassifierVersion.objects.order_by("-trained_at", "-pk").values_list("measured", flat=True).first()
    judged_then = int((newest or {}).get("judged", 0))
    return _judged_incidents().count() - judged_then >= settings.RETRAIN_AFTER


def learning_consider() -> None:
    """After a review, queue a training if one is due. Without a broker the next review tries again."""
    if is_learning_due():
        broker.send("triage.tasks.notify_learn")
