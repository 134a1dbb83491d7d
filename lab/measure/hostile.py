"""What hostile files cost: `python -m lab.measure hostile --folder FOLDER [--only REGEX]
[--site [--database postgres]]`.

Each file of a folder is diagnosed by the command line, with a good log beside it, in a process of its own. Prints each
file that takes more than 10 seconds, more than 1 GB, that ends the command, takes the good log with it, or leaves more
than one sentence, and the number of each. With `--site` each is sent over HTTP to a site that is started for this. The
test suite makes its own files (`tests/hostile_corpus.py`).
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from ingest import processes
from lab.measure import hostile_site
from lab.measure.hostile_outcomes import GIVE_UP_S, GOOD, GOOD_NAME, MAX_BYTES, MAX_S, Outcome


def outcome_of(file: Path) -> Outcome:
    """Diagnose one file with the good log beside it."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(file, Path(folder, file.name))
        Path(folder, GOOD_NAME).write_text(GOOD)
        with Path(folder).with_suffix(".out").open("w+") as out:
            argv = [sys.executable, "-m", "diagnosis", folder, "--json"]
            process = subprocess.Popen(argv, stdout=out, stderr=subprocess.DEVNULL)
            status, usage = _wait(process)
            out.seek(0)
            text = out.read()
        Path(folder).with_suffix(".out").unlink()
    found = Outcome(file.name, usage.ru_utime + usage.ru_stime, usage.ru_maxrss << 10)
    if status != 0:
        found.wrong.append(f"ended with {status}")
        return found
    rows = json.loads(text)["inputs"]
    if not any(row["path"] == GOOD_NAME and row["lines"] for row in rows):
        found.wrong.append("neighbour lost")
    own = Counter(row["path"] for row in rows if row["path"] != GOOD_NAME and row.get("skipped"))
    if any(count > 1 for count in own.values()):
        found.wrong.append("more than one sentence")
    if not own and not any(row["path"] != GOOD_NAME for row in rows):
        found.wrong.append("no sentence")
    return found


def _wait(process: subprocess.Popen[bytes]) -> tuple[int, os.struct_rusage]:  # type: ignore[name-defined]
    """Its status and usage. It is ended when it has taken too much processor time, or hangs: another process may keep
    the machine busy.
    """
    began = time.monotonic()
    while True:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid:
            process.returncode = os.waitstatus_to_exitcode(status)
            return process.returncode, usage
        is_stuck = time.monotonic() - began > 10 * GIVE_UP_S
        if is_stuck or (processes.cpu_s(process.pid) or 0.0) > GIVE_UP_S:
            process.kill()
        time.sleep(0.02)


def main() -> int:
    """Measure all files of the folder; 1 if anything was wrong."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--folder", type=Path, required=True)
    options.add_argument("--only", default="", help="a pattern of names")
    options.add_argument("--site", action="store_true", help="send them to a site instead")
    options.add_argument("--database", choices=("sqlite", "postgres"), default="sqlite", help="of that site")
    chosen = options.parse_args()
    files = sorted(file for file in chosen.folder.iterdir() if file.is_file() and re.search(chosen.only, file.name))
    wrong: Counter[str] = Counter()
    found_by_site = hostile_site.outcomes(files, chosen.database)
    for found in found_by_site if chosen.site else map(outcome_of, files):
        if found.cpu_s > MAX_S:
            found.wrong.append(f"over {MAX_S:.0f} s")
        if found.peak_bytes > MAX_BYTES:
            found.wrong.append("over 1 GB")
        wrong.update(found.wrong)
        if found.wrong:
            cost = f"{found.cpu_s:.1f} CPU s, {found.peak_bytes >> 20:,} MiB"
            print(f"{found.name}: {', '.join(found.wrong)} ({cost})", flush=True)
    print(f"{len(files):,} files; " + (", ".join(f"{n} {what}" for what, n in wrong.items()) or "nothing wrong"))
    return bool(wrong)
