"""From files to a job: create it, send missing files, request the diagnosis, wait."""

from __future__ import annotations

import base64
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, BinaryIO, Callable, NamedTuple
from urllib.parse import parse_qs, quote, urlsplit

from faultline.files import Content, Source, UnreadableFile, content_of, open_file
from faultline.site import Piece, Problem, Site

#: larger files are sent in pieces, which survive a broken connection
RESUME_ABOVE_BYTES = 16 << 20
_PAGE_SIZE = 200
_MAX_TRIES = 3


class Outcome(NamedTuple):
    """The result for one file: ``sent``, ``known`` (the site has it) or ``refused`` with its sentence."""

    name: str
    state: str
    size_bytes: int
    problem: str = ""


class KnownUploads(NamedTuple):
    """What the site has of a job: the latest upload of each name, and unfinished ones to continue."""

    latest: dict[str, str]
    unfinished: dict[tuple[str, str], str]


def job_get(site: Site, fields: dict[str, Any]) -> tuple[str, bool]:
    """The id of the job with that slug, created if missing, and whether it is new. New descriptions are stored."""
    try:
        return str(site.send("POST", "/jobs/", fields).data["slug"]), True
    except Problem as problem:
        if problem.kind != "slug_in_use":
            raise
        slug = problem.job
    if not slug:
        raise Problem(409, f"The id {fields['slug']} is in use by a job that this token may not see: give --slug.", "")
    more = {key: value for key, value in fields.items() if key not in ("slug", "cluster", "time_zone", "name")}
    if more:
        site.send("PATCH", f"/jobs/{slug}/", more)
    return slug, False


def known_uploads(site: Site, slug: str, attempt: int) -> KnownUploads:
    """One request per 200 uploads."""
    known = KnownUploads({}, {})
    for row in _rows(site, f"/jobs/{slug}/uploads/"):  # newest first
        if row["attempt"] != attempt:
            continue
        if row["state"] in ("received", "settled"):
            known.latest.setdefault(row["path"], row["sha256"])
        elif row["state"] == "receiving" and row["sha256"]:
            known.unfinished.setdefault((row["path"], row["sha256"]), row["id"])
    return known


