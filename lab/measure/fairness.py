"""How long a job of one file waits while large archives of the same sender, or of another one, are read.

    python -m lab.measure fairness [--archives 10] [--members 50000] [--member-bytes 2] [--probes 20] [--other-sender]
                               [--database postgres] [--against CHECKOUT]

Starts its own site and sends `--archives` archives of `--members` small files each (0.8 MB at 50,000), each as a job.
The files are logs of one line; with `--member-bytes` they are equal and have so many bytes. Then it sends, one after
another, `--probes` jobs of one file, and requests the diagnosis of each; with `--other-sender` as another person.
Prints the time from sending until the file is read and until the job is diagnosed, how many members were read
meanwhile, how long the turns took in which archives were opened, and the processor time of the whole site. `--against`
measures another checkout first, in the same run. Fails if the p95 of the time to read is above `--limit-s`, or if
nothing of the archives was read.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import io
import json
import re
import tarfile
import time
from pathlib import Path

from lab.measure.site import ROOT, Site, quantile, running
from lab.measure.upload import Api
from scripts.services import postgres

_LINE = b"2026-11-21 03:00:%02d,000 INFO iteration %d loss 2.5\n"
#: a probe that is not read by then counts as this long
_PATIENCE_S = 120.0
_UNPACKED = re.compile(r"run \d+ \(unpack of job \d+\) \w.* after ([\d.]+) s")


def archive_of(members: int, number: int, member_bytes: int = 0) -> bytes:
    """A gzipped tar of so many one-line logs, or of equal files of ``member_bytes``."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz", compresslevel=6) as archive:
        for n in range(members):
            text = b"x" * (member_bytes - 1) + b"\n" if member_bytes else _LINE % (n % 60, n)
            info = tarfile.TarInfo(f"a{number}/rank{n}.log")
            info.size = len(text)
            archive.addfile(info, io.BytesIO(text))
    return packed.getvalue()


def send(api: Api, slug: str, path: str, data: bytes) -> None:
    body = json.dumps({"name": slug, "slug": slug, "outcome": "failed"})
    status, answer = _call(api, "POST", "/api/v1/jobs/", body, **{"Content-Type": "application/json"})
    assert status == 201, answer
    address = f"/api/v1/jobs/{slug}/artifacts/{hashlib.sha256(data).hexdigest()}?path={path}"
    status, answer = _call(api, "PUT", address, data)
    assert status in (201, 202), answer


def _call(api: Api, method: str, path: str, body: object, **headers: str) -> tuple[int, bytes]:
    """As a client does: again while the site says that it is busy. That counts as waiting."""
    until = time.monotonic() + _PATIENCE_S
    while True:
        status, _, answer = api.call(method, path, body, **headers)
        if status != 503 or time.monotonic() > until:
            return status, answer
        time.sleep(0.5)


def probe(api: Api, number: int) -> tuple[float, float]:
    """Seconds until the one file is read, and until its job is diagnosed."""
    slug = f"one-{number}"
    began = time.monotonic()
    send(api, slug, "a.log", b"".join(_LINE % (n % 60, n) for n in range(200)))
    api.call("POST", f"/api/v1/jobs/{slug}/diagnose/")
    read = 0.0
    while time.monotonic() - began < _PATIENCE_S:
        steps = json.loads(api.call("GET", f"/api/v1/jobs/{slug}/")[2])["progress"]["steps"]
        states = {step["name"]: step["state"] for step in steps}
        if not read and states.get("parsing") == "done":
            read = time.monotonic() - began
        if states.get("diagnosing") == "done":
            return read, time.monotonic() - began
        time.sleep(0.2)
    return read or _PATIENCE_S, _PATIENCE_S


def members_read(api: Api, archives: int) -> int:
    lines = 0
    for number in range(archives):
        steps = json.loads(api.call("GET", f"/api/v1/jobs/many-{number}/")[2])["progress"]["steps"]
        said = next((step["text"] for step in steps if step["name"] == "parsing"), "0")
        lines += int(said.split()[0].replace(",", ""))
    return lines


def print_costs(site: Site, started_cpu_s: float) -> None:
    """The turns of opening archives that have ended, and the processor time since the site had started."""
    log = (site.data / "log" / "worker.log").read_text(errors="replace")
    turns = [float(seconds) for seconds in _UNPACKED.findall(log)]
    longest = f", the longest {max(turns):.1f} s" if turns else ""
    print(f"  turns in which archives were opened: {len(turns)}{longest}")
    print(f"  processor time of the site: {site.cpu_s() - started_cpu_s:.0f} s since it has started", flush=True)


def measure(root: Path, args: argparse.Namespace) -> tuple[float, int]:
    """The p95 of the seconds until a file is read, and how many members were read meanwhile."""
    with contextlib.ExitStack() as stack:
        variables = {"FAULTLINE_WORKER_PROCESSES": "2"}
        if args.database == "postgres":
            variables["DATABASE_URL"] = stack.enter_context(postgres())
        site: Site = stack.enter_context(running(root, **variables))
        api, started_cpu_s = Api(site.url, site.token), site.cpu_s()
        other = Api(site.url, site.other_token) if args.other_sender else api
        for number in range(args.archives):
            data = archive_of(args.members, number, args.member_bytes)
            send(api, f"many-{number}", "all.tar.gz", data)
        print(f"  {args.archives} archives of {args.members:,} members, {len(data) / 1e6:.1f} MB each")
        time.sleep(5)
        began = time.monotonic()
        seconds_of_probes = [probe(other, number) for number in range(args.probes)]
        count, seconds = members_read(api, args.archives), time.monotonic() - began
        for name, values in (
            ("read", [t[0] for t in seconds_of_probes]),
            ("diagnosed", [t[1] for t in seconds_of_probes]),
        ):
            figures = ", ".join(f"p{int(100 * q)} {quantile(values, q):.1f} s" for q in (0.5, 0.95))
            print(f"  one file {name}: {figures}, at most {max(values):.1f} s ({len(values)} jobs)")
        print(f"  members read meanwhile: {count:,} in {seconds:.0f} s", flush=True)
        print_costs(site, started_cpu_s)
    return quantile([t[0] for t in seconds_of_probes], 0.95), count


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--archives", type=int, default=10)
    parser.add_argument("--members", type=int, default=50_000)
    parser.add_argument("--member-bytes", type=int, default=0, help="of each file; 0: one line of a log")
    parser.add_argument("--other-sender", action="store_true", help="the jobs of one file are of another person")
    parser.add_argument("--probes", type=int, default=20)
    parser.add_argument("--limit-s", type=float, default=10.0)
    parser.add_argument("--database", choices=("sqlite", "postgres"), default="sqlite")
    parser.add_argument("--against", type=Path, help="another checkout, measured first")
    args = parser.parse_args()
    if args.against:
        print(f"{args.against}:")
        measure(args.against.resolve(), args)
    print("this checkout:")
    worst, count = measure(ROOT, args)
    return int(worst > args.limit_s or not count)


if __name__ == "__main__":
    raise SystemExit(main())
