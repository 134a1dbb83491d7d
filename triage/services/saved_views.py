"""Saved views: created and deleted by their owner."""

from __future__ import annotations

from typing import Any

from django.db import transaction
from django.utils.text import slugify

from triage import search
from triage.models import SavedView
from triage.selectors.saved_views import views_usable_by
from triage.services.reviewing import ReviewError


@transaction.atomic
def saved_view_create(*, name: str, query: str, by: Any, is_shared: bool = False) -> SavedView:
    """Save a search under a name; the same name of the same owner replaces it."""
    name = name.strip()[:120]
    if not slugify(name):
        raise ReviewError("Give the view a name with at least one letter or digit.")
    try:
        search.parse(query)
    except search.SearchError as error:
        raise ReviewError(f"This search cannot be saved: {error}") from error
    existing = SavedView.objects.filter(owner=by, name=name).first()
    if existing:
        existing.query, existing.is_shared = query, is_shared
        existing.save(update_fields=["query", "is_shared"])
        return existing
    usable = views_usable_by(by)
    base, n = slugify(name)[:70], 1
    slug = base
    while usable.filter(slug=slug).exists():
        n += 1
        slug = f"{base}-{n}"
    return SavedView.objects.create(slug=slug, name=name, query=query, is_shared=is_shared, owner=by)


def saved_view_delete(*, slug: str, by: Any) -> bool:
    """Delete a view of this owner; returns whether it existed."""
    return SavedView.objects.filter(slug=slug, owner=by).delete()[0] > 0
