"""Followers of growing logs: processor and memory of each, what the site spends, and how late lines arrive.

``python -m lab.measure followers [--followers 8] [--lines-per-s 2000] [--seconds 30]``. Real `faultline follow`
processes send to a running site, one file each. The lag is the age of the oldest line that the site has not
acknowledged. A reader requests pages meanwhile, one each second. The memory is private memory of all processes of the
site together, median of the second and of the last fifth of the time.
"""

from __future__ import annotations

import argparse
import http.client
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import NamedTuple

from lab.measure import site
from lab.measure.collectors import cpu_s

_LINE = "2026-11-22T03:00:00.000000Z INFO [rank{}] iteration {}/900000 loss 2.5134 grad norm 0.812 lr 1.2e-4 {}\n"


class Used(NamedTuple):
    """CPU seconds and peak resident MiB of a process."""

    cpu_s: float
    peak_mib: float


def used(pid: int) -> Used:
    said = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    status = Path(f"/proc/{pid}/status").read_text()
    peak = next(int(row.split()[1]) for row in status.splitlines() if row.startswith("VmHWM:"))
    return Used((int(said[11]) + int(said[12])) / os.sysconf("SC_CLK_TCK"), peak / 1024)


class Writer(threading.Thread):
    """Writes lines to files at a pace, and knows when each byte was written."""

    def __init__(self, paths: list[Path], rate: float, seconds: float) -> None:
        super().__init__(daemon=True)
        self._paths, self._rate, self._seconds = paths, rate, seconds
        #: (moment, bytes of one file by then)
        self.written: list[tuple[float, int]] = []

    def run(self) -> None:
        files = [path.open("a") for path in self._paths]
        began, n, size = time.perf_counter(), 0, 0
        while (now := time.perf_counter()) < began + self._seconds:
            due = int((now - began) * self._rate)
            text = "".join(_LINE.format(0, k, "x" * 60) for k in range(n, due))
            for file in files:
                file.write(text)
                file.flush()
            n, size = due, size + len(text)
            self.written.append((now, size))
            time.sleep(0.1)

    def lag_s(self, acknowledged: int) -> float:
        """The age of the first byte after ``acknowledged``."""
        late = next((moment for moment, size in self.written if size > acknowledged), None)
        return 0.0 if late is None else time.perf_counter() - late


class Reader(threading.Thread):
    """Requests the pages of a running job, one a second, each over a new connection."""

    PAGES = ("/running/", "/jobs/run/", "/jobs/run/live/0/", "/incidents/")

    def __init__(self, made: site.Site) -> None:
        super().__init__(daemon=True)
        self._made = made
        self.ended = threading.Event()
        self.waits: dict[str, list[float]] = {path: [] for path in self.PAGES}
        self.failed: list[str] = []

    def run(self) -> None:
        n = 0
        while not self.ended.wait(1):
            path, n = self.PAGES[n % len(self.PAGES)], n + 1
            connection = http.client.HTTPConnection("localhost", self._made.port, timeout=60)
            began = time.perf_counter()
            try:
                connection.request("GET", path, headers={"Cookie": f"sessionid={self._made.cookie}"})
                answer = connection.getresponse()
                answer.read()
                if answer.status != 200:
                    self.failed.append(f"{path} {answer.status}")
            except OSError as error:
                self.failed.append(f"{path} {error}")
            finally:
                connection.close()
            self.waits[path].append(time.perf_counter() - began)


def private_mib(folder: Path) -> float:
    """Private memory, in MiB, of all processes of the site whose data lies in ``folder``."""
    total = 0
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if str(folder).encode() in (process / "environ").read_bytes():
                rows = (process / "status").read_text().splitlines()
                total += sum(int(row.split()[1]) for row in rows if row.startswith("RssAnon:"))
        except OSError:
            continue
    return total / 1024


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--followers", type=int, default=8)
    parser.add_argument("--lines-per-s", type=float, default=2_000.0)
    parser.add_argument("--seconds", type=float, default=30.0)
    args = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder, site.running(FAULTLINE_APPENDS_PER_MINUTE="100000000") as made:
        logs = [Path(folder) / f"node-{n}" / "train.log" for n in range(args.followers)]
        for log in logs:
            log.parent.mkdir()
            log.touch()
        env = {**os.environ, "FAULTLINE_TOKEN": made.token, "FAULTLINE_URL": made.url, "PYTHONPATH": "client"}
        followers = [
            subprocess.Popen(
                [
                    *(sys.executable, "-m", "faultline", "follow", str(log.parent), "--job", "run", "--slug", "run"),
                    *("--prefix", f"{log.parent.name}/", "--state", f"{folder}/state-{n}", "--quiet"),
                ],
                env=env,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            for n, log in enumerate(logs)
        ]
        time.sleep(5)
        before, own = cpu_s(made.data), [used(one.pid) for one in followers]
        writer = Writer(logs, args.lines_per_s, args.seconds)
        writer.start()
        reader = Reader(made)
        reader.start()
        lags, memory = [], []
        parts = made.data / "parts"
        while writer.is_alive():
            time.sleep(1)
            sizes = [part.stat().st_size for part in parts.rglob("*.part")]
            lags += [writer.lag_s(size) for size in sizes]
            memory.append(private_mib(made.data))
        reader.ended.set()
        time.sleep(6)
        lines = args.followers * args.lines_per_s * args.seconds
        spent = [used(one.pid) for one in followers]
        each = max((after.cpu_s - start.cpu_s) / args.seconds for after, start in zip(spent, own, strict=True))
        whole = sum(1 for part in parts.rglob("*.part") if part.stat().st_size == logs[0].stat().st_size)
        million = (cpu_s(made.data) - before) / lines * 1e6
        print(
            f"{args.followers} followers, {args.lines_per_s:,.0f} lines/s each, {args.seconds:.0f} s: "
            f"{whole} of {len(logs)} files whole; a follower used at most {100 * each:.1f} % of a core and "
            f"{max(one.peak_mib for one in spent):.0f} MiB; the site {million:.1f} CPU s per million lines; "
            f"lag median {site.quantile(lags, 0.5):.1f} s, p95 {site.quantile(lags, 0.95):.1f} s"
        )
        fifth = max(1, len(memory) // 5)
        for path, waits in {**reader.waits, "all pages": [s for each in reader.waits.values() for s in each]}.items():
            p50, p95 = (1000 * site.quantile(waits, share) for share in (0.5, 0.95))
            print(f"{path}: {len(waits)} times, p50 {p50:.0f} ms, p95 {p95:.0f} ms")
        print(
            f"not answered with 200: {', '.join(sorted(set(reader.failed))) or 'none'}; memory of the site "
            f"{site.quantile(memory[fifth : 2 * fifth], 0.5):.0f} MiB, at the end "
            f"{site.quantile(memory[-fifth:], 0.5):.0f} MiB, peak {max(memory):.0f} MiB"
        )
        for one in followers:
            one.send_signal(signal.SIGKILL)
            one.wait()


if __name__ == "__main__":
    main()
