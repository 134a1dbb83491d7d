"""Temporary files belong to a process: files of an ended process are deleted, and no others."""

from __future__ import annotations

import gc
import os
import stat
import time
from pathlib import Path
from typing import Any

import pytest
from django.core.files.base import ContentFile
from django.core.files.storage import InMemoryStorage

from ingest import processes, storage, temp_files

GONE = 999_999_999


@pytest.fixture(autouse=True)
def own_directory(settings: Any, tmp_path: Path) -> None:
    settings.DATA_DIR = tmp_path


def of_another(path: Path, *, process: str | None = None, machine: str | None = None) -> Path:
    own_machine, own_process = path.name.split("-")[0], "-".join(path.name.split("-")[1:3])
    name = path.name.replace(own_process, process or own_process, 1).replace(own_machine, machine or own_machine, 1)
    other = path.with_name(name)
    other.write_bytes(b"x")
    return other


def test_a_temporary_directory_is_deleted_also_after_an_error() -> None:
    with pytest.raises(RuntimeError), temp_files.temp_dir() as folder:
        (folder / "part").write_bytes(b"x")
        raise RuntimeError
    assert not folder.exists()


def test_files_of_a_killed_process_are_deleted_and_those_of_a_live_one_stay() -> None:
    with temp_files.temp_dir() as folder:
        own = temp_files.part_path()
        own.write_bytes(b"growing")
        upload = temp_files.part_path("0b1f8a52-9f3e-4a3c-8d61-3f3f6f1f0a11.part")
        upload.write_bytes(b"an upload that goes on tomorrow")
        left = of_another(own, process=f"{GONE}-1")
        (folder.parent / folder.name.replace(f"-{os.getpid()}-", f"-{GONE}-", 1)).mkdir()
        assert temp_files.remove_abandoned() == 2
        assert own.exists() and upload.exists() and folder.exists()
        assert not left.exists()


def test_files_of_another_machine_stay_for_two_days() -> None:
    left = of_another(temp_files.part_path(), machine="0" * 10)
    assert temp_files.remove_abandoned() == 0
    long_ago = time.time() - 3 * 86_400
    os.utime(left, (long_ago, long_ago))
    assert temp_files.remove_abandoned() == 1


def test_local_copies_are_deleted_two_days_after_their_last_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "storages", {"parsed": InMemoryStorage()})
    for key in ("old", "new"):
        storage.storages["parsed"].save(f"{key}/columns.parquet", ContentFile(b"x"))
    old, new = (storage.directory_get(key, ["columns.parquet"]) / "columns.parquet" for key in ("old", "new"))
    assert stat.S_IMODE(temp_files.copies_dir().stat().st_mode) == 0o700
    long_ago = time.time() - 3 * 86_400
    for path in (old, new):
        os.utime(path, (long_ago, long_ago))
    storage.directory_get("new", ["columns.parquet"])
    assert temp_files.remove_abandoned() == 1
    assert new.read_bytes() == b"x" and not old.parent.exists()


def test_a_process_is_not_confused_with_an_earlier_one_of_its_number() -> None:
    own = processes.process_name()
    assert processes.has_ended(own) is False
    assert processes.has_ended(f"{processes.machine()}#{os.getpid()}:1") is True
    assert processes.has_ended("elsewhere#1:1") is None


def test_a_part_that_nobody_holds_any_more_is_deleted() -> None:
    part = storage.Part()
    part.write(b"half a body")
    path = part.path
    assert path.exists()
    del part
    gc.collect()
    assert not path.exists()
