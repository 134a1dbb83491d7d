"""The classifier: taught by confirmed incidents, admitted only when it helps, kept, rolled back."""

import pytest
from django.core.management import CommandError, call_command
from msgspec.structs import replace

from diagnosis import classify_training
from diagnosis.classify_training import Admission, Scores
from diagnosis.kinds.logs.classifying import classify_model
from tests.factories import make_incident, make_user
from triage.models import Activity, ClassifierVersion, Decision, Finding, Incident
from triage.services.learning import (
    classifier_activate,
    classifier_in_force,
    classifier_train,
    is_learning_due,
    records_confirmed,
)

pytestmark = pytest.mark.django_db

WORDINGS = {
    "hardware.network.adapter": "vendor adapter frobnicator {} jammed on lane",
    "user.data.invalid": "shard {} of corpus has a bent header and was thrown away",
    "platform.storage.outage": "blockhouse volume {} went dark",
}


@pytest.fixture
def boss():
    return make_user("boss", "engineer")


def judged(by, category, text, *, machine="unknown", state=Incident.State.CORRECTED):
    incident = make_incident(category=machine, standing_category=category, state=state)
    Finding.objects.create(incident=incident, position=0, role="root", template=text, count=1)
    Finding.objects.create(incident=incident, position=1, role="cascade", template="Watchdog caught a timeout", count=9)
    Decision.objects.create(
        incident=incident, claim="category", word="correct", value=category, diagnosis=incident.diagnosis, made_by=by
    )
    return incident


def teach(by, each=8):
    for n in range(each):
        for category, wording in WORDINGS.items():
            judged(by, category, wording.format(f"part{chr(97 + n)}"))


@pytest.fixture
def quick(monkeypatch):
    """The decision of an admission without its minutes of training; what admits is tested with the engine."""

    def admit(records, rules):
        model = replace(classify_model.starter(), confirmed=len(records))
        is_admitted = len(records) >= 5
        good, bad = (Scores(len(records), leaf, leaf, 0.0) for leaf in (0.9, 0.6))
        reason = "The model is admitted." if is_admitted else "More incidents are needed."
        return Admission(model, is_admitted, good, bad, reason)

    monkeypatch.setattr(classify_training, "admit", admit)


def test_only_judged_incidents_teach_and_only_by_their_roots(boss):
    judged(boss, "user.data.invalid", "a bent header")
    judged(boss, "user.data.invalid", "not judged", state=Incident.State.AWAITING_REVIEW)
    make_incident(state=Incident.State.CONFIRMED)
    (record,) = records_confirmed()
    assert record.templates == ("a bent header",)
    assert (record.category, record.was_right) == ("user.data.invalid", False)


def test_an_undone_decision_teaches_nothing(boss):
    incident = judged(boss, "user.data.invalid", "a bent header")
    incident.decisions.update(undone_at=incident.opened_at)
    assert records_confirmed() == []


def test_a_model_that_is_admitted_is_put_in_force(boss, quick):
    teach(boss)
    version = classifier_train(by=boss)
    assert version.measured["with_model"] > version.measured["rules_alone"]
    assert version.is_active
    assert classifier_in_force().confirmed == 24
    assert Activity.objects.filter(kind="classifier_trained").count() == 1


def test_too_few_incidents_make_a_version_that_is_not_used(boss, quick):
    judged(boss, "user.data.invalid", "a bent header")
    version = classifier_train()
    assert not version.is_active
    assert "are needed" in version.note
    assert classifier_in_force() is None


def test_rolling_back_puts_an_older_version_or_the_engines_own_in_force(boss, quick, capsys):
    teach(boss)
    first = classifier_train()
    second = classifier_train()
    assert ClassifierVersion.objects.get(is_active=True) == second
    call_command("train_classifier", activate=str(first.pk))
    assert ClassifierVersion.objects.get(is_active=True) == first
    call_command("train_classifier", activate="0")
    assert not ClassifierVersion.objects.filter(is_active=True).exists()
    call_command("train_classifier", list=True)
    assert str(second.pk) in capsys.readouterr().out
    with pytest.raises(CommandError, match="no version"):
        call_command("train_classifier", activate="nonsense")


def test_a_model_of_another_format_is_left_out_and_reported(caplog):
    version = ClassifierVersion.objects.create(weights={"format": -1})
    classifier_activate(version=version)
    assert classifier_in_force() is None
    assert "is ignored" in caplog.text


def test_learning_is_due_after_enough_new_reviews(boss, quick, settings):
    settings.RETRAIN_AFTER = 3
    for n in range(2):
        judged(boss, "user.data.invalid", f"header {n}")
    assert not is_learning_due()
    judged(boss, "user.data.invalid", "header x")
    assert is_learning_due()
    classifier_train()
    assert not is_learning_due()
    settings.RETRAIN_AFTER = 0
    assert not is_learning_due()


def test_incidents_that_nobody_judged_here_ask_for_no_training(boss, settings):
    settings.RETRAIN_AFTER = 3
    for _ in range(4):
        make_incident(state=Incident.State.RESOLVED)
    assert not is_learning_due()


def test_the_review_that_makes_learning_due_starts_it(boss, quick, settings, django_capture_on_commit_callbacks):
    from triage.services.reviewing import decision_make

    settings.RETRAIN_AFTER = 1
    incident = make_incident()
    Finding.objects.create(incident=incident, position=0, role="root", template="a bent header", count=1)
    with django_capture_on_commit_callbacks(execute=True):
        decision_make(incident=incident, claim="category", word="confirm", by=boss)
    assert ClassifierVersion.objects.count() == 1
