"""Lines that collectors push: rates from 1 to 200,000 records a second against a running site, by protocol.

``python -m lab.measure collectors [--ways otlp,loki] [--rates 1,1000,200000] [--seconds 10] [--batch 4096]``. Lines
have about 200 bytes. The site runs as ``make run`` starts it, its workers read the new lines meanwhile, the sender runs
on the same machine: it builds all bodies before, and repeats none that the site still remembers.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import cramjam
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

from ingest.wire.loki import PushRequest
from lab.measure import site

SECOND = 10**9
T0 = 1_700_000_000 * SECOND
LINE = "2023-11-14 22:13:{:02d},{:03d} INFO rank {} iteration {}/500000 loss 2.5134 grad norm 0.812 lr 1.2e-4 {}"


#: distinct batches: more than the site remembers of one file
DISTINCT = 300
#: address, body, Content-Type
type Body = tuple[str, bytes, str]
type Rows = list[tuple[int, int, str]]


def batches(records: int, batch: int, files: int, first: int) -> Iterator[Rows]:
    """(file, time, line) of each record, of all files in turn; about 200 bytes a line."""
    made: Rows = []
    for n in range(records):
        file = n % files
        made.append((file, T0 + first * SECOND + n * 1000, LINE.format(n % 60, n % 1000, file, n // files, "x" * 100)))
        if len(made) == batch:
            yield made
            made = []
    if made:
        yield made


def otlp(rows: Rows) -> Body:
    made = ExportLogsServiceRequest()
    scopes: dict[int, Any] = {}
    for file, at, line in rows:
        if file not in scopes:
            resource = made.resource_logs.add()
            for key, value in (("slurm.job.id", "otlp"), ("host.name", f"node-{file // 8}")):
                resource.resource.attributes.add(key=key).value.string_value = value
            scopes[file] = resource.scope_logs.add()
        record = scopes[file].log_records.add(time_unix_nano=at)
        record.body.string_value = line
        record.attributes.add(key="log.file.path").value.string_value = f"/logs/rank{file}.log"
    return "/v1/logs", made.SerializeToString(), "application/x-protobuf"


def otlp_json(rows: Rows) -> Body:
    def pair(key: str, value: str) -> Any:
        return {"key": key, "value": {"stringValue": value}}

    groups: dict[int, list[Any]] = {}
    for file, at, line in rows:
        path = pair("log.file.path", f"/logs/rank{file}.log")
        groups.setdefault(file, []).append(
            {"timeUnixNano": str(at), "body": {"stringValue": line}, "attributes": [path]}
        )
    resources = [
        {
            "resource": {"attributes": [pair("slurm.job.id", "otlpj"), pair("host.name", f"node-{file // 8}")]},
            "scopeLogs": [{"logRecords": said}],
        }
        for file, said in groups.items()
    ]
    return "/v1/logs", json.dumps({"resourceLogs": resources}).encode(), "application/json"


def loki(rows: Rows) -> Body:
    made = PushRequest()
    streams: dict[int, Any] = {}
    for file, at, line in rows:
        if file not in streams:
            labels = f'{{job_id="loki", host="node-{file // 8}", filename="/logs/rank{file}.log"}}'
            streams[file] = made.streams.add(labels=labels.encode())
        entry = streams[file].entries.add(line=line.encode())
        entry.timestamp.seconds, entry.timestamp.nanos = divmod(at, SECOND)
    body = bytes(cramjam.snappy.compress_raw(made.SerializeToString()))
    return "/loki/api/v1/push", body, "application/x-protobuf"


def lines(rows: Rows) -> Body:
    body = "\n".join(
        json.dumps({"date": at / SECOND, "log": line, "job_id": "lines", "host": f"n{file // 8}", "file": f"r{file}"})
        for file, at, line in rows
    )
    return "/api/v1/lines/", body.encode(), "application/x-ndjson"


WAYS: dict[str, Callable[[Rows], Body]] = {
    "otlp": otlp,
    "otlp-json": otlp_json,
    "loki": loki,
    "lines": lines,
}


class Load:
    """Sends bodies at a pace over a few connections, and notes how long each answer took."""

    def __init__(self, made: site.Site, bodies: list[Body], batch: int, rate: float, seconds: float) -> None:
        self._site, self._bodies, self._batch = made, bodies, batch
        self._apart_s = batch / rate
        self._until = seconds
        self._next = 0
        self._lock = threading.Lock()
        self.waits: list[float] = []
        self.refused: Counter[int] = Counter()
        self.acknowledged = 0

    def run(self, connections: int) -> float:
        """Returns the seconds it took until the last answer."""
        self._began = time.perf_counter()
        threads = [threading.Thread(target=self._send) for _ in range(connections)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return time.perf_counter() - self._began

    def _send(self) -> None:
        connection = http.client.HTTPConnection("localhost", self._site.port, timeout=60)
        while True:
            with self._lock:
                number = self._next
                self._next += 1
            due = number * self._apart_s
            if due >= self._until:
                return
            time.sleep(max(0.0, self._began + due - time.perf_counter()))
            path, body, kind = self._bodies[number % len(self._bodies)]
            while time.perf_counter() - self._began < self._until * 3:
                args = time.perf_counter()
                connection.request(
                    "POST", path, body, {"Content-Type": kind, "Authorization": f"Bearer {self._site.token}"}
                )
                answer = connection.getresponse()
                answer.read()
                self.waits.append(time.perf_counter() - args)
                if answer.status in (200, 204):
                    self.acknowledged += self._batch
                    break
                self.refused[answer.status] += 1
                time.sleep(1)


def cpu_s(folder: Path) -> float:
    """CPU seconds of all processes of the site whose data lies in ``folder``."""
    total = 0
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if str(folder).encode() in (process / "environ").read_bytes():
                said = (process / "stat").read_text().rpartition(")")[2].split()
                total += int(said[11]) + int(said[12])
        except OSError:
            continue
    return total / os.sysconf("SC_CLK_TCK")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ways", default="otlp", help="by comma, of: " + ", ".join(WAYS))
    parser.add_argument("--rates", default="1,1000,10000,50000,100000,200000", help="records a second, by comma")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--batch", type=int, default=4096)
    parser.add_argument("--files", type=int, default=16)
    parser.add_argument("--connections", type=int, default=4)
    args = parser.parse_args(arguments)
    with site.running(FAULTLINE_APPENDS_PER_MINUTE="100000000") as made:
        for way in args.ways.split(","):
            for rate in map(float, args.rates.split(",")):
                batch = max(1, min(args.batch, int(rate)))
                count = min(DISTINCT, max(1, int(rate * args.seconds / batch)))
                bodies = [WAYS[way](rows) for rows in batches(count * batch, batch, args.files, int(rate))]
                used = cpu_s(made.data)
                load = Load(made, bodies, batch, rate, args.seconds)
                took = load.run(args.connections)
                used = cpu_s(made.data) - used
                done = load.acknowledged
                print(
                    f"{way:10} offered {rate:>9,.0f}/s: acknowledged {done / took:>9,.0f}/s of {done:,} records, "
                    f"answers median {1000 * site.quantile(load.waits, 0.5):,.0f} ms, p95 "
                    f"{1000 * site.quantile(load.waits, 0.95):,.0f} ms, the site used {used / took:.2f} cores"
                    + (f", refused {dict(load.refused)}" if load.refused else ""),
                    flush=True,
                )


if __name__ == "__main__":
    main()
