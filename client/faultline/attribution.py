"""``faultline attribution``: tells a restart controller whether to restart, in the shape of NVRx's attribution service.

The controller's client (nvidia-resiliency-ext 0.7: ``ft_launcher --ft-attribution-endpoint http://127.0.0.1:8000``)
speaks HTTP without TLS and without a token, waits 2 s for each answer, and names a log on this machine's disks. So this
program runs beside it: it follows the log, sends it to the site, asks there what to do, and answers from memory.
"""

from __future__ import annotations

import os
import re
import stat
import threading
import time
from pathlib import Path
from typing import Any, Callable, Optional
from urllib.parse import quote

from faultline import files, sending
from faultline.following import Follower
from faultline.site import Denied, Problem, Site, Unreachable

INTENTS = ("track_only", "progressive", "terminal")
#: logs that are followed at a time, and remembered with their answers
_MAX_ACTIVE, _MAX_CYCLES = 64, 1000
_MAX_NUMBER = (1 << 31) - 1
_CYCLE = re.compile(r"_cycle(\d{1,9})\.log$", re.IGNORECASE)
_POLL_S = 1.0
_LOOK_S = 2.0
#: a log that still grows after its end is taken as it is then
_DRAIN_S = 40.0


class Refusal(Exception):
    """A request that cannot be served: HTTP status, code and sentence as the service of NVRx has them."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code = status, code


class Cycle:
    """One log: one launch of a job."""

    def __init__(self, path: Path, slug: str, number: int) -> None:
        self.path, self.slug, self.number = path, slug, number
        #: its end was announced, or the next cycle of its job began
        self.over, self.done = threading.Event(), threading.Event()
        self.deadline = float("inf")
        self.answer: dict[str, Any] = {}
        self.problem = ""


class Attribution:
    """The logs of a site's jobs. Each is followed by a thread of its own; requests are answered from memory."""

    def __init__(
        self,
        site: Site,
        roots: list[Path],
        *,
        prefix: str = "",
        cluster: str = "",
        deadline_s: float = 120.0,
        settle_s: float = 5.0,
        note: Callable[[str], None] = lambda words: None,
    ) -> None:
        self._site, self._note = site, note
        self._roots = [root.resolve() for root in roots]
        self._prefix, self._cluster = prefix, cluster
        self._deadline_s, self._settle_s = deadline_s, settle_s
        self._lock = threading.Lock()
        self._cycles: dict[Path, Cycle] = {}
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []

    def submit(self, body: Any) -> dict[str, Any]:
        """``POST /logs``. Begins to follow the log; ``terminal`` says that the launch is over."""
        fields = body if isinstance(body, dict) else {}
        intent = str(fields.get("analysis_intent") or "track_only").strip().lower()
        if intent not in INTENTS:
            raise Refusal(400, "invalid_parameter", f"analysis_intent is one of {', '.join(INTENTS)}")
        path = self._path_of(fields.get("log_path"))
        slug, number = self._identity(path, fields.get("job_id"), fields.get("cycle_id"))
        with self._lock:
            cycle = self._cycles.get(path)
            if cycle is None or (cycle.slug, cycle.number) != (slug, number):
                cycle = self._begin(path, slug, number)
            if intent == "terminal" and cycle.deadline == float("inf"):
                cycle.deadline = time.monotonic() + self._deadline_s
                cycle.over.set()
        return {
            "submitted": True,
            "normalized_path": str(path),
            "mode": "single",
            "logs_dir": None,
            "sched_restarts": 0,
            "files_analyzed": 0,
        }

    def answer(self, log_path: Any, *, is_waiting: bool = False) -> dict[str, Any]:
        """``GET /logs``: the recommendation, when it is there. Waits until the deadline if ``is_waiting``."""
        cycle = self._cycles.get(self._path_of(log_path))
        if cycle is None:
            raise Refusal(404, "not_found", "this log was not submitted")
        if is_waiting and cycle.deadline != float("inf"):
            cycle.done.wait(max(0.0, cycle.deadline - time.monotonic()))
        is_late = time.monotonic() >= cycle.deadline
        status = "completed" if cycle.done.is_set() or is_late else "in_flight" if cycle.over.is_set() else "pending"
        answer = cycle.answer
        action, reason = str(answer.get("action") or "UNKNOWN"), str(answer.get("reason") or cycle.problem)
        if is_late and not cycle.done.is_set():
            action, reason = "TIMEOUT", f"There was no diagnosis within {self._deadline_s:.0f} s."
        nodes = answer.get("exclude_nodes") or []
        number = answer.get("incident")
        return {
            "result": {
                "module": "faultline",
                "result_id": f"incident-{number}" if number else "",
                "result": str(answer.get("headline") or ""),
                "category": answer.get("category") or "",
                "confidence": answer.get("confidence"),
                "exclude_nodes": nodes,
                "url": f"{self._site.url}{answer['url']}" if answer.get("url") else "",
            },
            "status": status,
            "wl_restart": cycle.number,
            "recommendation": {"action": action, "reason": reason, "source": "faultline", "exclude_nodes": nodes},
        }

    def stop(self, limit_s: float) -> None:
        """Send what is there, complete the files, and end."""
        self._stop.set()
        with self._lock:
            for cycle in self._cycles.values():
                cycle.over.set()
            threads = list(self._threads)
        end = time.monotonic() + limit_s
        for thread in threads:
            thread.join(max(0.0, end - time.monotonic()))

    def _path_of(self, log_path: Any) -> Path:
        """The log as a path below one of the directories. It may not exist yet."""
        if (
            not isinstance(log_path, str)
            or not Path(log_path).is_absolute()
            or "\0" in log_path
            or len(log_path) > 4000
        ):
            raise Refusal(400, "invalid_path", "log_path must be an absolute path")
        path = Path(os.path.realpath(log_path))
        if not self._is_inside(path):
            raise Refusal(403, "outside_root", "log_path is outside the directories that this program may read")
        try:
            mode = path.stat().st_mode
        except FileNotFoundError:
            return path
        except OSError as error:
            raise Refusal(403, "not_readable", f"log_path cannot be read: {error.strerror}") from None
        if not stat.S_ISREG(mode):
            raise Refusal(400, "not_regular", "log_path is not a regular file")
        return path

    def _is_inside(self, path: Path) -> bool:
        return any(root in path.parents for root in self._roots)

    def _identity(self, path: Path, job_id: Any, cycle_id: Any) -> tuple[str, int]:
        match = _CYCLE.search(path.name)
        number = cycle_id if cycle_id is not None else int(match[1]) if match else 0
        if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number <= _MAX_NUMBER:
            raise Refusal(400, "invalid_parameter", "cycle_id must be an integer from 0 on")
        name = str(job_id) if job_id else path.name[: match.start()] if match else path.stem
        slug = re.sub(r"[^a-z0-9_]+", "-", f"{self._prefix}{name}".lower()).strip("-")[:100]
        if not slug:
            raise Refusal(400, "invalid_parameter", "job_id must have letters or digits")
        return slug, number

    def _begin(self, path: Path, slug: str, number: int) -> Cycle:
        """Follow a log. The former launches of its job are over: their controller began a new one."""
        self._threads = [thread for thread in self._threads if thread.is_alive()]
        if len(self._threads) >= _MAX_ACTIVE:
            raise Refusal(503, "job_limit_reached", f"{_MAX_ACTIVE} logs are followed already")
        for other in self._cycles.values():
            if other.slug == slug:
                other.over.set()
        cycle = self._cycles[path] = Cycle(path, slug, number)
        for old in [cycle_path for cycle_path, held_cycle in self._cycles.items() if held_cycle.done.is_set()][
            : len(self._cycles) - _MAX_CYCLES
        ]:
            del self._cycles[old]
        thread = threading.Thread(target=self._work, args=(cycle,), daemon=True)
        self._threads.append(thread)
        thread.start()
        return cycle

    def _work(self, cycle: Cycle) -> None:
        """The thread of one log. Its errors become the reason of an answer."""
        try:
            fields = {"name": cycle.slug, "slug": cycle.slug, "outcome": "running"}
            slug, _ = sending.job_get(self._site, {**fields, **({"cluster": self._cluster} if self._cluster else {})})
            follower = Follower(self._site, slug, lambda: self._source(cycle), attempt=cycle.number, note=self._note)
            while not cycle.over.is_set():
                follower.send_new()
                cycle.over.wait(_LOOK_S)
            self._drain(follower)
            follower.finish()
            if self._stop.is_set():
                self._site.send("PATCH", f"/jobs/{slug}/", {"outcome": "unknown"})
            sending.diagnose(self._site, slug)
            cycle.answer = self._final_answer(cycle, slug) or {}
        except (Denied, Problem, Unreachable, OSError, ValueError, KeyError) as error:
            cycle.problem = f"Faultline could not judge this: {error}"
            self._note(f"{cycle.path.name}: {cycle.problem}")
        finally:
            cycle.done.set()

    def _source(self, cycle: Cycle) -> list[files.Source]:
        inside = self._is_inside(Path(os.path.realpath(cycle.path)))  # it may have become a link since
        return [files.Source(cycle.path, cycle.path.parent, cycle.path.name)] if inside else []

    def _drain(self, follower: Follower) -> None:
        """Other processes may still write their last lines: wait until the log is quiet."""
        began = grew = time.monotonic()
        while not self._stop.is_set() and time.monotonic() - grew < self._settle_s:
            if follower.send_new():
                grew = time.monotonic()
            if grew - began > _DRAIN_S:
                return
            self._stop.wait(min(0.25, self._settle_s))
        follower.send_new()

    def _final_answer(self, cycle: Cycle, slug: str) -> Optional[dict[str, Any]]:  # noqa: UP045  # Python 3.9
        """The site's answer once it is final; None after the deadline or at the end of this program."""
        limit = time.monotonic() + self._deadline_s
        path = f"/jobs/{quote(slug)}/attempts/{cycle.number}/restart/"
        while not self._stop.is_set() and time.monotonic() < limit:
            answer: dict[str, Any] = self._site.get(path).data
            if answer["status"] == "completed":
                return answer
            self._stop.wait(_POLL_S)
        return None
