"""Decisions of people on the machine's claims. Nothing is overwritten: an act is only followed by further acts."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from django.contrib.auth.models import AbstractBaseUser
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from diagnosis import taxonomy
from diagnosis.model import STAGES
from ingest.locks import lock_rows
from ingest.selectors import people_who_see
from triage.domain import standing
from triage.domain.unseen import unseen_decision
from triage.models import Activity, Decision, Incident, Route
from triage.services.announcing import activities_announce
from triage.services.indexing import search_entries_remark
from triage.services.learning import learning_consider
from triage.services.repeats import act_repeated, is_same_time

MAX_REASON = 2000
MAX_COMMENT = 20_000


class ReviewError(ValueError):
    """An act that cannot be done; the message says why and what to do."""


@transaction.atomic
def decision_make(
    *,
    incident: Incident,
    claim: str,
    word: str,
    by: Any,
    subject: str = "",
    value: str = "",
    reason: str = "",
    request_id: uuid.UUID | None = None,
    seen: int | None = None,
) -> Decision:
    """Record one decision on one claim; the incident's state follows the category claim. ``seen``:
    as of :func:`triage.domain.unseen.unseen_decision`.

    The same decision again, by the same person, writes nothing while it stands: the standing one is returned, with
    ``is_repeat`` set.

    Raises:
        ReviewError: unknown claim, word or value, a correction that repeats the machine, or another
            person's decision that this one would replace unseen.
    """
    incident = _lock(incident)
    machine_value = _machine_value(incident, claim, subject)
    value = checked_value(claim=claim, word=word, value=value.strip(), machine_value=machine_value)
    before = standing.latest_by_claim(incident.decisions.all()).get((claim, subject))
    decision = Decision(
        incident=incident,
        claim=claim,
        subject=subject,
        word=word,
        machine_value=machine_value,
        value=value,
        reason=reason.strip()[:MAX_REASON],
        diagnosis_id=incident.diagnosis_id,
        made_by=by,
    )
    if before is not None and not is_news(decision, before):
        before.is_repeat = True
        return before
    if conflict := unseen_decision(before, decision, seen):
        raise ReviewError(conflict)
    decision.save()
    _update_standing(incident, decision, now=decision.made_at)
    log_act(
        incident,
        "decided",
        by,
        request_id=request_id,
        claim=claim,
        subject=subject,
        word=word,
        before=before.value if before else machine_value,
        after=value,
        reason=decision.reason,
        decision=decision.pk,
    )
    if claim == Decision.Claim.CATEGORY:
        transaction.on_commit(learning_consider)
    return decision


@transaction.atomic
def incident_confirm(
    *,
    incident: Incident,
    suspect: str,
    by: Any,
    reason: str = "",
    request_id: uuid.UUID | None = None,
    seen: int | None = None,
) -> Decision:
    """Confirm the category and one suspect in one act, which is undone as one. Returns the decision on the category.

    Raises:
        ReviewError: the machine named no category, or does not accuse ``suspect``.
    """
    request_id = request_id or uuid.uuid4()
    if not incident.suspects.filter(entity=suspect, is_accused=True).exists():
        raise ReviewError(f"{suspect} is not accused here: confirm the category alone, or name the right suspect.")
    common: dict[str, Any] = {"incident": incident, "word": Decision.Word.CONFIRM, "by": by, "request_id": request_id}
    common["seen"] = seen
    decision = decision_make(claim=Decision.Claim.CATEGORY, reason=reason, **common)
    on_suspect = decision_make(claim=Decision.Claim.SUSPECT, subject=suspect, **common)
    decision.is_repeat = decision.is_repeat and on_suspect.is_repeat
    return decision


@transaction.atomic
def decision_undo(*, decision: Decision, by: Any, request_id: uuid.UUID | None = None) -> Decision:
    """Undo a decision by a further act; the earlier decision counts again. Undoing twice is refused."""
    incident = _lock(decision.incident)
    now = timezone.now()
    claimed = Decision.objects.filter(pk=decision.pk, undone_at=None).update(undone_at=now, undone_by=by)
    if claimed != 1:
        raise ReviewError("This decision was already undone.")
    decision.refresh_from_db()
    _update_standing(incident, decision, now=now)
    log_act(
        incident,
        "undone",
        by,
        request_id=request_id,
        claim=decision.claim,
        subject=decision.subject,
        word=decision.word,
        before=decision.value,
        after=standing.category_of(incident.category, incident.decisions.all())
        if decision.claim == Decision.Claim.CATEGORY
        else "",
        decision=decision.pk,
    )
    return decision


@transaction.atomic
def incident_act(
    *,
    incident: Incident,
    act: str,
    by: Any,
    reason: str = "",
    until: datetime | None = None,
    request_id: uuid.UUID | None = None,
    heard_from: Route | None = None,
    who: str = "",
) -> Incident:
    """``actioned``, ``resolved``, ``reopened``, ``snoozed`` (until a time) or ``woken``.

    The same act again within seconds writes nothing; ``repeats`` of the answer is the former one's id.
    ``heard_from``: the route from whose destination it came, which gets no message about it; ``who`` did it there.
    """
    incident, reason = _lock(incident), reason.strip()[:MAX_REASON]
    before, resolved_at = incident.state, incident.resolved_at
    slept_until = incident.snoozed_until
    if act in standing.LATER_STATES:
        if before == Incident.State.AWAITING_REVIEW:
            raise ReviewError("Say first what it was: confirm, correct or reject the category.")
        incident.state = act
        incident.set_resolved(timezone.now() if act == Incident.State.RESOLVED else None)
    elif act == "reopened":
        incident.state = standing.state_of(incident.decisions.all())
        incident.set_resolved(None)
    elif act == "snoozed":
        if until is None or until <= timezone.now():
            raise ReviewError("Give a time in the future to snooze until.")
        incident.snoozed_until = until
    elif act == "woken":
        incident.snoozed_until = None
    else:
        raise ReviewError(f"There is no act {act!r}: use actioned, resolved, reopened, snoozed or woken.")
    is_same_state = incident.state == before and is_same_time(incident.snoozed_until, slept_until)
    if is_same_state and (former := act_repeated(incident, act, by, reason=reason)):
        incident = _lock(incident)
        incident.repeats = former
        return incident
    incident.save(update_fields=["state", "resolved_at", "repaired_s", "snoozed_until"])
    data: dict[str, Any] = {"before": before, "after": incident.state}
    if act in ("snoozed", "woken"):
        data = {"before": _iso(slept_until), "after": _iso(incident.snoozed_until)}
    elif resolved_at:
        data["resolved_at"] = _iso(resolved_at)
    if heard_from is not None:
        data |= {"heard_from": heard_from.pk, "who": who}
    log_act(incident, act, by, request_id=request_id, reason=reason, **data)
    return incident


@transaction.atomic
def incident_assign(
    *, incident: Incident, assignee: AbstractBaseUser | None, by: Any, request_id: uuid.UUID | None = None
) -> Incident:
    """Assign the incident to a person who may see it, or to nobody. Raises ReviewError for anybody else. ``repeats`` of
    the answer is the id of the same act a moment ago; then nothing is written.
    """
    incident = _lock(incident)
    require_access(assignee, [incident])
    before, name = incident.assignee, assignee.get_username() if assignee else ""
    incident.repeats = act_repeated(incident, "assigned", by, after=name)
    if incident.repeats:
        return incident
    incident.assignee = assignee  # type: ignore[assignment]
    incident.save(update_fields=["assignee"])
    log_act(
        incident,
        "assigned",
        by,
        request_id=request_id,
        before=before.get_username() if before else "",
        after=name,
    )
    return incident


@transaction.atomic
def comment_add(*, incident: Incident, body: str, by: Any) -> None:
    """Add a comment in Markdown. The same one again within seconds writes nothing."""
    incident, body = _lock(incident), body.strip()
    if not body:
        raise ReviewError("The comment is empty: write something first.")
    if len(body) > MAX_COMMENT:
        raise ReviewError(f"The comment has {len(body):,} characters; at most {MAX_COMMENT:,} are kept.")
    if not act_repeated(incident, "commented", by, body=body):
        log_act(incident, "commented", by, body=body)


def is_news(decision: Decision, before: Decision | None) -> bool:
    return before is None or not standing.says_the_same(decision, before)


def unknown_person(name: str) -> ReviewError:
    """One sentence for unknown names and for people without access: it must not reveal who has an account."""
    return ReviewError(f"Nobody called {name[:80]} may see this: check the spelling, or ask who is in its teams.")


def require_access(person: AbstractBaseUser | None, incidents: Iterable[Incident]) -> None:
    if person is None:
        return
    if not people_who_see(incident.cluster_id for incident in incidents).filter(pk=person.pk).exists():
        raise unknown_person(person.get_username())


def lock_incidents(incidents: Iterable[Incident]) -> QuerySet[Incident]:
    """The same incidents with current values, locked until the transaction ends."""
    return lock_rows(Incident.objects.filter(pk__in=[row.pk for row in incidents]))


def _iso(moment: datetime | None) -> str:
    return moment.isoformat() if moment else ""


def _lock(incident: Incident) -> Incident:
    return lock_rows(Incident.objects.select_related("assignee")).get(pk=incident.pk)


def _machine_value(incident: Incident, claim: str, subject: str) -> str:
    if claim == Decision.Claim.CATEGORY:
        return incident.category
    if claim == Decision.Claim.STAGE:
        return incident.stage
    if claim == Decision.Claim.ITERATION:
        return "" if incident.iteration is None else str(incident.iteration)
    if claim == Decision.Claim.SUSPECT:
        if not subject:
            raise ReviewError("Name the suspect that you mean.")
        return subject if incident.suspects.filter(entity=subject).exists() else ""
    raise ReviewError(f"There is no claim {claim!r}: use category, suspect, stage or iteration.")


def checked_value(*, claim: str, word: str, value: str, machine_value: str) -> str:
    if word not in Decision.Word.values:
        raise ReviewError(f"There is no word {word!r}: use confirm, correct, reject or inconclusive.")
    if claim == Decision.Claim.CATEGORY and word == Decision.Word.CONFIRM and machine_value == taxonomy.UNKNOWN:
        raise ReviewError("The machine named no category: correct it, or judge it inconclusive.")
    if word != Decision.Word.CORRECT:
        return machine_value if word == Decision.Word.CONFIRM and machine_value else value
    if not value:
        raise ReviewError("A correction needs the right value.")
    if value == machine_value:
        raise ReviewError(f"{value} is what the machine says: confirm it instead.")
    if claim == Decision.Claim.CATEGORY and value not in taxonomy.load():
        raise ReviewError(f"There is no category {value!r}: choose one of the list.")
    if claim == Decision.Claim.STAGE and value not in STAGES:
        raise ReviewError(f"There is no stage {value!r}: use {', '.join(STAGES)}.")
    if claim == Decision.Claim.ITERATION and not (value.isascii() and value.isdigit()):
        raise ReviewError(f"{value!r} is not an iteration: use a whole number.")
    return value[:200]


def _update_standing(incident: Incident, decision: Decision, *, now: datetime) -> None:
    """Update the standing columns after a decision or its undoing. One on a suspect neither reviews nor reopens."""
    decisions = list(incident.decisions.all())
    if decision.claim == Decision.Claim.SUSPECT:
        word = standing.suspect_words(decisions).get(decision.subject, "")
        incident.suspects.filter(entity=decision.subject).update(word=word)
    if decision.claim != Decision.Claim.CATEGORY:
        return
    set_standing(incident, decisions, now)
    incident.save(update_fields=STANDING_FIELDS)


STANDING_FIELDS = ("state", "standing_category", "reviewed_at", "resolved_at", "repaired_s")


def set_standing(incident: Incident, decisions: list[Decision], now: datetime) -> None:
    """Set the columns ``STANDING_FIELDS`` as these decisions determine them, without saving."""
    incident.state = standing.state_of(decisions)
    incident.standing_category = standing.category_of(incident.category, decisions)
    incident.reviewed_at = None if incident.state == Incident.State.AWAITING_REVIEW else now
    incident.set_resolved(None)


def log_act(incident: Incident, kind: str, by: Any, *, request_id: uuid.UUID | None = None, **data: Any) -> None:
    """Write one row of the incident's log, without empty values."""
    act = act_row(incident, kind, by, request_id or uuid.uuid4(), data)
    act.save()
    _words_index([act])


def act_row(incident: Incident, kind: str, by: Any, request_id: uuid.UUID, data: dict[str, Any]) -> Activity:
    """A row for :func:`acts_log`, not saved yet, without empty values."""
    stored = {key: value for key, value in data.items() if value not in ("", None)}
    return Activity(incident=incident, job_id=incident.job_id, kind=kind, actor=by, request_id=request_id, data=stored)


def acts_log(acts: list[Activity]) -> None:
    """Save many rows at once, and announce each of them to routes."""
    activities_announce(Activity.objects.bulk_create(acts))
    _words_index(acts)


def _words_index(acts: Iterable[Activity]) -> None:
    """What people wrote can be searched at once."""
    written = [act for act in acts if act.data.get("body") or act.data.get("reason")]
    incidents = {act.incident_id for act in written if act.incident_id}
    if incidents:
        search_entries_remark(incidents)
