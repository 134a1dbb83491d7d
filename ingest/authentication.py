"""API authentication by token: ``Authorization: Bearer fl_…``. People use their session."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext_noop
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from rest_framework.authentication import BaseAuthentication, get_authorization_header
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

from ingest.models import Token
from ingest.services.tokens import token_use

_UNKNOWN = gettext_noop("This token is not valid: it was mistyped, revoked, or its owner may no longer sign in.")


class TokenAuthentication(BaseAuthentication):
    """Accepts ``Bearer`` and ``Token``. ``request.auth`` is the :class:`~ingest.models.Token`."""

    def authenticate(self, request: Request) -> tuple[Any, Token] | None:
        words = get_authorization_header(request).split()
        if not words or words[0].lower() not in (b"bearer", b"token"):
            return None
        token = token_use(secret=words[1].decode("latin-1")) if len(words) == 2 else None
        if token is None:
            raise AuthenticationFailed(_UNKNOWN)
        return token.user, token

    def authenticate_header(self, request: Request) -> str:
        return "Bearer"


class TokenScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    target_class = "ingest.authentication.TokenAuthentication"
    name = "token"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        return {"type": "http", "scheme": "bearer", "description": "An API token, sent as “Bearer fl_…”."}
