"""Accounts of people: sign-in, passwords, the second step. allauth does the work; here stands what is ours of it."""

from __future__ import annotations

from typing import Any

from allauth.account import forms
from allauth.account.adapter import DefaultAccountAdapter
from allauth.mfa.adapter import DefaultMFAAdapter
from django import forms as django_forms
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse

from ingest.services import tokens_revoke


class AccountAdapter(DefaultAccountAdapter):  # type: ignore[misc]  # allauth ships no types
    """Nobody makes an account by a form. Letters lead to the site's own address, whatever host a request named."""

    error_messages = {  # noqa: RUF012  # as allauth has it
        **DefaultAccountAdapter.error_messages,
        "username_password_mismatch": "User name or password is wrong. Check both; capitals matter.",
        "too_many_login_attempts": "Too many attempts for this account or from your address. Wait five minutes.",
        "enter_current_password": "This is not your password of now.",
        "incorrect_password": "This is not your password.",
        "rate_limited": "Too many attempts. Wait five minutes.",
    }

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        return False

    def get_reset_password_from_key_url(self, key: str) -> str:
        uid, _, rest = key.partition("-")
        return settings.SITE_URL.rstrip("/") + reverse("account_reset_password_from_key", args=[uid, rest])

    def get_password_change_redirect_url(self, request: HttpRequest) -> str:
        return reverse("account_change_password")

    def format_email_subject(self, subject: str) -> str:
        return f"Faultline: {subject}"


class SecondStepAdapter(DefaultMFAAdapter):  # type: ignore[misc]
    """What an authenticator app shows: the site and the user name."""

    error_messages = {  # noqa: RUF012
        **DefaultMFAAdapter.error_messages,
        "incorrect_code": "This code is wrong or too old. Codes change every 30 seconds: check your phone's clock.",
    }

    def get_totp_label(self, user: Any) -> str:
        return str(user.get_username())

    def get_totp_issuer(self) -> str:
        return f"Faultline {settings.SITE_URL.partition('://')[2].strip('/')}"


class SignIn(forms.LoginForm):  # type: ignore[misc]
    """User name and password, under the names that browsers and scripts know."""

    data: Any

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.is_bound and "username" in self.data:
            self.data = self.data.copy()
            self.data["login"] = self.data["username"]


class _Revoking(django_forms.Form):
    """Whoever changes a password because it leaked wants keys gone too; whoever does so by habit does not."""

    revoke_tokens = django_forms.BooleanField(required=False)
    user: Any

    def save(self) -> None:
        super().save()  # type: ignore[misc]
        self.revoked = tokens_revoke(user=self.user) if self.cleaned_data["revoke_tokens"] else 0


class ChangePassword(_Revoking, forms.ChangePasswordForm):  # type: ignore[misc]
    """The old password, the new one twice, and whether tokens go too."""


class NewPassword(_Revoking, forms.ResetPasswordKeyForm):  # type: ignore[misc]
    """The same by a link from a letter."""


class ResetPassword(forms.ResetPasswordForm):  # type: ignore[misc]
    """Letters go to people who have a password here: those of a sign-in provider change theirs there."""

    users: list[Any]

    def clean_email(self) -> str:
        email: str = super().clean_email()
        self.users = [user for user in self.users if user.has_usable_password()]
        return email


def no_password(request: HttpRequest) -> HttpResponse:
    """For people who sign in by a provider: their password is not kept here."""
    where = settings.OIDC_NAME if settings.OIDC_ISSUER else "whoever runs this site"
    context = {"code": 409, "title": "There is no password here", "link": reverse("queue"), "label": "Go to the queue"}
    context["said"] = f"You sign in by {where}: change your password there."
    return render(request, "triage/error.html", context, status=409)


def too_often(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """429: more attempts than a person makes."""
    said = "Too many attempts from your address. Wait five minutes, then try again."
    return render(request, "triage/error.html", {"code": 429, "title": "Too many attempts", "said": said}, status=429)
