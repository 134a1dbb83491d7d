"""Tar archives whose headers state what is not there."""

from __future__ import annotations

import bz2
import gzip
import io
import tarfile
from typing import Any

import pytest

from diagnosis.archive.archives import walk
from tests.archives import zip_of
from tests.diagnosis.test_archives import LOG, opened

END = bytes(1024)


class Impatient(io.BytesIO):
    """A file that a reader may not ask again and again at its end."""

    def read(self, size: int | None = -1) -> bytes:
        data = super().read(size)
        self.empty_reads = 0 if data else getattr(self, "empty_reads", 0) + 1
        assert self.empty_reads < 50, "it is read again and again at its end"
        return data


def padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 512)


def summed(block: bytes | bytearray) -> bytes:
    """A header with its checksum."""
    plain = block[:148] + b" " * 8 + block[156:]
    return bytes(plain[:148] + b"%06o\0 " % sum(plain) + plain[156:])


def header(name: str, size_field: bytes = b"%011o\0" % 0, kind: bytes = tarfile.REGTYPE) -> bytes:
    """The header of a member with these bytes as its size."""
    info = tarfile.TarInfo(name)
    info.type = kind
    block = info.tobuf(format=tarfile.USTAR_FORMAT)
    return summed(block[:124] + size_field + block[136:])


def attribute(name: str, value: str) -> bytes:
    """An extended header with one attribute."""
    record = f"{len(name) + len(value) + 5} {name}={value}\n".encode()
    return header("PaxHeader", b"%011o\0" % len(record), tarfile.XHDTYPE) + padded(record)


def member(name: str, data: bytes) -> bytes:
    return header(name, b"%011o\0" % len(data)) + padded(data)


BINARY_2_62 = b"\x80\0\0\0" + (1 << 62).to_bytes(8, "big")
LIES = {
    "2^62 in binary": header("lie.log", BINARY_2_62),
    "8 GiB in octal": header("lie.log", b"77777777777\0"),
    "an attribute": attribute("size", "1" + "0" * 18) + header("lie.log"),
    "an attribute of some MB": attribute("size", "3000000") + header("lie.log"),
}


@pytest.mark.parametrize("pack", [bytes, gzip.compress, lambda data: zip_of({"in.tar": data}), bz2.compress])
@pytest.mark.parametrize("lie", LIES)
def test_a_stated_size_beyond_the_archive_costs_one_sentence_and_no_neighbour(lie: str, pack: Any) -> None:
    data = pack(member("before.log", LOG) + LIES[lie] + padded(b"data") + member("after.log", LOG) + END)
    problems: dict[str, str] = {}
    found: dict[str, bytes] = {}
    notes: dict[str, str] = {}
    for one in walk(Impatient(data), "x", on_problem=problems.__setitem__):
        name = one.path.removeprefix("in.tar/")
        found[name] = one.stream.read()
        if one.note:
            notes[name] = one.note
    assert found == {"before.log": LOG, "lie.log": padded(b"data"), "after.log": LOG}
    assert "more than follow" in notes.pop("lie.log")
    assert not notes
    assert not problems


def test_an_entry_without_content_that_states_bytes_is_not_skipped_past_the_end() -> None:
    """Links have no content, but an unknown kind of entry may."""
    entries = header("odd", BINARY_2_62, b"Z") + header("link", BINARY_2_62, tarfile.SYMTYPE)
    data = entries + member("after.log", LOG) + END
    found = {one.path: one.stream.read() for one in walk(Impatient(data), "x.tar")}
    assert found["after.log"] == LOG


def test_a_negative_size_is_no_way_back_to_earlier_bytes() -> None:
    minus = header("minus.log", b"\xff" * 12) + attribute("size", "-99999") + header("far.log")
    found, _, problems = opened(minus + member("after.log", LOG) + END, "x.tar")
    assert found == {"after.log": LOG}
    assert problems["minus.log"] == "Its header states -1 bytes: it was left out. Send the archive again."
    assert "-99,999" in problems["far.log"]


def test_a_cut_archive_gives_what_came_of_its_last_member() -> None:
    for pack in (bytes, gzip.compress):
        whole = member("a.log", LOG) + member("b.log", LOG) + END
        found, notes, problems = opened(pack(whole[:3_500]))
        assert found == {"a.log": LOG, "b.log": LOG[: 3_500 - 3_072]}
        assert "after 428 bytes" in notes["b.log"]
        assert not problems


def test_a_sparse_file_comes_out_whole_and_one_whose_map_is_out_of_order_is_left_out() -> None:
    def sparse(parts: str) -> bytes:
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
            info = tarfile.TarInfo("s.log")
            info.size = 8
            info.pax_headers = {"GNU.sparse.size": "20", "GNU.sparse.map": parts, "GNU.sparse.name": "s.log"}
            archive.addfile(info, io.BytesIO(b"headtail"))
        return out.getvalue()

    for parts in ("0,4,16,4", "0,4,0,0,16,4,20,0"):  # writers end a map with empty parts
        assert opened(sparse(parts))[0] == {"s.log": b"head" + bytes(12) + b"tail"}
    for parts in ("16,4,0,4", "0,8,4,4", "0,4,16,5", "-4,4,16,4"):
        found, _, problems = opened(sparse(parts))
        assert not found
        assert "sparse" in problems["s.log"]


def test_headers_of_one_member_have_a_limit_together() -> None:
    """A map of a sparse file goes on from block to block as long as each one says so."""
    first = header("s.log", kind=tarfile.GNUTYPE_SPARSE)
    first = summed(first[:482] + b"\1" + first[483:])
    more = (b"00000000001\0" * 42).ljust(504, b"\0") + b"\1".ljust(8, b"\0")
    found, _, problems = opened(gzip.compress(first + more * 8_000), "a.tar")
    assert not found
    assert "headers of more than 1,048,576 bytes" in problems["a.tar"]


def test_global_headers_that_would_be_copied_for_every_member_have_a_limit() -> None:
    out = io.BytesIO()
    keys = {f"key{n}": "x" for n in range(2_000)}
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT, pax_headers=keys) as archive:
        archive.addfile(tarfile.TarInfo("a.log"))
    assert "2,000 global keys" in opened(out.getvalue(), "a.tar")[2]["a.tar"]
