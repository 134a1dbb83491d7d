"""Passwords that Faultline makes for people, until they choose their own."""

from __future__ import annotations

import secrets
from typing import Any

from django.utils import timezone

from triage.models import InitialPassword


def initial_password_make(*, person: Any) -> str:
    """Set a random password and save the person; returns it, it is stored nowhere in this form."""
    password = secrets.token_urlsafe(12)
    person.set_password(password)
    person.save()
    row = {"digest": InitialPassword.digest_of(person.password), "made_at": timezone.now()}
    InitialPassword.objects.update_or_create(user=person, defaults=row)
    return password


def initial_password_of(person: Any) -> InitialPassword | None:
    """The initial password of a person who has not chosen another one. One query."""
    digest = InitialPassword.digest_of(person.password)
    return InitialPassword.objects.filter(user_id=person.pk, digest=digest).first()
