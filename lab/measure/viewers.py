"""Viewers of a running job: what their polling costs, and what a stream of events to each would cost at least.

``python -m lab.measure viewers [--viewers 200] [--seconds 20]``. One job prints 20 lines a second. Viewers ask for new
lines of its log as the page does: after one second, or ten times the last answer's time. Of a stream of events only the
writing to as many connections is measured: sessions, access and reading the lines would come on top.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import json
import threading
import time
from typing import Any
from urllib.parse import quote

from lab.measure import site
from lab.measure.collectors import cpu_s


def push(running_site: site.Site, ended: threading.Event) -> None:
    """Lines of four nodes, until ``ended``."""
    n = 0
    headers = {
        "Authorization": f"Bearer {running_site.token}",
        "Content-Type": "application/x-ndjson",
        "Faultline-Job": "run",
    }
    while not ended.is_set():
        text = f"12:{n // 60 % 60:02d}:{n % 60:02d} iteration {n}"
        rows = [{"host": f"node-{k % 4}", "msg": text} for k in range(20)]
        connection = http.client.HTTPConnection("localhost", running_site.port, timeout=60)
        connection.request("POST", "/api/v1/lines/", "".join(f"{json.dumps(row)}\n" for row in rows).encode(), headers)
        connection.getresponse().read()
        connection.close()
        n += 1
        ended.wait(1)


async def viewer(running_site: site.Site, until: float, waits: list[float]) -> None:
    """Asks for new lines each second over one connection."""
    reader, writer = await asyncio.open_connection("localhost", running_site.port)
    cursor = ""
    while time.perf_counter() < until:
        args = time.perf_counter()
        path = f"/jobs/run/live/0/lines/?cursor={quote(cursor)}"
        writer.write(
            f"GET {path} HTTP/1.1\r\nHost: localhost\r\nCookie: sessionid={running_site.cookie}\r\n\r\n".encode()
        )
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError:  # the site closed an idle connection: a browser opens another one
            reader, writer = await asyncio.open_connection("localhost", running_site.port)
            continue
        size = next(int(row.split(b":")[1]) for row in head.lower().split(b"\r\n") if row.startswith(b"content-length"))
        body = await reader.readexactly(size)
        if not head.startswith(b"HTTP/1.1 200"):
            raise SystemExit(f"{path}: {head[:200]!r}")
        cursor = json.loads(body)["cursor"]
        waits.append(time.perf_counter() - args)
        await asyncio.sleep(min(10.0, max(1.0, 10 * waits[-1])))  # as the page does
    writer.close()


async def viewers(running_site: site.Site, count: int, seconds: float) -> list[float]:
    waits: list[float] = []
    until = time.perf_counter() + seconds
    await asyncio.gather(*(viewer(running_site, until, waits) for _ in range(count)))
    return waits


async def streamed(count: int, seconds: float) -> float:
    """CPU seconds of a server that writes 20 lines a second to as many connections, without reading them anywhere."""
    lines = [[1, 2, f"12:00:00 iteration {n}"] for n in range(20)]
    open_ones: list[asyncio.StreamWriter] = []

    async def taken(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        open_ones.append(writer)

    server = await asyncio.start_server(taken, "localhost", 0)
    port = server.sockets[0].getsockname()[1]
    readers: list[Any] = [await asyncio.open_connection("localhost", port) for _ in range(count)]
    while len(open_ones) < count:
        await asyncio.sleep(0.01)
    began = time.process_time()
    for _ in range(int(seconds)):
        event = f"data: {json.dumps({'lines': lines})}\n\n".encode()
        for writer in open_ones:
            writer.write(event)
        await asyncio.sleep(0)
    used = time.process_time() - began
    for _, writer in readers:
        writer.close()
    server.close()
    return used


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--viewers", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=20.0)
    args = parser.parse_args(arguments)
    with site.running(FAULTLINE_APPENDS_PER_MINUTE="100000000") as running_site:
        ended = threading.Event()
        pushing = threading.Thread(target=push, args=(running_site, ended))
        pushing.start()
        time.sleep(5)
        idle = cpu_s(running_site.data)
        time.sleep(args.seconds)
        idle = cpu_s(running_site.data) - idle
        for count in (args.viewers // 10, args.viewers):
            before = cpu_s(running_site.data)
            waits = asyncio.run(viewers(running_site, count, args.seconds))
            used = cpu_s(running_site.data) - before - idle
            print(
                f"polling, {count} viewers: {len(waits) / args.seconds:.0f} answers/s, median "
                f"{1000 * site.quantile(waits, 0.5):.0f} ms, p95 {1000 * site.quantile(waits, 0.95):.0f} ms, "
                f"{1000 * used / len(waits):.1f} CPU ms an answer, {used / args.seconds:.2f} cores",
                flush=True,
            )
        ended.set()
        pushing.join()
    used = asyncio.run(streamed(args.viewers, args.seconds))
    print(f"events, {args.viewers} viewers: writing alone takes {used / args.seconds:.3f} cores")


if __name__ == "__main__":
    main()
