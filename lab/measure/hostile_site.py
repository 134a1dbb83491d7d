"""What hostile files cost a site: each is sent over HTTP as a job of its own, with a good log beside it, to a site with
one reading process; for :mod:`lab.measure.hostile`.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg

from lab.measure.hostile_outcomes import GIVE_UP_S, GOOD, GOOD_NAME, Outcome
from lab.measure.site import ROOT, Site, running
from lab.measure.upload import Api
from scripts.services import postgres

_PATIENCE_S = 900.0
#: asked ten times a second, the progress of 50,000 files took a fifth of the site's processor time
_ASK_EVERY_S = 0.5
_SENT = (200, 201, 202)
_REFUSED = range(400, 500)


def outcomes(files: Sequence[Path], database: str = "sqlite") -> Iterator[Outcome]:
    """The outcome of each file, in order. The CPU seconds are those of the whole site, its pages and sweeps included.
    The memory is the peak of the largest process, seen twice a second.
    """
    with ExitStack() as stack:
        address = stack.enter_context(postgres()) if database == "postgres" else ""
        variables = {"DATABASE_URL": address} if address else {}
        site = stack.enter_context(running(ROOT, FAULTLINE_WORKER_PROCESSES="1", **variables))
        api = Api(site.url, site.token)
        for number, file in enumerate(files):
            yield _outcome(site, api, file, f"hostile-{number}", address)


def _outcome(site: Site, api: Api, file: Path, slug: str, address: str) -> Outcome:
    found = Outcome(file.name)
    cpu_before_s, began = site.cpu_s(), time.monotonic()
    body = json.dumps({"name": slug, "slug": slug, "outcome": "failed"})
    api.call("POST", "/api/v1/jobs/", body, **{"Content-Type": "application/json"})
    refusal = _put(api, slug, file.name, file.read_bytes(), found)
    _put(api, slug, GOOD_NAME, GOOD.encode(), found)
    api.call("POST", f"/api/v1/jobs/{slug}/diagnose/")
    job = _get(api, f"/api/v1/jobs/{slug}/")
    while not _is_diagnosed(job):
        if time.monotonic() - began > GIVE_UP_S:
            found.wrong.append(f"not diagnosed after {GIVE_UP_S:.0f} s")
            break
        time.sleep(_ASK_EVERY_S)
        found.peak_bytes = max(found.peak_bytes, site.peak_bytes())
        job = _get(api, f"/api/v1/jobs/{slug}/")
    found.cpu_s = site.cpu_s() - cpu_before_s
    if not _is_diagnosed(job):  # what is left of it must not count for the next one
        _wait_for(api, slug)
    lines_of = _lines_of_files(site, slug, address)
    if lines_of.get(GOOD_NAME) != GOOD.count("\n"):
        found.wrong.append("neighbour lost")
    sentences = Counter(row["path"] for row in job["progress"]["problems"])
    if any(count > 1 for count in sentences.values()):
        found.wrong.append("more than one sentence")
    is_alone = set(lines_of) <= {GOOD_NAME}
    if not refusal and not sentences and is_alone:
        found.wrong.append("no sentence")
    return found


def _lines_of_files(site: Site, slug: str, address: str) -> dict[str, int]:
    """The number of lines of each file of a job. Read from the database (``address`` empty: on
    SQLite): the API gives the 50,001 files of an archive in 251 pages, which took longer than the
    diagnosis may.
    """
    query = (
        "SELECT file.path, file.lines FROM ingest_artifact AS file"
        " JOIN ingest_attempt AS attempt ON attempt.id = file.attempt_id"
        " JOIN ingest_job AS job ON job.id = attempt.job_id"
        " WHERE job.slug = ? AND NOT file.is_superseded"
    )
    if address:
        with psycopg.connect(address) as server:
            return dict(server.execute(query.replace("?", "%s").encode(), [slug]).fetchall())
    with closing(sqlite3.connect(site.data / "faultline.sqlite3")) as database:
        return dict(database.execute(query, [slug]).fetchall())


def _wait_for(api: Api, slug: str) -> None:
    until = time.monotonic() + _PATIENCE_S
    while time.monotonic() < until and not _is_diagnosed(_get(api, f"/api/v1/jobs/{slug}/")):
        time.sleep(1)


def _put(api: Api, slug: str, name: str, data: bytes, found: Outcome) -> str:
    """Send a file; the sentence if it was refused."""
    address = f"/api/v1/jobs/{slug}/artifacts/{hashlib.sha256(data).hexdigest()}?path={quote(name)}"
    status, _, answer = api.call("PUT", address, data)
    if status in _SENT:
        return ""
    if status not in _REFUSED:
        found.wrong.append(f"answered {status}")
    return answer.decode()


def _get(api: Api, path: str) -> Any:
    return json.loads(api.call("GET", path)[2])


def _is_diagnosed(job: Any) -> bool:
    states = {step["name"]: step["state"] for step in job["progress"]["steps"]}
    return states.get("diagnosing") == "done"
