"""Opens uploads: archives, compressed files and nested ones, as a stream of members, and trusts none of them.

Shared by the command line and the upload, so that both see the same paths. Nothing is written under the found names;
members are read one after another, in bounded memory. Rejected members are reported as ``(path, sentence)`` and the
rest is read: links, devices, names that leave the archive, encrypted or damaged members. Limits on members, bytes,
ratio and depth stop archives that unpack into far more than was sent.
"""

from __future__ import annotations

import io
import stat
import struct
import tarfile
import tempfile
import unicodedata
import zipfile
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any, BinaryIO, Final

import msgspec

from diagnosis.archive.archive_contents import Problems, UniqueNames, count_unlisted, stated_entries
from diagnosis.archive.archive_streams import (
    BLOCK_BYTES,
    DAMAGE_ERRORS,
    ChainedReader,
    CountingReader,
    LimitedReader,
    Refused,
    decompressor,
    error_text,
    read_head,
)
from diagnosis.archive.tar_reading import CheckedTarInfo, ForwardReader, Tar, is_header

__all__ = ["HEAD_BYTES", "Limits", "Member", "Refused", "clean_path", "format_of", "walk"]

HEAD_BYTES: Final = 1024
MAX_PATH_CHARS: Final = 1000
_SPOOL_BYTES: Final = 8 << 20
#: zip files that are not archives of evidence: models, arrays, programs, documents
_ZIP_LOOKALIKES: Final = (".pt", ".pth", ".ckpt", ".npz", ".whl", ".jar", ".docx", ".xlsx", ".pptx", ".egg", ".apk")
_MAGIC: Final = {
    b"\x1f\x8b": "gzip",
    b"BZh": "bzip2",
    b"\xfd7zXZ\x00": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"PK\x03\x04": "zip",
    b"PK\x05\x06": "zip",
}

#: other exceptions of archive readers for hostile archives
_READ_ERRORS: Final = (*DAMAGE_ERRORS, ValueError, RecursionError, OverflowError, IndexError, struct.error)

OnProblem = Callable[[str, str], None]
type SentBytes = Callable[[], int]


class Limits(msgspec.Struct, frozen=True):
    """Limits of an archive. ``ratio``: bytes out per byte in, checked beyond the first 64 MiB."""

    members: int = 200_000
    total_bytes: int = 500 << 30
    ratio: int = 1000
    depth: int = 3


class Member(msgspec.Struct):
    """One file out of an archive. ``stream`` is valid until the next member is asked for.

    Read it to its end, then check ``note``: a sentence if its data ended early (the data before is valid).
    """

    path: str
    stream: BinaryIO
    note: str = ""


def format_of(head: bytes, path: str = "") -> str:
    """``gzip``, ``bzip2``, ``xz``, ``zstd``, ``zip``, ``tar`` or ``""``, by the first :data:`HEAD_BYTES` bytes.

    The name only excludes: a model checkpoint is a zip file by its bytes, but no archive of evidence.
    """
    name = path.lower()
    for magic, kind in _MAGIC.items():
        if head.startswith(magic):
            return "" if kind == "zip" and name.endswith(_ZIP_LOOKALIKES) else kind
    if len(head) < tarfile.BLOCKSIZE:
        return ""
    if not any(head):  # an archive without members contains only zeros; only its name identifies it
        return "tar" if ".tar" in name or name.endswith(".tgz") else ""
    return "tar" if is_header(head[: tarfile.BLOCKSIZE]) else ""


def clean_path(name: str) -> str:
    """The name as a relative path of plain characters. Raises ``ValueError`` with a sentence for an invalid name."""
    path = name.encode("utf-8", "backslashreplace").decode().replace("\\", "/")
    if path.startswith("/") or (len(path) > 1 and path[1] == ":" and path[0].isalpha()):
        raise ValueError("The name is absolute: it was left out. Use names relative to the job's folder.")
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise ValueError("The name climbs out of its folder (“..”): it was left out. Use plain relative names.")
    path = "/".join(parts)
    if not path:
        raise ValueError("The name is empty: it was left out. Give the file a name.")
    if any(unicodedata.category(c) in ("Cc", "Cf", "Zl", "Zp") for c in path):
        raise ValueError("The name holds control characters: it was left out. Rename the file.")
    if len(path) > MAX_PATH_CHARS:
        raise ValueError(
            f"The name is {len(path):,} characters long (at most {MAX_PATH_CHARS:,}): it was left out. Shorten it."
        )
    return path


def walk(
    file: BinaryIO,
    path: str,
    *,
    limits: Limits | None = None,
    on_problem: OnProblem | None = None,
    spent_bytes: int = 0,
) -> Iterator[Member]:
    """Every file within ``file``, which is named ``path``: the file itself if plain, decompressed, or its members.

    A member's path is the one inside the archive; of an archive inside an archive, ``inner.zip/member``. Order is the
    archive's. Content raises only :class:`Refused` from a member's ``stream``: drop that member and continue.
    ``spent_bytes``: what an earlier walk read of members that this one's caller does not read again.
    """
    source = CountingReader(file)
    state = _Walk(limits or Limits(), on_problem or (lambda _path, _sentence: None))
    state.out_bytes = spent_bytes
    try:
        yield from state.open(source, path, "", 0, lambda: source.count)
    except Refused as refusal:
        state.problems.of_archive(path, str(refusal))
    state.problems.close(path)


