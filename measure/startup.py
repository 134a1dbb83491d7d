"""How long programs take to start: the command on one small log, the pages of the site, the tasks of a worker.

    python -m measure startup [--repeat 5] [--against CHECKOUT]

Starts each program `--repeat` times and prints the median of its processor time (user and system: least disturbed by
other programs), its peak memory, and the heavy libraries that it loaded. `--against` alternates with the programs of
another checkout.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_HEAVY = ("numpy", "polars", "numba", "scipy", "sklearn", "pandas", "plotly")
_LOG = "".join(f"2026-11-21 03:00:{n:02d},000 INFO iteration {n} loss 2.5\n" for n in range(60)) + (
    "2026-11-21 03:01:10,000 ERROR torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n"
)
_DJANGO = "import os; os.environ['DJANGO_SETTINGS_MODULE'] = 'triage.settings'; import django; django.setup(); "
_PROGRAMS = {
    "python -m diagnosis": "import runpy, sys; sys.argv = ['diagnosis', {log!r}, '--json']; "
    "sys.stdout = open(os.devnull, 'w'); runpy.run_module('diagnosis', run_name='__main__', alter_sys=True)",
    "pages of the site": _DJANGO + "import triage.urls",
    "tasks of a worker": _DJANGO + "import ingest.tasks, triage.tasks",
}
_TOLD = """
import atexit, json, os, resource, sys
def tell():
    used = resource.getrusage(resource.RUSAGE_SELF)
    loaded = [name for name in {heavy!r} if name in sys.modules]
    told = {{"cpu_s": used.ru_utime + used.ru_stime, "mb": used.ru_maxrss / 1024, "loaded": loaded}}
    open({report!r}, "w").write(json.dumps(told))
atexit.register(tell)
"""


def started(checkout: Path, code: str, folder: Path) -> dict[str, object]:
    """Processor seconds, MB and heavy libraries of one program in a process of its own."""
    log, report = folder / "small.log", folder / "report.json"
    log.write_text(_LOG)
    text = _TOLD.format(heavy=_HEAVY, report=str(report)) + code.replace("{log!r}", repr(str(log)))
    environment = {**os.environ, "PYTHONPATH": str(checkout)}
    done = subprocess.run([sys.executable, "-c", text], cwd=checkout, env=environment, capture_output=True, text=True)
    if not report.exists():
        raise SystemExit(done.stderr)
    found: dict[str, object] = json.loads(report.read_text())
    return found


def main() -> None:
    """Print one row for each program and checkout."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--against", type=Path, help="another checkout, started in turn with this one")
    args = parser.parse_args()
    checkouts = [*([args.against.resolve()] if args.against else []), ROOT]
    with tempfile.TemporaryDirectory(prefix="faultline-startup-") as name:
        for program, code in _PROGRAMS.items():
            runs: dict[Path, list[dict[str, object]]] = {checkout: [] for checkout in checkouts}
            for _ in range(args.repeat):
                for checkout in checkouts:
                    runs[checkout].append(started(checkout, code, Path(name)))
            for checkout, rows in runs.items():
                cpu, mb = (statistics.median(float(str(row[key])) for row in rows) for key in ("cpu_s", "mb"))
                heavy = " ".join(rows[0]["loaded"]) or "none"  # type: ignore[arg-type]
                which = "this checkout" if checkout == ROOT else checkout.name
                print(f"{program:20} {which:16} {cpu:6.2f} CPU s {mb:6.0f} MB  {heavy}")


if __name__ == "__main__":
    main()
