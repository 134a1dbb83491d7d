"""The conformance suite of the Model Context Protocol against our server: `python -m lab.measure conformance PACKAGE`.

PACKAGE is the directory of `@modelcontextprotocol/conformance` (`npm install @modelcontextprotocol/conformance` makes
`node_modules/@modelcontextprotocol/conformance`). Starts the server over HTTP on an empty database, sets a token on
each request, because the suite sends none, and runs the suite with deno. Most of its scenarios call tools, resources
and prompts of its own example server, which ours does not have: what counts are the others.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from scripts.scratch import scratch_site


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("package", type=Path)
    parser.add_argument("--scenario", default="", help="one scenario, with all that it says")
    args = parser.parse_args()
    with scratch_site():
        return _run(args)


def _run(args: argparse.Namespace) -> int:
    import uvicorn
    from django.contrib.auth import get_user_model

    from ingest.services import token_create
    from triage.assistant import mcp_server
    from triage.serve.children import free_port

    user = get_user_model().objects.create_superuser("measure")
    _, secret = token_create(user=user, name="measure", scopes=["read"])
    port = free_port()
    app = mcp_server.http_app(port=port)

    async def with_token(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            scope = {**scope, "headers": [*scope["headers"], (b"authorization", f"Bearer {secret}".encode())]}
        await app(scope, receive, send)

    server = uvicorn.Server(uvicorn.Config(with_token, host="127.0.0.1", port=port, log_level="error"))
    threading.Thread(target=server.run, daemon=True).start()
    while not server.started:
        time.sleep(0.05)
    deno = Path(sys.executable).with_name("deno")
    more = ["--scenario", args.scenario, "--verbose"] if args.scenario else []
    argv = [str(deno), "run", "-A", "--quiet", str(args.package / "dist" / "index.js"), "server"]
    code = subprocess.run([*argv, "--url", f"http://127.0.0.1:{port}/mcp", *more], check=False).returncode
    server.should_exit = True
    return code


if __name__ == "__main__":
    raise SystemExit(main())
