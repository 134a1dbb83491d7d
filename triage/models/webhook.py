"""Webhooks, and every message that was sent or waits to be sent."""

from __future__ import annotations

import uuid

from django.conf import settings
from django.db import models

from ingest.models import Cluster


class Webhook(models.Model):
    """An address that receives events. It receives no more than its owner may see."""

    name = models.CharField(max_length=120)
    url = models.CharField(max_length=2000)
    events = models.JSONField(default=list)
    #: only events of this cluster; empty: of every cluster that the owner sees
    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, null=True, blank=True, related_name="+")
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="webhooks")
    #: stored in plain text, because every message is signed with it; shown once
    secret = models.CharField(max_length=100)
    #: the former secret, which also signs until ``former_until``
    former_secret = models.CharField(max_length=100, blank=True)
    former_until = models.DateTimeField(null=True, blank=True)
    is_active = models.BooleanField(default=True)
    #: why it was switched off automatically
    problem = models.CharField(max_length=300, blank=True)
    #: failed messages since the last delivered one
    given_up = models.PositiveIntegerField(default=0)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ("-created_at", "-id")

    def __str__(self) -> str:
        return self.name


class Delivery(models.Model):
    """One message to one webhook: written with the event, then sent until it is delivered or fails for good."""

    class State(models.TextChoices):
        WAITING = "waiting", "waiting"
        DELIVERED = "delivered", "delivered"
        GIVEN_UP = "given_up", "given up"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    webhook = models.ForeignKey(Webhook, on_delete=models.CASCADE, related_name="deliveries")
    event = models.CharField(max_length=40)
    #: identifies the message, however often the event is reported: "incident.opened 17"
    subject = models.CharField(max_length=120)
    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, null=True, related_name="+")
    #: the bytes that are signed and sent
    body = models.TextField()
    state = models.CharField(max_length=10, choices=State.choices, default=State.WAITING)
    #: tries since the message was last requested; also the fencing token of the sender
    tries = models.PositiveIntegerField(default=0)
    due_at = models.DateTimeField(null=True, blank=True)
    #: [{"at", "status", "said", "error", "ms"}], the latest last
    attempts = models.JSONField(default=list)
    created_at = models.DateTimeField(auto_now_add=True)
    delivered_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ("-created_at", "-id")
        verbose_name_plural = "deliveries"
        constraints = (models.UniqueConstraint(fields=("webhook", "subject"), name="delivery_subject_once_a_webhook"),)
        indexes = (
            models.Index(fields=("state", "due_at"), name="delivery_state_due"),
            models.Index(fields=("webhook", "-created_at", "-id"), name="delivery_webhook_created"),
        )

    def __str__(self) -> str:
        return f"{self.event} to {self.webhook_id}"
