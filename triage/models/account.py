"""What is kept of people beside their accounts."""

from __future__ import annotations

import hashlib
from datetime import timedelta

from django.conf import settings
from django.db import models
from django.utils import timezone


class InitialPassword(models.Model):
    """A password that Faultline made for a person, who must choose another one at the first sign-in. It is void as soon
    as the account has another password, whoever sets that.
    """

    #: how long it can be used
    VALID_FOR = timedelta(days=7)

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, primary_key=True, related_name="initial_password"
    )
    #: SHA-256 of what the account stores of the password
    digest = models.CharField(max_length=64)
    made_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"of {self.user.get_username()}"

    @staticmethod
    def digest_of(stored: str) -> str:
        return hashlib.sha256(stored.encode()).hexdigest()

    @property
    def is_expired(self) -> bool:
        return timezone.now() > self.made_at + self.VALID_FOR
