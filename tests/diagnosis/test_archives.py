"""Archives as people send them, and as they should not be trusted."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import stat
import tarfile
import zipfile
from functools import partial
from typing import Any

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from diagnosis.archive import archive_streams, archives
from diagnosis.archive.archives import Limits, Refused, clean_path, walk
from tests import archives as archives_of
from tests.archives import zip_of
from tests.fuzz import archives as fuzz_archives

LOG = b"line one\nline two\n" * 100


tar_of = partial(archives_of.tar_of, mode="w")


def opened(data: bytes, path: str = "x", **limits: Any) -> tuple[dict[str, bytes], dict[str, str], dict[str, str]]:
    """What came out, the notes of members, and what was left out and why."""
    problems: dict[str, str] = {}
    found: dict[str, bytes] = {}
    notes: dict[str, str] = {}
    for member in walk(io.BytesIO(data), path, limits=Limits(**limits), on_problem=problems.__setitem__):
        try:
            found[member.path] = member.stream.read()
        except Refused as refusal:
            problems[member.path] = str(refusal)
            continue
        if member.note:
            notes[member.path] = member.note
    return found, notes, problems


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress, zstandard.compress, bytes])
def test_a_tree_comes_out_of_every_compression_similar(pack: Any) -> None:
    members = {"logs/n1/out.log": LOG, "logs/n2/err.log": b""}
    assert opened(pack(tar_of(members)), "whatever") == (members, {}, {})


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress, zstandard.compress, bytes])
def test_a_single_file_keeps_its_name_and_gives_its_content(pack: Any) -> None:
    assert opened(pack(LOG), "rank0.log.gz") == ({"rank0.log.gz": LOG}, {}, {})


def test_members_of_an_archive_in_an_archive_stand_below_its_name() -> None:
    inner = zip_of({"a.log": LOG})
    found, _, problems = opened(gzip.compress(tar_of({"n1.zip": inner, "b.log.gz": gzip.compress(LOG)})))
    assert found == {"n1.zip/a.log": LOG, "b.log.gz": LOG}
    assert not problems


def test_archives_too_deep_in_each_other_are_left_out_and_the_rest_continues() -> None:
    data = LOG
    for level in range(5):
        data = zip_of({f"{level}.zip" if level else "a.log": data, "beside.log": LOG})
    found, _, problems = opened(data, depth=3)
    assert sorted(name.count("/") for name in found) == [0, 1, 2]
    (sentence,) = problems.values()
    assert "deep" in sentence


def test_names_that_climb_out_or_are_absolute_are_left_out() -> None:
    bad = {"../../etc/cron.d/x": LOG, "/etc/passwd": LOG, "a/../b": LOG, "C:\\x": LOG, "..\\x": LOG, "a\nb": LOG}
    for pack in (tar_of, zip_of):
        found, _, problems = opened(pack({**bad, "./good.log": LOG}))
        assert found == {"good.log": LOG}
        assert len(problems) == len(bad)


def test_links_and_devices_are_left_out_with_a_sentence() -> None:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, kind in [
            ("s", tarfile.SYMTYPE),
            ("h", tarfile.LNKTYPE),
            ("d", tarfile.CHRTYPE),
            ("f", tarfile.FIFOTYPE),
        ]:
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, "/etc/passwd"
            archive.addfile(info)
        archive.addfile(tarfile.TarInfo("empty.log"))
    found, _, problems = opened(out.getvalue())
    assert found == {"empty.log": b""}
    assert set(problems) == {"s", "h", "d", "f"}
    assert "link" in problems["s"]


def test_a_link_in_a_zip_is_left_out() -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        info = zipfile.ZipInfo("link")
        info.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(info, "/etc/passwd")
        archive.writestr("a.log", LOG)
    found, _, problems = opened(out.getvalue())
    assert (found, list(problems)) == ({"a.log": LOG}, ["link"])


def test_a_truncated_gzip_gives_what_came_before_the_end() -> None:
    data = gzip.compress(bytes(range(256)) * 4000, compresslevel=1)
    found, notes, _ = opened(data[: len(data) // 2], "a.log.gz")
    assert 0 < len(found["a.log.gz"]) < 256 * 4000
    assert "truncated" in notes["a.log.gz"]


def test_a_truncated_archive_gives_its_whole_members_and_says_where_it_broke() -> None:
    members = {f"{n}.log": bytes([65 + n]) * 50_000 for n in range(4)}
    found, notes, problems = opened(tar_of(members)[:130_000])
    assert list(found) == ["0.log", "1.log", "2.log"]
    assert notes or problems


def test_damaged_data_in_one_zip_member_does_not_cost_the_others() -> None:
    data = bytearray(zip_of({"a.log": LOG, "b.log": LOG[::-1]}))
    at = data.find(b"a.log") + 5
    data[at : at + 8] = b"\xff" * 8
    found, notes, _ = opened(bytes(data))
    assert found["b.log"] == LOG[::-1]
    assert "a.log" in notes


def test_a_bomb_is_left_out_and_its_neighbours_are_kept() -> None:
    data = zip_of({"bomb.log": bytes(150 << 20), "a.log": LOG})
    found, _, problems = opened(data, ratio=200)
    assert found == {"a.log": LOG}
    assert "disks" in problems["bomb.log"]


def test_more_bytes_or_members_than_allowed_end_the_archive_with_a_sentence() -> None:
    members = {f"{n}.log": bytes(1000) for n in range(10)}
    for pack in (tar_of, zip_of):
        found, _, problems = opened(pack(members), members=4)
        assert (len(found), "more than 4 files" in str(problems)) == (4 if pack is tar_of else 0, True)
        found, _, problems = opened(pack(members), total_bytes=3500)
        assert (len(found), "3,500 bytes" in str(problems)) == (3, True)


def test_a_header_made_to_fill_memory_is_not_read() -> None:
    info = tarfile.TarInfo("x")
    info.type, info.size = tarfile.XHDTYPE, 4 << 30
    found, _, problems = opened(info.tobuf(format=tarfile.USTAR_FORMAT) + bytes(1024), "a.tar")
    assert not found
    assert "header" in str(problems)


def test_an_encrypted_member_says_so() -> None:
    data = bytearray(zip_of({"a.log": LOG}))
    for magic, at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.find(magic) + at] |= 1
    assert "password" in opened(bytes(data))[2]["a.log"]


def test_a_model_checkpoint_is_not_opened_though_it_is_a_zip_file() -> None:
    data = zip_of({"archive/data.pkl": LOG})
    assert list(opened(data, "step100.pt")[0]) == ["step100.pt"]
    assert list(opened(data, "logs.zip")[0]) == ["archive/data.pkl"]


def test_an_archive_without_files_says_so() -> None:
    for data in (zip_of({}), gzip.compress(tar_of({})), tar_of({})):
        found, _, problems = opened(data, "a.tar.gz")
        assert not found
        assert "no files" in problems["a.tar.gz"]


def test_text_is_not_taken_for_an_archive() -> None:
    assert archives.format_of(LOG * 10) == ""
    assert archives.format_of(bytes(1024)) == ""


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_no_bytes_whatsoever_raise_or_loop(data: Any) -> None:
    whole = data.draw(
        st.sampled_from([tar_of({"a": LOG, "b/c": b"x"}), zip_of({"a": LOG}), gzip.compress(tar_of({"a": LOG}))])
    )
    broken = bytearray(whole[: data.draw(st.integers(0, len(whole)))])
    for _ in range(data.draw(st.integers(0, 6))):
        if broken:
            broken[data.draw(st.integers(0, len(broken) - 1))] = data.draw(st.integers(0, 255))
    found, _, _ = opened(bytes(broken))
    assert all(name and not name.startswith("/") and ".." not in name.split("/") for name in found)


@given(st.text(min_size=1))
def test_a_clean_path_stays_clean(name: str) -> None:
    try:
        path = clean_path(name)
    except ValueError as error:
        assert str(error).endswith(".")
        return
    assert clean_path(path) == path
    assert not path.startswith("/")


@pytest.mark.parametrize("damage", ["an offset before the file", "a name that is no UTF-8"])
def test_a_member_that_a_damaged_directory_misplaces_is_left_out_with_a_sentence(damage: str) -> None:
    data = bytearray(zip_of({"näh.log": LOG, "b.log": LOG}))
    at = data.index(b"PK\x01\x02")
    if damage == "an offset before the file":
        data[at + 42 : at + 46] = (0).to_bytes(4, "little")
        end = data.rindex(b"PK\x05\x06")
        data[end + 16 : end + 20] = (at + 178).to_bytes(4, "little")  # all offsets are counted from there
    else:
        data[data.index("ä".encode())] = 0xFF  # in the member's own header
    problems: list[tuple[str, str]] = []
    found = {
        member.path: member.stream.read()
        for member in walk(io.BytesIO(bytes(data)), "x.zip", on_problem=lambda *said: problems.append(said))
    }
    assert problems and all("Pack it again" in why or "send it again" in why for _, why in problems)
    assert set(found) <= {"b.log"}


def test_archives_keep_their_promises_whatever_the_bytes() -> None:
    found = fuzz_archives.run(seed=7, rounds=600)
    assert [(broken, data[:80]) for _, data, broken in found.failures] == []
    assert found.kept > 10


@pytest.mark.parametrize("kind", ["gzip", "bzip2", "xz", "zstd"])
def test_streams_without_end_in_one_file_are_refused(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    empty = {
        "gzip": gzip.compress(b"", mtime=0),
        "bzip2": bz2.compress(b""),
        "xz": lzma.compress(b""),
        "zstd": zstandard.ZstdCompressor().compress(b""),
    }[kind]
    monkeypatch.setattr(archive_streams, "MAX_STREAMS", 50)
    few, many = (archive_streams.decompressor(kind, io.BytesIO(empty * count)) for count in (50, 51))
    assert few.read(100) == b""
    with pytest.raises(EOFError, match="more than 50 compressed streams"):
        many.read(100)


def test_a_short_stream_is_given_little_of_what_follows() -> None:
    each = gzip.compress(b"a line\n", mtime=0)
    reader = archive_streams.decompressor("gzip", io.BytesIO(each * 300 + bytes(5000) + each))
    assert b"".join(iter(lambda: reader.read(1 << 16), b"")) == b"a line\n" * 301