class Sender:
    """Sends files of one attempt of one job, several at a time."""

    def __init__(
        self,
        site: Site,
        slug: str,
        *,
        attempt: int = 0,
        known: KnownUploads | None = None,
        chunk_bytes: int = 8 << 20,
        follow: bool = False,
        tell: Callable[[int], None] = lambda count: None,
    ) -> None:
        self._site = site
        self._slug = slug
        self._attempt = attempt
        self._uploads = known or KnownUploads({}, {})
        self._chunk_bytes = chunk_bytes
        self._follow = follow
        self._on_outcome = tell

    def send_all(self, sources: Iterable[Source], *, parallel: int, done: Callable[[Outcome], None]) -> None:
        """Send all sources, ``parallel`` at a time; ``done`` is called in this thread, in order.

        Raises :class:`Denied` and :class:`Unreachable`: then all other files would fail, too.
        """
        with ThreadPoolExecutor(max_workers=parallel) as pool:
            waiting = []
            try:
                for source in sources:
                    waiting.append(pool.submit(self.send, source))
                    while len(waiting) > 4 * parallel:
                        done(waiting.pop(0).result())
                while waiting:
                    done(waiting.pop(0).result())
            except BaseException:
                for rest in waiting:
                    rest.cancel()
                raise

    def send(self, source: Source) -> Outcome:
        """Send one file. A file that changes while it is read is read again, a few times."""
        for tries in range(1, _MAX_TRIES + 1):
            size = 0
            try:
                with open_file(source, follow=self._follow) as file:
                    content = content_of(file)
                    size = content.size_bytes
                    if self._uploads.latest.get(source.name) == content.sha256:
                        self._on_outcome(size)
                        return Outcome(source.name, "known", size)
                    if size > RESUME_ABOVE_BYTES:
                        is_new = self._in_pieces(source.name, file, content)
                    else:
                        is_new = self._at_once(source.name, file, content)
                return Outcome(source.name, "sent" if is_new else "known", size)
            except UnreadableFile as error:
                return Outcome(source.name, "refused", size, f"{source.name} cannot be read: {error}.")
            except Problem as problem:
                if problem.kind in ("digest_mismatch", "changed", "gone") and tries < _MAX_TRIES:
                    continue
                return Outcome(source.name, "refused", size, problem.detail)
        raise AssertionError("unreachable")

    def _at_once(self, name: str, file: BinaryIO, content: Content) -> bool:
        path = f"/jobs/{self._slug}/artifacts/{content.sha256}?path={quote(name, safe='')}&attempt={self._attempt}"
        headers = {"Content-Type": "application/octet-stream"}
        reply = self._site.ask("PUT", path, Piece(file, 0, content.size_bytes), headers)
        self._on_outcome(content.size_bytes)
        return reply.status != 200

    def _in_pieces(self, name: str, file: BinaryIO, content: Content) -> bool:
        """Send by tus: begin, or continue where an earlier run stopped."""
        upload = self._uploads.unfinished.get((name, content.sha256))
        if upload is not None:
            try:
                offset = self._offset(upload)
            except Problem:
                upload = None
        if upload is None:
            said = {"job": self._slug, "path": name, "attempt": str(self._attempt), "sha256": content.sha256}
            metadata = ",".join(f"{key} {base64.b64encode(value.encode()).decode()}" for key, value in said.items())
            headers = {"Tus-Resumable": "1.0.0", "Upload-Length": str(content.size_bytes), "Upload-Metadata": metadata}
            made = self._site.ask("POST", "/uploads/", b"", headers)
            upload, offset = made.headers["location"].rstrip("/").rpartition("/")[2], 0
        self._on_outcome(offset)
        is_new = True
        while offset < content.size_bytes:
            length = min(self._chunk_bytes, content.size_bytes - offset)
            headers = {
                "Tus-Resumable": "1.0.0",
                "Upload-Offset": str(offset),
                "Content-Type": "application/offset+octet-stream",
            }
            try:
                reply = self._site.ask("PATCH", f"/uploads/{upload}", Piece(file, offset, length), headers)
            except Problem as problem:
                if problem.kind == "complete":  # its answer was lost in transit
                    break
                if problem.kind != "offset_mismatch":
                    raise
                offset = self._offset(upload)  # a failed try had sent some of it
                continue
            now = int(reply.headers["upload-offset"])
            self._on_outcome(now - offset)
            offset = now
            is_new = reply.headers.get("upload-is-new", "1") != "0"
        return is_new

    def _offset(self, upload: str) -> int:
        return int(
            self._site.ask("HEAD", f"/uploads/{upload}", headers={"Tus-Resumable": "1.0.0"}).headers["upload-offset"]
        )


def diagnose(site: Site, slug: str) -> dict[str, Any]:
    """Request the diagnosis as soon as the evidence is read."""
    answer: dict[str, Any] = site.send("POST", f"/jobs/{slug}/diagnose/", {}).data
    return answer


def wait(site: Site, slug: str, *, limit_s: float, tell: Callable[[str], None]) -> dict[str, Any] | None:
    """The job once nothing more will change automatically; None after ``limit_s``."""
    end, pause_s = time.monotonic() + limit_s, 0.5
    while True:
        job: dict[str, Any] = site.get(f"/jobs/{slug}/").data
        progress = job["progress"]
        if not progress["is_active"]:
            return job
        for step in progress["steps"]:
            if step["state"] == "active":
                tell(f"{step['name']}: {step['text']}")
        if time.monotonic() + pause_s > end:
            return None
        time.sleep(pause_s)
        pause_s = min(10.0, pause_s * 1.5)


def incidents_of(site: Site, slug: str) -> list[dict[str, Any]]:
    """The incidents of the job."""
    rows: list[dict[str, Any]] = site.get("/incidents/", q=f"job:{slug}").data["results"]
    return rows


def _rows(site: Site, path: str) -> Iterable[dict[str, Any]]:
    page = site.get(path, page_size=_PAGE_SIZE).data
    while True:
        yield from page["results"]
        following = page["next"]
        if not following:
            return
        page = site.get(path, page_size=_PAGE_SIZE, cursor=_cursor(following)).data


def _cursor(url: str) -> str:
    return parse_qs(urlsplit(url).query)["cursor"][0]
