"""Whether another checkout gives the same reports: `python -m lab.measure reports --against CHECKOUT PATH…`.

Diagnoses each path (each sample without one) with both checkouts, in one process each, and prints the paths whose
reports differ, with the first keys that do. The proof that a change of speed changes nothing else.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
_CODE = """
import contextlib, io, json, sys
from diagnosis.__main__ import main
for path in sys.argv[1:]:
    out, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        code = main([path, "--json"])
    print(json.dumps([code, json.loads(out.getvalue() or "null"), errors.getvalue()]), flush=True)
"""


def reports(checkout: Path, paths: list[Path]) -> list[Any]:
    """Exit code, report and messages of each path."""
    command = [sys.executable, "-c", _CODE, *map(str, paths)]
    done = subprocess.run(command, cwd=checkout, env=os.environ | {"PYTHONPATH": str(checkout)}, stdout=subprocess.PIPE)
    return [json.loads(line) for line in done.stdout.splitlines()]


def differences(one: object, other: object, place: str = "") -> list[str]:
    """The places in which two reports differ."""
    if isinstance(one, dict) and isinstance(other, dict):
        keys = sorted({*one, *other})
        return [found for key in keys for found in differences(one.get(key), other.get(key), f"{place}.{key}")]
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        pairs = enumerate(zip(one, other, strict=True))
        return [found for number, pair in pairs for found in differences(*pair, f"{place}[{number}]")]
    return [] if one == other else [place]


def main() -> int:
    """One line for each path that differs, and how many are equal; exit code 1 if one differs."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("paths", nargs="*", type=Path, metavar="PATH")
    parser.add_argument("--against", type=Path, required=True, metavar="CHECKOUT")
    options = parser.parse_args()
    paths = [path.resolve() for path in options.paths] or sorted((ROOT / "samples").glob("*.tar.gz"))
    here, there = (reports(checkout.resolve(), paths) for checkout in (ROOT, options.against))
    if len(here) != len(paths) or len(there) != len(paths):
        print(f"{len(here)} reports here and {len(there)} there, of {len(paths)}: a checkout failed")
        return 1
    unequal = 0
    for path, one, other in zip(paths, here, there, strict=True):
        if found := differences(one, other):
            unequal += 1
            print(f"{path}: {', '.join(found[:4])}" + (f" and {len(found) - 4} more" if len(found) > 4 else ""))
    print(f"{len(paths) - unequal} of {len(paths)} reports are equal")
    return int(unequal > 0)
