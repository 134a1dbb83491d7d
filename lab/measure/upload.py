"""Send a large generated log to a running site and watch the memory of its processes.

    python -m lab.measure upload --url http://localhost:8000 --token fl_… --gb 2 [--pids 12,34] [--tus]

Prints bytes/s, the peak resident memory of every given process while bytes arrive, and the time until the job is read.
The log is generated while it is sent, by a file of 64 MiB repeated with a changing number: no disk is needed here.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import http.client
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

BLOCK_BYTES = 1 << 20


def blocks(total: int) -> Iterator[bytes]:
    """A training-like log of exactly ``total`` bytes, one block after another."""
    line = "2026-11-21 03:00:00,000 INFO [rank{rank}] iteration {n} loss 2.5 grad norm 1.25 lr 3e-4 tokens 1048576\n"
    left, n = total, 0
    while left:
        text = "".join(line.format(rank=k % 64, n=n) for k in range(BLOCK_BYTES // len(line)))
        block = text.encode().ljust(BLOCK_BYTES - 1, b" ") + b"\n"
        yield block[:left]
        left -= min(left, len(block))
        n += 1


class Watch(threading.Thread):
    """Peak resident bytes of processes, measured ten times a second."""

    def __init__(self, pids: list[int]) -> None:
        super().__init__(daemon=True)
        self.peak = dict.fromkeys(pids, 0)
        self._ended = threading.Event()

    def run(self) -> None:
        while not self._ended.wait(0.1):
            for pid in self.peak:
                try:
                    rows = Path(f"/proc/{pid}/status").read_text().splitlines()
                except OSError:
                    continue
                (size,) = (int(row.split()[1]) * 1024 for row in rows if row.startswith("VmRSS:"))
                self.peak[pid] = max(self.peak[pid], size)

    def end(self) -> None:
        self._ended.set()
        self.join()


class Api:
    def __init__(self, url: str, token: str) -> None:
        self._place = urlsplit(url)
        self._headers = {"Authorization": f"Bearer {token}"}

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, dict[str, str], bytes]:
        connection = http.client.HTTPConnection(self._place.netloc, timeout=600)
        connection.request(method, path, body, {**self._headers, **headers})
        answer = connection.getresponse()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()


def put(api: Api, slug: str, total: int) -> None:
    digest = hashlib.sha256()
    for block in blocks(total):
        digest.update(block)
    path = f"/api/v1/jobs/{slug}/artifacts/{digest.hexdigest()}?path=big.log"
    status, _, body = api.call("PUT", path, blocks(total), **{"Content-Length": str(total)})
    assert status == 201, body


def tus(api: Api, slug: str, total: int, chunk: int = 8 << 20) -> None:
    metadata = ",".join(
        f"{k} {base64.b64encode(v.encode()).decode()}" for k, v in {"job": slug, "path": "big.log"}.items()
    )
    headers = {"Upload-Length": str(total), "Upload-Metadata": metadata, "Content-Length": "0"}
    status, answer, body = api.call("POST", "/api/v1/uploads/", None, **headers)
    assert status == 201, body
    offset, waiting = 0, b""
    for block in blocks(total):
        waiting += block
        if len(waiting) >= chunk or offset + len(waiting) == total:
            kind = {"Content-Type": "application/offset+octet-stream", "Upload-Offset": str(offset)}
            status, _, body = api.call("PATCH", answer["location"], waiting, **kind)
            assert status == 204, body
            offset, waiting = offset + len(waiting), b""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--url", default="http://localhost:8000")
    parser.add_argument("--token", required=True)
    parser.add_argument("--gb", type=float, default=2.0)
    parser.add_argument("--pids", default="")
    parser.add_argument("--tus", action="store_true", help="in resumable chunks of 8 MiB instead of one request")
    args = parser.parse_args()
    api, total = Api(args.url, args.token), int(args.gb * 2**30)
    status, _, body = api.call(
        "POST", "/api/v1/jobs/", json.dumps({"name": "measured upload"}), **{"Content-Type": "application/json"}
    )
    assert status == 201, body
    slug = json.loads(body)["slug"]
    watch = Watch([int(pid) for pid in args.pids.split(",") if pid])
    watch.start()
    begun = time.monotonic()
    (tus if args.tus else put)(api, slug, total)
    took = time.monotonic() - begun
    print(f"sent {total / 2**30:.2f} GiB in {took:.1f} s, {total / took / 2**20:.0f} MiB/s (generation included)")
    for pid, peak in watch.peak.items():
        print(f"process {pid}: at most {peak / 2**20:.0f} MiB resident while bytes arrived")
    begun = time.monotonic()
    while True:
        progress = json.loads(api.call("GET", f"/api/v1/jobs/{slug}/")[2])["progress"]
        step = next((row for row in progress["steps"] if row["name"] == "parsing"), {"state": ""})
        if step["state"] == "done":
            break
        time.sleep(0.5)
    watch.end()
    print(f"read {time.monotonic() - begun:.1f} s after the last byte: {step['text']}")
    for pid, peak in watch.peak.items():
        print(f"process {pid}: at most {peak / 2**20:.0f} MiB resident until it was read")