class _Walk:
    """One walk with its budget. ``prefix`` goes before the names of members, ``sent`` counts their packed bytes."""

    def __init__(self, limits: Limits, on_problem: OnProblem) -> None:
        self.limits = limits
        self.problems = Problems(on_problem)
        self.members = 0
        self.out_bytes = 0

    @property
    def is_spent(self) -> bool:
        return self.members > self.limits.members or self.out_bytes > self.limits.total_bytes

    def open(self, source: Any, path: str, prefix: str, depth: int, sent: SentBytes) -> Iterator[Member]:
        head = read_head(source, HEAD_BYTES)
        kind = format_of(head, path)
        stream: Any = ChainedReader(head, source)
        if not kind:
            yield from self._emit(path, stream)
        elif depth >= self.limits.depth:
            self.problems.of_archive(
                path,
                f"This archive is more than {self.limits.depth} levels deep in others: it was left out. Send it alone.",
            )
        elif kind == "zip":
            yield from self._zip(stream, path, prefix, depth)
        elif kind == "tar":
            yield from self._tar(stream, path, prefix, depth, sent)
        else:
            yield from self._compressed(
                decompressor(kind, counted := CountingReader(stream)), counted, path, prefix, depth
            )

    def _compressed(self, opened: Any, counted: CountingReader, path: str, prefix: str, depth: int) -> Iterator[Member]:
        def sent() -> int:
            return counted.count

        metered = LimitedReader(opened, path, self.limits.ratio, sent)
        head = read_head(metered, HEAD_BYTES)
        inner = ChainedReader(head, metered)
        if not head and metered.damage:
            self.problems.of_archive(path, metered.damage)
        elif format_of(head, path) == "tar":  # a compressed tar counts as one level, as people do
            yield from self._tar(inner, path, prefix, depth, sent)
            if metered.damage:
                self.problems.of_archive(path, metered.damage)
        elif format_of(head, path):
            yield from self.open(inner, path, prefix, depth + 1, sent)
        else:
            yield from self._emit(path, inner, lambda: metered.damage)

    def _tar(self, stream: Any, path: str, prefix: str, depth: int, sent: SentBytes) -> Iterator[Member]:
        try:
            archive = Tar(ForwardReader(stream, stream.length()))
        except _READ_ERRORS as error:
            self.problems.of_archive(path, f"The archive cannot be opened ({error_text(error)}): send it again.")
            return
        count, names, skipped, is_cut = 0, UniqueNames(), archive.skipped, False
        damaged_after: int | None = None
        with closing(archive):
            while True:
                before = skipped.bytes
                try:
                    info = archive.next()
                except _READ_ERRORS as error:
                    kept = f"after {count:,} members ({error_text(error)})"
                    self.problems.of_archive(path, f"The archive breaks off {kept}: send it again to get the rest.")
                    return
                if skipped.bytes > before and damaged_after is None:
                    damaged_after = count
                if info is None:
                    break
                is_cut = info.is_overlong
                if not info.isdir():
                    count += 1
                    yield from self._tar_member(archive, info, prefix, depth, sent, names)
        if count == 0:
            self.problems.of_archive(path, "The archive holds no files: nothing to read in it.")
        elif damaged_after is None and not skipped.end_marks and not is_cut:
            problem = f"The archive ends after {count:,} members without its end mark: it may have been cut there."
            advice = "Compare the number with the original, and send it again if it is."
            self.problems.of_archive(path, f"{problem} {advice}")
        if damaged_after is not None:
            lost = f"{skipped.bytes:,} bytes in all were passed over, in which at least one file was lost"
            self.problems.of_archive(
                path, f"The archive is damaged after its member {damaged_after:,}: {lost}. Send it again."
            )
        self._report_duplicates(path, names)

    def _tar_member(
        self,
        archive: Tar,
        info: CheckedTarInfo,
        prefix: str,
        depth: int,
        sent: SentBytes,
        names: UniqueNames,
    ) -> Iterator[Member]:
        stated = self._name(info.name, prefix)
        if not stated:
            return
        name = names.unique(stated) if info.isreg() else stated
        problem = info.problem()
        if problem:
            self.problems.of_member(name, problem)
            return
        metered = LimitedReader(archive.content(info), name, self.limits.ratio, sent)
        yield from self._member(metered, name, depth, sent)

    def _zip(self, stream: Any, path: str, prefix: str, depth: int) -> Iterator[Member]:
        with tempfile.SpooledTemporaryFile(max_size=_SPOOL_BYTES) as spool:
            # within another archive: a zip is read from its end, so it needs a seekable copy
            whole: Any = stream.seekable_whole()
            file = self._copy(stream, spool) if whole is None else whole
            try:
                if stated_entries(file) > self.limits.members:
                    raise Refused(self._too_many())
                archive = zipfile.ZipFile(file)
            except (*_READ_ERRORS, NotImplementedError) as error:
                self.problems.of_archive(
                    path, f"The zip archive cannot be opened ({error_text(error)}): send it again, whole."
                )
                return
            with archive:
                yield from self._zip_members(archive, path, prefix, depth)
                if lost := count_unlisted(file, archive):
                    self.problems.of_archive(
                        path,
                        f"{lost:,} more {'file lies' if lost == 1 else 'files lie'} in this zip archive than its "
                        "directory lists: left out. Either it was put behind another archive, or a file was deleted "
                        "from it. Pack it again if it should be read.",
                    )

    def _copy(self, stream: Any, spool: Any) -> Any:
        while block := stream.read(BLOCK_BYTES):
            spool.write(block)
            if spool.tell() > self.limits.total_bytes - self.out_bytes:
                raise Refused(self._too_large())
        return spool

    def _zip_members(self, archive: zipfile.ZipFile, path: str, prefix: str, depth: int) -> Iterator[Member]:
        infos = [info for info in archive.infolist() if not info.is_dir() or info.file_size]
        if not infos:
            self.problems.of_archive(path, "The archive holds no files: nothing to read in it.")
        names = UniqueNames()
        for info in infos:
            if name := self._name(info.filename, prefix):
                yield from self._zip_member(archive, info, names.unique(name), depth)
        self._report_duplicates(path, names)

    def _zip_member(self, archive: zipfile.ZipFile, info: zipfile.ZipInfo, name: str, depth: int) -> Iterator[Member]:
        mode = info.external_attr >> 16
        if info.flag_bits & 1:
            self.problems.of_member(name, "This is encrypted: it was left out. Pack it without a password.")
        elif stat.S_IFMT(mode) not in (0, stat.S_IFREG):
            self.problems.of_member(
                name, "This is a link or a device, not a file: it was left out. Pack the file itself."
            )
        else:
            try:
                content = archive.open(info)
            except (*_READ_ERRORS, NotImplementedError, RuntimeError) as error:
                self.problems.of_member(
                    name, f"This member cannot be opened ({error_text(error)}): it was left out. Pack it again."
                )
                return
            with content:
                metered = LimitedReader(content, name, self.limits.ratio, lambda: info.compress_size)
                yield from self._member(metered, name, depth, lambda: info.compress_size)

    def _member(self, metered: LimitedReader, name: str, depth: int, sent: SentBytes) -> Iterator[Member]:
        """A file within an archive: as it is, or opened if it is an archive too."""
        head = read_head(metered, HEAD_BYTES)
        inner = ChainedReader(head, metered)
        if not format_of(head, name):
            yield from self._emit(name, inner, lambda: metered.damage)
            return
        try:
            yield from self.open(inner, name, f"{name}/", depth + 1, sent)
        except Refused as refusal:
            if self.is_spent:
                raise
            self.problems.of_member(name, str(refusal))

    def _emit(self, path: str, stream: Any, damage: Callable[[], str] = lambda: "") -> Iterator[Member]:
        self.members += 1
        if self.is_spent:
            raise Refused(self._too_many() if self.members > self.limits.members else self._too_large())
        member = Member(path, stream)
        # a raw stream reads as well
        member.stream = _MemberStream(stream, member, self, damage)  # type: ignore[assignment]
        yield member

    def spend(self, count: int) -> None:
        self.out_bytes += count
        if self.out_bytes > self.limits.total_bytes:
            raise Refused(self._too_large())

    def _report_duplicates(self, path: str, names: UniqueNames) -> None:
        if names.duplicates:
            first = f"{names.example!r} the first" if names.duplicates > 1 else f"{names.example!r}"
            problem = f"{names.duplicates:,} members have the name of an earlier one, {first}"
            self.problems.of_archive(path, f"{problem}: all were kept, the later ones as “name~2”, “name~3” and so on.")

    def _name(self, raw: str, prefix: str) -> str:
        try:
            return prefix + clean_path(raw)
        except ValueError as error:
            shown = "".join(c if c.isprintable() else "�" for c in raw)[:200]
            self.problems.of_member(prefix + shown, str(error))
            return ""

    def _too_many(self) -> str:
        return f"The archive holds more than {self.limits.members:,} files: the rest was left out. Send it in parts."

    def _too_large(self) -> str:
        most = f"{self.limits.total_bytes:,} bytes"
        return f"The archive unfolds to more than {most}: the rest was left out. Send it in parts."


class _MemberStream(io.RawIOBase):
    """The stream of a member: it uses the walk's budget and sets the damage in the member's note at the end."""

    def __init__(self, inner: Any, member: Member, state: _Walk, damage: Callable[[], str]) -> None:
        self._inner = inner
        self._member = member
        self._state = state
        self._damage = damage

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._inner.read(len(buffer))
        if not data:
            self._member.note = self._damage()
        self._state.spend(len(data))
        buffer[: len(data)] = data
        return len(data)
