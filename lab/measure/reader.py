"""Opens pages while others send, and notes what they say that is false."""

from __future__ import annotations

import http.client
import json
import random
import threading
import urllib.error
import urllib.request
from collections import Counter
from typing import Any

from lab.measure.soak import REFUSED, Sent

_PAGES = ("/livez", "/api/v1/jobs/")


class Reader(threading.Thread):
    """Reads until ``ended``. ``answers`` counts the answers, ``false`` has a sentence for each false statement."""

    def __init__(self, url: str, token: str, sent: Sent, ended: threading.Event) -> None:
        super().__init__(daemon=True)
        self.url, self.sent, self.ended = url, sent, ended
        self.headers = {"Authorization": f"Bearer {token}"}
        self.answers, self.false = Counter[str](), Counter[str]()

    def run(self) -> None:
        rng = random.Random(1)
        while not self.ended.wait(0.3):
            for path in _PAGES:
                self._get(path)
            self._incidents()
            if self.sent.whole:
                self._job(rng.choice(list(self.sent.whole)))

    def _incidents(self) -> None:
        """Each job was launched once, so that it has one incident at most."""
        found = json.loads(self._get("/api/v1/incidents/") or "{}").get("results", [])
        twice = [job for job, n in Counter(row["job"] for row in found).items() if n > 1]
        self.false.update(f"{job} has several incidents" for job in twice)

    def _job(self, slug: str) -> None:
        """What was acknowledged before is there, harmless, and has all its lines once it was read."""
        acknowledged = self.sent.whole[slug].copy()
        rows: dict[str, dict[str, Any]] = {}
        address = f"/api/v1/jobs/{slug}/artifacts/?page_size=200"
        while address:
            page = json.loads(self._get(address) or "{}")
            if not page:
                return
            rows |= {row["path"]: row for row in page["results"]}
            address = (page["next"] or "").removeprefix(self.url)
        self.false.update(f"{slug}: {path} is not there" for path in acknowledged.keys() - rows.keys())
        self.false.update(f"{slug}: {path} is there, and was refused" for path in rows.keys() & REFUSED)
        for path, row in rows.items():
            if row["problem"] or row["state"] not in ("received", "parsing", "parsed"):
                self.false[f"{slug}: {path} is {row['state']}: {row['problem']}"] += 1
            elif row["state"] == "parsed" and row["lines"] != acknowledged.get(path, row["lines"]):
                self.false[f"{slug}: {path} has {row['lines']} lines"] += 1

    def _get(self, path: str) -> bytes:
        """The answer, or nothing; counts its status or why there is none."""
        request = urllib.request.Request(self.url + path, headers=self.headers)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                text: bytes = answer.read()
                self.answers[str(answer.status)] += 1
                return text
        except urllib.error.HTTPError as error:
            self.answers[str(error.code)] += 1
        except (OSError, http.client.HTTPException) as error:
            self.answers[type(error).__name__] += 1
        return b""
