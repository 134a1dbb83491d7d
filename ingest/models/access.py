"""Who may see and do what. It is here, not in triage, because both layers need it."""

from __future__ import annotations

import hashlib

from django.conf import settings
from django.db import models

#: slug of the cluster with recordings and generated history; users' jobs cannot be in it
DEMONSTRATION = "demonstration"


class Cluster(models.Model):
    """A machine park. A cluster without teams is open to every signed-in user, such as ``default``."""

    slug = models.SlugField(max_length=64, unique=True)
    title = models.CharField(max_length=120, blank=True)
    gpus_per_node = models.PositiveIntegerField(default=8)
    shares_history = models.BooleanField(
        "shares its healthy jobs",
        default=False,
        help_text="Healthy jobs of all clusters that share are compared with each other's, and counted on each other's "
        "pages. Without it a job is compared with those of its own cluster alone.",
    )
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ("slug",)

    def __str__(self) -> str:
        return self.title or self.slug


class Team(models.Model):
    """People who share clusters."""

    slug = models.SlugField(max_length=64, unique=True)
    title = models.CharField(max_length=120, blank=True)
    clusters = models.ManyToManyField(Cluster, related_name="teams", blank=True)
    members = models.ManyToManyField(settings.AUTH_USER_MODEL, related_name="teams", blank=True)
    max_bytes = models.PositiveBigIntegerField(
        "quota in bytes",
        null=True,
        blank=True,
        help_text="Evidence that the jobs of the team may hold. Empty: the limit of the installation "
        "(FAULTLINE_TEAM_MAX_BYTES); 0: any amount.",
    )

    class Meta:
        ordering = ("slug",)

    def __str__(self) -> str:
        return self.title or self.slug


class ServiceAccount(models.Model):
    """The user of a program. Nobody signs in with it. Its tokens stay valid when the people who made them leave."""

    user = models.OneToOneField(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="service_account")
    purpose = models.CharField(max_length=300, blank=True)
    made_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ("user__username",)

    def __str__(self) -> str:
        return self.user.get_username()


class Token(models.Model):
    """An API token. Only its digest is stored; the secret is shown once; the prefix identifies it."""

    class Scope(models.TextChoices):
        UPLOAD = "upload", "Upload"
        READ = "read", "Read"
        REVIEW = "review", "Review"
        MANAGE = "manage", "Manage routes"
        ADMINISTER = "administer", "Administer"

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="api_tokens")
    name = models.CharField(max_length=120)
    prefix = models.CharField(max_length=12, unique=True)
    digest = models.CharField(max_length=64, unique=True)
    scopes = models.JSONField(default=list)
    created_at = models.DateTimeField(auto_now_add=True)
    last_used_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)
    #: the token is invalid from this time on; empty: valid until revoked
    expires_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ("-created_at", "-id")

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix}…)"

    @staticmethod
    def digest_of(secret: str) -> str:
        """SHA-256 is enough: the secret is 256 random bits, no dictionary contains it."""
        return hashlib.sha256(secret.encode()).hexdigest()


class IdempotencyKey(models.Model):
    """The stored answer to a request with a key: the same request again gets the same answer and changes nothing."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    key = models.CharField(max_length=128)
    #: SHA-256 of method, address and body: another request with the same key is refused
    request_digest = models.CharField(max_length=64)
    #: empty until the first request is answered
    status = models.PositiveIntegerField(null=True, blank=True)
    response = models.JSONField(null=True, blank=True)
    created_at = models.DateTimeField(auto_now_add=True, db_index=True)

    class Meta:
        constraints = (models.UniqueConstraint(fields=("user", "key"), name="idempotency_key_once_a_user"),)

    def __str__(self) -> str:
        return self.key
