"""Requests that wait until a job is diagnosed: they hold no thread, and one query a second answers for all of them."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress

from triage.server.body_reader import Receive

log = logging.getLogger(__name__)

#: requests that wait at once in one process, and of one person; others are answered at once
MAX_WAITING, MAX_WAITING_A_PERSON = 500, 50
#: between two looks
EVERY_S = 1.0


class Waiting:
    """``busy_of`` tells which of some jobs are not diagnosed yet. One task looks for all while anybody waits."""

    def __init__(self, busy_of: Callable[[Collection[int]], Awaitable[Collection[int]]]) -> None:
        self._busy_of = busy_of
        self._ends: dict[int, set[asyncio.Event]] = {}
        self._people: Counter[str] = Counter()
        self._looking: asyncio.Task[None] | None = None

    async def until_diagnosed(self, job: int, person: str, limit_s: float, receive: Receive) -> None:
        """Returns when the job is diagnosed, after ``limit_s``, or when the client leaves; at once if too many wait."""
        if self._people.total() >= MAX_WAITING or self._people[person] >= MAX_WAITING_A_PERSON:
            return
        end = asyncio.Event()
        self._people[person] += 1
        self._ends.setdefault(job, set()).add(end)
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look())
        tasks = [asyncio.ensure_future(end.wait()), asyncio.ensure_future(_gone(receive))]
        try:
            await asyncio.wait(tasks, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            self._people[person] -= 1
            self._people += Counter()  # without people of whom nobody waits
            self._ends[job].discard(end)
            if not self._ends[job]:
                del self._ends[job]

    async def _look(self) -> None:
        while self._ends:
            await asyncio.sleep(EVERY_S)
            jobs = list(self._ends)
            try:
                busy = set(await self._busy_of(jobs)) if jobs else set()
            except Exception:
                log.exception("it is not known which jobs are diagnosed: the next look asks again")
                continue
            for job in jobs:
                if job not in busy:
                    for end in tuple(self._ends.get(job, ())):
                        end.set()


async def _gone(receive: Receive) -> None:
    """Returns when the client closes the connection."""
    with suppress(Exception):
        while (await receive())["type"] != "http.disconnect":
            pass
