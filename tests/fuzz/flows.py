"""Every flow format damaged in every way: `python -m tests.fuzz flows [--rounds 20] [--seed 1] [--form X]`.

One small capture is written in each exporter's form and then changed: bytes flipped, cut, doubled, moved; separators,
words and line ends replaced; fields made huge, negative or endless. No input may raise, take longer than a limit, or be
refused without a sentence that says what is wrong; what is read must be analysed without raising either. Prints what
was broken and a summary for each form; exits with 1 if anything was.
"""

from __future__ import annotations

import argparse
import faulthandler
import random
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from tests.diagnosis.kinds.flows.exporters import EXPORTERS
from tests.diagnosis.kinds.flows.helpers import parsed
from tests.diagnosis.kinds.flows.simulate import Job, simulate
from tests.diagnosis.kinds.reports import flows_json

#: CPU seconds that one damaged input may take, and wall seconds after which it hangs.
LONGEST = 5.0
HANGS = 120

Change = Callable[[bytes, random.Random], bytes]
WORDS = (
    b"nan",
    b"inf",
    b"-1",
    b"1e308",
    b"-",
    b"",
    b'"',
    b"null",
    b"99999999999999999999",
    b"0x7f",
    b"\xff\xfe",
    b"0",
    b"18446744073709551615",
    b"-9223372036854775808",
    b"1e-320",
    b"1970-01-01 00:00:00",
    b"{",
    b"]",
    b"\0",
)


def _spot(data: bytes, dice: random.Random) -> int:
    return dice.randrange(len(data) + 1)


def _fields(data: bytes, dice: random.Random, of: Callable[[bytes], bytes], share: float = 0.02) -> bytes:
    """Some of the words between separators, replaced."""
    out, word = bytearray(), bytearray()
    for byte in data[:200_000]:
        if byte in b',;\t\n :"|{}[]':
            out += of(bytes(word)) if word and dice.random() < share else word
            out.append(byte)
            word.clear()
        else:
            word.append(byte)
    return bytes(out + word) + data[200_000:]


def _swapped(data: bytes, dice: random.Random) -> bytes:
    old, new = dice.sample([b",", b"\t", b";", b" ", b"|", b":", b"\n", b"\r\n", b"#", b"."], 2)
    return data.replace(old, new)


def _columns(data: bytes, dice: random.Random) -> bytes:
    """A header that lost, doubled or renamed a name."""
    head, end, rest = data.partition(b"\n")
    names = head.split(b",")
    at = dice.randrange(len(names))
    names[at : at + 1] = dice.choice([[], [names[at]] * 2, [b"x"], [names[at].upper()], [b'"' + names[at]]])
    return b",".join(names) + end + rest


CHANGES: dict[str, Change] = {
    "cut": lambda d, r: d[: _spot(d, r)],
    "headless": lambda d, r: d[_spot(d, r) :],
    "hole": lambda d, r: d[: (a := _spot(d, r))] + d[a + r.randrange(1, 5000) :],
    "doubled": lambda d, r: d[: (a := _spot(d, r))] + d[max(0, a - r.randrange(1, 3000)) :],
    "flipped": lambda d, r: bytes(b ^ (1 << r.randrange(8)) if r.random() < 1e-3 else b for b in d),
    "random byte": lambda d, r: d[: (a := _spot(d, r))] + bytes([r.randrange(256)]) + d[a + 1 :],
    "separator": _swapped,
    "words": lambda d, r: _fields(d, r, lambda _: r.choice(WORDS)),
    "all words": lambda d, r: _fields(d, r, lambda _: r.choice(WORDS), 0.5),
    "huge field": lambda d, r: d[: (a := _spot(d, r))] + r.choice([b"7", b"x", b'"', b"\0"]) * 3_000_000 + d[a:],
    "endless line": lambda d, r: d.replace(b"\n", b" "),
    "columns": _columns,
    "numbers": lambda d, r: _fields(d, r, lambda w: str(r.choice([-1, 10**9, 10**15, 10**18, 10**30, 0])).encode()),
    "times": lambda d, r: _fields(d, r, lambda w: str(r.uniform(-1e10, 1e20)).encode(), 0.1),
    "zeros": lambda d, r: d[: (a := _spot(d, r))] + bytes(r.randrange(1, 4000)) + d[a:],
    "other code": lambda d, r: d.decode("latin-1").encode(r.choice(["utf-16", "utf-16-le", "utf-32"])),
    "marked": lambda d, r: b"\xef\xbb\xbf" + d,
    "two files": lambda d, r: d + d,
    "nested": lambda d, r: d[: (a := _spot(d, r))] + b"[" * 100_000 + b'{"a":' * 1000 + d[a:],
    "nothing": lambda d, r: b"",
    "order": lambda d, r: b"\n".join(r.sample(lines := d.split(b"\n"), len(lines))),
}


def complaint(data: bytes, inventory: list[dict[str, object]]) -> tuple[str | None, str]:
    """What promise an input breaks, or None; and what became of it."""
    began = time.process_time()
    with tempfile.TemporaryDirectory() as work:
        try:
            part = parsed(data, Path(work))
            report = flows_json([part], inventory=inventory)
        except Exception:
            return traceback.format_exc(limit=-4), "raised"
    took = time.process_time() - began
    if took > LONGEST:
        return f"took {took:.1f} CPU s for {len(data)} bytes", "slow"
    if part.skipped is not None and not (len(part.skipped) > 20 and part.skipped.endswith(".")):
        return f"refused without a sentence: {part.skipped!r}", "refused"
    if not report["jobs"] and not report["why_not"] and not report["limits"]:
        return f"read, and nothing said: {part.notes}", "silent"
    return None, "refused" if part.skipped else "jobs" if report["jobs"] else "read"


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=20, help="of every change on every form")
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--form", action="append")
    chosen = options.parse_args()
    warnings.simplefilter("error", RuntimeWarning)
    capture = simulate(Job(tp=4, pp=2, dp=2, steps=6, gpus=4))
    rows = capture.records.sort("start_time").to_dicts()
    broken = 0
    for form in chosen.form or EXPORTERS:
        whole = EXPORTERS[form](rows)
        became: Counter[str] = Counter()
        for turn in range(chosen.rounds):
            for name, change in CHANGES.items():
                dice = random.Random(f"{chosen.seed} {form} {name} {turn}")
                data = change(whole, dice)
                if turn % 3 == 2:  # two faults at once
                    data = dice.choice(list(CHANGES.values()))(data, dice) if len(data) < 5_000_000 else data
                faulthandler.dump_traceback_later(HANGS, exit=True)
                why, end = complaint(data, capture.inventory)
                faulthandler.cancel_dump_traceback_later()
                became[end] += 1
                if why:
                    broken += 1
                    print(f"{form}, {name}, round {turn}: {why}", flush=True)
        print(
            f"{form:18} {sum(became.values())} inputs: " + ", ".join(f"{n} {k}" for k, n in became.most_common()),
            flush=True,
        )
    print(f"{broken} promises broken")
    return 1 if broken else 0
