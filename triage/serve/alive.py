"""``faultline alive PART``: whether a part of this machine works, for the health checks of containers.

It needs neither database nor queue: a restart mends neither. Costs a tenth of a second.
"""

from __future__ import annotations

import http.client
import time
from collections.abc import Mapping

from ingest import processes
from triage.serve import parts
from triage.serve.children import ServiceError

#: a worker says every five seconds that it works
SILENT_AFTER_S = 60
ANSWER_S = 5


def problem_of(part: str, env: Mapping[str, str]) -> str:
    """Why the part does not work; empty if it does. Raises ServiceError if there is no such part."""
    if part not in parts.PARTS:
        raise ServiceError(f"There is no part {part!r}; there are: {', '.join(parts.PARTS)}")
    if part in ("web", "uploads"):
        return _problem_of_server(parts.port_of(env))
    try:
        silent_s = time.time() - processes.alive_path(part).stat().st_mtime
    except OSError:
        return f"no worker of this machine has said that it serves {part}"
    return f"the worker for {part} has been silent for {silent_s:.0f} s" if silent_s > SILENT_AFTER_S else ""


def _problem_of_server(port: int) -> str:
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=ANSWER_S)
    try:
        client.request("GET", "/livez")
        status = client.getresponse().status
    except (OSError, http.client.HTTPException) as error:
        return f"the server at port {port} does not answer: {error}"
    finally:
        client.close()
    return "" if status == 200 else f"the server at port {port} answers {status}"
