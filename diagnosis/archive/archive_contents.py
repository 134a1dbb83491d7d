"""What is wrong with the contents of an archive: repeated names, files that its directory omits, how it is told."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from typing import Any, Final

#: Members of one upload that are left out with a sentence each; further ones are counted.
MAX_SENTENCES: Final = 200


class Problems:
    """Tells what is wrong with one upload: a sentence a member, and one for each archive, with all about it."""

    def __init__(self, tell: Callable[[str, str], None]) -> None:
        self._tell = tell
        self._archives: dict[str, list[str]] = {}
        self._told = 0

    def of_member(self, path: str, sentence: str) -> None:
        self._told += 1
        if self._told <= MAX_SENTENCES:
            self._tell(path, sentence)

    def of_archive(self, path: str, sentence: str) -> None:
        """Add to the sentence of an archive, which :meth:`close` tells. The same again adds nothing."""
        if path not in self._archives and len(self._archives) >= MAX_SENTENCES:
            self._told += 1
            return
        sentences = self._archives.setdefault(path, [])
        if sentence not in sentences:
            sentences.append(sentence)

    def close(self, path: str) -> None:
        """Tell the sentences of the archives. ``path``: of the upload."""
        if self._told > MAX_SENTENCES:
            more = self._told - MAX_SENTENCES
            self.of_archive(path, f"{more:,} more members were left out for reasons like those of the first ones.")
        for archive, sentences in self._archives.items():
            self._tell(archive, " ".join(sentences))


class UniqueNames:
    """Names within one archive: a repeated name gets ``~2`` before its suffix."""

    def __init__(self) -> None:
        self._seen: dict[str, int] = {}
        self.duplicates = 0
        self.example = ""

    def unique(self, name: str) -> str:
        count = self._seen.get(name, 0) + 1
        self._seen[name] = count
        if count == 1:
            return name
        self.duplicates += 1
        self.example = self.example or name
        folder, slash, last = name.rpartition("/")
        stem, dot, suffix = last.partition(".") if not last.startswith(".") else (last, "", "")
        while (fresh := f"{folder}{slash}{stem}~{count}{dot}{suffix}") in self._seen:
            count += 1
        self._seen[name], self._seen[fresh] = count, 1
        return fresh


def count_unlisted(file: Any, archive: zipfile.ZipFile) -> int:
    """Files within a zip archive that its directory does not list: local headers in gaps between the listed ones. One
    short read a member.
    """
    found = 0
    begins = sorted({info.header_offset for info in archive.infolist()})
    sizes = {info.header_offset: info.compress_size for info in archive.infolist()}
    at = 0
    try:
        for begin in [*begins, archive.start_dir]:
            found += _headers_between(file, at, begin)
            file.seek(begin)
            head = file.read(30)
            if begin != archive.start_dir and head[:4] == b"PK\x03\x04":
                at = begin + 30 + int.from_bytes(head[26:28], "little") + int.from_bytes(head[28:30], "little")
                at += sizes[begin]
    except (OSError, ValueError):
        return found
    return found


def _headers_between(file: Any, at: int, end: int) -> int:
    """Local headers from ``at`` to ``end``; a data descriptor of up to 24 bytes may be there. Reads 1 MiB."""
    if end - at < 30:
        return 0
    file.seek(at)
    return bytes(file.read(min(end - at, 1 << 20))).count(b"PK\x03\x04")


def stated_entries(file: Any) -> int:
    """The number of members in the end record, read before the directory is loaded into memory."""
    end = file.seek(0, io.SEEK_END)
    file.seek(max(0, end - (1 << 16) - 22))
    tail = file.read()
    file.seek(0)
    at = tail.rfind(b"PK\x05\x06")
    count = int.from_bytes(tail[at + 10 : at + 12], "little") if at >= 0 else 0
    at = tail.rfind(b"PK\x06\x06")
    return int.from_bytes(tail[at + 32 : at + 40], "little") if count == 0xFFFF and at >= 0 else count
