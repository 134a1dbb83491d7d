"""Every kind of bad input gets a sentence with the reason and what to do; the rest of the upload continues."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path
from typing import Any

import pytest

from ingest import selectors, services
from ingest.models import Artifact, Blob, Job, Upload
from ingest.refusals import Refused
from tests.archives import gz_of, tar_of, zip_of
from tests.ingest.conftest import LOG, sha

pytestmark = pytest.mark.django_db(transaction=True)


def send(job: Job, path: str, data: bytes, **more: Any) -> services.Receipt:
    return services.artifact_receive(
        job=job, path=path, chunks=(data[n : n + 50_000] for n in range(0, len(data), 50_000)), **more
    )


def states(job: Job) -> dict[str, str]:
    return {artifact.path: artifact.state for artifact in selectors.artifacts_of(job)}


def problem_of(job: Job, path: str) -> str:
    job.refresh_from_db()
    (found,) = [row.sentence for row in selectors.progress(job).problems if row.path == path]
    return found


ELF = b"\x7fELF\x02\x01\x01" + bytes(9) + os.urandom(4000)
JPEG = b"\xff\xd8\xff\xe0\x00\x10JFIF" + os.urandom(4000)


@pytest.mark.parametrize(("name", "data"), [("python3", ELF), ("photo.log", JPEG)], ids=["program", "picture"])
def test_what_is_no_log_is_left_out_and_the_logs_next_to_it_are_read(job: Job, name: str, data: bytes) -> None:
    send(job, "all.zip", zip_of({name: data, "rank0.log": LOG}))
    assert states(job) == {name: "skipped", "rank0.log": "parsed"}
    assert "not a log" in problem_of(job, name)


def test_an_empty_member_of_a_tree_is_normal_and_an_empty_upload_is_not(job: Job) -> None:
    send(job, "all.zip", zip_of({"stderr.log": b"", "rank0.log": LOG}))
    send(job, "lost.log", b"")
    assert states(job) == {"stderr.log": "parsed", "rank0.log": "parsed", "lost.log": "skipped"}
    assert "empty" in problem_of(job, "lost.log")


def test_a_truncated_gzip_is_read_as_far_as_it_goes_and_says_so(job: Job) -> None:
    whole = gz_of(os.urandom(3000).hex().encode() + b"\n" + LOG * 50)
    send(job, "rank0.log.gz", whole[: len(whole) // 2])
    artifact = Artifact.objects.get()
    assert artifact.state == "parsed"
    assert "truncated" in artifact.notes[0]
    assert "truncated" in problem_of(job, "rank0.log.gz")


def test_something_that_is_no_archive_inside_fails_with_a_sentence_and_blocks_nothing(job: Job) -> None:
    send(job, "a.log", LOG)
    send(job, "broken.zip", b"PK\x03\x04" + os.urandom(500))
    upload = Upload.objects.get(path="broken.zip")
    assert upload.state == "refused"
    assert "opened" in problem_of(job, "broken.zip") or "read" in upload.problem
    assert services.diagnosis_request(job=job) is not None


def test_a_bomb_is_left_out_and_its_neighbours_are_read(job: Job, settings: Any) -> None:
    settings.ARCHIVE_MAX_RATIO = 200
    send(job, "all.zip", zip_of({"bomb.log": bytes(80 << 20), "rank0.log": LOG}))
    assert states(job) == {"rank0.log": "parsed"}
    assert "unfolds" in problem_of(job, "bomb.log")


def test_an_archive_over_a_limit_keeps_what_came_before_and_names_the_limit(job: Job, settings: Any) -> None:
    settings.ARCHIVE_MAX_MEMBERS = 3
    send(job, "all.tar.gz", tar_of({f"{n}.log": LOG + b"%d\n" % n for n in range(6)}))
    assert len(states(job)) == 3
    assert "more than 3 files" in problem_of(job, "all.tar.gz")


def test_names_that_climb_out_and_links_are_left_out_one_by_one(job: Job) -> None:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name in ("../../etc/passwd", "/etc/shadow", "ok.log"):
            info = tarfile.TarInfo(name)
            info.size = len(LOG)
            archive.addfile(info, io.BytesIO(LOG))
        link = tarfile.TarInfo("link.log")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    send(job, "all.tar.gz", out.getvalue())
    assert states(job) == {"ok.log": "parsed"}
    assert "climbs out" in problem_of(job, "../../etc/passwd")
    assert "absolute" in problem_of(job, "/etc/shadow")
    assert "link" in problem_of(job, "link.log")


def test_an_archive_in_an_archive_is_opened_and_its_members_stand_below_its_name(job: Job) -> None:
    send(job, "all.zip", zip_of({"n1.tar.gz": tar_of({"rank0.log": LOG}), "rank1.log.gz": gz_of(LOG)}))
    assert states(job) == {"n1.tar.gz/rank0.log": "parsed", "rank1.log.gz": "parsed"}


@pytest.mark.parametrize(
    "data",
    [LOG.decode().encode("utf-16"), LOG + b"\0" * 5000 + LOG, b"x" * (20 << 20) + b"\n" + LOG],
    ids=["two bytes a letter", "zeros", "a line of 20 MiB"],
)
def test_odd_text_is_read_and_its_bytes_stay_as_they_were(job: Job, data: bytes) -> None:
    send(job, "odd.log", data)
    artifact = Artifact.objects.get()
    assert artifact.state == "parsed", artifact.problem
    assert artifact.lines >= 200
    assert selectors.read_range(artifact, len(data) - 30, 100) == data[-30:]


def test_a_file_that_changes_while_it_is_sent_is_refused_and_may_be_sent_again(job: Job) -> None:
    with pytest.raises(Refused, match="changed while it was sent"):
        send(job, "a.log", LOG, expected_sha256=sha(LOG + b"more"))
    assert "Send it again" in problem_of(job, "a.log")
    assert send(job, "a.log", LOG, expected_sha256=sha(LOG)).is_new


def test_thousands_of_members_are_read_in_few_units_of_work(job: Job) -> None:
    send(job, "all.tar.gz", tar_of({f"rank{n}/stderr.log": b"" for n in range(2100)}))
    assert set(states(job).values()) == {"parsed"}
    assert len(states(job)) == 2100
    assert job.runs.filter(kind="parse").count() <= 6
    assert Blob.objects.exclude(uploads__is_archive=True).count() <= 2


def test_the_same_file_twice_makes_nothing_new(job: Job) -> None:
    first, second = send(job, "a.log", LOG), send(job, "a.log", LOG)
    assert (first.artifact, first.is_new, second.is_new) == (second.artifact, True, False)
    send(job, "b.log", LOG)
    assert Blob.objects.count() == 1
    assert Artifact.objects.count() == 2


def test_later_bytes_of_a_path_take_the_place_of_earlier_ones_and_may_be_taken_back(job: Job) -> None:
    send(job, "a.log", LOG)
    send(job, "a.log", LOG + b"more\n")
    assert [a.lines for a in selectors.artifacts_of(job)] == [201]
    assert send(job, "a.log", LOG).is_new
    assert [a.lines for a in selectors.artifacts_of(job)] == [200]


def test_two_archives_with_a_file_of_one_name_keep_both(job: Job) -> None:
    send(job, "n1.zip", zip_of({"dmesg.txt": LOG}))
    send(job, "n2.zip", zip_of({"dmesg.txt": LOG + b"other\n"}))
    assert set(states(job)) == {"dmesg.txt", "n2.zip/dmesg.txt"}


def test_too_large_a_file_is_refused_before_it_fills_the_disk(job: Job, settings: Any) -> None:
    settings.UPLOAD_MAX_BYTES = 100_000
    parts = Path(settings.DATA_DIR) / "parts"
    before = set(parts.glob("*.part"))  # of other tests' unfinished uploads
    with pytest.raises(Refused, match="100,000 bytes"):
        services.artifact_receive(job=job, path="a.log", chunks=iter(lambda: bytes(60_000), b""))
    assert set(parts.glob("*.part")) <= before


def test_a_full_disk_is_reported_and_leaves_nothing_behind(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("ingest.storage.Part.write", full)
    with pytest.raises(Refused, match="disk is full"):
        send(job, "a.log", LOG)
    assert not Artifact.objects.exists()


def test_an_engine_that_stumbles_over_one_file_costs_only_that_file(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    from diagnosis.files import parse_pool
    from ingest.isolation import inside

    real = inside.parse

    def stumbling(stream: Any, path: str, *rest: Any, **more: Any) -> Any:
        if path == "b.log":
            raise ZeroDivisionError("no")
        return real(stream, path, *rest, **more)

    def stumbling_together(*_: Any, **__: Any) -> Any:
        raise ZeroDivisionError("no")

    monkeypatch.setattr(inside, "parse", stumbling)
    monkeypatch.setattr(parse_pool, "parse_together", stumbling_together)
    send(job, "all.zip", zip_of({"a.log": LOG, "b.log": LOG, "c.log": LOG}))
    assert states(job) == {"a.log": "parsed", "b.log": "failed", "c.log": "parsed"}
    assert "ZeroDivisionError" in problem_of(job, "b.log")
