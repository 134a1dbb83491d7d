"""Messages of healthy jobs: masked messages with counts, per family, for the cross-job comparison (L4, section 3.2).

A healthy job's *masked texts* are kept, not template ids: they are clustered again with each new job, so ids stay
consistent.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

import polars as pl

from diagnosis import inventory, thresholds
from diagnosis.kinds.logs.meaning import hosts, signatures, words
from diagnosis.kinds.logs.rows import stored_rows
from diagnosis.model import LOG_KINDS, JobHints, Level, Parsed, Role

THRESHOLDS: Final = thresholds.of("history")
FORMAT = 1
#: Maximum number of distinct messages of one job; the most frequent are kept. Rarer messages are noise.
MAX_TEXTS_PER_JOB = 20_000
#: A family with fewer healthy jobs than this uses those of its framework, then all.
MIN_POOL_JOBS = 3


class HistoryError(ValueError):
    """A history file that cannot be read; the message says what to do."""


@dataclass(frozen=True, slots=True)
class JobEvents:
    """The messages of one healthy job. ``counts``: masked text to lines; ``hours``: its wall time in the logs."""

    job_id: str
    counts: Mapping[str, int]
    family: str = ""
    framework: str = ""
    nodes: int = 1
    hours: float = 0.0

    @property
    def node_hours(self) -> float:
        """Nodes times hours, at least one node-minute so that rates stay finite."""
        return max(self.nodes * self.hours, 1 / 60)


@dataclass(frozen=True, slots=True)
class Pool:
    """The healthy jobs for the comparison of one job; ``scope``: family, framework, all or none; ``left_out``: number
    of jobs that were left out because they print other messages.
    """

    jobs: tuple[JobEvents, ...]
    scope: str
    left_out: int = 0

    def similar(self, texts: Collection[str]) -> Pool:
        """Without jobs that print far fewer of the job's messages (``texts``, masked) than the most similar one does:
        after an upgrade of a framework, or a change of the log format, those before it say nothing of what is normal.
        ``MIN_POOL_JOBS`` healthy jobs of the new version replace them: fewer are not enough to call a message unknown.
        O(texts of the pool).
        """
        own_texts = frozenset(texts)
        sizes = [min(len(own_texts), len(job.counts)) for job in self.jobs]
        pairs = zip(self.jobs, sizes, strict=True)
        shares = [len(own_texts & job.counts.keys()) / max(1, size) for job, size in pairs]
        least = THRESHOLDS.alike * max(shares, default=0.0)
        rows = zip(self.jobs, sizes, shares, strict=True)
        kept = tuple(job for job, size, share in rows if size < THRESHOLDS.telling or share >= least)
        return replace(self, jobs=kept, left_out=len(self.jobs) - len(kept)) if len(kept) >= MIN_POOL_JOBS else self


@dataclass(frozen=True, slots=True)
class History:
    """An immutable set of healthy jobs, one entry a job id."""

    jobs: tuple[JobEvents, ...] = ()

    def pool(self, family: str, framework: str, exclude: str = "") -> Pool:
        """Jobs of the same family; of the same framework if there are too few; else all. Never the job itself."""
        others = tuple(j for j in self.jobs if j.job_id != exclude)
        for scope, wanted in (("family", family), ("framework", framework)):
            same = tuple(j for j in others if wanted and getattr(j, scope) == wanted)
            if len(same) >= MIN_POOL_JOBS:
                return Pool(same, scope)
        return Pool(others, "all" if others else "none")

    def add(self, job: JobEvents) -> History:
        """With ``job``, replacing an entry of the same id."""
        return History((*(j for j in self.jobs if j.job_id != job.job_id), job))

    @property
    def digest(self) -> str:
        """SHA-256 over the content, independent of the order of the jobs."""
        return hashlib.sha256(json.dumps(self._rows(), sort_keys=True, ensure_ascii=False).encode()).hexdigest()

    def _rows(self) -> list[dict[str, Any]]:
        return [
            {**asdict(j), "hours": round(j.hours, 4), "counts": dict(sorted(j.counts.items()))}
            for j in sorted(self.jobs, key=lambda j: j.job_id)
        ]

    def to_json(self) -> dict[str, Any]:
        """Texts are stored once and counts refer to them: jobs of one family share nearly all."""
        rows = self._rows()
        texts = sorted({t for r in rows for t in r["counts"]})
        place = {t: i for i, t in enumerate(texts)}
        for r in rows:
            r["counts"] = [[place[t], n] for t, n in r["counts"].items()]
        return {"format": FORMAT, "digest": self.digest, "texts": texts, "jobs": rows}

    @staticmethod
    def from_json(data: Any) -> History:
        """The inverse of :meth:`to_json`. Raises :class:`HistoryError` with the reason."""
        if not isinstance(data, dict) or "jobs" not in data:
            raise HistoryError(
                "this is not a history file: it has no list of jobs; make one with `python -m diagnosis learn`"
            )
        if data.get("format") != FORMAT:
            raise HistoryError(
                f"history format {data.get('format')!r} is not {FORMAT}: learn it again with this version"
            )
        try:
            texts = data["texts"]
            jobs = tuple(
                JobEvents(
                    job_id=str(r["job_id"]),
                    counts={texts[i]: int(n) for i, n in r["counts"]},
                    family=str(r["family"]),
                    framework=str(r["framework"]),
                    nodes=int(r["nodes"]),
                    hours=float(r["hours"]),
                )
                for r in data["jobs"]
            )
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise HistoryError(f"the history is damaged ({error!r}): learn it again") from error
        return History(jobs)

    def save(self, path: Path) -> None:
        """Write JSON; the old file stays valid until the new one is complete."""
        part = path.with_name(path.name + ".part")
        part.write_text(json.dumps(self.to_json(), ensure_ascii=False), encoding="utf-8")
        part.replace(path)

    @staticmethod
    def load(path: Path) -> History:
        """Read what :meth:`save` wrote. Raises :class:`HistoryError`."""
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise HistoryError(f"cannot read the history {path}: {error}") from error
        return History.from_json(data)


def learn(parsed: Sequence[Parsed], *, job_id: str = "", family: str = "", framework: str = "") -> JobEvents:
    """The event table of one healthy job, from its parsed artifacts; its framework is derived from them if unknown.

    Cost: one pass over the tables of unique messages and over the time columns; never over raw lines.
    """
    logs = [p for p in parsed if p.kind in LOG_KINDS and p.uniques is not None and p.columns is not None]
    nodes = {s.node for p in logs for s in p.sources if s.node}
    framework = framework or inventory.read(parsed, JobHints()).framework
    if not framework:
        examples = stored_rows.read([stored_rows.messages_of(p) for p in logs], ("example",))["example"]
        framework = words.first(examples, "frameworks") or "unknown"
    counts: dict[str, int] = {}
    for p in logs:
        table = stored_rows.read([stored_rows.messages_of(p)], ("text", "count"))
        for text, n in zip(hosts.hide_hosts(table["text"], nodes), table["count"], strict=True):
            counts[text] = counts.get(text, 0) + int(n)
    most = sorted(counts.items(), key=lambda kv: (-kv[1], kv[0]))[:MAX_TEXTS_PER_JOB]
    return JobEvents(job_id, dict(sorted(most)), family, framework, max(len(nodes), 1), _hours(logs))


def unexplained_errors(parsed: Sequence[Parsed]) -> list[str]:
    """Distinct messages of level error or worse that no built-in rule calls harmless, the first example of each.

    Cost: one search over the distinct messages of that level.
    """
    found: list[str] = []
    rules = signatures.load()
    for p in (p for p in parsed if p.kind in LOG_KINDS and p.uniques is not None):
        table = stored_rows.read([stored_rows.messages_of(p)], ("masked", "text", "example", "level"))
        errors = table.filter(pl.col("level") >= int(Level.ERROR))
        harmless = rules.match(errors).filter(pl.col("role").is_in([Role.BENIGN, Role.ADVICE]))
        found += errors.filter(~pl.col("masked").is_in(harmless["masked"].implode()))["example"].to_list()
    return found


def _hours(logs: Sequence[Parsed]) -> float:
    """Longest span of one file's times in hours: files of other zones must not stretch it."""
    span = pl.col("time").max() - pl.col("time").min()
    found = [stored_rows.scan(stored_rows.lines_of(p)).select(span).collect().item() for p in logs]
    return max((ns for ns in found if ns is not None), default=0) / 3.6e12
