"""``/api/v1/setup/``: people, teams, clusters, service accounts, tokens and routes, made as a document wants them."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from ingest.api.base import ApiView
from ingest.api.serializers import PROBLEM
from ingest.models import Token
from triage.domain.wanted_setup import setup_of, setup_schema
from triage.services.ensuring import setup_ensure


class EnsuredSerializer(serializers.Serializer[Any]):
    """What became of one entry."""

    kind = serializers.ChoiceField(["cluster", "team", "person", "service", "token", "route"])
    name = serializers.CharField()
    state = serializers.ChoiceField(["created", "changed", "unchanged"])
    changes = serializers.ListField(child=serializers.CharField(), help_text="Names of the fields that were changed")
    note = serializers.CharField(allow_blank=True, help_text="What does not work yet, in a sentence")
    secret = serializers.CharField(
        allow_blank=True, help_text="Password, token or signing secret that was made now: it is shown only here"
    )


class SetupResultSerializer(serializers.Serializer[Any]):
    changed = serializers.BooleanField(help_text="Whether anything was created or changed")
    results = EnsuredSerializer(many=True)


class SetupView(ApiView):
    """The same document as for ``manage.py ensure``, as JSON, without the fields that name files."""

    write_scope = Token.Scope.ADMINISTER.value
    ability = "administer"
    serializer_class = SetupResultSerializer

    @extend_schema(
        operation_id="setup_ensure",
        tags=["setup"],
        summary="Make accounts as a document wants them; the same document again changes nothing",
        request={"application/json": setup_schema()},
        responses={200: SetupResultSerializer, 422: PROBLEM},
    )
    def put(self, request: Request) -> Response:
        found = setup_ensure(setup=setup_of(request.data), by=request.user)
        changed = any(one.state != "unchanged" for one in found)
        return Response(self.get_serializer({"changed": changed, "results": found}).data)
