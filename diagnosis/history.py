"""Messages of healthy jobs: masked messages with counts, per family, for the cross-job comparison (L4, section 3.2).

A healthy job's *masked texts* are kept, not template ids: they are clustered again with each new job, so ids stay
consistent.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from itertools import chain
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec.structs import asdict, replace

from diagnosis import thresholds

THRESHOLDS: Final = thresholds.of("history")
FORMAT = 1
#: A family with fewer healthy jobs than this uses those of its framework, then all.
MIN_POOL_JOBS = 3


class HistoryError(ValueError):
    """A history file that cannot be read; the message says what to do."""


class JobEvents(msgspec.Struct, frozen=True):
    """The messages of one healthy job. ``counts``: masked text to lines; ``hours``: its wall time
    in the logs; ``ended_at``: their last time, in seconds since the epoch, 0 if unknown;
    ``setup``: what most of its nodes state, by property (:mod:`diagnosis.facts.setups`).
    """

    job_id: str
    counts: Mapping[str, int]
    family: str = ""
    framework: str = ""
    nodes: int = 1
    hours: float = 0.0
    ended_at: float = 0.0
    setup: Mapping[str, str] = msgspec.field(default_factory=dict)

    @property
    def node_hours(self) -> float:
        """Nodes times hours, at least one node-minute so that rates stay finite."""
        return max(self.nodes * self.hours, 1 / 60)


class Pool(msgspec.Struct, frozen=True):
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


class History(msgspec.Struct, frozen=True):
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

    def last_of(self, family: str, exclude: str = "") -> JobEvents | None:
        """The last healthy job of a family that states a set-up. Never the job itself."""
        same = [job for job in self.jobs if job.family == family and job.job_id != exclude and job.setup]
        return max(same, key=lambda job: (job.ended_at, job.job_id), default=None)

    def add(self, job: JobEvents) -> History:
        """With ``job``, replacing an entry of the same id."""
        return History((*(j for j in self.jobs if j.job_id != job.job_id), job))

    @property
    def digest(self) -> str:
        """SHA-256 over the content, independent of the order of the jobs."""
        return hashlib.sha256(json.dumps(self._rows(), sort_keys=True, ensure_ascii=False).encode()).hexdigest()

    def _rows(self) -> list[dict[str, Any]]:
        return [
            {
                **asdict(j),
                "hours": round(j.hours, 4),
                "counts": dict(sorted(j.counts.items())),
                "setup": dict(sorted(j.setup.items())),
            }
            for j in sorted(self.jobs, key=lambda j: j.job_id)
        ]

    def to_json(self) -> dict[str, Any]:
        """Texts are stored once and counts refer to them: jobs of one family share nearly all."""
        rows = self._rows()
        texts = sorted(set(chain.from_iterable(r["counts"] for r in rows)))
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
                    ended_at=float(r.get("ended_at", 0.0)),
                    setup={str(name): str(value) for name, value in r.get("setup", {}).items()},
                )
                for r in data["jobs"]
            )
        except (AttributeError, KeyError, IndexError, TypeError, ValueError) as error:
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
