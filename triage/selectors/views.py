"""Saved views that a person may use."""

from __future__ import annotations

from typing import Any

from django.db.models import Q

from triage.models import SavedView


def saved_views(user: Any) -> list[SavedView]:
    """The user's own and the shared ones, by name."""
    return list(SavedView.objects.filter(Q(owner=user) | Q(is_shared=True)).select_related("owner")[:100])


def saved_view_query(user: Any, slug: str) -> str | None:
    """The query text behind ``?filter=slug``, or None where there is none for this user."""
    view = SavedView.objects.filter(Q(owner=user) | Q(is_shared=True), slug=slug).first()
    return view.query if view else None
