"""Unfinished files belong to a process: what a killed one left is thrown away, nothing else is."""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path
from typing import Any

import pytest
from django.core.files.base import ContentFile
from django.core.files.storage import InMemoryStorage

from ingest import processes, scratch, storage

GONE = 999_999_999


@pytest.fixture(autouse=True)
def own_directory(settings: Any, tmp_path: Path) -> None:
    settings.DATA_DIR = tmp_path


def of_another(path: Path, *, process: str | None = None, place: str | None = None) -> Path:
    own_place, own_process = path.name.split("-")[0], "-".join(path.name.split("-")[1:3])
    name = path.name.replace(own_process, process or own_process, 1).replace(own_place, place or own_place, 1)
    other = path.with_name(name)
    other.write_bytes(b"x")
    return other


def test_a_room_is_gone_with_its_end_also_after_an_error() -> None:
    with pytest.raises(RuntimeError), scratch.room() as folder:
        (folder / "part").write_bytes(b"x")
        raise RuntimeError
    assert not folder.exists()


def test_what_a_killed_process_left_is_thrown_away_and_what_lives_stays() -> None:
    with scratch.room() as folder:
        own = scratch.part_path()
        own.write_bytes(b"growing")
        upload = scratch.part_path("0b1f8a52-9f3e-4a3c-8d61-3f3f6f1f0a11.part")
        upload.write_bytes(b"an upload that goes on tomorrow")
        left = of_another(own, process=f"{GONE}-1")
        (folder.parent / folder.name.replace(f"-{os.getpid()}-", f"-{GONE}-", 1)).mkdir()
        assert scratch.clear() == 2
        assert own.exists() and upload.exists() and folder.exists()
        assert not left.exists()


def test_what_another_machine_left_stays_for_two_days() -> None:
    left = of_another(scratch.part_path(), place="0" * 10)
    assert scratch.clear() == 0
    long_ago = time.time() - 3 * 86_400
    os.utime(left, (long_ago, long_ago))
    assert scratch.clear() == 1


def test_near_copies_are_thrown_away_two_days_after_they_were_last_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "storages", {"parsed": InMemoryStorage()})
    for key in ("old", "new"):
        storage.storages["parsed"].save(f"{key}/columns.parquet", ContentFile(b"x"))
    old, new = (storage.directory_get(key, ["columns.parquet"]) / "columns.parquet" for key in ("old", "new"))
    assert stat.S_IMODE(scratch.copies().stat().st_mode) == 0o700
    long_ago = time.time() - 3 * 86_400
    for path in (old, new):
        os.utime(path, (long_ago, long_ago))
    storage.directory_get("new", ["columns.parquet"])
    assert scratch.clear() == 1
    assert new.read_bytes() == b"x" and not old.parent.exists()


def test_a_process_is_told_from_one_that_had_its_number_before() -> None:
    own = processes.own()
    assert processes.is_gone(own) is False
    assert processes.is_gone(f"{processes.machine()}#{os.getpid()}:1") is True
    assert processes.is_gone("elsewhere#1:1") is None
