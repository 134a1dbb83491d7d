"""The MCP server: tools over :mod:`triage.assistant.reading`, by stdio for one person or by HTTP for many.

Each call is checked anew: the token must be valid and have the scope ``read``, and its owner sees what the pages show
them. It changes nothing, except with ``allow_comments`` and a token with the scope ``review``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import anyio
from django.conf import settings
from django.db import connections
from mcp.server import MCPServer
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import AccessToken, TokenVerifier
from mcp.server.auth.settings import AuthSettings
from mcp.server.mcpserver.exceptions import ResourceNotFoundError, ToolError
from mcp.server.transport_security import TransportSecuritySettings
from mcp.types import ToolAnnotations
from pydantic import AnyHttpUrl

from ingest.models import Token
from ingest.roles import can
from ingest.services.rates import rate_use
from ingest.services.tokens import token_use
from triage import search
from triage.assistant import reading
from triage.assistant.bounds import UNTRUSTED
from triage.services import reviewing

type Answer = dict[str, Any]

INSTRUCTIONS = f"""Faultline finds out why large training jobs failed. Incidents have a number; quote it with its link.
Confidence is the machine's; “decisions” are what people said. {UNTRUSTED}"""
_READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
_WRITES = ToolAnnotations(read_only_hint=False, destructive_hint=False, open_world_hint=False)


def server_of(*, secret: str = "", auth: AuthSettings | None = None, allow_comments: bool = False) -> MCPServer:
    """The server: for the holder of ``secret``, or with ``auth`` for whoever sends a token with the request."""
    verifier = _Verifier() if auth else None
    server = MCPServer("faultline", instructions=INSTRUCTIONS, auth=auth, token_verifier=verifier, log_level="WARNING")

    async def answer(
        question: Callable[..., Answer], *arguments: Any, scope: str = Token.Scope.READ.value, **more: Any
    ) -> Answer:
        access_token = get_access_token()
        bearer = access_token.token if access_token else secret
        return await anyio.to_thread.run_sync(
            lambda: _answer(bearer, scope, lambda user: question(user, *arguments, **more))
        )

    keys = "; ".join(f"{key.example} ({key.explanation})" for key in search.KEYS)
    about = (
        f"Find incidents, newest first. The query joins terms by AND, with OR, NOT and brackets. Terms: words, {keys}"
    )

    @server.tool(annotations=_READS, description=about)
    async def search_incidents(query: str = "", limit: int = 10, before: int = 0) -> Answer:
        return await answer(reading.find_incidents, query, limit=limit, before=before)

    @server.tool(annotations=_READS)
    async def get_incident(number: int) -> Answer:
        """One incident: what failed, where, how sure, suspects, advice, cost, decisions of people."""
        return await answer(reading.describe_incident, number)

    @server.tool(annotations=_READS)
    async def get_evidence(number: int) -> Answer:
        """The messages that led to the verdict, root causes first, each with file, line and link."""
        return await answer(reading.evidence_of, number)

    @server.tool(annotations=_READS)
    async def read_log(job: str, file: str, attempt: int = 0, line: int = 1, lines: int = 60) -> Answer:
        """At most 120 lines of a file of a job, around a line."""
        return await answer(reading.read_log, job, file, attempt=attempt, line=line, lines=lines)

    @server.tool(annotations=_READS)
    async def grep_log(
        job: str, words: str, file: str = "", attempt: int = 0, is_pattern: bool = False, cursor: str = ""
    ) -> Answer:
        """Lines of a job's logs that contain words (or match a pattern); continue with the answer's cursor."""
        return await answer(
            reading.search_log, job, words, file=file, attempt=attempt, is_pattern=is_pattern, cursor=cursor
        )

    @server.tool(annotations=_READS)
    async def compare_job(job: str, other: str = "") -> Answer:
        """How a job differs from another of its family; without other from the most alike."""
        return await answer(reading.compare_job, job, other)

    @server.tool(annotations=_READS)
    async def get_node(name: str, cluster: str = "") -> Answer:
        """The record of a machine: how often it was accused, of what, in which incidents."""
        return await answer(reading.describe_node, name, cluster)

    @server.tool(annotations=_READS)
    async def similar_incidents(number: int) -> Answer:
        """Incidents like this one, with the reason."""
        return await answer(reading.similar_incidents, number)

    @server.tool(annotations=_READS)
    async def explain_category(category: str) -> Answer:
        """What a category such as hardware.gpu.ecc means, and what to do about it."""
        return await answer(lambda _: reading.describe_category(category))

    async def read(question: Callable[..., Answer], *arguments: Any) -> Answer:
        """A question as a resource: its sentence says that there is none."""
        try:
            return await answer(question, *arguments)
        except ToolError as error:
            raise ResourceNotFoundError(str(error)) from error

    @server.resource("faultline://incident/{number}", mime_type="application/json")
    async def incident(number: int) -> Answer:
        """One incident, as get_incident answers it."""
        return await read(reading.describe_incident, number)

    @server.resource("faultline://incident/{number}/evidence", mime_type="application/json")
    async def evidence(number: int) -> Answer:
        """The messages behind a verdict, as get_evidence answers them."""
        return await read(reading.evidence_of, number)

    @server.resource("faultline://category/{category}", mime_type="application/json")
    async def category(category: str) -> Answer:
        """What a category means."""
        return await read(lambda _: reading.describe_category(category))

    @server.resource("faultline://search-language", mime_type="text/plain")
    async def search_language() -> str:
        """The keys of the search language, with an example each."""
        return "\n".join(f"{key.example}  {key.explanation}" for key in search.KEYS)

    if allow_comments:

        @server.tool(annotations=_WRITES)
        async def comment(number: int, text: str) -> Answer:
            """Write a comment on an incident, in the name of the token's owner. It decides nothing."""
            return await answer(_comment, number, text, scope=Token.Scope.REVIEW.value)

    return server


