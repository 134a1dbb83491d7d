"""Accounts of people: sign-in, passwords, second factor. allauth does the work; this is our part."""

from __future__ import annotations

from typing import Any

from allauth.account import forms
from allauth.account.adapter import DefaultAccountAdapter
from allauth.mfa.adapter import DefaultMFAAdapter, get_adapter
from allauth.mfa.base.views import IndexView
from django import forms as django_forms
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse

from ingest.roles import role_names
from ingest.services import tokens_revoke
from triage.models import InitialPassword
from triage.sealing import seal, unseal
from triage.services.initial_passwords import initial_password_of
from triage.services.sessions import session_begin

#: in a session: its person has a second step; has the password that Faultline made
_HAS_STEP, _HAS_INITIAL = "has_second_step", "has_initial_password"


class AccountAdapter(DefaultAccountAdapter):  # type: ignore[misc]  # allauth ships no types
    """Nobody can create an account by a form. Links in e-mails use the site's own address, not the request's host."""

    error_messages = {  # noqa: RUF012  # as allauth has it
        **DefaultAccountAdapter.error_messages,
        "username_password_mismatch": "User name or password is wrong. Check both, also upper and lower case.",
        "too_many_login_attempts": "Too many attempts for this account or from your address. Wait five minutes.",
        "enter_current_password": "This is not your current password.",
        "incorrect_password": "This is not your password.",
        "rate_limited": "Too many attempts. Wait five minutes.",
    }

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        return False

    def get_reset_password_from_key_url(self, key: str) -> str:
        uid, _, rest = key.partition("-")
        return settings.SITE_URL.rstrip("/") + reverse("account_reset_password_from_key", args=[uid, rest])

    def pre_login(self, request: HttpRequest, user: Any, **more: Any) -> HttpResponse | None:
        """Refuse a password that Faultline made long ago, and note a newer one in the session."""
        initial = initial_password_of(user)
        if initial is not None and initial.is_expired:
            return _expired(request)
        if initial is not None:
            request.session[_HAS_INITIAL] = True
        response: HttpResponse | None = super().pre_login(request, user, **more)
        return response

    def get_password_change_redirect_url(self, request: HttpRequest) -> str:
        return "/" if request.session.pop(_HAS_INITIAL, False) else reverse("account_change_password")

    def format_email_subject(self, subject: str) -> str:
        return f"Faultline: {subject}"


class SecondStepAdapter(DefaultMFAAdapter):  # type: ignore[misc]
    """What an authenticator app shows: the site and the user name."""

    error_messages = {  # noqa: RUF012
        **DefaultMFAAdapter.error_messages,
        "cannot_delete_authenticator": "Your account needs the second step: it stays on.",
        "incorrect_code": "This code is wrong or too old. Codes change every 30 seconds: check your phone's clock.",
    }

    def get_totp_label(self, user: Any) -> str:
        return str(user.get_username())

    def get_totp_issuer(self) -> str:
        return f"Faultline {settings.SITE_URL.partition('://')[2].strip('/')}"

    def encrypt(self, text: str) -> str:
        return seal(text)

    def decrypt(self, encrypted_text: str) -> str:
        return unseal(encrypted_text)

    def can_delete_authenticator(self, authenticator: Any) -> bool:
        return not needs_second_step(authenticator.user)


class SecondStepPage(IndexView):  # type: ignore[misc]
    """Whether the second step is on; who needs it cannot switch it off."""

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        is_needed = needs_second_step(self.request.user)
        return {**super().get_context_data(**kwargs), "is_needed": is_needed}


def needs_second_step(user: Any) -> bool:
    """Whether ``FAULTLINE_SECOND_STEP`` asks this person for a second step."""
    if settings.SECOND_STEP == "managers":
        return not role_names(user).isdisjoint(("manager", "admin"))
    return bool(settings.SECOND_STEP == "everybody")


def has_initial_password(request: HttpRequest) -> bool:
    """Whether the signed-in person still has the password that Faultline made. No query for others."""
    if not request.session.get(_HAS_INITIAL) or not request.user.is_authenticated:
        return False
    if initial_password_of(request.user) is None:
        del request.session[_HAS_INITIAL]
        return False
    return True


def lacks_second_step(request: HttpRequest) -> bool:
    """Whether the signed-in person needs a second step and has none. One query, until the session knows that there is
    one. People of a sign-in provider have theirs, or none, there.
    """
    if settings.SECOND_STEP == "nobody" or not request.user.is_authenticated or request.session.get(_HAS_STEP):
        return False
    methods = {one.get("method") for one in request.session.get("account_authentication_methods", [])}
    if "socialaccount" in methods or not needs_second_step(request.user):
        return False
    is_on = bool(get_adapter().is_mfa_enabled(request.user, types=["totp"]))
    if is_on:
        request.session[_HAS_STEP] = True
    return not is_on


class SignIn(forms.LoginForm):  # type: ignore[misc]
    """User name and password, under the names that browsers and scripts know."""

    data: Any

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.is_bound and "username" in self.data:
            self.data = self.data.copy()
            self.data["login"] = self.data["username"]

    def login(self, request: HttpRequest, redirect_url: str | None = None) -> HttpResponse:
        response: HttpResponse = super().login(request, redirect_url)
        if request.user.is_authenticated:
            session_begin(request)  # allauth has set an end of its own
        return response


class _Revoking(django_forms.Form):
    """Optionally revokes API tokens: useful after a leak, unwanted at a routine change of the password."""

    revoke_tokens = django_forms.BooleanField(required=False)
    user: Any

    def clean_password1(self) -> str:
        password: str = self.cleaned_data["password1"]
        if self.user.check_password(password):
            raise django_forms.ValidationError("This is the password that you have: choose another one.")
        return password

    def save(self) -> None:
        super().save()  # type: ignore[misc]
        self.revoked = tokens_revoke(user=self.user) if self.cleaned_data["revoke_tokens"] else 0


class ChangePassword(_Revoking, forms.ChangePasswordForm):  # type: ignore[misc]
    """The old password, the new one twice, and whether to revoke tokens."""


class NewPassword(_Revoking, forms.ResetPasswordKeyForm):  # type: ignore[misc]
    """A new password through the link of an e-mail."""


class ResetPassword(forms.ResetPasswordForm):  # type: ignore[misc]
    """E-mails go only to people with a password here. People of a sign-in provider change their password there."""

    users: list[Any]

    def clean_email(self) -> str:
        email: str = super().clean_email()
        self.users = [user for user in self.users if user.has_usable_password()]
        return email


def _expired(request: HttpRequest) -> HttpResponse:
    days = InitialPassword.VALID_FOR.days
    sentence = (
        f"It was made for you more than {days} days ago, and you have not chosen your own. Ask an administrator to "
        "make a new one (faultline manage ensure, as before)."
    )
    context = {"code": 403, "title": "This password has expired", "sentence": sentence}
    return render(request, "triage/error.html", context, status=403)


def no_password(request: HttpRequest) -> HttpResponse:
    """For people who sign in with a provider: their password is not stored here."""
    where = settings.OIDC_NAME if settings.OIDC_ISSUER else "the operator of this site"
    context = {
        "code": 409,
        "title": "Your password is not stored here",
        "link": reverse("queue"),
        "label": "Go to the queue",
    }
    context["sentence"] = f"You sign in with {where}: change your password there."
    return render(request, "triage/error.html", context, status=409)


def too_often(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """429: too many attempts."""
    sentence = "Too many attempts from your address. Wait five minutes, then try again."
    return render(
        request, "triage/error.html", {"code": 429, "title": "Too many attempts", "sentence": sentence}, status=429
    )
