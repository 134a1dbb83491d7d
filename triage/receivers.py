"""What triage does when something happens elsewhere: receivers of signals, connected when Django is ready.

Only this module connects signals, so that it shows all that follows from a stored row or a finished run.
"""

from __future__ import annotations

import logging
from typing import Any

from allauth.account.signals import password_changed, password_reset
from allauth.mfa.signals import authenticator_added, authenticator_removed
from allauth.usersessions.models import UserSession
from django.apps import apps
from django.contrib.auth.signals import user_logged_in, user_logged_out, user_login_failed
from django.contrib.sessions.models import Session
from django.db.models.signals import post_delete, post_migrate, post_save
from django.dispatch import receiver
from django.http import HttpRequest

from ingest import broker
from ingest.models import Job, Run
from ingest.signals import artifact_ready, job_deleting, run_cancelled, run_failed, swept, tidied, verdict_asked
from triage.models import Activity
from triage.security_log import note
from triage.selectors.verdicts import verdict_of
from triage.services.announcing import activity_announce, evidence_announce, failure_announce
from triage.services.deletion_record import deletion_record
from triage.services.delivering import claims_free, deliveries_tidy, is_due
from triage.services.indexing import search_entries_rename
from triage.services.outbox import routes_wake
from triage.services.ownership import team_follow
from triage.services.retention import old_evidence_condense, old_evidence_remove
from triage.services.role_groups import roles_make
from triage.services.sessions import oldest_sessions_end, session_begin, sessions_tidy

post_migrate.connect(roles_make, sender=apps.get_app_config("triage"), dispatch_uid="triage.roles")


@receiver(artifact_ready, dispatch_uid="triage.diagnose")
def diagnose(run_id: int, job_id: int, revision: int, **_: Any) -> None:
    """Wake a worker for a diagnose run. Without a broker the run stays queued, and a later sweep sends it."""
    if not broker.send("triage.tasks.diagnose", run_id):
        Run.objects.filter(pk=run_id).update(sent_at=None)
    evidence_announce(job_id=job_id, revision=revision)


@receiver(verdict_asked, dispatch_uid="triage.verdict")
def tell_verdict(job: Job, **_: Any) -> dict[str, Any]:
    return verdict_of(job)


@receiver(post_save, sender=Activity, dispatch_uid="triage.routes.activity")
def announce_act(instance: Activity, created: bool, raw: bool = False, **_: Any) -> None:
    if created and not raw:
        activity_announce(instance)


@receiver(post_save, sender=Job, dispatch_uid="triage.team")
def follow_team(instance: Job, created: bool, update_fields: Any = None, **_: Any) -> None:
    if not created and (update_fields is None or "team" in update_fields):
        team_follow(job=instance)


@receiver(post_save, sender=Job, dispatch_uid="triage.name")
def follow_name(instance: Job, created: bool, update_fields: Any = None, **_: Any) -> None:
    if not created and (update_fields is None or "name" in update_fields):
        search_entries_rename(job=instance)


@receiver(job_deleting, dispatch_uid="triage.deleting")
def record_deletion(job: Job, user: Any, reason: str, **_: Any) -> None:
    deletion_record(job=job, user=user, reason=reason)


@receiver(run_failed, dispatch_uid="triage.routes.failed")
def announce_failure(run_id: int, **_: Any) -> None:
    failure_announce(run_id)


@receiver(run_cancelled, dispatch_uid="triage.cancelled")
def record_cancellation(run: Run, user: Any, **_: Any) -> None:
    Activity.objects.create(job_id=run.job_id, kind="run_cancelled", actor=user, data={"run": run.pk, "kind": run.kind})


@receiver(swept, dispatch_uid="triage.routes.due")
def deliver(**_: Any) -> None:
    claims_free()
    if is_due():
        routes_wake()


@receiver(tidied, dispatch_uid="triage.routes.tidy")
def tidy(**_: Any) -> None:
    deliveries_tidy()
    sessions_tidy()
    old_evidence_remove()
    old_evidence_condense()


@receiver(user_logged_in, dispatch_uid="triage.session.begin")
def begin_session(user: Any, request: HttpRequest, **_: Any) -> None:
    oldest_sessions_end(person=user)
    session_begin(request)


@receiver(post_delete, sender=UserSession, dispatch_uid="triage.session.end")
def end_session(instance: UserSession, **_: Any) -> None:
    """Whoever deletes the row, also at ``/admin/``, ends the session."""
    Session.objects.filter(session_key=instance.session_key).delete()


@receiver(user_login_failed, dispatch_uid="triage.security.failed")
def note_failed_sign_in(credentials: dict[str, Any], request: HttpRequest | None = None, **_: Any) -> None:
    note("sign-in failed", request=request, who=str(credentials.get("username", "")), level=logging.WARNING)


def _note_act(act: str) -> Any:
    """A receiver that notes this act of the signal's user."""

    def noted(user: Any = None, request: HttpRequest | None = None, **_: Any) -> None:
        note(act, request=request, who=user.get_username() if user is not None else "")

    return noted


for _signal, _act in (
    (user_logged_in, "signed in"),
    (user_logged_out, "signed out"),
    (password_changed, "password changed"),
    (password_reset, "password set by a link"),
    (authenticator_added, "second step added"),
    (authenticator_removed, "second step removed"),
):
    _signal.connect(_note_act(_act), weak=False, dispatch_uid=f"triage.security.{_act}")
