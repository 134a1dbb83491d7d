"""A server that answers as on-call and ticket systems do by their documents: the calls that routes make, no more."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.factories import make_attempt, make_job
from tests.triage.report import sample
from triage.models import Incident
from triage.services import reviewing
from triage.services.diagnosing import diagnosis_store


@dataclass
class Desks:
    url: str
    #: (method, path, body) of all requests
    got: list[tuple[str, str, Any]] = field(default_factory=list)
    state: str = "open"

    def posts(self) -> list[tuple[str, Any]]:
        return [(path, body) for method, path, body in self.got if method == "POST"]


def answered(desks: Desks, method: str, path: str, headers: Any, body: Any) -> tuple[int, Any]:
    """The status and the JSON of one call."""
    if path == "/v2/enqueue":
        is_fine = len(body["routing_key"]) == 32 and len(body["payload"]["summary"]) <= 1024
        is_known = body["event_action"] in ("trigger", "acknowledge", "resolve")
        told = {"status": "success", "message": "Event processed", "dedup_key": body["dedup_key"]}
        return (202, told) if is_fine and is_known else (400, {"status": "invalid event", "errors": ["routing_key"]})
    if path.startswith("/api/annotations"):
        return (200, {"id": 7, "message": "ok"}) if headers["Authorization"] == "Bearer t" else (401, {})
    if path.startswith("/repos/o/r/issues"):
        issue = {"number": 12, "html_url": "https://github.example/o/r/issues/12", "state": desks.state}
        if headers["Authorization"] != "Bearer t" or not headers["User-Agent"]:
            return 401, {"message": "Bad credentials"}
        is_comment = path.endswith("/comments")
        return (201, {"id": 1, "html_url": "x"} if is_comment else issue) if method == "POST" else (200, issue)
    if path.startswith("/api/v4/projects/g%2Fp/issues"):
        issue = {"iid": 3, "web_url": "https://gitlab.example/g/p/-/issues/3", "state": "opened"}
        issue["references"] = {"full": "g/p#3"}
        if headers["PRIVATE-TOKEN"] != "t":
            return 401, {"message": "401 Unauthorized"}
        return (201, {"id": 1} if path.endswith("/notes") else issue) if method == "POST" else (200, issue)
    if path.startswith("/rest/api/3/issue"):
        known = {"id": "1", "key": "OPS-7", "self": f"{desks.url}/rest/api/3/issue/1"}
        if method == "GET":
            return 200, {**known, "fields": {"status": {"name": "In Progress"}}}
        if path.endswith("/comment"):
            return 201, {"id": "5", "self": "x"}
        is_document = body["fields"]["description"]["type"] == "doc"
        return (201, known) if is_document else (400, {"errors": {"description": "must be an Atlassian Document"}})
    return 404, {"message": "Not Found"}


@contextmanager
def open_desks() -> Iterator[Desks]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            body = json.loads(raw) if raw else None
            desks.got.append((self.command, self.path, body))
            status, told = answered(desks, self.command, self.path, self.headers, body)
            said = json.dumps(told).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

        do_GET = do_PATCH = do_PUT = do_POST

        def log_message(self, *_: Any) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    desks = Desks(f"http://127.0.0.1:{server.server_address[1]}")
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    yield desks
    server.shutdown()
    server.server_close()


def diagnosed(job: Any = "night-run", *, revision: int = 1, **changes: Any) -> Incident:
    """An incident of the job, which is made if only its name is given."""
    attempt = make_attempt(job if not isinstance(job, str) else make_job(job))
    diagnosis_store(attempt=attempt, revision=revision, report=sample() | changes)
    return attempt.incidents.get()


def over(incident: Incident, by: Any) -> None:
    """Confirmed and resolved."""
    reviewing.decision_make(incident=incident, claim="category", word="confirm", by=by)
    reviewing.incident_act(incident=incident, act="resolved", by=by)
