"""Many small jobs at once, sent by few senders: `python -m lab.measure small_jobs [--jobs 300] [--senders 4]`.

A site is started for this. Each sender makes a job, sends it one log of some forty lines and asks for its diagnosis, as
a cluster's epilog does, over one connection. Prints the seconds until all are sent and until all are diagnosed, and the
processor time of the site for each job, by part; pages and sweeps count too. `--at-once` sends each job with its log
in one request.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import http.client
import json
import threading
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

from ingest import processes
from lab.measure.site import ROOT, Site, running

_PATIENCE_S = 1800.0
#: of requests a minute: four senders alone meet the usual limit of one token
_NO_LIMIT = "1000000000"
#: what the site answers while its database is busy, and when a client sends again
_BUSY, _AGAIN_S = 503, 1.0
_LINES = "".join(
    f"2026-03-01 08:{n // 60:02d}:{n % 60:02d} [rank{{rank}}] iteration {n + 1}/500 loss 2.{n} job {{number}}\n"
    for n in range(40)
)
_END = "2026-03-01 08:01:00 [rank{rank}] RuntimeError: CUDA error: an illegal memory access was encountered\n"
#: words of a process's command line -> part of the site
_PARTS = {"isolation.forkserver": "readers", "triage.celery worker": "workers", "triage.asgi": "web"}


class Sender(threading.Thread):
    """Sends every job whose number it is given, over one connection."""

    def __init__(self, site: Site, numbers: Sequence[int], *, is_at_once: bool) -> None:
        super().__init__()
        self._site, self._numbers, self._is_at_once = site, numbers, is_at_once
        self._connection = http.client.HTTPConnection(urlsplit(site.url).netloc, timeout=600)
        #: jobs that were sent, and answers that asked to send again because the database was busy
        self.sent = self.busy = 0

    def run(self) -> None:
        for number in self._numbers:
            text = (_LINES + _END).format(rank=number % 8, number=number)
            (self._send_at_once if self._is_at_once else self._send)(f"small-{number}", text.encode())
            self.sent += 1

    def _send(self, slug: str, data: bytes) -> None:
        self._ask("POST", "/api/v1/jobs/", json.dumps({"name": slug, "slug": slug, "outcome": "failed"}).encode())
        digest = hashlib.sha256(data).hexdigest()
        self._ask("PUT", f"/api/v1/jobs/{slug}/artifacts/{digest}?path=train.log", data, "application/octet-stream")
        self._ask("POST", f"/api/v1/jobs/{slug}/diagnose/", b"{}")

    def _send_at_once(self, slug: str, data: bytes) -> None:
        address = f"/api/v1/jobs/{slug}/files/train.log?outcome=failed"
        self._ask("PUT", address, data, "application/octet-stream")

    def _ask(self, method: str, path: str, body: bytes, kind: str = "application/json") -> None:
        headers = {"Authorization": f"Bearer {self._site.token}", "Content-Type": kind}
        while True:
            self._connection.request(method, path, body, headers)
            answer = self._connection.getresponse()
            told = answer.read()
            if answer.status != _BUSY:
                break
            self.busy += 1
            time.sleep(_AGAIN_S)
        if answer.status >= 400:
            raise RuntimeError(f"{path} answered {answer.status}: {told[:300]!r}")


def main() -> int:
    """Measure; 1 if a job was not diagnosed in half an hour."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--jobs", type=int, default=300)
    options.add_argument("--senders", type=int, default=4)
    options.add_argument("--at-once", action="store_true", help="job, log and diagnosis in one request")
    options.add_argument("--against", type=Path, default=ROOT, help="the checkout whose site is measured")
    chosen = options.parse_args()
    with running(chosen.against, FAULTLINE_API_PER_MINUTE=_NO_LIMIT) as site:
        before = _cpu_by_part(site)
        began = time.monotonic()
        senders = [
            Sender(site, range(number, chosen.jobs, chosen.senders), is_at_once=chosen.at_once)
            for number in range(chosen.senders)
        ]
        for sender in senders:
            sender.start()
        for sender in senders:
            sender.join()
        if sum(sender.sent for sender in senders) != chosen.jobs:
            raise SystemExit("a sender was refused: nothing is measured")
        sent_s = time.monotonic() - began
        left = _wait(site, began)
        done_s = time.monotonic() - began
        spent = _cpu_by_part(site)
        spent.subtract(before)
    parts = ", ".join(f"{part} {1000 * cpu_s / chosen.jobs:.0f}" for part, cpu_s in sorted(spent.items()))
    print(f"{chosen.jobs} jobs: sent after {sent_s:.1f} s, diagnosed after {done_s:.1f} s, {left} left")
    print(f"answers that the database is busy: {sum(sender.busy for sender in senders)}")
    print(f"CPU ms a job: {1000 * spent.total() / chosen.jobs:.0f} ({parts})")
    return bool(left)


def _wait(site: Site, began: float) -> int:
    """Until all jobs are diagnosed; how many are not."""
    connection = http.client.HTTPConnection(urlsplit(site.url).netloc, timeout=600)
    while True:
        connection.request("GET", "/metrics", headers={"Authorization": f"Bearer {site.token}"})
        left = _undone(connection.getresponse().read().decode())
        if not left or time.monotonic() - began > _PATIENCE_S:
            return left
        time.sleep(0.5)


def _undone(metrics: str) -> int:
    rows = [line for line in metrics.splitlines() if line.startswith("faultline_runs{")]
    return round(sum(float(row.rpartition(" ")[2]) for row in rows if 'state="queued"' in row or "running" in row))


def _cpu_by_part(site: Site) -> Counter[str]:
    found: Counter[str] = Counter()
    for pid in processes.tree(site.pid):
        with contextlib.suppress(OSError):
            line = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            part = next((part for words, part in _PARTS.items() if words in line), "others")
            found[part] += processes.cpu_s(pid) or 0.0
    return found


if __name__ == "__main__":
    raise SystemExit(main())
