"""Changes of a job's files before they arrive: other names, another order, half of them lost, stamps removed, a cut."""

from __future__ import annotations

import gzip
import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

type Files = dict[str, bytes]

_STAMP = re.compile(
    r"(?<![\d.])(\d{4})-(\d\d)-(\d\d)([T ])(\d\d):(\d\d):(\d\d)(?![\d:]*(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d))"
)
#: Every usual form of a time at the start of a line.
_ANY_STAMP = re.compile(
    r"\[?\d{4}[-/]\d\d[-/]\d\d[T _]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?\]?[:,]? ?"
    r"|\b[A-Z][a-z]{2} +\d{1,2} \d\d:\d\d:\d\d(?:\.\d+)? |\[[A-Z][a-z]{2} [A-Z][a-z]{2} +\d+ [\d:]{8} \d{4}\] "
    r"|\[ *\d+\.\d{6}\] |(?<=[IWEF])\d{4} \d\d:\d\d:\d\d\.\d+ |\b\d\d/\d\d/\d\d \d\d:\d\d:\d\d "
)


@dataclass
class Job:
    """A job's files, its machines, the machines at fault; ``known`` are nodes that may be accused."""

    files: Files
    nodes: tuple[str, ...]
    known: frozenset[str] = frozenset()
    rename: dict[str, str] = field(default_factory=dict)
    is_reversed: bool = False


type Change = Callable[[Job, random.Random], Job | None]


def _texts(job: Job) -> list[str]:
    """Paths of plain logs."""
    return [
        p
        for p, data in job.files.items()
        if not p.endswith((".json", ".csv", ".gz", ".zst", ".bin")) and b"\0" not in data[:4096]
    ]


def _of_node(job: Job, path: str) -> str | None:
    return next(
        (
            n
            for n in sorted(job.nodes, key=len, reverse=True)
            if re.search(rf"(?<![\w]){re.escape(n)}(?![A-Za-z0-9])", path)
        ),
        None,
    )


def _replaced(job: Job, files: Files) -> Job:
    return Job(files, job.nodes, job.known)


def permuted(job: Job, rng: random.Random) -> Job | None:
    """The files come in another order."""
    found = _replaced(job, job.files)
    found.is_reversed = True
    return found


