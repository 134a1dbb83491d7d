"""``faultline follow``: sends files while they grow, by tus uploads whose length is stated at their end.

The site's offset is the truth and the files themselves are the spool: what the site has not acknowledged is read again
from the disk after a restart. Memory is one chunk, which is sent as it was read however often it must be sent: the file
may be emptied and written anew while the site is away.
"""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, Callable

from faultline import rotation
from faultline.files import Source
from faultline.followed import ChangedFile, FollowedFile, inode_of
from faultline.site import Problem, Site, Unreachable

#: bytes per request: each costs the site the same, however many bytes it has
CHUNK_BYTES = 4 << 20
#: bytes of one file at a time, so that the old lines of one delay no new ones of the others
TURN_BYTES = 16 << 20
#: after a look that took long, because the site is busy, the follower waits so many times as long, at most so long
_PAUSE_FACTOR, _MAX_PAUSE_S = 4.0, 10.0
#: files that are followed at a time: 20,000 cost 64 MB and 1.5 s of processor time a look
MAX_FILES = 20_000
#: maximum number of files kept open; further files are opened at each look
_MAX_OPEN_FILES = 512
#: a file that is emptied more often is no log: each time would make another file on the site
_MAX_EMPTIED_AN_HOUR = 60
_HOUR_S = 3600.0


