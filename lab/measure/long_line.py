"""A very long line in a growing log: memory and processor time of reading it while it grows, and whole at the end.

``python -m lab.measure long_line [--mb 200]``. The line stands between lines of progress; the counts after it must be
seen.
"""

from __future__ import annotations

import argparse
import os
import resource
import tempfile
import time
from pathlib import Path

from diagnosis import ParseHints, parse

_STEP = "2026-11-22 03:00:{0:02d},000 INFO [rank0] iteration {0}/1000 loss 2.5 lr 1e-4\n"


def write(file: Path, mb: int) -> None:
    with file.open("w") as out:
        out.writelines(_STEP.format(n) for n in range(10))
        out.writelines("x" * (1 << 20) for _ in range(mb))
        out.write("\n")
        out.writelines(_STEP.format(n) for n in range(10, 20))


def growing(file: Path) -> str:
    """The looks at the file, as a worker takes them."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "triage.settings")
    import django

    django.setup()
    from ingest.isolation import client
    from ingest.services.watching import end_of_lines

    at, size, looks, last = 0, file.stat().st_size, 0, None
    while (end := end_of_lines(file, at, size)) > at:
        args = {"source": str(file), "path": "node-1/train.log", "start": at, "length": end - at}
        (seen,) = client.call("observe_ranges", {"beat": lambda: None}, None, ranges=[args], time_zone="UTC")
        last = next((counts[-1][0] for counts in seen["counters"].values()), last)
        at, looks = end, looks + 1
    return f"{looks} looks, last count {last}"


def whole(file: Path) -> str:
    """The file, as it is read when it is complete."""
    with file.open("rb") as stream, tempfile.TemporaryDirectory() as work:
        parsed = parse(stream, "node-1/train.log", ParseHints(), Path(work))
        return f"{parsed.lines} lines, “{' '.join(parsed.notes)}”"


def peak_mib() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mb", type=int, default=200)
    args = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        for mb in (1, args.mb):
            file = Path(folder) / f"{mb}.log"
            write(file, mb)
            for read in (whole, growing):
                began = time.process_time()
                said = read(file)
                used = time.process_time() - began
                print(
                    f"a line of {mb} MiB, {read.__name__}: {said}; {used:.1f} CPU s, peak so far {peak_mib()} MiB",
                    flush=True,
                )


if __name__ == "__main__":
    main()
