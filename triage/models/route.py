"""Routes, the messages that were sent or wait to be sent on them, and what they made elsewhere."""

from __future__ import annotations

import uuid

from django.conf import settings
from django.db import models

from ingest.models import Cluster, Node, Team
from triage.models.incident import Incident
from triage.sealing import unseal

#: what a message, and what was made elsewhere, is about: the field that is set, and its id
type About = tuple[str, int]
#: columns of a route that are sealed (``triage.sealing``): ``Route.opened`` reads them
SEALED = ("url", "secret", "former_secret", "inbound_secret")


class Route(models.Model):
    """A destination outside, and which events go to it. It gets no more than its team, else its owner, may see.

    The columns ``SEALED`` are encrypted: whoever has a copy of the database alone cannot post or sign.
    """

    name = models.CharField(max_length=120)
    #: an id of ``triage.destinations.ALL``
    kind = models.CharField(max_length=20, default="webhook")
    #: sealed; empty for e-mail. Of some kinds whoever has it may post, so it is shown shortened
    url = models.TextField(blank=True)
    #: further fields of the kind that are no secrets: channel, project, recipients
    options = models.JSONField(default=dict)
    events = models.JSONField(default=list)
    #: a search; only events of incidents that match go this way. Empty: all
    query = models.CharField(max_length=2000, blank=True)
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, blank=True, related_name="routes"
    )
    #: the team that keeps the route when its owner leaves; its managers may change it
    team = models.ForeignKey(Team, on_delete=models.SET_NULL, null=True, blank=True, related_name="routes")
    #: messages wait from the first to the second time of day in ``zone``; both empty: never
    quiet_from = models.TimeField(null=True, blank=True)
    quiet_until = models.TimeField(null=True, blank=True)
    zone = models.CharField(max_length=64, default="UTC")
    #: sealed: signing secret or token; never shown again
    secret = models.TextField(blank=True)
    #: sealed: the former signing secret, which also signs until ``former_until``
    former_secret = models.TextField(blank=True)
    former_until = models.DateTimeField(null=True, blank=True)
    #: sealed: signs what the destination sends here; never shown again
    inbound_secret = models.TextField(blank=True, default="", db_default="")
    is_active = models.BooleanField(default=True)
    #: why it was switched off automatically
    problem = models.CharField(max_length=300, blank=True)
    #: failed messages since the last delivered one
    given_up = models.PositiveIntegerField(default=0)
    #: one worker at a time sends a route's messages, so that they arrive in order; a dead worker's claim ends then
    claimed_until = models.DateTimeField(null=True, blank=True)
    #: the claim of the worker that sends now: its process (``ingest.processes.process_name``), a slash, a random name;
    #: empty once released
    holder = models.CharField(max_length=250, blank=True, default="", db_default="")
    #: no message is sent before: the receiver failed, or it is quiet
    resume_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ("-created_at", "-id")

    def __str__(self) -> str:
        return self.name

    def opened(self, name: str) -> str:
        """A column of ``SEALED`` in readable form.

        Raises:
            SealBroken: no known secret key opens it.
        """
        return unseal(getattr(self, name))


class Delivery(models.Model):
    """One message on one route: written with the event, then sent until it is delivered or fails for good."""

    class State(models.TextChoices):
        WAITING = "waiting", "waiting"
        DELIVERED = "delivered", "delivered"
        #: while it waited, a later message said more of the same incident
        REPLACED = "replaced", "replaced"
        GIVEN_UP = "given_up", "given up"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    route = models.ForeignKey(Route, on_delete=models.CASCADE, related_name="deliveries")
    event = models.CharField(max_length=40)
    #: identifies the message, however often the event is reported: "incident.opened 17"
    subject = models.CharField(max_length=120)
    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, null=True, related_name="+")
    incident = models.ForeignKey(Incident, on_delete=models.CASCADE, null=True, related_name="+", db_index=False)
    #: of a message for the ticket of a node, which is about no incident alone
    node = models.ForeignKey(Node, on_delete=models.CASCADE, null=True, related_name="+", db_index=False)
    #: the event as JSON; what is sent is made of it
    body = models.TextField()
    state = models.CharField(max_length=10, choices=State.choices, default=State.WAITING)
    #: it waits for the older messages of its route; not a test, one sent again by hand, or one that was refused
    is_in_order = models.BooleanField(default=True)
    #: tries since the message was last requested
    tries = models.PositiveIntegerField(default=0)
    due_at = models.DateTimeField(null=True, blank=True)
    #: it may have arrived more than once: whoever sent it ended, or lost the route, before the answer was recorded
    is_repeated = models.BooleanField(default=False, db_default=False)
    #: [{"at", "status", "said", "error", "ms"}], the latest last
    attempts = models.JSONField(default=list)
    created_at = models.DateTimeField(auto_now_add=True)
    delivered_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ("-created_at", "-id")
        verbose_name_plural = "deliveries"
        constraints = (models.UniqueConstraint(fields=("route", "subject"), name="delivery_subject_once_a_route"),)
        indexes = (
            # few messages wait, and a month of delivered ones is kept
            models.Index(
                fields=("route", "is_in_order", "created_at", "id"),
                condition=models.Q(state="waiting"),
                name="delivery_waiting",
            ),
            models.Index(fields=("is_repeated",), condition=models.Q(is_repeated=True), name="delivery_repeated"),
            models.Index(fields=("route", "-created_at", "-id"), name="delivery_route_created"),
            models.Index(fields=("route", "incident"), name="delivery_route_incident"),
            models.Index(fields=("node", "route"), condition=models.Q(node__isnull=False), name="delivery_node_route"),
        )

    def __str__(self) -> str:
        return f"{self.event} to {self.route_id}"

    @property
    def about(self) -> About | None:
        return about_of(self)


class Reference(models.Model):
    """What a route made of an incident or a node elsewhere: the message to update, the ticket to comment on."""

    route = models.ForeignKey(Route, on_delete=models.CASCADE, related_name="references")
    incident = models.ForeignKey(Incident, on_delete=models.CASCADE, null=True, related_name="references")
    node = models.ForeignKey(Node, on_delete=models.CASCADE, null=True, related_name="references")
    #: what the destination's ``read`` returned: {"channel", "ts"}, {"number"}
    data = models.JSONField(default=dict)
    #: where a person opens it, and its name and state there
    url = models.CharField(max_length=2000, blank=True)
    title = models.CharField(max_length=120, blank=True)
    state = models.CharField(max_length=40, blank=True)
    #: {"at", "ids"}: the latest events that came from there, so that a repeated or late one does nothing
    heard = models.JSONField(null=True, blank=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ("route", "pk")
        constraints = (
            models.UniqueConstraint(fields=("route", "incident"), name="reference_once_a_route"),
            models.UniqueConstraint(fields=("route", "node"), name="reference_of_node_once_a_route"),
            models.CheckConstraint(
                condition=models.Q(incident__isnull=True) ^ models.Q(node__isnull=True),
                name="reference_is_about_one",
            ),
        )

    def __str__(self) -> str:
        return self.title or f"{self.about} on {self.route_id}"

    @property
    def about(self) -> About | None:
        return about_of(self)


def about_of(row: Delivery | Reference) -> About | None:
    """What the row is about; None for a message about a job or a route."""
    if row.incident_id is not None:
        return "incident", row.incident_id
    return ("node", row.node_id) if row.node_id is not None else None
