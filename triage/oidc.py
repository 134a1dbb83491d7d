"""Sign-in with OpenID Connect. Loaded only if settings name a provider; allauth implements the protocol."""

from __future__ import annotations

from typing import Any, NoReturn

from allauth.core.exceptions import ImmediateHttpResponse
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from allauth.socialaccount.providers.base import AuthError
from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest
from django.shortcuts import redirect
from django.urls import URLPattern, URLResolver, include, path

from triage.services.membership import membership_sync, roles_for

_FAILED = (
    "Sign-in did not work: the provider refused it, or the attempt was too old. Try again, or sign in with a password."
)


class Adapter(DefaultSocialAccountAdapter):  # type: ignore[misc]  # allauth ships no types
    """Maps groups to roles and teams at sign-in; shows refusals as sentences on the sign-in page."""

    def is_open_for_signup(self, request: HttpRequest, sociallogin: Any) -> bool:
        return True  # the provider creates people

    def pre_social_login(self, request: HttpRequest, sociallogin: Any) -> None:
        user, groups = sociallogin.user, groups_of(sociallogin.account.extra_data)
        if user.pk and not user.is_active:
            _refuse(request, "Your account is disabled: ask an administrator.")
        has_role = roles_for(groups, roles=settings.OIDC_ROLES, default=settings.OIDC_DEFAULT_ROLE)
        if not has_role and (not user.pk or settings.OIDC_ROLES):
            if user.pk:
                _sync(user, groups)  # their tokens must lose the removed roles, too
            _refuse(request, "None of your groups has a role here: ask an administrator.")
        if user.pk:
            _sync(user, groups)

    def save_user(self, request: HttpRequest, sociallogin: Any, form: Any = None) -> Any:
        user = super().save_user(request, sociallogin, form)
        _sync(user, groups_of(sociallogin.account.extra_data))
        return user

    def on_authentication_error(self, request: HttpRequest, provider: Any, error: Any = None, **_: Any) -> None:
        _refuse(request, "Sign-in was cancelled." if error == AuthError.CANCELLED else _FAILED)


def groups_of(data: dict[str, Any]) -> list[str]:
    """The groups that the provider states, in user information or token. A single one may be a text."""
    for part in (data.get("userinfo"), data.get("id_token"), data):
        if isinstance(part, dict) and settings.OIDC_GROUPS_CLAIM in part:
            found = part[settings.OIDC_GROUPS_CLAIM]
            return [found] if isinstance(found, str) else [str(name) for name in found or []]
    return []


def _sync(user: Any, groups: list[str]) -> None:
    membership_sync(
        user=user,
        groups=groups,
        roles=settings.OIDC_ROLES,
        teams=settings.OIDC_TEAMS,
        default=settings.OIDC_DEFAULT_ROLE,
    )


def _refuse(request: HttpRequest, sentence: str) -> NoReturn:
    messages.error(request, sentence)
    raise ImmediateHttpResponse(redirect("account_login"))


urlpatterns: list[URLPattern | URLResolver] = [
    path("sign-in/", include("allauth.socialaccount.providers.openid_connect.urls")),
]