def renamed(job: Job, rng: random.Random) -> Job | None:
    """The machines have other names, in another order of the alphabet."""
    names = [n for n in job.nodes if re.search(r"\d", n) and len(n) >= 4]
    if len(names) < 2 or len(names) < len(job.nodes):
        return None
    numbers = rng.sample(range(100, 999), len(names))
    other = {n: f"quartz-{k}" for n, k in zip(names, numbers, strict=True)}
    pattern = re.compile(
        "|".join(rf"(?<![A-Za-z0-9]){re.escape(n)}(?![A-Za-z0-9])" for n in sorted(names, key=len, reverse=True))
    )

    def swap(text: str) -> str:
        return pattern.sub(lambda m: other[m.group(0)], text)

    files = {
        swap(p): swap(d.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
        for p, d in job.files.items()
    }
    return Job(files, tuple(other[n] for n in job.nodes), frozenset(other.get(n, n) for n in job.known), other)


def below_a_directory(job: Job, rng: random.Random) -> Job | None:
    """All files are some directories deeper."""
    return _replaced(job, {f"upload/case-7/{p}": d for p, d in job.files.items()})


def compressed(job: Job, rng: random.Random) -> Job | None:
    """Half of the logs are gzipped; the engine gets them through its archive reader."""
    picked = {p for p in _texts(job) if rng.random() < 0.5}
    return _replaced(
        job,
        {
            (p + ".gz" if p in picked else p): (gzip.compress(d, 1, mtime=0) if p in picked else d)
            for p, d in job.files.items()
        },
    )


def of_windows(job: Job, rng: random.Random) -> Job | None:
    """Lines end in carriage return and line feed."""
    picked = set(_texts(job))
    return _replaced(
        job, {p: d.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n") if p in picked else d for p, d in job.files.items()}
    )


def beside_others(job: Job, rng: random.Random) -> Job | None:
    """Files that are no logs are added."""
    more = {
        "README.md": b"# Run 12\n\nHow this run was started, and by whom.\n",
        "config/train.yaml": b"model:\n  layers: 48\n  hidden: 6144\noptimizer:\n  lr: 3.0e-4\n  error_feedback: 1\n",
        "requirements.txt": b"torch==2.4.0\nnumpy==1.26.4\n",
        "data/sizes.bin": bytes(range(256)) * 8,
    }
    return _replaced(job, {**job.files, **more})


def twice(job: Job, rng: random.Random) -> Job | None:
    """One log is there twice, under another name."""
    paths = sorted(_texts(job))
    if not paths:
        return None
    path = rng.choice(paths)
    stem, dot, end = path.rpartition(".")
    return _replaced(job, {**job.files, (f"{stem}.bak{dot}{end}" if dot else f"{path}.bak"): job.files[path]})


def undescribed(job: Job, rng: random.Random) -> Job | None:
    """The description of the job is missing."""
    left = {
        p: d for p, d in job.files.items() if not p.rsplit("/", 1)[-1].startswith(("job.json", "inventory", "layout"))
    }
    return _replaced(job, left) if len(left) < len(job.files) else None


def halved(job: Job, rng: random.Random) -> Job | None:
    """The logs of half of the machines are lost; not of those at fault."""
    there = sorted({n for p in job.files if (n := _of_node(job, p))} - job.known)
    if len(there) < 4:
        return None
    lost = set(rng.sample(there, len(there) // 2))
    return _replaced(job, {p: d for p, d in job.files.items() if _of_node(job, p) not in lost})


def without_the_culprit(job: Job, rng: random.Random) -> Job | None:
    """The logs of the machines at fault are lost."""
    there = {n for p in job.files if (n := _of_node(job, p))}
    if not job.known & there or len(there) < 4 or job.known >= there:
        return None
    return _replaced(job, {p: d for p, d in job.files.items() if _of_node(job, p) not in job.known})


def undated(job: Job, rng: random.Random) -> Job | None:
    """No line has a time."""
    picked = set(_texts(job))
    files = {
        p: _ANY_STAMP.sub("", d.decode("utf-8", "replace")).encode() if p in picked else d for p, d in job.files.items()
    }
    return _replaced(job, files)


def of_two_zones(job: Job, rng: random.Random) -> Job | None:
    """Every second machine writes its times without zone, in a zone five hours later."""
    later = set(sorted(job.nodes)[::2])

    def moved(match: re.Match[str]) -> str:
        y, mo, d, sep, h, mi, s = match.groups()
        try:
            at = datetime(int(y), int(mo), int(d), int(h), int(mi), int(s)) + timedelta(hours=5)
        except ValueError:
            return match.group(0)
        return f"{at:%Y-%m-%d}{sep}{at:%H:%M:%S}"

    files = {
        p: _STAMP.sub(moved, d.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
        if _of_node(job, p) in later and p in set(_texts(job))
        else d
        for p, d in job.files.items()
    }
    return _replaced(job, files) if files != job.files else None


def cut(job: Job, rng: random.Random) -> Job | None:
    """Each log ends somewhere in its last twentieth, in the middle of a line."""
    files = {}
    for p, d in job.files.items():
        files[p] = d[: len(d) - rng.randrange(1, max(2, len(d) // 20))] if p in set(_texts(job)) and len(d) > 400 else d
    return _replaced(job, files)


#: Changes that must not change the answer, and changes after which it may be incomplete but not wrong.
SAME: dict[str, Change] = {
    f.__name__: f
    for f in (permuted, renamed, below_a_directory, compressed, of_windows, beside_others, twice, of_two_zones)
}
LESS: dict[str, Change] = {f.__name__: f for f in (undescribed, halved, without_the_culprit, undated, cut)}
