"""What a streamed job costs, against the upload of the same files: processor seconds of the site until it is diagnosed.

``python -m lab.measure streamed [--lines 2000000] [--files 16] [--lines-per-s 100000] [--repeat 1]``. Upload and stream
use the same protocol, files and running site, in turn; only the stream sends its files side by side, at a pace, without
their length. The job ends well, and both diagnoses must be equal in what they conclude.
"""

from __future__ import annotations

import argparse
import base64
import http.client
import json
import time
from collections.abc import Iterator
from typing import Any

from lab.measure import site
from lab.measure.collectors import cpu_s

PIECE_BYTES = 1 << 20
_LINE = (
    "2026-11-22 {:02d}:{:02d}:{:02d},{:03d} INFO [rank{}] iteration {}/900000 loss 2.{:04d} grad norm 0.8 lr 1e-4 {}\n"
)
_OTHER = "2026-11-22 {:02d}:{:02d}:{:02d},{:03d} WARNING [rank{}] dataloader worker {} took {} ms for shard-{}.tar\n"


def text_of(file: int, count: int, run: int) -> bytes:
    """A log of ``count`` lines, as a rank prints it. ``run`` makes its bytes new."""
    lines = []
    for n in range(count):
        at = (n // 3600_000 % 24, n // 60_000 % 60, n // 1000 % 60, n % 1000)
        if n % 20 == 7:
            lines.append(_OTHER.format(*at, file, n % 8, n * 7 % 900, n // 20))
        else:
            lines.append(_LINE.format(*at, file, n + run, n * 31 % 10_000, "x" * 60))
    return "".join([*lines, f"{lines[-1][:23]} INFO [rank{file}] Training completed\n"]).encode()


class Sender:
    """One job's uploads."""

    def __init__(self, running_site: site.Site, slug: str) -> None:
        self._site, self._slug = running_site, slug
        self._connection = http.client.HTTPConnection("localhost", running_site.port, timeout=120)
        self.ask("POST", "/api/v1/jobs/", {"name": slug, "slug": slug})

    def ask(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Any:
        raw = body if isinstance(body, bytes) else json.dumps(body).encode() if body is not None else None
        all_headers = {
            "Authorization": f"Bearer {self._site.token}",
            "Content-Type": "application/json",
            **(headers or {}),
        }
        while True:
            self._connection.request(method, path, raw, all_headers)
            answer = self._connection.getresponse()
            text = answer.read()
            if answer.status not in (423, 429, 503):
                break
            time.sleep(0.2)
        if answer.status >= 400:
            raise SystemExit(f"{method} {path}: {answer.status} {text[:300]!r}")
        return answer.headers["Location"] if answer.status == 201 else json.loads(text) if text else None

    def begin(self, path: str, size: int | None) -> str:
        fields = {"job": self._slug, "path": path}
        metadata = ",".join(f"{key} {base64.b64encode(value.encode()).decode()}" for key, value in fields.items())
        length = {"Upload-Defer-Length": "1"} if size is None else {"Upload-Length": str(size)}
        return str(self.ask("POST", "/api/v1/uploads/", None, {"Upload-Metadata": metadata, **length}))

    def send(self, url: str, data: bytes, offset: int, size: int | None = None) -> None:
        headers = {"Upload-Offset": str(offset), "Content-Type": "application/offset+octet-stream"}
        self.ask("PATCH", url, data, headers if size is None else {**headers, "Upload-Length": str(size)})

    def conclusion(self) -> str:
        """Waits for the diagnosis."""
        self.ask("POST", f"/api/v1/jobs/{self._slug}/diagnose/", {})
        while True:
            job = self.ask("GET", f"/api/v1/jobs/{self._slug}/")
            if job["diagnosed_revision"] >= job["revision"] > 0:
                return str(job["outcome"])
            time.sleep(1.0)  # a question costs the site as much as a piece


def upload(sender: Sender, files: dict[str, bytes]) -> None:
    for path, data in files.items():
        url = sender.begin(path, len(data))
        for offset in range(0, len(data), 16 * PIECE_BYTES):
            sender.send(url, data[offset : offset + 16 * PIECE_BYTES], offset)


def stream(sender: Sender, files: dict[str, bytes], pace: float) -> None:
    """``pace``: bytes a second of all files together."""
    urls = {path: sender.begin(path, None) for path in files}
    began, sent = time.perf_counter(), 0
    for offset, path in _turns(files):
        piece = files[path][offset : offset + PIECE_BYTES]
        sender.send(urls[path], piece, offset)
        sent += len(piece)
        time.sleep(max(0.0, began + sent / pace - time.perf_counter()))
    for path, data in files.items():
        sender.send(urls[path], b"", len(data), len(data))


def _turns(files: dict[str, bytes]) -> Iterator[tuple[int, str]]:
    for offset in range(0, max(map(len, files.values())), PIECE_BYTES):
        yield from ((offset, path) for path, data in files.items() if offset < len(data))


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lines", type=int, default=2_000_000)
    parser.add_argument("--files", type=int, default=16)
    parser.add_argument("--lines-per-s", type=float, default=100_000.0)
    parser.add_argument("--repeat", type=int, default=1)
    args = parser.parse_args(arguments)
    with site.running(FAULTLINE_APPENDS_PER_MINUTE="100000000", FAULTLINE_UPLOADS_PER_MINUTE="100000000") as made:
        for run in range(args.repeat + 1):  # the first one warms compiled code
            count = args.lines // args.files if run else 2_000
            used, said = {}, {}
            for way in ("upload", "stream"):
                # other numbers, equal cost: equal bytes would be stored once
                files = {
                    f"node-{n // 8}/rank{n}.log": text_of(n, count, 2 * run + (way == "stream"))
                    for n in range(args.files)
                }
                before, began = cpu_s(made.data), time.perf_counter()
                sender = Sender(made, f"{way}-{run}")
                if way == "upload":
                    upload(sender, files)
                else:
                    size = sum(map(len, files.values()))
                    stream(sender, files, size / (count * args.files) * args.lines_per_s)
                said[way] = sender.conclusion()
                used[way] = cpu_s(made.data) - before
                if run:
                    print(
                        f"{way:7} {count * args.files:,} lines: {used[way]:6.1f} CPU s, "
                        f"{time.perf_counter() - began:5.0f} s, outcome {said[way]}",
                        flush=True,
                    )
            if run:
                print(f"a streamed job costs {used['stream'] / used['upload']:.2f} times its upload", flush=True)


if __name__ == "__main__":
    main()