class Follower:
    """Sends the new bytes of files to one attempt of one job. One thread; a look costs one ``stat`` per file."""

    def __init__(
        self,
        site: Site,
        slug: str,
        find_sources: Callable[[], Iterable[Source]],
        *,
        attempt: int = 0,
        state: Path | None = None,
        bytes_per_s: float = 0.0,
        note: Callable[[str], None] = lambda words: None,
    ) -> None:
        self._site = site
        self._slug = slug
        self._find_sources = find_sources
        self._attempt = attempt
        self._state = state
        self._bytes_per_s = bytes_per_s
        self._note = note
        self._files: dict[tuple[int, int], FollowedFile] = {}
        self._names: set[str] = set()
        self._refused: set[tuple[int, int]] = set()
        self._copies = rotation.CopyWatch()
        self._emptied: list[FollowedFile] = []
        self._saved: list[dict[str, Any]] | None = None
        self._is_behind = self._has_left = False
        self._load()

    def run(self, stop: threading.Event, *, every_s: float) -> None:
        """Look and send until ``stop`` is set, then once more. Waits for a site that is away, however long.

        Raises the other errors of the site's client, and after ``stop`` all of them.
        """
        last_problem = ""
        while not stop.is_set():
            began = time.monotonic()
            try:
                sent, last_problem = self.send_new(), ""
            except Unreachable as error:  # the files keep what it misses
                if last_problem != str(error):
                    self._note(f"{error} Nothing is lost: it is sent when the site takes it")
                sent, last_problem = 0, str(error)
            took_s = time.monotonic() - began
            pause_s = 0.0 if self._is_behind else max(every_s - took_s, min(_PAUSE_FACTOR * took_s, _MAX_PAUSE_S))
            if self._bytes_per_s:
                pause_s = max(pause_s, sent / self._bytes_per_s)
            stop.wait(pause_s)
        self.catch_up()

    def catch_up(self) -> None:
        """Send until all bytes are sent that are there."""
        self.send_new()
        while self._is_behind:
            self.send_new()

    def send_new(self) -> int:
        """Find new files, send new bytes of all, a turn of each; returns the number of bytes sent."""
        self._emptied, self._is_behind = [], False
        present = self._discover()
        sent = self._send_all(list(self._files.values()), present)
        if self._emptied:
            sent += self._begin_anew(self._emptied)
        self._save()
        return sent

    def _send_all(self, files: Iterable[FollowedFile], present: set[tuple[int, int]]) -> int:
        return sum(self._send_new(one, is_there=one.inode in present) for one in files if not one.is_over)

    def _begin_anew(self, emptied: Iterable[FollowedFile]) -> int:
        """What follows in files that were emptied is sent as another file. A copy that was made just before takes over
        the upload, so it is looked for first.
        """
        former = set(self._files.values())
        present = self._discover()
        for followed in emptied:
            if self._files.get(followed.inode) is followed:
                self._end(followed)
                self._replace_emptied(followed)
        return self._send_all([one for one in self._files.values() if one not in former], present)

    def finish(self) -> None:
        """State the length of every file, so that the site finishes the uploads."""
        for followed in self._files.values():
            if not followed.is_over:
                self._end(followed)
        self._save()
        if self._state is not None:
            with suppress(OSError):
                self._state.unlink()

    def _discover(self) -> set[tuple[int, int]]:
        present, left_out = set(), 0
        not_over = [followed for followed in self._files.values() if not followed.is_over]
        open_files = {followed.path: followed for followed in not_over}
        room = MAX_FILES - len(not_over)
        for source in self._find_sources():
            try:
                status = source.path.stat()
            except OSError:
                continue
            inode = inode_of(status)
            present.add(inode)
            if inode in self._refused or self._is_known(inode, source.path):
                continue
            if (plain := self._compressed(source.path, present)) is not None:
                self._note(f"{source.name} is not sent: its lines were sent as {plain.name}")
                self._files[inode] = finished = FollowedFile(plain.name, source.path, inode)
                finished.is_over = True
                continue
            if self._is_copy(source, inode, open_files):
                continue
            if room <= 0:
                left_out += 1
                continue
            room -= 1
            self._files[inode] = FollowedFile(self._free_name(source.name), source.path, inode)
        if left_out and not self._has_left:
            self._note(
                f"{left_out:,} files are not followed, because {MAX_FILES:,} are: choose files with --include, or run "
                "a follower on each machine; faultline upload sends the rest"
            )
        self._has_left = left_out > 0
        return present

    def _is_known(self, inode: tuple[int, int], path: Path) -> bool:
        """Whether the file is followed already, wherever it is now. A new file may get the number of a deleted one."""
        known = self._files.get(inode)
        if known is None:
            return False
        is_same = path == known.path and rotation.is_copy(path, known.position, known.edges)
        if known.is_gone and not is_same:
            return False
        if not known.is_gone:
            known.path = path
        return True

    def _compressed(self, path: Path, present: set[tuple[int, int]]) -> FollowedFile | None:
        """The file that was followed and is compressed to ``path`` now: its lines would come twice. It may have been
        renamed, or copied and emptied, as well since the last look.
        """
        plain = path.with_suffix("")
        if path.suffix not in rotation.COMPRESSED:
            return None
        for known in self._files.values():
            is_open = not known.is_over and known.path in rotation.originals_of(plain)
            if known.path == plain or (is_open and (known.inode not in present or _was_emptied(known))):
                return known
        return None

    def _is_copy(self, source: Source, inode: tuple[int, int], open_files: dict[Path, FollowedFile]) -> bool:
        """Whether a new file is a copy of a followed one, finished or not. A finished one takes over the upload when
        the original is emptied, and so also gives the lines that were written before that and not yet sent.
        """
        for original in rotation.originals_of(source.path):
            known = open_files.get(original)
            if known is None:
                continue
            if self._copies.may_be_unfinished(inode, source.path, known.path, time.monotonic()):
                return True
            if _was_emptied(known) and rotation.is_copy(source.path, known.position, known.edges):
                self._files[inode] = FollowedFile(
                    known.name,
                    source.path,
                    inode,
                    base=known.base,
                    upload=known.upload,
                    sent=known.sent,
                    edges=known.edges,
                )
                self._replace_emptied(known)
                return True
        return False

    def _free_name(self, name: str) -> str:
        """A new file at the path of a rotated one gets its own name: both are evidence."""
        stem, _, number = name.rpartition(".")
        if number.isdigit() and name in self._names and stem in self._names:  # train.log.2 goes on in train.log.3
            name = stem
        free, count = name, 1
        while free in self._names:
            count += 1
            free = f"{name}.{count}"
        self._names.add(free)
        return free

    def _send_new(self, followed: FollowedFile, *, is_there: bool) -> int:
        former_position = followed.position
        try:
            self._send_turn(followed, followed.size())
            if not is_there and not followed.was_emptied() and followed.position >= followed.size():
                self._end(followed)  # rotated or deleted, all sent
                followed.is_gone = True
            elif len(self._files) > _MAX_OPEN_FILES:
                followed.close()
        except ChangedFile:
            self._is_behind = True
        except OSError:
            self._end(followed)  # deleted: nothing more will come
            followed.is_gone = True
        return max(0, followed.position - former_position)

    def _send_turn(self, followed: FollowedFile, end: int) -> None:
        """Send what there is up to ``end``, at most a turn."""
        turn_end = followed.position + TURN_BYTES
        while not followed.is_over:
            if followed.chunk is None and followed.was_emptied():
                self._emptied.append(followed)
                return
            if followed.position >= min(turn_end, end) and followed.chunk is None:
                self._is_behind = self._is_behind or followed.position < end
                return
            followed.read(CHUNK_BYTES)
            if followed.chunk is None or (not followed.upload and not self._begin(followed)):
                return
            if not self._patch(followed, followed.chunk.data):
                return

    def _replace(self, followed: FollowedFile, *, base: int) -> FollowedFile:
        """Continue the same file in another upload, from ``base`` on."""
        replacement = FollowedFile(self._free_name(followed.name), followed.path, followed.inode, base=base)
        replacement.emptied_at = followed.emptied_at
        if base == followed.position:
            replacement.edges, replacement.chunk = followed.edges, followed.chunk
        elif base:
            with suppress(OSError):
                descriptor = followed.open()
                replacement.edges = rotation.edges_moved(descriptor, followed.position, followed.edges, base)
        replacement.file, followed.file = followed.file, None
        self._files[followed.inode] = replacement
        return replacement

    def _replace_emptied(self, followed: FollowedFile) -> None:
        """Follow what was written into a file after it was emptied."""
        replacement = self._replace(followed, base=0)
        with suppress(OSError):
            replacement.base = rotation.first_data(replacement.open())
        now = time.monotonic()
        replacement.emptied_at = [at for at in followed.emptied_at if now - at < _HOUR_S] + [now]
        if len(replacement.emptied_at) > _MAX_EMPTIED_AN_HOUR:
            self._note(f"{followed.path} is not followed any more: it is written anew again and again, as no log is")
            replacement.is_over = True
            replacement.close()

    def _begin(self, followed: FollowedFile) -> bool:
        fields = {"job": self._slug, "path": followed.name, "attempt": str(self._attempt)}
        metadata = ",".join(f"{key} {base64.b64encode(value.encode()).decode()}" for key, value in fields.items())
        headers = {"Tus-Resumable": "1.0.0", "Upload-Defer-Length": "1", "Upload-Metadata": metadata}
        try:
            reply = self._site.ask("POST", "/uploads/", b"", headers)
        except Problem as problem:
            self._refuse(followed, problem)
            return False
        followed.upload = reply.headers["location"].rstrip("/").rpartition("/")[2]
        followed.advance(int(reply.headers.get("upload-offset", "0")))
        return True

    def _patch(self, followed: FollowedFile, data: bytes, size: int | None = None) -> bool:
        """Send bytes, or state the size. False if this look can send nothing more of the file."""
        headers = {
            "Tus-Resumable": "1.0.0",
            "Upload-Offset": str(followed.sent),
            "Content-Type": "application/offset+octet-stream",
        }
        if size is not None:
            headers["Upload-Length"] = str(size)
        try:
            reply = self._site.ask("PATCH", f"/uploads/{followed.upload}", data, headers)
            followed.advance(int(reply.headers["upload-offset"]))
        except Problem as problem:
            if problem.kind in ("offset_mismatch", "locked"):  # a failed try had sent some of it
                followed.advance(self._offset(followed))
                return problem.kind == "offset_mismatch"
            if problem.kind == "complete":  # the site ended it after a long silence, and has all acknowledged bytes
                self._replace(followed, base=followed.position)
            elif problem.kind == "gone" or problem.status == 404:
                self._replace(followed, base=followed.base)
            elif problem.kind == "too_large" and followed.sent and size is None:  # as long as the site takes one file
                self._replace(followed, base=followed.position)
                self._end(followed)
            else:
                self._refuse(followed, problem)
            followed.is_over = True
            return False
        return True

    def _offset(self, followed: FollowedFile) -> int:
        reply = self._site.ask("HEAD", f"/uploads/{followed.upload}", headers={"Tus-Resumable": "1.0.0"})
        return int(reply.headers["upload-offset"])

    def _end(self, followed: FollowedFile) -> None:
        """State the length, so that the site finishes the upload."""
        while followed.upload and not followed.is_over:
            if self._patch(followed, b"", size=followed.sent):
                break
        followed.is_over = True
        followed.close()

    def _refuse(self, followed: FollowedFile, problem: Problem) -> None:
        self._note(f"{followed.name} is not followed: {problem.detail}")
        followed.is_over = True
        self._refused.add(followed.inode)
        followed.close()

    def _load(self) -> None:
        """Continue where a former process stopped. An unreadable state only costs new names."""
        if self._state is None:
            return
        with suppress(OSError, ValueError, KeyError, TypeError):
            for row in json.loads(self._state.read_text())["files"]:
                followed = FollowedFile.of_row(row)
                self._files[followed.inode] = followed
                self._names.add(followed.name)

    def _save(self) -> None:
        if self._state is None:
            return
        rows = [followed.row() for followed in self._files.values()]
        if rows == self._saved:
            return
        self._saved = rows
        try:
            self._state.parent.mkdir(parents=True, exist_ok=True)
            new_state = self._state.with_name(self._state.name + ".new")
            new_state.write_text(json.dumps({"files": rows}))
            new_state.replace(self._state)
        except OSError as error:
            self._note(f"{self._state} cannot be written ({error.strerror}): a restart sends these files anew.")
            self._state = None


def _was_emptied(followed: FollowedFile) -> bool:
    try:
        return followed.was_emptied()
    except OSError:
        return False