def http_app(*, allow_comments: bool = False, port: int = 8001) -> Any:
    """The ASGI application at ``/mcp``, without sessions: any process may answer any request."""
    site = AnyHttpUrl(settings.SITE_URL)
    auth = AuthSettings(issuer_url=site, resource_server_url=site, validate_token_resource=False)
    local = [f"127.0.0.1:{port}", f"localhost:{port}"]
    site_origin = settings.SITE_URL.rstrip("/")
    security = TransportSecuritySettings(
        allowed_hosts=[urlsplit(settings.SITE_URL).netloc, *local],
        allowed_origins=[site_origin, *(f"http://{host}" for host in local)],
    )
    server = server_of(auth=auth, allow_comments=allow_comments)
    return server.streamable_http_app(stateless_http=True, json_response=True, transport_security=security)


class _Verifier(TokenVerifier):
    """Accepts the site's API tokens."""

    async def verify_token(self, token: str) -> AccessToken | None:
        token_row = await anyio.to_thread.run_sync(lambda: _closing(lambda: token_use(secret=token)))
        return (
            AccessToken(token=token, client_id=str(token_row.pk), scopes=list(token_row.scopes)) if token_row else None
        )


def _answer(secret: str, scope: str, question: Callable[[Any], Answer]) -> Answer:
    """One question, for the token's owner, in a thread of its own."""

    def answer() -> Answer:
        token = token_use(secret=secret)
        if token is None:
            raise ToolError("The token is not valid: it was mistyped, revoked, or its owner may no longer sign in.")
        needed = "review" if scope == Token.Scope.REVIEW.value else ""
        if scope not in token.scopes or (needed and not can(token.user, needed)):
            raise ToolError(f"This needs a token with the scope “{scope}” of a person whose role allows it.")
        rate = rate_use("API_PER_MINUTE", f"Token:{token.pk}")  # the count of the REST API
        if not rate.is_within:
            raise ToolError(f"This token asked more than {rate.limit:,} times in a minute: wait {rate.reset_s} s.")
        try:
            return question(token.user)
        except reading.InvalidQuestion as error:
            raise ToolError(str(error)) from error

    return _closing(answer)


def _closing[T](call: Callable[[], T]) -> T:
    """Call, and close the thread's connections to the database: nobody knows when the thread is used again."""
    try:
        return call()
    finally:
        connections.close_all()


def _comment(user: Any, number: int, text: str) -> Answer:
    incident = reading._incident(user, number)
    try:
        reviewing.comment_add(incident=incident, body=text, by=user)
    except reviewing.ReviewError as error:
        raise reading.InvalidQuestion(str(error)) from error
    return {"number": number, "is_written": True, "links": reading._links(incident)}
