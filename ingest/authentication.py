"""API authentication by token: ``Authorization: Bearer fl_…``. People use their session."""

from __future__ import annotations

import base64
import binascii
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


class CollectorAuthentication(TokenAuthentication):
    """Accepts also HTTP Basic with the token as password: some collectors can send nothing else."""

    def authenticate(self, request: Request) -> tuple[Any, Token] | None:
        words = get_authorization_header(request).split()
        if len(words) != 2 or words[0].lower() != b"basic":
            return super().authenticate(request)
        try:
            secret = base64.b64decode(words[1], validate=True).decode("latin-1").partition(":")[2]
        except binascii.Error:
            secret = ""
        token = token_use(secret=secret)
        if token is None:
            raise AuthenticationFailed(_UNKNOWN)
        return token.user, token


class CollectorScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    target_class = "ingest.authentication.CollectorAuthentication"
    name = ["collectorToken", "tokenAsPassword"]  # noqa: RUF012  # the type that drf-spectacular states

    def get_security_definition(self, auto_schema: Any) -> list[dict[str, str]]:
        bearer = {"type": "http", "scheme": "bearer", "description": "An API token, sent as “Bearer fl_…”."}
        return [bearer, {"type": "http", "scheme": "basic", "description": "Any user name, the token as password."}]

    def get_security_requirement(self, auto_schema: Any) -> list[dict[str, list[Any]]]:
        return [{name: []} for name in self.name]  # one of them


class TokenScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    target_class = "ingest.authentication.TokenAuthentication"
    name = "token"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        return {"type": "http", "scheme": "bearer", "description": "An API token, sent as “Bearer fl_…”."}
