"""``faultline mcp``: the MCP server for assistants, by stdio or HTTP."""

from __future__ import annotations

import os
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser


class Command(BaseCommand):
    help = "Let an assistant read incidents, evidence and logs over the Model Context Protocol (/help/assistants/)."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--http", metavar="HOST:PORT", help="answer by HTTP at /mcp, by each request's token")
        parser.add_argument("--allow-comments", action="store_true", help="assistants may write comments")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            import uvicorn  # noqa: PLC0415  # both are of the extra “mcp”

            from triage.assistant import mcp_server  # noqa: PLC0415
        except ModuleNotFoundError as error:
            raise CommandError(f"{error.name} is missing: install faultline-triage[mcp].") from error
        if options["http"]:
            host, _, port = str(options["http"]).rpartition(":")
            if not port.isdecimal():
                raise CommandError("Give --http as HOST:PORT, for instance 127.0.0.1:8001.")
            app = mcp_server.http_app(allow_comments=options["allow_comments"], port=int(port))
            uvicorn.run(app, host=host or "127.0.0.1", port=int(port), log_level="warning")
            return
        secret = os.environ.get("FAULTLINE_TOKEN", "")
        if not secret:
            raise CommandError("Put your token with the scope “read” into FAULTLINE_TOKEN.")
        mcp_server.server_of(secret=secret, allow_comments=options["allow_comments"]).run("stdio")
