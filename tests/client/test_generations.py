"""A followed file that is emptied, replaced, copied or deleted while the link to the site is down: whatever happens
between a try and the next one, each line arrives once, and no line is made of two.
"""

from __future__ import annotations

import base64
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faultline import files, following, rotation, site
from faultline.following import Follower
from faultline.site import Reply, Site

MiB = 1 << 20


class Disk:
    """A directory with one log, whose program, rotation and administrator act on it. Each content is a generation of
    its own lines; those of one length make files whose sizes alone say nothing.
    """

    def __init__(self, folder: Path) -> None:
        self.log = folder / "train.log"
        self.generation = self.count = self.copies = 0
        self.written: set[bytes] = set()
        self.append(3)

    def lines(self, count: int) -> bytes:
        made = [f"generation {self.generation:3d} line {self.count + n:4d}".encode() for n in range(count)]
        self.count += count
        self.written.update(made)
        return b"".join(line + b"\n" for line in made)

    def append(self, count: int) -> None:
        with self.log.open("ab") as file:
            file.write(self.lines(count))

    def truncate(self, count: int) -> None:
        self.generation += 1
        self.log.write_bytes(self.lines(count))

    def copy_and_truncate(self, count: int) -> None:
        self.copies += 1
        if self.log.exists():
            self.log.with_name(f"train.log.{self.copies}").write_bytes(self.log.read_bytes())
        self.truncate(count)

    def rename(self, count: int) -> None:
        self.copies += 1
        if self.log.exists():
            self.log.rename(self.log.with_name(f"train.log.{self.copies}"))
        self.truncate(count)

    def delete(self, count: int) -> None:
        self.log.unlink(missing_ok=True)

    def replace_by_longer(self, count: int) -> None:
        size = self.log.stat().st_size if self.log.exists() else 0
        self.generation += 1
        new = self.log.parent.parent / "new"
        new.write_bytes(self.lines(size // 27 + count))
        new.replace(self.log)

    def present(self) -> set[bytes]:
        return {line for path in self.log.parent.iterdir() for line in path.read_bytes().splitlines()}


ACTS = (Disk.append, Disk.truncate, Disk.copy_and_truncate, Disk.rename, Disk.delete, Disk.replace_by_longer)
#: what a try comes to: the link is down before it, in it (a part arrives), or after it (the answer is lost)
LINKS = ("up", "before", "within", "after")


class Network(Site):
    """A site that stores uploads in memory, behind a link that breaks as it is told."""

    def __init__(self, try_begins: Callable[[], str]) -> None:
        super().__init__("http://site", "fl_x", retry_for_s=1e9)
        self.uploads: list[bytearray] = []
        self.tried: set[bytes] = set()
        self._try_begins = try_begins

    def _once(self, method: str, path: str, body: Any, headers: dict[str, str]) -> Reply:
        link = self._try_begins()
        if method == "PATCH":
            self.tried.update(body.splitlines())
        if link == "before":
            raise ConnectionError("the link is down")
        reply = self._answer_to(method, path, body, headers, len(body or b"") // 2 if link == "within" else None)
        if link != "up":
            raise ConnectionError("the link is down")
        return reply

    def _answer_to(self, method: str, path: str, body: Any, headers: dict[str, str], part: int | None) -> Reply:
        if method == "POST":
            assert base64.b64decode(headers["Upload-Metadata"].split()[1]) == b"night"
            self.uploads.append(bytearray())
            return Reply(201, {"location": f"/uploads/{len(self.uploads) - 1}"}, None)
        upload = self.uploads[int(path.rpartition("/")[2])]
        if method == "PATCH" and int(headers["Upload-Offset"]) != len(upload):
            return Reply(409, {}, {"type": "x:offset_mismatch"})
        if method == "PATCH":
            upload += body[:part]
        return Reply(204, {"upload-offset": str(len(upload))}, None)

    def lines(self) -> list[list[bytes]]:
        return [bytes(upload).splitlines() for upload in self.uploads if upload]


disturbances = st.lists(st.tuples(st.sampled_from(ACTS), st.integers(1, 6)), max_size=2)
moments = st.lists(st.tuples(st.sampled_from(LINKS), disturbances), max_size=8)


@pytest.mark.parametrize("chunk_bytes", [60, MiB])
def test_what_disturbs_a_file_between_two_tries_loses_no_line_and_makes_none(
    monkeypatch: pytest.MonkeyPatch, chunk_bytes: int
) -> None:
    monkeypatch.setattr(site.time, "sleep", lambda seconds: None)
    monkeypatch.setattr(following, "CHUNK_BYTES", chunk_bytes)
    monkeypatch.setattr(rotation, "COPY_WAIT_S", 0.0)

    @settings(max_examples=150)
    @given(moments)
    def follow(history: list[tuple[str, list[tuple[Any, int]]]]) -> None:
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "logs").mkdir()
            disk = Disk(Path(folder) / "logs")
            waiting = list(history)

            def try_begins() -> str:
                link, acts = waiting.pop(0) if waiting else ("up", [])
                for act, count in acts:
                    act(disk, count)
                return link

            network = Network(try_begins)
            follower = Follower(network, "night", lambda: files.find_files([str(disk.log.parent)]))
            for _ in range(3):
                follower.catch_up()
            waiting.clear()  # nothing disturbs the last look
            follower.catch_up()
            follower.finish()
            uploads = network.lines()
            arrived = Counter(line for lines in uploads for line in lines)
            assert set(arrived) <= disk.written, "a line was made"
            assert max(arrived.values(), default=1) == 1, "a line came twice"
            whole = {line for line in network.tried if line in disk.written}
            assert disk.present() | whole <= set(arrived), "a line is lost"
            assert all(len({line[:14] for line in lines}) == 1 for lines in uploads), "generations are mixed"

    follow()
