"""Builds archives of a few members, for tests of the engine and of uploads."""

from __future__ import annotations

import gzip
import io
import tarfile
import zipfile


def tar_of(members: dict[str, bytes], *, mode: str = "w:gz") -> bytes:
    """An archive of these files, in this order."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode) as archive:  # type: ignore[call-overload]
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def zip_of(members: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return out.getvalue()


def gz_of(data: bytes) -> bytes:
    return gzip.compress(data, mtime=0)
