"""The files to send: their names and their current content."""

from __future__ import annotations

import fnmatch
import hashlib
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import BinaryIO, NamedTuple

BLOCK_BYTES = 1 << 20


class Source(NamedTuple):
    """A file to send: its path, the directory that it must stay in, and its name within the job."""

    path: Path
    root: Path
    name: str


class Content(NamedTuple):
    size_bytes: int
    sha256: str


class UnreadableFile(Exception):
    """The file cannot be sent; the message says why."""


def find_files(
    paths: Sequence[str], *, prefix: str = "", exclude: Sequence[str] = (), follow: bool = False
) -> Iterator[Source]:
    """Regular files below ``paths``, ordered by name.

    Of several directories each name is kept as a prefix. Links out of their directory are skipped unless ``follow``: an
    epilog that runs as root must not read files that the job's owner may not read.
    """
    several = len(paths) > 1
    for given in paths:
        path = Path(given)
        if path.is_dir():
            root = path.resolve()
            front = prefix + (f"{root.name}/" if several else "")
            yield from _files_below(root, front, exclude, follow=follow)
        else:
            yield Source(path, path.resolve().parent, prefix + _text(path.name))


def _files_below(root: Path, front: str, exclude: Sequence[str], *, follow: bool) -> Iterator[Source]:
    for folder, folders, files in os.walk(root, followlinks=follow):
        folders.sort()
        for file in sorted(files):
            path = Path(folder) / file
            name = _text(PurePosixPath(path.relative_to(root).as_posix()).as_posix())
            if any(fnmatch.fnmatch(name, pattern) or fnmatch.fnmatch(file, pattern) for pattern in exclude):
                continue
            try:
                mode = (path.stat() if follow or _stays_inside(path, root) else path.lstat()).st_mode
            except OSError:
                mode = stat.S_IFREG  # opening it will report the error
            if stat.S_ISREG(mode):
                yield Source(path, root, front + name)


@contextmanager
def open_file(source: Source, *, follow: bool = False) -> Iterator[BinaryIO]:
    """The file, open for reading. It is checked after opening, so that nobody can replace it in between.

    Raises:
        Unreadable: it is deleted, forbidden, not a regular file, or now outside its directory.
    """
    try:
        descriptor = os.open(source.path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
    except OSError as error:
        raise UnreadableFile(error.strerror or str(error)) from None
    with os.fdopen(descriptor, "rb", buffering=0) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise UnreadableFile("it is not a regular file")
        try:
            real = Path(f"/proc/self/fd/{file.fileno()}").readlink()
        except OSError:
            real = source.path.resolve()  # no /proc on this system: the best available check
        if not follow and source.root not in real.parents:
            raise UnreadableFile("it is a link that leads out of its directory (--follow sends those too)")
        yield file


def content_of(file: BinaryIO) -> Content:
    """Size and SHA-256 of the current content. Bytes appended later are not included and not sent."""
    size = left = os.fstat(file.fileno()).st_size
    digest, position = hashlib.sha256(), 0
    while left:
        block = os.pread(file.fileno(), min(BLOCK_BYTES, left), position)
        if not block:
            raise UnreadableFile("it became shorter while it was read")
        digest.update(block)
        position += len(block)
        left -= len(block)
    return Content(size, digest.hexdigest())


def _stays_inside(path: Path, root: Path) -> bool:
    real = path.resolve()
    return root in real.parents


def _text(name: str) -> str:
    """A name as text, even if its bytes are not UTF-8."""
    return os.fsencode(name).decode("utf-8", "replace")


def nodes_of(text: str) -> list[str]:
    """Node names of a comma or line list; expands ``gpu[01-03,7]`` as schedulers write it."""
    names: list[str] = []
    for part in _split_names(text.replace("\n", ",").replace(" ", ",")):
        names.extend(_expand(part))
    return names


def _split_names(text: str) -> Iterator[str]:
    depth, held = 0, ""
    for letter in text:
        depth += (letter == "[") - (letter == "]")
        if letter == "," and depth == 0:
            if held:
                yield held
            held = ""
        else:
            held += letter
    if held:
        yield held


def _expand(part: str) -> list[str]:
    head, bracket, rest = part.partition("[")
    inner, closed, tail = rest.partition("]")
    if not bracket or not closed:
        return [part]
    names: list[str] = []
    for item in inner.split(","):
        first, dash, last = item.partition("-")
        if dash and first.isdecimal() and last.isdecimal() and 0 <= int(last) - int(first) < 100_000:
            numbers = [str(n).zfill(len(first)) for n in range(int(first), int(last) + 1)]
        else:
            numbers = [item]
        names.extend(f"{head}{number}{end}" for number in numbers for end in _expand(tail))
    return names
