"""``/api/v1/me/``: the caller of a token, and its revocation."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from ingest import selectors, services
from ingest.api.base import ApiView
from ingest.api.serializers import ProblemSerializer
from ingest.models import Token
from ingest.refusals import Refused
from ingest.roles import role_names


class TokenSerializer(serializers.ModelSerializer[Token]):
    scopes = serializers.ListField(child=serializers.ChoiceField(choices=Token.Scope.choices), read_only=True)

    class Meta:
        model = Token
        fields = ("name", "prefix", "scopes", "created_at", "expires_at")
        read_only_fields = fields


class MeSerializer(serializers.Serializer[Any]):
    """The caller and their abilities."""

    username = serializers.CharField()
    roles = serializers.ListField(child=serializers.CharField())
    clusters = serializers.ListField(
        child=serializers.CharField(), help_text="Slugs of the clusters that the caller may see"
    )
    token = TokenSerializer(allow_null=True, help_text="null for a browser's session")


class MeView(ApiView):
    serializer_class = MeSerializer
    read_scope = None

    @extend_schema(operation_id="me_read", tags=["me"], summary="The caller: roles, clusters and token")
    def get(self, request: Request) -> Response:
        clusters = selectors.clusters_visible_to(request.user).order_by("slug").values_list("slug", flat=True)
        answer = {
            "username": request.user.get_username(),
            "roles": sorted(role_names(request.user)),
            "clusters": list(clusters),
            "token": request.auth if isinstance(request.auth, Token) else None,
        }
        return Response(self.get_serializer(answer).data)


class MeTokenView(ApiView):
    serializer_class = None
    write_scope = None

    @extend_schema(
        operation_id="me_token_revoke",
        tags=["me"],
        summary="Revoke the token of this request",
        responses={
            204: None,
            409: OpenApiResponse(ProblemSerializer, description="The request has no token"),
        },
    )
    def delete(self, request: Request) -> Response:
        if not isinstance(request.auth, Token):
            raise Refused("This request has no token: revoke yours on the page API tokens.", status=409)
        services.token_revoke(token=request.auth)
        return Response(status=204)
