"""What a site knows of its own failures: rules of its people, models trained on its confirmed incidents."""

from __future__ import annotations

from django.conf import settings
from django.db import models


class CustomRule(models.Model):
    """A site's own signature: one ``[[signature]]`` table in TOML, tried before the built-in ones."""

    rule_id = models.CharField(max_length=120, unique=True)
    body = models.TextField()
    is_active = models.BooleanField(default=True)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ("rule_id",)

    def __str__(self) -> str:
        return self.rule_id


class ClassifierVersion(models.Model):
    """A trained classifier with its measurements. At most one is active; older ones stay for a rollback."""

    weights = models.JSONField()
    #: {"records": …, "judged": …, "with_model": …, "rules_alone": …, "is_admitted": …}
    measured = models.JSONField(default=dict)
    is_active = models.BooleanField(default=False)
    note = models.CharField(max_length=300, blank=True)
    trained_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ("-trained_at", "-id")
        constraints = (
            models.UniqueConstraint(
                fields=("is_active",), condition=models.Q(is_active=True), name="one_active_classifier"
            ),
        )

    def __str__(self) -> str:
        return f"classifier {self.pk}{' (active)' if self.is_active else ''}"
