"""A server that answers as chats do by their documents: it refuses what they would refuse. One path a chat."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

SECRET = "SECret"


@dataclass
class Chats:
    url: str
    #: accepted requests: (method and path, body)
    got: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    #: paths that answer 503
    down: set[str] = field(default_factory=set)

    def bodies(self, path: str) -> list[dict[str, Any]]:
        return [body for known, body in self.got if known.endswith(path)]


def _slack_text(body: dict[str, Any]) -> bool:
    blocks = body.get("blocks", [])
    texts = [block["text"]["text"] for block in blocks if "text" in block]
    header = all(len(block["text"]["text"]) <= 150 for block in blocks if block["type"] == "header")
    return bool(body.get("text")) and len(blocks) <= 50 and header and all(0 < len(text) <= 3000 for text in texts)


def _slack_api(chats: Chats, method: str, headers: Any, body: dict[str, Any]) -> tuple[int, Any]:
    if headers["Authorization"] != "Bearer xoxb-1":
        return 200, {"ok": False, "error": "invalid_auth"}
    if body.get("channel") not in ("C1", "#ops"):
        return 200, {"ok": False, "error": "channel_not_found"}
    if not body.get("text"):
        return 200, {"ok": False, "error": "no_text"}
    ts = body.get("ts") or f"17.{len(chats.got)}"
    return 200, {"ok": True, "channel": "C1", "ts": ts}


def _teams(body: dict[str, Any]) -> bool:
    (attachment,) = body["attachments"]
    card = attachment["content"]
    is_card = attachment["contentType"] == "application/vnd.microsoft.card.adaptive" and card["type"] == "AdaptiveCard"
    return body["type"] == "message" and is_card and len(json.dumps(body)) < 28_000


def _feishu(body: dict[str, Any]) -> tuple[int, Any]:
    key = f"{body.get('timestamp')}\n{SECRET}".encode()
    if body.get("sign") != base64.b64encode(hmac.new(key, b"", hashlib.sha256).digest()).decode():
        return 200, {"code": 19021, "msg": "sign match fail or timestamp is not within one hour from current time"}
    return 200, {"code": 0, "msg": "success", "data": {}}


def _dingtalk(query: dict[str, list[str]], body: dict[str, Any]) -> tuple[int, Any]:
    signed = f"{query['timestamp'][0]}\n{SECRET}".encode()
    if query["sign"][0] != base64.b64encode(hmac.new(SECRET.encode(), signed, hashlib.sha256).digest()).decode():
        return 200, {"errcode": 310000, "errmsg": "sign not match"}
    is_card = body["msgtype"] == "markdown" or body["actionCard"]["singleURL"].startswith("http")
    return 200, {"errcode": 0, "errmsg": "ok"} if is_card else {"errcode": 400, "errmsg": "invalid"}


def _answer(chats: Chats, path: str, query: Any, headers: Any, body: dict[str, Any]) -> tuple[int, Any]:
    if path == "/slack":
        return (200, "ok") if _slack_text(body) else (400, "invalid_blocks")
    if path.startswith("/api/"):
        return _slack_api(chats, path.removeprefix("/api/"), headers, body)
    if path == "/teams":
        return (202, "") if _teams(body) else (400, "Bad card")
    if path == "/mattermost":
        return (200, "ok") if body.get("text") or body.get("attachments") else (400, "Unable to parse")
    if path == "/feishu":
        return _feishu(body)
    return _dingtalk(query, body) if path == "/dingtalk" else (404, "no such path")


@contextmanager
def chatting() -> Iterator[Chats]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = urlsplit(self.path)
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            status, said = _answer(chats, asked.path, parse_qs(asked.query), self.headers, body)
            if asked.path in chats.down:
                status, said = 503, "down"
            elif status < 300:
                chats.got.append((asked.path, body))
            text = said if isinstance(said, str) else json.dumps(said)
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: Any) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    chats = Chats(f"http://127.0.0.1:{server.server_address[1]}")
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    yield chats
    server.shutdown()
    server.server_close()
