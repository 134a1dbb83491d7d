"""A connection without a network: what the server gives to the front of the site, and what it gets."""

from __future__ import annotations

import asyncio
from typing import Any

from triage.server.front import Front


class Line:
    """One request on its way in: ``blocks`` arrive one after another, then what ``end`` says."""

    def __init__(self, method: str, path: str, *blocks: bytes, length: int | None = None, **headers: str) -> None:
        size = sum(map(len, blocks)) if length is None else length
        path, _, query = path.partition("?")
        named = {"host": "localhost", "content-length": str(size), **headers}
        self.scope = {
            "type": "http",
            "method": method,
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "http_version": "1.1",
            "headers": [(name.replace("_", "-").encode(), value.encode()) for name, value in named.items()],
        }
        self.blocks, self.whole, self.read = list(blocks), sum(map(len, blocks)) == size, 0
        self.sent: list[dict[str, Any]] = []
        self.goes_silent = False

    async def receive(self) -> dict[str, Any]:
        if self.blocks:
            block = self.blocks.pop(0)
            self.read += len(block)
            return {"type": "http.request", "body": block, "more_body": bool(self.blocks) or not self.whole}
        if self.goes_silent:
            await asyncio.sleep(3600)
        return {"type": "http.disconnect"}

    async def send(self, message: dict[str, Any]) -> None:
        self.sent.append(message)

    def through(self, site: Front) -> Line:
        site._make.until_ended(site(self.scope, self.receive, self.send))  # type: ignore[attr-defined]
        return self

    @property
    def status(self) -> int:
        return int(self.sent[0]["status"]) if self.sent else 0

    @property
    def said(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.sent[1:])

    @property
    def is_closed(self) -> bool:
        return (b"connection", b"close") in self.sent[0]["headers"]
