"""How long programs take to start: the command on one small log, the pages of the site, the tasks of a worker.

    python -m lab.measure startup [--repeat 5] [--against CHECKOUT]

Starts each program `--repeat` times and prints the median of its processor time from its start to its end (user and
system: least disturbed by other programs), its peak memory, and the heavy libraries that it loaded. `--against`
alternates with the programs of another checkout. `--site` starts the whole site instead, with an empty data directory
and again with the same: seconds until its sign-in page answers, and the processor time of all its processes until then.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from triage.serve.children import free_port

ROOT = Path(__file__).resolve().parents[2]
_HEAVY = ("numpy", "polars", "numba", "scipy", "sklearn", "pandas", "plotly")
_LOG = "".join(f"2026-11-21 03:00:{n:02d},000 INFO iteration {n} loss 2.5\n" for n in range(60)) + (
    "2026-11-21 03:01:10,000 ERROR torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n"
)
_DJANGO = "import os; os.environ['DJANGO_SETTINGS_MODULE'] = 'triage.settings'; import django; django.setup(); "
_PROGRAMS = {
    "import polars": "import polars",  # the unit: what the engine cannot do without
    "python -m diagnosis": "import runpy, sys; sys.argv = ['diagnosis', {log!r}, '--json']; "
    "sys.stdout = open(os.devnull, 'w'); runpy.run_module('diagnosis', run_name='__main__', alter_sys=True)",
    "pages of the site": _DJANGO + "import triage.urls",
    "tasks of a worker": _DJANGO + "import ingest.tasks, triage.tasks",
}
_REPORT_CODE = """
import atexit, json, os, sys
def tell():
    open({report!r}, "w").write(json.dumps([name for name in {heavy!r} if name in sys.modules]))
def leave(code, end=os._exit):  # the command ends so
    tell()
    end(code)
atexit.register(tell)
os._exit = leave
"""


def start(checkout: Path, code: str, folder: Path) -> dict[str, object]:
    """Processor seconds, MB and heavy libraries of one program in a process of its own."""
    log, report = folder / "small.log", folder / "report.json"
    log.write_text(_LOG)
    text = _REPORT_CODE.format(heavy=_HEAVY, report=str(report)) + code.replace("{log!r}", repr(str(log)))
    compiled = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment = {**compiled, "PYTHONPATH": str(checkout)}
    errors = folder / "errors.txt"
    report.unlink(missing_ok=True)
    with errors.open("wb") as out:
        process = subprocess.Popen([sys.executable, "-c", text], cwd=checkout, env=environment, stderr=out)
        used = os.wait4(process.pid, 0)[2]
    process.returncode = 0
    if not report.exists():
        raise SystemExit(errors.read_text())
    loaded = json.loads(report.read_text())
    return {"cpu_s": used.ru_utime + used.ru_stime, "mb": used.ru_maxrss / 1024, "loaded": loaded}


def first_page(checkout: Path, data: Path, port: int) -> tuple[float, float]:
    """Wall and processor seconds from the command to the first answer of the sign-in page."""
    env = {**os.environ, "FAULTLINE_DATA_DIR": str(data), "FAULTLINE_PORT": str(port), "PYTHONPATH": str(checkout)}
    log, url = data.with_suffix(".log"), f"http://127.0.0.1:{port}/sign-in/"
    began = time.monotonic()
    with log.open("wb") as out:
        site = subprocess.Popen([sys.executable, "-m", "triage.serve"], cwd=checkout, env=env, stdout=out, stderr=out)
    try:
        while True:
            try:
                with urllib.request.urlopen(url, timeout=60) as answer:
                    answer.read()
                return time.monotonic() - began, _cpu_s(site.pid)
            except OSError:
                if site.poll() is not None:
                    raise SystemExit(log.read_text()) from None
                time.sleep(0.02)
    finally:
        site.send_signal(signal.SIGINT)
        site.wait(60)


def _cpu_s(root: int) -> float:
    """Processor seconds of a process, of those below it, and of their ended children."""
    rows = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        rows[int(stat.parent.name)] = int(fields[1]), sum(map(int, fields[11:15]))
    below, more = {root}, {root}
    while more:
        more = {pid for pid, (parent, _) in rows.items() if parent in more} - below
        below |= more
    return sum(rows[pid][1] for pid in below if pid in rows) / os.sysconf("SC_CLK_TCK")


def _site(checkouts: list[Path], repeat: int) -> None:
    times: dict[tuple[Path, str], list[tuple[float, float]]] = {}
    for _ in range(repeat):
        for checkout in checkouts:
            with tempfile.TemporaryDirectory(prefix="faultline-startup-") as name:
                data = Path(name) / "data"
                for what in ("empty data directory", "again"):
                    times.setdefault((checkout, what), []).append(first_page(checkout, data, free_port()))
    for (checkout, what), rows in times.items():
        wall, cpu = (statistics.median(column) for column in zip(*rows, strict=True))
        which = "this checkout" if checkout == ROOT else checkout.name
        print(f"{what:20} {which:16} {wall:6.1f} s to the first page {cpu:6.1f} CPU s of {len(rows)} starts")


def main() -> None:
    """Print one row for each program and checkout."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--against", type=Path, help="another checkout, started in turn with this one")
    parser.add_argument("--site", action="store_true", help="start the site instead")
    args = parser.parse_args()
    checkouts = [*([args.against.resolve()] if args.against else []), ROOT]
    if args.site:
        _site(checkouts, args.repeat)
        return
    with tempfile.TemporaryDirectory(prefix="faultline-startup-") as name:
        for program, code in _PROGRAMS.items():
            runs: dict[Path, list[dict[str, object]]] = {checkout: [] for checkout in checkouts}
            for _ in range(args.repeat):
                for checkout in checkouts:
                    runs[checkout].append(start(checkout, code, Path(name)))
            for checkout, rows in runs.items():
                cpu, mb = (statistics.median(float(str(row[key])) for row in rows) for key in ("cpu_s", "mb"))
                heavy = " ".join(rows[0]["loaded"]) or "none"  # type: ignore[arg-type]
                which = "this checkout" if checkout == ROOT else checkout.name
                print(f"{program:20} {which:16} {cpu:6.2f} CPU s {mb:6.0f} MB  {heavy}")


if __name__ == "__main__":
    main()
