"""What a look at the growing files of a job costs: ``python -m lab.measure looks [--files 16] [--lines 200 2000
10000]``.

CPU milliseconds for each file that has so many new lines, of reading alone: no site, no database.
"""

from __future__ import annotations

import argparse
import time

from diagnosis.live.reading.observe import Range, observe
from lab.measure.streamed import text_of

_TIMES = 5


def cost_ms(files: int, lines: int) -> float:
    """Of one file, once its messages are known."""
    texts = [text_of(number, lines, 1) for number in range(files)]
    ranges = [Range(f"node-{n // 8}/rank{n}.log", text[: 64 << 10], text) for n, text in enumerate(texts)]
    observe(ranges)
    began = time.process_time()
    for _ in range(_TIMES):
        observe(ranges)
    return (time.process_time() - began) / _TIMES / files * 1000


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=int, default=16)
    parser.add_argument("--lines", type=int, nargs="+", default=[200, 2_000, 10_000])
    args = parser.parse_args(arguments)
    for lines in args.lines:
        print(f"{args.files} files with {lines:,} new lines each: {cost_ms(args.files, lines):.1f} CPU ms a file")


if __name__ == "__main__":
    main()
