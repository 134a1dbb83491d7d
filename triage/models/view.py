"""Saved searches for incidents."""

from __future__ import annotations

from django.conf import settings
from django.db import models


class SavedView(models.Model):
    """A named query, private or shared with the owner's teams; ``?filter=slug`` works in pages and API."""

    slug = models.SlugField(max_length=80)
    name = models.CharField(max_length=120)
    query = models.TextField(blank=True)
    is_shared = models.BooleanField(default=False)
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="saved_views")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ("name",)
        # unique per owner, not overall: a refused name must not reveal another person's view
        constraints = (models.UniqueConstraint(fields=("owner", "slug"), name="saved_view_slug_once_an_owner"),)

    def __str__(self) -> str:
        return self.name
