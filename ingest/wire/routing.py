"""Which job, attempt and file the rows of a stream belong to: by the sender's headers, else by well-known labels."""

from __future__ import annotations

import tomllib
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import Any, Final, NamedTuple

from django.utils.text import slugify

from diagnosis.kinds.logs.unwrap.structured import known_fields, name_of
from diagnosis.values import numbers, plain
from ingest.refusals import Refused

#: characters of one part of a path, and of a whole path
_MAX_PART, _MAX_PATH = 120, 900
_MAX_KEY = 200
_MAX_ATTEMPT = 100_000
#: categories of characters that no name may have
_CONTROL_CATEGORIES = frozenset(("Cc", "Cf", "Zl", "Zp"))
_ROUTES = Path(__file__).with_name("routes.toml")

#: header -> what it says
HEADERS: Final[Mapping[str, str]] = {
    "Faultline-Job": "The job of all lines, by its id or name",
    "Faultline-Job-From": "Labels or attributes that name the job, by comma; the first one found decides",
    "Faultline-Attempt": "The attempt of all lines",
    "Faultline-Attempt-From": "Labels or attributes with the attempt's number",
    "Faultline-Source-From": "Labels or attributes whose values, joined by /, are the file's name",
    "Faultline-Cluster": "The cluster of jobs that are made",
    "Faultline-New-Jobs": "refuse: lines of a job that does not exist are refused. Default: make",
    "Faultline-Message-From": "JSON lines: fields with the text",
    "Faultline-Time-From": "JSON lines: fields with the time",
    "Faultline-Level-From": "JSON lines: fields with the level",
    "Faultline-Debug": "1: nothing is stored; the answer shows what would be",
}


class Place(NamedTuple):
    """Where rows belong. ``job`` is an id or a name."""

    job: str
    attempt: int
    path: str


@cache
def _known_labels() -> dict[str, Any]:
    """The lists of ``routes.toml``, and those of places, which the reader of records has too."""
    said = tomllib.loads(_ROUTES.read_text())
    said |= {key: known_fields()[key] for key in ("node", "pod", "container", "rank")}
    for key in ("job", "attempt"):
        said[key] = [prefix + name for name in said[key] for prefix in said["prefixes"]]
    return said


@dataclass(frozen=True)
class Rules:
    """How one request is routed, from its headers."""

    job: str = ""
    attempt: int | None = None
    job_from: tuple[str, ...] = ()
    attempt_from: tuple[str, ...] = ()
    source_from: tuple[str, ...] = ()
    cluster: str = ""
    makes_jobs: bool = True
    message_from: tuple[str, ...] = ()
    time_from: tuple[str, ...] = ()
    level_from: tuple[str, ...] = ()
    is_debug: bool = False
    #: normalised names of all labels that routing may read
    names: frozenset[str] = field(default_factory=frozenset)

    @classmethod
    def of(cls, header: Callable[[str], str | None]) -> Rules:
        """The rules of a request. Raises :class:`Refused` (422) for an attempt that is no number."""

        def names(of: str) -> tuple[str, ...]:
            return tuple(
                name for one in (header(f"Faultline-{of}-From") or "").split(",")[:20] if (name := name_of(one))
            )

        attempt = header("Faultline-Attempt")
        number = numbers.whole(attempt, digits=6) if attempt else None
        if attempt and (number is None or number > _MAX_ATTEMPT):
            sentence = f"Faultline-Attempt is “{attempt[:40]}”: send a whole number, 0 or more."
            raise Refused(sentence, code="bad_number")
        known = _known_labels()
        asked = {kind: names(kind) for kind in ("Job", "Attempt", "Source", "Message", "Time", "Level")}
        standard = [known[k] for k in ("job", "namespace", "attempt", "node", "file", "pod", "container", "rank")]
        return cls(
            job=_clean(header("Faultline-Job") or "", _MAX_KEY),
            attempt=number,
            job_from=asked["Job"],
            attempt_from=asked["Attempt"],
            source_from=asked["Source"],
            cluster=(header("Faultline-Cluster") or "")[:64],
            makes_jobs=(header("Faultline-New-Jobs") or "make").lower() != "refuse",
            message_from=asked["Message"],
            time_from=asked["Time"],
            level_from=asked["Level"],
            is_debug=header("Faultline-Debug") == "1",
            names=frozenset(name for group in (*standard, *asked.values()) for name in group),
        )


def place_of(labels: Mapping[str, str], rules: Rules) -> Place | None:
    """Where rows with these labels belong; None if nothing names their job. O(known labels)."""
    job = rules.job or _job(labels, rules)
    if not job:
        return None
    attempt = rules.attempt
    if attempt is None:
        said = _first(labels, rules.attempt_from or _known_labels()["attempt"])
        number = numbers.whole(said, digits=6) if said else None
        attempt = number if number is not None and number <= _MAX_ATTEMPT else 0
    return Place(job, attempt, _path(labels, rules))


def slug_of(job: str) -> str:
    """The id of a job that is made for this name. Names that differ get ids that differ."""
    slug = slugify(job)[:90].strip("-")
    while "--" in slug:  # separates the cluster's name
        slug = slug.replace("--", "-")
    if slug == job:
        return slug
    return f"{slug or 'job'}-{sha256(job.encode()).hexdigest()[:6]}"


def _job(labels: Mapping[str, str], rules: Rules) -> str:
    known = _known_labels()
    for name in rules.job_from or known["job"]:
        said = _clean(labels.get(name, ""), _MAX_KEY)
        if not said or (not rules.job_from and said.lower().partition(":")[0] in known["nothing"]):
            continue
        if not rules.job_from and name.endswith(tuple(known["namespaced"])):
            space = _first(labels, known["namespace"])
            return f"{_clean(space, 64)}/{said}"[:_MAX_KEY] if space else said
        return said
    return ""


def _path(labels: Mapping[str, str], rules: Rules) -> str:
    known = _known_labels()
    if rules.source_from:
        parts = [labels[name] for name in rules.source_from if labels.get(name)]
        return _join_path(parts) or "output.log"
    node, file = _first(labels, known["node"]), _first(labels, known["file"])
    if file and not file.startswith(tuple(known["kubelet"])):
        return _join_path([node, file])
    pod, container, rank = (_first(labels, known[kind]) for kind in ("pod", "container", "rank"))
    name = f"{container}.log" if container else f"rank{rank}.log" if rank else "output.log"
    return _join_path([node, pod, name])


def _join_path(parts: Sequence[str]) -> str:
    """A path of these parts, each of which may have directories. A long one ends in a digest of the whole."""
    names = [
        _clean(name, _MAX_PART).rstrip(":") for part in parts for name in PurePosixPath(part.replace("\\", "/")).parts
    ]
    path = "/".join(name for name in names if name and name.strip("./"))
    if len(path) > _MAX_PATH:
        path = f"{path[: _MAX_PATH - 20]}-{sha256(path.encode('utf-8', 'replace')).hexdigest()[:12]}"
    return path


def _clean(said: str, most: int) -> str:
    """Hostile text as a name: one line, visible characters only; a cut name ends in a digest of the whole."""
    name = " ".join(plain.visible(plain.text(said)).split())
    if not name.isascii():
        name = "".join("-" if unicodedata.category(sign) in _CONTROL_CATEGORIES else sign for sign in name)
    if len(name) > most:
        name = f"{name[: most - 7]}-{sha256(name.encode('utf-8', 'replace')).hexdigest()[:6]}"
    return name


def _first(labels: Mapping[str, str], names: Sequence[str]) -> str:
    return next((labels[name] for name in names if labels.get(name)), "")
