"""How long pages take during slow uploads, senders without a token, endless headers and clients that do not read.

    python -m lab.measure slow_uploads [--senders 200] [--against CHECKOUT]

Starts its own site. Six readers request `/healthz` and four pages again and again, in six phases: no other client;
`--senders` uploads of 200 kB at 10 kB/s each (files by digest, resumable uploads and forms, in turn); as many senders
without a token who send a small body slowly; as many who announce a large one; 1,000 connections that never end their
header; and as many slow readers of a large log. Prints how long pages took in each phase, how many uploads were
accepted and read to the last line, and how the others ended. `--against` measures another checkout first, in the same
run. Fails if an upload is lost or a page's p95 is above `--limit-ms`.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import hashlib
import http.client
import json
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path

from lab.measure.site import ROOT, Site, quantile, running

PAGES = ("/", "/jobs/", "/upload/", "/incidents/")
RATE, SIZE = 10_000, 200_000
_LINE = "2026-11-21 03:{:02d}:{:02d},000 INFO [rank{}] iteration {} loss 2.5\n"
_HELD_CONNECTIONS = 1000
#: maximum duration of a phase; an upload that has not ended by then counts as lost
_PATIENCE_S = 90.0


def log_of(number: int) -> bytes:
    text = "".join(_LINE.format(n // 60 % 60, n % 60, number, n) for n in range(SIZE // 40))
    return text.encode()[: SIZE - 1] + b"\n"


async def exchange(site: Site, head: str, body: bytes, *, rate: int, lines: str = "") -> tuple[int, bytes]:
    """Send a request with its body at so many bytes a second; the status and the whole answer. 0: no answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", site.port)
    try:
        start = f"{head} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {len(body)}\r\n{lines}\r\n"
        writer.write(start.encode())
        answer = asyncio.ensure_future(reader.read())
        began, sent = time.monotonic(), 0
        while sent < len(body) and not answer.done():
            piece = body[sent : sent + max(1, rate // 4)]
            writer.write(piece)
            await writer.drain()
            sent += len(piece)
            await asyncio.sleep(max(0.0, began + sent / rate - time.monotonic()))
        answer_bytes = await answer
        return (int(answer_bytes.split()[1]) if answer_bytes.startswith(b"HTTP/1.1 ") else 0), answer_bytes
    except OSError:
        return 0, b""
    finally:
        writer.close()


async def put(site: Site, slug: str, number: int) -> int:
    body = log_of(number)
    head = f"PUT /api/v1/jobs/{slug}/artifacts/{hashlib.sha256(body).hexdigest()}?path=put-{number}.log"
    return (await exchange(site, head, body, rate=RATE, lines=f"Authorization: Bearer {site.token}\r\n"))[0]


async def resumable(site: Site, slug: str, number: int) -> int:
    body, auth = log_of(number), f"Authorization: Bearer {site.token}\r\n"
    pairs = {"job": slug, "path": f"tus-{number}.log"}
    said = ",".join(f"{name} {base64.b64encode(value.encode()).decode()}" for name, value in pairs.items())
    lines = f"{auth}Upload-Length: {len(body)}\r\nUpload-Metadata: {said}\r\n"
    status, answer = await exchange(site, "POST /api/v1/uploads/", b"", rate=RATE, lines=lines)
    if status != 201:
        return status
    location = next(row.split(b": ")[1] for row in answer.split(b"\r\n") if row.lower().startswith(b"location: "))
    lines = f"{auth}Upload-Offset: 0\r\nContent-Type: application/offset+octet-stream\r\n"
    return (await exchange(site, f"PATCH {location.decode()}", body, rate=RATE, lines=lines))[0]


async def form(site: Site, slug: str, number: int) -> int:
    fields = f'--x\r\nContent-Disposition: form-data; name="csrfmiddlewaretoken"\r\n\r\n{"c" * 32}\r\n'
    fields += f'--x\r\nContent-Disposition: form-data; name="files"; filename="form-{number}.log"\r\n\r\n'
    body = fields.encode() + log_of(number) + b"\r\n--x--\r\n"
    lines = f"Cookie: sessionid={site.cookie}; csrftoken={'c' * 32}\r\n"
    lines += "Content-Type: multipart/form-data; boundary=x\r\n"
    return (await exchange(site, f"POST /upload/?job={slug}", body, rate=RATE, lines=lines))[0]


async def probe(site: Site, ended: asyncio.Event, took: dict[str, list[float]], turn: int) -> None:
    """Request one page after another until the phase ends; a missing answer counts as 60 s."""
    paths = ("/healthz", *PAGES)
    while not ended.is_set():
        path = paths[turn % len(paths)]
        turn += 1
        began = time.monotonic()
        try:
            lines = f"Cookie: sessionid={site.cookie}\r\n"
            status, _ = await asyncio.wait_for(exchange(site, f"GET {path}", b"", rate=1, lines=lines), 60)
        except TimeoutError:
            status = 0
        took.setdefault(path, []).append(time.monotonic() - began if status == 200 else 60.0)
        await asyncio.sleep(0.1)


async def phase(site: Site, title: str, act: Callable[[], Awaitable[str]]) -> float:
    """Print the result of ``act`` and how long pages took meanwhile; the worst p95 in seconds."""
    ended, took = asyncio.Event(), dict[str, list[float]]()
    readers = [asyncio.ensure_future(probe(site, ended, took, turn)) for turn in range(6)]
    result = await act()
    ended.set()
    await asyncio.wait(readers, timeout=60)
    pages = [value for path, values in took.items() if path != "/healthz" for value in values]
    health = took.get("/healthz", [])
    print(f"  {title}: {result}")
    for name, values in (("/healthz", health), ("pages", pages)):
        figures = ", ".join(f"p{int(100 * q)} {1000 * quantile(values, q):,.0f} ms" for q in (0.5, 0.95, 0.99))
        print(f"      {name:9} {len(values):5,} answers: {figures}", flush=True)
    return max(quantile(health, 0.95), quantile(pages, 0.95))


async def all_of(work: list[Awaitable[int]]) -> str:
    """How the exchanges ended; “no end” if not in time."""
    began = time.monotonic()
    tasks = [asyncio.ensure_future(coroutine) for coroutine in work]
    await asyncio.wait(tasks, timeout=_PATIENCE_S)
    ends = Counter("no end" if not task.done() else str(task.result() or "closed") for task in tasks)
    for task in tasks:
        task.cancel()
    return f"{dict(ends)} after {time.monotonic() - began:.0f} s"


async def hold_headers(site: Site) -> str:
    """Connections that send a byte of their header a second."""
    connections = await asyncio.gather(
        *(asyncio.open_connection("127.0.0.1", site.port) for _ in range(_HELD_CONNECTIONS))
    )
    began, open_ = time.monotonic(), list(connections)
    while open_ and time.monotonic() - began < 30:
        for _, writer in open_:
            writer.write(b"GET / HTTP/1.1\r\nHost: x\r\nX-"[: 1 + int(time.monotonic() - began)][-1:])
        await asyncio.sleep(1)
        open_ = [(reader, writer) for reader, writer in open_ if not reader.at_eof() and not writer.is_closing()]
        for reader, _ in open_:
            try:
                await asyncio.wait_for(reader.read(1), 0.001)
            except (TimeoutError, OSError):
                continue
    for _, writer in connections:
        writer.close()
    closed = len(connections) - len(open_)
    return f"{closed} of {len(connections)} closed by the site within {time.monotonic() - began:.0f} s"


async def slow_readers(site: Site, slug: str, count: int) -> str:
    """Request a log of 20 MB and read nothing of it."""
    lines = f"GET /jobs/{slug}/raw/0/big.log HTTP/1.1\r\nHost: localhost\r\nCookie: sessionid={site.cookie}\r\n\r\n"
    connections = []
    for _ in range(count):
        reader, writer = await asyncio.open_connection("127.0.0.1", site.port, limit=1024)
        writer.write(lines.encode())
        connections.append((reader, writer))
        await asyncio.sleep(0.05)  # the pages that answer are made one after another
    await asyncio.sleep(20)
    first = [await asyncio.wait_for(reader.read(12), 30) for reader, _ in connections]
    for _, writer in connections:
        writer.transport.abort()
    return f"{sum(b'200' in head for head in first)} of {count} were answered"


def call(site: Site, method: str, path: str, body: bytes | None = None) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", site.port, timeout=300)
    headers = {"Authorization": f"Bearer {site.token}", "Content-Type": "application/json"}
    connection.request(method, path, body, headers)
    answer = connection.getresponse()
    return answer.status, answer.read()


def measure(root: Path, senders: int, **variables: str) -> tuple[float, int]:
    """The worst p95 of all phases in seconds, and the number of files that were lost."""
    with running(root, **variables) as site:
        for slug in ("slow", "big"):
            status, said = call(site, "POST", "/api/v1/jobs/", json.dumps({"name": slug, "slug": slug}).encode())
            assert status == 201, said
        big = b"2026-11-21 03:00:00,000 INFO iteration 1 loss 2.5\n" * 400_000
        path = f"/api/v1/jobs/big/artifacts/{hashlib.sha256(big).hexdigest()}?path=big.log"
        assert call(site, "PUT", path, big)[0] == 201
        worst = asyncio.run(_phases(site, senders))
        lost = _lost(site, senders)
    return worst, lost


async def _phases(site: Site, senders: int) -> float:
    drip = [lambda: exchange(site, "POST /sign-in/", bytes(50_000), rate=500)] * senders
    large = [lambda: exchange(site, "PUT /api/v1/jobs/slow/artifacts/0?path=x", bytes(10**7), rate=RATE)] * senders

    async def status_of(one: Callable[[], Awaitable[tuple[int, bytes]]]) -> int:
        return (await one())[0]

    async def quiet() -> str:
        await asyncio.sleep(15)
        return "no sender"

    ways = (put, resumable, form)
    results = [
        await phase(site, "nobody else", quiet),
        await phase(
            site,
            f"{senders} uploads at 10 kB/s",
            lambda: all_of([ways[n % len(ways)](site, "slow", n) for n in range(senders)]),
        ),
        await phase(site, f"{senders} nameless small bodies, dripping", lambda: all_of([status_of(d) for d in drip])),
        await phase(site, f"{senders} nameless large bodies", lambda: all_of([status_of(one) for one in large])),
        await phase(site, f"{_HELD_CONNECTIONS:,} headers without an end", lambda: hold_headers(site)),
        await phase(site, f"{senders} readers who do not read", lambda: slow_readers(site, "big", senders)),
    ]
    return max(results)


def _lost(site: Site, senders: int) -> int:
    """How many uploads are missing, or not read to the last line."""
    want, end = log_of(0).count(b"\n"), time.monotonic() + 120
    while True:
        read, address = 0, "/api/v1/jobs/slow/artifacts/?page_size=200"
        while address:
            page = json.loads(call(site, "GET", address)[1])
            read += sum(row["state"] == "parsed" and abs(row["lines"] - want) <= want // 4 for row in page["results"])
            address = (page["next"] or "").partition(f":{site.port}")[2]
        if read == senders or time.monotonic() > end:
            print(f"  files read to the end: {read} of {senders}", flush=True)
            return senders - read
        time.sleep(1)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--senders", type=int, default=200)
    parser.add_argument("--limit-ms", type=float, default=300)
    parser.add_argument("--against", type=Path, help="another checkout, measured first")
    args = parser.parse_args()
    if args.against:
        print(f"{args.against}:")
        measure(args.against.resolve(), args.senders)
    print("this checkout:")
    worst, lost = measure(ROOT, args.senders)
    print(f"worst p95 {1000 * worst:,.0f} ms (limit {args.limit_ms:.0f}), {lost} lost")
    return int(bool(lost) or 1000 * worst > args.limit_ms)


if __name__ == "__main__":
    raise SystemExit(main())
