"""``faultline follow`` with files that are rotated, compressed, truncated, deleted or longer than the site takes."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from faultline import followed, following, rotation
from faultline.following import Follower
from ingest.models import Upload
from tests.client.followed import append, evidence
from tests.ingest.conftest import LOG

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("token")]


def test_a_rotated_file_and_its_successor_are_both_whole(follower: Callable[[], Follower], logs: Path) -> None:
    following = follower()
    append(logs / "a.log", LOG[:1000])
    following.send_new()
    append(logs / "a.log", LOG[1000:2000])
    (logs / "a.log").rename(logs / "a.log.1")
    append(logs / "a.log", LOG[2000:])
    following.send_new()
    following.finish()
    assert evidence() == {"a.log": LOG[:2000], "a.log.2": LOG[2000:]}


def test_a_rotation_that_is_compressed_later_is_not_sent_again(follower: Callable[[], Follower], logs: Path) -> None:
    first = follower()
    append(logs / "a.log.2.gz", gzip.compress(LOG[:500]))  # older than the follower: nobody sent its lines
    append(logs / "a.log", LOG[:1000])
    first.send_new()
    (logs / "a.log").rename(logs / "a.log.1")
    append(logs / "a.log", LOG[1000:])
    first.send_new()
    append(logs / "a.log.1.gz", gzip.compress(LOG[:1000]))  # as gzip does: both are there for a while
    first.send_new()
    (logs / "a.log.1").unlink()
    first.send_new()
    (logs / "a.log.1.gz").rename(logs / "a.log.3.gz")
    again = follower()
    again.send_new()
    append(logs / "a.log", LOG[1000:1100])
    (logs / "a.log").unlink()  # renamed and compressed between two looks
    append(logs / "a.log.1.gz", gzip.compress(LOG[1000:] + LOG[1000:1100]))
    again.send_new()
    again.finish()
    assert {path: data for path, data in evidence().items() if "gz" not in path} == {
        "a.log": LOG[:1000],
        "a.log.2": LOG[1000:] + LOG[1000:1100],
    }
    assert sorted(Upload.objects.values_list("path", flat=True)) == ["a.log", "a.log.2", "a.log.2.gz"]


def test_a_new_file_with_the_number_of_a_deleted_one_is_followed(
    follower: Callable[[], Follower], logs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "inode_of", lambda status: (0, 7))
    monkeypatch.setattr(followed, "inode_of", lambda status: (0, 7))
    first = follower()
    append(logs / "a.log", LOG[:1000])
    first.send_new()
    (logs / "a.log").unlink()
    first.send_new()
    append(logs / "b.log", LOG)
    first.send_new()
    first.finish()
    assert evidence() == {"a.log": LOG[:1000], "b.log": LOG}


def test_a_file_longer_than_the_site_takes_goes_on_in_the_next_one(
    follower: Callable[[], Follower], logs: Path, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = 3 * LOG[:2000]
    settings.UPLOAD_MAX_BYTES = 2500
    monkeypatch.setattr(following, "CHUNK_BYTES", 1000)
    append(logs / "a.log", text[:5300])
    one = follower()
    for _ in range(3):
        one.send_new()
    one.finish()
    found = evidence()
    assert sorted(found) == ["a.log", "a.log.2", "a.log.3"]
    assert b"".join(found[name] for name in sorted(found)) == text[:5300]
    assert all(2500 >= len(found[name]) > 1500 and found[name].endswith(b"\n") for name in ("a.log", "a.log.2"))


def test_a_file_that_is_truncated_in_place_begins_again(follower: Callable[[], Follower], logs: Path) -> None:
    following = follower()
    append(logs / "a.log", LOG[:1000])
    following.send_new()
    (logs / "a.log").write_bytes(LOG[:500])
    following.send_new()
    following.finish()
    assert evidence() == {"a.log": LOG[:1000], "a.log.2": LOG[:500]}


def test_a_deleted_file_is_taken_in_as_far_as_it_was_sent(follower: Callable[[], Follower], logs: Path) -> None:
    following = follower()
    append(logs / "a.log", LOG[:1000])
    following.send_new()
    append(logs / "a.log", LOG[1000:1100])  # the open file still has it
    (logs / "a.log").unlink()
    following.send_new()
    assert evidence() == {"a.log": LOG[:1100]}


def copied(path: Path, number: int = 1) -> None:
    """The copy that ``copytruncate`` makes before it empties the file."""
    path.with_name(f"{path.name}.{number}").write_bytes(path.read_bytes())


def test_a_copy_made_before_the_file_is_emptied_is_not_sent_again(follower: Callable[[], Follower], logs: Path) -> None:
    one = follower()
    append(logs / "a.log", LOG[:1000])
    one.send_new()
    append(logs / "a.log", LOG[1000:1200])  # written after the last look
    copied(logs / "a.log")
    (logs / "a.log").write_bytes(LOG[1200:1300])
    one.send_new()
    append(logs / "a.log", LOG[1300:])
    one = follower()  # the state knows the copy
    one.send_new()
    one.finish()
    assert evidence() == {"a.log": LOG[:1200], "a.log.2": LOG[1200:]}


def test_a_copy_in_progress_is_waited_for(follower: Callable[[], Follower], logs: Path) -> None:
    one = follower()
    append(logs / "a.log", LOG[:1000])
    one.send_new()
    append(logs / "a.log.1", LOG[:400])
    one.send_new()
    append(logs / "a.log.1", LOG[400:1000])
    one.send_new()
    (logs / "a.log").write_bytes(b"")
    one.send_new()
    append(logs / "a.log", LOG[1000:])
    one.send_new()
    one.finish()
    assert evidence() == {"a.log": LOG[:1000], "a.log.2": LOG[1000:]}


def test_a_file_that_only_begins_like_another_one_is_sent(
    follower: Callable[[], Follower], logs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    banner = LOG[:300]
    one = follower()
    append(logs / "a.log", banner + LOG[300:700])
    append(logs / "a.log.rank1", banner)
    one.send_new()
    one.send_new()
    append(logs / "a.log.rank1", LOG[900:1100])
    append(logs / "a.log.rank2", banner)  # never says more: sent when it could be no copy in progress any more
    one.send_new()
    monkeypatch.setattr(rotation, "COPY_WAIT_S", 0.0)
    one.send_new()
    one.finish()
    assert evidence() == {"a.log": LOG[:700], "a.log.rank1": banner + LOG[900:1100], "a.log.rank2": banner}


def test_a_program_that_writes_on_at_its_old_place_leaves_a_hole_that_is_not_sent(
    follower: Callable[[], Follower], logs: Path
) -> None:
    text = 40 * LOG
    one = follower()
    with (logs / "a.log").open("wb", buffering=0) as file:  # without O_APPEND
        file.write(text)
        one.send_new()
        copied(logs / "a.log")
        os.truncate(logs / "a.log", 0)
        file.write(LOG[:800])
        one.send_new()
    one.finish()
    found = evidence()
    assert found["a.log"] == text
    assert found["a.log.2"].lstrip(b"\0") == LOG[:800]
    assert len(found["a.log.2"]) < 800 + 65536


def test_a_copy_that_is_compressed_at_once_is_not_sent_again(follower: Callable[[], Follower], logs: Path) -> None:
    one = follower()
    append(logs / "a.log", LOG[:1000])
    one.send_new()
    append(logs / "a.log.1.gz", gzip.compress(LOG[:1000]))
    (logs / "a.log").write_bytes(LOG[1000:1200])
    one.send_new()
    one.finish()
    assert evidence() == {"a.log": LOG[:1000], "a.log.2": LOG[1000:1200]}
