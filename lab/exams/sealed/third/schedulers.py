"""Schedulers as tables of words: what each says when a job starts, a process ends, and the job ends."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from lab.exams.sealed.common.scheduler import Scheduler
from lab.exams.sealed.third.scheduler_words import WORDS

if TYPE_CHECKING:
    from lab.exams.sealed.common.case import Case

_SIGNALS = {9: "Killed", 11: "Segmentation fault", 6: "Aborted", 7: "Bus error", 15: "Terminated"}


class Told(Scheduler):
    """A scheduler of ``scheduler_words.WORDS``; ``path`` and ``head`` are formats of its file and its lines.

    Lines of a table begin with their part: ``!`` the role that is asked for, ``~`` secondary, ``.`` context, a space
    none. A second character is no part of it.
    """

    def __init__(self, name: str, path: str, head: str, job: str = "{n}") -> None:
        self.words, self.path, self.head, self._job = WORDS[name], path, head, job

    def job_id(self, rng: random.Random) -> str:
        return self._job.format(n=rng.randrange(10_000, 4_000_000), x=f"{rng.getrandbits(40):010x}")

    def put(self, c: Case, text: str, dt: float) -> tuple[str, str]:
        t, us = c.stamp(None, dt)
        u, _ = c.utc(None, dt)
        told = {"t": t, "u": u, "ms": f"{us // 1000:03d}", "us": f"{us:06d}", "job": c.job, "run": c.run}
        level = "WARN" if any(word in text.lower() for word in ("fail", "evict", "lost", "kill", "preempt")) else "INFO"
        return self.path.format(**told), self.head.format(**told, level=level, epoch=f"{c.t0 + c.now + dt:.6f}") + text

    def launched(self, c: Case) -> None:
        self._say(c, "launched", "", "")
        for k, name in enumerate(c.nodes):
            for text in self.words.get("placed", ()):
                c.ctl(text[2:].format(host=name, ip=c.ips[k], k=k, run=c.run, job=c.job), dt=1 + k / 20)
        c.wait(6, 30)

    def died(self, c: Case, rank: int, code: int, role: str, tid: str) -> None:
        self._say(c, "exited" if code >= 0 else "signalled", role, tid, rank, code)

    def closed(self, c: Case, how: str, role: str = "secondary", tid: str = "closed") -> None:
        self._say(c, how, role, tid)

    def _say(self, c: Case, key: str, role: str, tid: str, rank: int = 0, code: int = 0) -> None:
        victim = c.v if key in ("lost", "preempt") else c.node(rank)
        told = {
            **{"job": c.job, "run": c.run, "user": c.user, "host": c.nodes[victim], "ip": c.ips[victim]},
            **{"head": c.nodes[0], "rank": rank, "pid": c.pids[rank], "code": abs(code), "count": len(c.nodes)},
            **{"shell": 128 - code if code < 0 else code, "signal": _SIGNALS.get(-code, "Killed"), "node": victim},
            **{"world": c.world, "secs": int(c.now), "local": rank % c.per, "d": c.dialect},
        }
        for k, text in enumerate(self.words[key]):
            part = {"!": role, "~": "secondary", ".": "context", " ": ""}[text[0]]
            c.ctl(text[2:].format(**told), part, f"{tid}{k or ''}" if part else "", dt=0.4 + k / 5)
