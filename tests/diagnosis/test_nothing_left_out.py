"""Everything that was left out of an archive or a stream is reported, with what to do."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import struct
import tarfile
import warnings
import zipfile
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import zstandard

from diagnosis import ParseHints, parse
from diagnosis.archive import archives
from diagnosis.archive.archive_contents import MAX_SENTENCES
from diagnosis.files import gathering
from tests import archives as archives_of

LOG = b"line one\nline two\n" * 100
PACKERS = {
    "gzip": gzip.compress,
    "bzip2": bz2.compress,
    "xz": partial(lzma.compress, preset=0),
    "zstd": zstandard.compress,
}
MEMBERS = {f"n{number}.log": LOG + b"%d" % number for number in range(5)}


def opened(data: bytes, path: str = "x") -> tuple[dict[str, bytes], list[str]]:
    """Members, and all sentences, of members and of the whole."""
    said: list[str] = []
    found = {}

    def hear(_: str, sentence: str) -> None:
        said.append(sentence)

    for member in archives.walk(io.BytesIO(data), path, on_problem=hear):
        found[member.path] = member.stream.read()
        said += [member.note] if member.note else []
    return found, said


def tar(members: dict[str, bytes] = MEMBERS) -> bytearray:
    return bytearray(archives_of.tar_of(members, mode="w"))


def headers(data: bytes) -> list[int]:
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        return [info.offset for info in archive.getmembers()]


def test_what_follows_a_damaged_header_of_a_tar_is_read_and_the_damage_reported() -> None:
    data = tar()
    data[headers(data)[2]] ^= 0xFF
    found, (sentence,) = opened(bytes(data))
    assert found == {name: content for name, content in MEMBERS.items() if name != "n2.log"}
    assert "damaged after its member 2" in sentence


def test_a_tar_behind_another_is_read_as_well() -> None:
    found, said = opened(bytes(tar({"a.log": LOG}) + tar({"b.log": LOG})))
    assert (found, said) == ({"a.log": LOG, "b.log": LOG}, [])


def test_a_tar_that_was_cut_between_two_members_is_distinguished_from_a_whole_one() -> None:
    data = tar()
    found, (sentence,) = opened(bytes(data[: headers(data)[3]]))
    assert list(found) == ["n0.log", "n1.log", "n2.log"]
    assert "without its end mark" in sentence


def test_all_about_one_archive_is_one_sentence() -> None:
    data = tar()
    second, third = headers(data)[2:4]
    _, (sentence,) = opened(bytes(data[:second] + bytes([1]) * 4096 + data[second:third] + b"garbage!" * 640))
    assert "damaged after its member 2" in sentence


def test_so_many_bad_members_are_told_and_the_rest_counted() -> None:
    links = b""
    for number in range(MAX_SENTENCES + 5):
        link = tarfile.TarInfo(f"l{number}")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        links += link.tobuf()
    _, said = opened(links + bytes(1024))
    assert len(said) == MAX_SENTENCES + 1
    assert said[-1].startswith("5 more members")


@pytest.mark.parametrize("inside", [100, 700])
def test_a_tar_that_was_cut_within_a_member_is_reported(inside: int) -> None:
    data = tar()
    found, said = opened(bytes(data[: headers(data)[3] + inside]))
    assert list(found)[:3] == ["n0.log", "n1.log", "n2.log"]
    assert any("breaks off" in sentence for sentence in said)


def test_endless_rubbish_in_a_tar_is_not_searched_for_ever() -> None:
    _, said = opened(bytes(tar()[: headers(tar())[1]]) + b"rubbish!" * (9 << 20))
    assert any("no header in 64 MiB" in sentence for sentence in said)


def test_a_chain_of_long_names_costs_one_sentence() -> None:
    link = tarfile.TarInfo("long")
    link.type, link.size = tarfile.GNUTYPE_LONGNAME, 0
    data = bytes(tar({"a.log": LOG})[: 512 + 2048]) + link.tobuf(tarfile.GNU_FORMAT) * 5000
    found, said = opened(data)
    assert found == {"a.log": LOG}
    assert said


@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_members_of_one_name_are_all_kept_and_reported(kind: str) -> None:
    out = io.BytesIO()
    contents = [b"first\n", b"second\n", b"third\n"]
    if kind == "zip":
        with warnings.catch_warnings(), zipfile.ZipFile(out, "w") as archive:
            warnings.simplefilter("ignore")
            for content in contents:
                archive.writestr("n1/a.tar.log", content)
    else:
        with tarfile.open(fileobj=out, mode="w") as packed:
            for content in contents:
                info = tarfile.TarInfo("n1/a.tar.log")
                info.size = len(content)
                packed.addfile(info, io.BytesIO(content))
    found, (sentence,) = opened(out.getvalue())
    assert found == dict(zip(["n1/a.tar.log", "n1/a~2.tar.log", "n1/a~3.tar.log"], contents, strict=True))
    assert "2 members have the name of an earlier one" in sentence


def test_a_zip_behind_another_is_reported() -> None:
    data = archives_of.zip_of({"a.log": LOG, "c.log": LOG}) + archives_of.zip_of({"b.log": LOG})
    found, (sentence,) = opened(data)
    assert list(found) == ["b.log"]
    assert sentence.startswith("2 more files lie in this zip archive")


def test_a_file_deleted_from_the_directory_of_a_zip_is_reported() -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in MEMBERS.items():
            archive.writestr(name, content)
        del archive.NameToInfo["n2.log"]
        archive.filelist.pop(2)
    found, (sentence,) = opened(out.getvalue())
    assert len(found) == 4
    assert "1 more file lies" in sentence


def test_a_whole_zip_reports_nothing() -> None:
    out = io.BytesIO()

    class Unseekable(io.RawIOBase):  # so that data descriptors follow the members
        def writable(self) -> bool:
            return True

        def write(self, data: Any) -> int:
            return out.write(data)

    with zipfile.ZipFile(Unseekable(), "w", zipfile.ZIP_DEFLATED) as archive:  # type: ignore[arg-type]
        for name, content in MEMBERS.items():
            archive.writestr(name, content)
    assert opened(out.getvalue()) == (MEMBERS, [])


def test_content_under_the_name_of_a_directory_is_reported() -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("a.log", LOG)
        archive.writestr("b.log/", LOG)
    found, said = opened(out.getvalue())
    assert sum(content == LOG for content in found.values()) + len(said) == 2


@pytest.mark.parametrize("kind", PACKERS)
def test_a_cut_stream_is_reported_and_gives_what_comes_before(kind: str) -> None:
    import random

    data = random.Random(1).randbytes(1_500_000).hex().encode()
    packed = PACKERS[kind](data)
    found, (sentence,) = opened(packed[: len(packed) // 2], "a.log.x")
    assert data.startswith(found["a.log.x"])
    assert "breaks off" in sentence or "cannot be unpacked" in sentence
    assert opened(packed[:-1], "a.log.x")[1], "the last byte counts as well"


@pytest.mark.parametrize("kind", PACKERS)
def test_streams_behind_each_other_are_read_and_rubbish_behind_them_is_reported(kind: str) -> None:
    two = PACKERS[kind](LOG) + PACKERS[kind](b"more\n")
    assert opened(two, "a.log.x") == ({"a.log.x": LOG + b"more\n"}, [])
    found, (sentence,) = opened(two + b"rubbish", "a.log.x")
    assert found == {"a.log.x": LOG + b"more\n"}
    assert "after the end" in sentence


@pytest.mark.parametrize("kind", PACKERS)
def test_padding_of_zeros_behind_a_stream_is_no_damage(kind: str) -> None:
    assert opened(PACKERS[kind](LOG) + bytes(1024), "a.log.x") == ({"a.log.x": LOG}, [])


def test_frames_of_zstd_without_data_are_passed_over() -> None:
    empty = struct.pack("<II", 0x184D2A50, 4) + b"note"
    assert opened(zstandard.compress(LOG) + empty + zstandard.compress(b"x\n"), "a.zst")[1] == []


def test_a_small_zstd_stream_that_unfolds_hugely_is_read_in_small_pieces() -> None:
    packed = zstandard.compress(bytes(300 << 20))
    (member,) = archives.walk(io.BytesIO(packed), "a.log.zst", limits=archives.Limits(ratio=10**9))
    first = member.stream.read(1000)
    assert len(first) == 1000


def test_a_directory_behind_a_link_is_reported(tmp_path: Path) -> None:
    (tmp_path / "job").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "job" / "a.log").write_bytes(LOG)
    (tmp_path / "job" / "more").symlink_to(tmp_path / "elsewhere")
    found = gathering.gather([tmp_path / "job"], tmp_path / "work")
    assert [path for path, _ in found.problems] == ["more"]


def test_lines_of_flow_records_that_are_no_records_are_reported(tmp_path: Path) -> None:
    row = (
        b'{"time_flow_start_ns": 1772352000000000000, "time_flow_end_ns": 1772352000100000000, "src_addr": "10.0.0.1", '
        b'"dst_addr": "10.0.0.2", "bytes": 5, "packets": 1}\n'
    )
    parsed = parse(io.BytesIO(row * 3 + b"{broken\n" + row), "f.jsonl", ParseHints(), tmp_path / "w")
    assert any(note.startswith("1 ") and "left out" in note for note in parsed.notes), parsed.notes


def test_packets_in_blocks_without_time_are_reported(tmp_path: Path) -> None:
    def block(kind: int, body: bytes) -> bytes:
        return struct.pack("<II", kind, 12 + len(body)) + body + struct.pack("<I", 12 + len(body))

    frame = bytes(12) + b"\x08\x00" + bytes.fromhex("4500002800000000400600000a0000010a000002") + bytes(20) + bytes(2)
    start = block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1)) + block(1, struct.pack("<HHI", 1, 0, 0))
    enhanced = block(6, struct.pack("<IIIII", 0, 411000, 0, len(frame), len(frame)) + frame)
    simple = block(3, struct.pack("<I", len(frame)) + frame)
    parsed = parse(io.BytesIO(start + enhanced + simple * 2), "a.pcapng", ParseHints(), tmp_path / "w")
    assert any(note.startswith("2 packets") for note in parsed.notes), (parsed.notes, parsed.skipped)
