"""``faultline upload`` against a running site: existing files, files that are not sent twice, and uploads that
continue.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import transaction

from faultline import main as command
from faultline import sending
from faultline.files import find_files, nodes_of
from faultline.site import Site
from ingest import services, signals
from ingest.models import Artifact, Job, Upload
from ingest.refusals import Refused, translate_storage_errors
from ingest.services import receiving, resuming
from tests.archives import tar_of
from tests.factories import make_cluster, make_job, make_team, make_user
from tests.ingest.conftest import LOG, sha
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.django_db(transaction=True)
ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture
def engineer(db: None) -> Any:
    return make_user("engineer", "engineer")


@pytest.fixture(autouse=True)
def token(engineer: Any, live_server: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    """A token in the environment, and nobody who diagnoses: that is another test's."""
    _, secret = services.token_create(user=engineer, name="epilog", scopes=["upload", "read"])
    monkeypatch.setattr(signals.artifact_ready, "receivers", [])
    monkeypatch.setenv("FAULTLINE_TOKEN", secret)
    monkeypatch.setenv("FAULTLINE_URL", live_server.url)
    monkeypatch.setenv("no_proxy", "*")
    return secret


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    folder = tmp_path / "logs"
    (folder / "rank 0").mkdir(parents=True)
    (folder / "rank 0" / "out.log").write_bytes(LOG)
    (folder / "rank1.log").write_bytes(LOG + b"x\n")
    return folder


def upload(*arguments: object, retry_for: float = 20) -> int:
    return command.main(["upload", "--retry-for", str(retry_for), *map(str, arguments)])


def told(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out.strip().splitlines()[-1])


def test_a_directory_becomes_a_job_with_its_files(logs: Path, capsys: Any) -> None:
    said = ["--outcome", "failed", "--nodes", "gpu[08-10],head", "--started", "1763690400", "--comment", "died"]
    assert upload(logs, "--job", "Night run 7", *said, "--json") == 0
    job = Job.objects.get()
    assert (job.slug, job.name, job.declared_outcome, job.comment) == ("night-run-7", "Night run 7", "failed", "died")
    assert job.nodes_text.split() == ["gpu08", "gpu09", "gpu10", "head"]
    assert job.started_at is not None
    paths = Artifact.objects.order_by("path").values_list("path", "state")
    assert list(paths) == [("rank 0/out.log", "parsed"), ("rank1.log", "parsed")]
    answer = told(capsys)
    assert (answer["sent"], answer["known"], answer["refused"], answer["bytes"]) == (2, 0, [], 2 * len(LOG) + 2)
    assert answer["url"].endswith("/jobs/night-run-7/")


def test_run_again_it_sends_only_what_is_missing(logs: Path, capsys: Any, monkeypatch: Any) -> None:
    assert upload(logs, "--job", "x") == 0
    (logs / "late.log").write_bytes(LOG * 2)
    bodies = []
    real = sending.Sender._at_once
    monkeypatch.setattr(
        sending.Sender, "_at_once", lambda self, name, *rest: bodies.append(name) or real(self, name, *rest)
    )
    assert upload(logs, "--job", "x", "--outcome", "failed", "--json") == 0
    assert bodies == ["late.log"]
    answer = told(capsys)
    assert {key: answer[key] for key in ("sent", "known", "is_new")} == {"sent": 1, "known": 2, "is_new": False}
    assert Job.objects.get().declared_outcome == "failed"
    assert Artifact.objects.count() == 3


def test_a_known_job_is_found_with_one_request(token: str, live_server: Any, monkeypatch: Any) -> None:
    make_job("x", name="Renamed by a person")
    asked: list[tuple[str, str]] = []
    ask = Site.ask
    monkeypatch.setattr(Site, "ask", lambda self, *said: asked.append(said[:2]) or ask(self, *said))

    assert sending.job_get(Site(live_server.url, token), {"name": "x", "slug": "x"}) == ("x", False)
    assert asked == [("POST", "/jobs/")]
    assert Job.objects.get().name == "Renamed by a person"


def test_other_bytes_under_a_known_name_are_sent_and_so_are_those_of_another_attempt(logs: Path) -> None:
    assert upload(logs, "--job", "x") == 0
    (logs / "rank1.log").write_bytes(b"2026-11-21 03:00:00 other\n")
    assert upload(logs, "--job", "x") == 0
    assert upload(logs, "--job", "x", "--attempt", 1) == 0
    assert Artifact.objects.filter(is_superseded=False).count() == 4
    assert Artifact.objects.filter(attempt__number=1).count() == 2


def test_a_large_file_continues_where_a_broken_run_stopped(logs: Path, monkeypatch: Any, capsys: Any) -> None:
    monkeypatch.setattr(sending, "RESUME_ABOVE_BYTES", 1000)
    monkeypatch.setattr("ingest.api.uploads.CHUNK_BYTES", 4096)
    (logs / "rank1.log").unlink()
    begun = []
    real = sending.Sender._offset
    monkeypatch.setattr(sending.Sender, "_offset", lambda self, upload: begun.append(real(self, upload)) or begun[-1])

    def stop(count: int) -> None:
        if Upload.objects.filter(offset_bytes__gte=4096).exists():
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(command.Words, "bytes", lambda self, count: stop(count))
        assert upload(logs, "--job", "x") == command.UNREACHABLE
    assert Upload.objects.get().state == "receiving"
    assert "continues where it stopped" in capsys.readouterr().err
    assert upload(logs, "--job", "x") == 0
    assert begun and begun[0] >= 4096
    assert Upload.objects.count() == 1
    assert Artifact.objects.get().blob_id == sha(LOG)


def test_a_part_whose_answer_was_lost_is_not_sent_twice(logs: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(sending, "RESUME_ABOVE_BYTES", 1000)
    monkeypatch.setattr("ingest.api.uploads.CHUNK_BYTES", 4096)
    real, lost = resuming.Piece.finish, []

    def losing(piece: Any) -> Any:
        answer = real(piece)
        if len(lost) < 2:
            lost.append(answer)
            raise Refused("busy", status=503)
        return answer

    monkeypatch.setattr(resuming.Piece, "finish", losing)
    monkeypatch.setattr("faultline.site.time.sleep", lambda seconds: None)
    assert upload(logs / "rank 0" / "out.log", "--job", "x") == 0
    assert Artifact.objects.get().blob_id == sha(LOG)
    assert lost


@pytest.mark.parametrize("large_above", [1000, 1 << 20], ids=["in pieces", "at once"])
def test_a_full_disk_is_waited_for(logs: Path, monkeypatch: Any, capsys: Any, large_above: int) -> None:
    monkeypatch.setattr(sending, "RESUME_ABOVE_BYTES", large_above)
    real, refusals = translate_storage_errors, [1, 1]

    @contextlib.contextmanager
    def full() -> Iterator[None]:
        with real():
            if refusals.pop() if refusals else False:
                raise OSError(errno.ENOSPC, "No space left on device")
            yield

    for module in (resuming, receiving):
        monkeypatch.setattr(module, "translate_storage_errors", full)
    monkeypatch.setattr("faultline.site.time.sleep", lambda seconds: None)
    assert upload(logs / "rank 0" / "out.log", "--job", "x") == 0
    assert Artifact.objects.get().blob_id == sha(LOG)
    assert capsys.readouterr().err.count("says 507: ") == 2


def test_archives_go_as_they_are_and_are_opened_there(tmp_path: Path) -> None:
    (tmp_path / "all.tar.gz").write_bytes(tar_of({"n1/a.log": LOG}))
    assert upload(tmp_path / "all.tar.gz", "--job", "x") == 0
    assert Artifact.objects.get().path == "n1/a.log"


def test_what_is_refused_is_reported_and_the_rest_is_sent(logs: Path, capsys: Any, settings: Any) -> None:
    settings.UPLOAD_MAX_BYTES = len(LOG)
    assert upload(logs, "--job", "x", "--json") == command.SOME_REFUSED
    out = capsys.readouterr()
    assert "limit of this server" in out.err
    answer = json.loads(out.out)
    assert [row["path"] for row in answer["refused"]] == ["rank1.log"]
    assert Artifact.objects.count() == 1


def test_a_log_that_grows_while_it_is_sent_is_sent_as_it_was(logs: Path, monkeypatch: Any) -> None:
    (logs / "rank1.log").unlink()
    real = sending.content_of

    def growing(file: Any) -> Any:
        content = real(file)
        with (logs / "rank 0" / "out.log").open("ab") as more:
            more.write(b"later\n")
        return content

    monkeypatch.setattr(sending, "content_of", growing)
    assert upload(logs, "--job", "x") == 0
    assert Artifact.objects.get().blob_id == sha(LOG)


def test_links_out_of_the_directory_fifos_and_excluded_names_stay_where_they_are(logs: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("root's own\n")
    (logs / "link.log").symlink_to(tmp_path / "secret")
    (logs / "inside.log").symlink_to(logs / "rank1.log")
    (logs / "folder").symlink_to(tmp_path, target_is_directory=True)
    os.mkfifo(logs / "pipe")
    (logs / "core.123").write_bytes(b"core")
    names = {source.name for source in find_files([str(logs)], exclude=["core.*"])}
    assert names == {"inside.log", "rank 0/out.log", "rank1.log"}
    assert upload(logs, "--job", "x", "--exclude", "core.*") == 0
    assert set(Artifact.objects.values_list("path", flat=True)) == names
    assert {"link.log"} <= {source.name for source in find_files([str(logs)], follow=True, exclude=["core.*"])}


def test_a_file_exchanged_for_a_link_after_it_was_listed_is_not_read(logs: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("root's own\n")
    (source,) = [row for row in find_files([str(logs)]) if row.name == "rank1.log"]
    (logs / "rank1.log").unlink()
    (logs / "rank1.log").symlink_to(tmp_path / "secret")
    sender = sending.Sender(None, "x")  # type: ignore[arg-type]  # nothing is sent
    outcome = sender.send(source)
    assert outcome.state == "refused"
    assert "leads out of its directory" in outcome.problem


def test_wrong_calls_are_reported_in_one_line(logs: Path, tmp_path: Path, capsys: Any, monkeypatch: Any) -> None:
    (tmp_path / "empty").mkdir()
    make_team("others", clusters=[make_cluster("closed")])
    make_job("hidden", cluster=make_cluster("closed"))
    for arguments, words in (
        ([tmp_path / "absent", "--job", "x"], "There is no"),
        ([tmp_path / "empty", "--job", "x"], "no file to send"),
        ([logs, "--job", "…"], "--slug"),
        ([logs, "--job", "x", "--cluster", "closed"], "There is no cluster"),
        ([logs, "--job", "x", "--time-zone", "Mars/Olympus"], "time zone"),
        ([logs, "--job", "hidden"], "in use by a job"),
        ([logs, logs / "rank1.log", logs / "rank1.log", "--job", "x"], "same name"),
    ):
        assert upload(*arguments) == command.WRONG_CALL, arguments
        said = capsys.readouterr()
        (line,) = [row for row in said.err.splitlines() if row.startswith("faultline: ")]
        assert words in line and not said.out, said
    monkeypatch.delenv("FAULTLINE_URL")
    assert upload(logs, "--job", "x") == command.WRONG_CALL


def test_a_token_that_may_not_is_distinguished(logs: Path, monkeypatch: Any, engineer: Any, capsys: Any) -> None:
    assert command.main(["check"]) == 0
    assert "engineer" in capsys.readouterr().out
    _, secret = services.token_create(user=engineer, name="r", scopes=["read"])
    monkeypatch.setenv("FAULTLINE_TOKEN", secret)
    assert command.main(["check"]) == command.DENIED
    assert upload(logs, "--job", "x") == command.DENIED
    monkeypatch.setenv("FAULTLINE_TOKEN", "fl_nonsense")
    assert upload(logs, "--job", "x") == command.DENIED


def test_the_token_comes_from_a_file_and_never_reaches_what_is_printed(
    logs: Path, tmp_path: Path, token: str, monkeypatch: Any, capsys: Any
) -> None:
    monkeypatch.delenv("FAULTLINE_TOKEN")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert upload(logs, "--job", "x") == command.WRONG_CALL
    assert "There is no token" in capsys.readouterr().err
    kept = tmp_path / "faultline" / "token"
    kept.parent.mkdir()
    kept.write_text(token + "\n")
    kept.chmod(0o644)
    assert upload(logs, "--job", "x") == 0
    out = capsys.readouterr()
    assert "chmod 600" in out.err
    assert token not in out.out + out.err


@pytest.mark.usefixtures("same_minute")
def test_a_busy_site_is_asked_again_when_it_says(logs: Path, settings: Any, monkeypatch: Any, capsys: Any) -> None:
    settings.UPLOADS_PER_MINUTE = 1
    waits: list[float] = []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        settings.UPLOADS_PER_MINUTE = 1000

    monkeypatch.setattr("faultline.site.time.sleep", sleep)
    assert upload(logs, "--job", "x", retry_for=200) == 0
    assert waits and 0 < waits[0] <= 62
    assert "429" in capsys.readouterr().err
    assert Artifact.objects.count() == 2


def test_a_site_that_stays_away_ends_with_its_own_code(logs: Path, monkeypatch: Any, capsys: Any) -> None:
    monkeypatch.setenv("FAULTLINE_URL", "http://127.0.0.1:9")
    began = time.monotonic()
    assert upload(logs, "--job", "x", "--json", retry_for=0.5) == command.UNREACHABLE
    assert time.monotonic() - began < PATIENCE_S, "it gave up, it did not go on trying"
    out = capsys.readouterr()
    assert "continues where it stopped" in out.err
    assert json.loads(out.out)["code"] == command.UNREACHABLE


def test_a_refusal_before_the_body_was_read_is_still_reported(tmp_path: Path, settings: Any, capsys: Any) -> None:
    settings.UPLOAD_MAX_BYTES = 1000
    (tmp_path / "big.log").write_bytes(LOG * 900)  # 8 MB: more than a socket holds
    assert upload(tmp_path / "big.log", "--job", "x") == command.SOME_REFUSED
    assert "limit of this server" in capsys.readouterr().err


def test_diagnose_and_wait_end_when_the_work_has(logs: Path, capsys: Any, monkeypatch: Any) -> None:
    def finish() -> None:
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            for job in Job.objects.filter(diagnosing_revision__gt=0):
                with transaction.atomic():  # as the site does: a run that ended without a diagnosis has failed
                    job.runs.filter(kind="diagnose").update(state="succeeded")
                    Job.objects.filter(pk=job.pk).update(diagnosed_revision=job.diagnosing_revision)
                return
            time.sleep(0.05)

    thread = threading.Thread(target=finish)
    thread.start()
    assert upload(logs, "--job", "x", "--diagnose", "--wait", PATIENCE_S, "--json") == 0
    thread.join()
    answer = told(capsys)
    assert (answer["diagnosis"], answer["incidents"]) == ("succeeded", [])


def test_waiting_ends_in_time_and_a_failed_diagnosis_has_its_own_code(logs: Path, capsys: Any) -> None:
    assert upload(logs, "--job", "x", "--diagnose", "--wait", 0.2) == command.WAITED_OUT
    Job.objects.get().runs.filter(kind="diagnose").update(state="failed")
    assert command.main(["status", "x", "--wait", "5"]) == command.NOT_DIAGNOSED
    assert "no diagnosis" in capsys.readouterr().out


def test_it_says_nothing_when_asked_to_be_quiet(logs: Path, capfd: Any) -> None:
    argv = [sys.executable, "-m", "faultline", "upload", str(logs), "--job", "x", "--quiet"]
    done = subprocess.run(argv, cwd=ROOT / "client", capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert Artifact.objects.count() == 2


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("a,b", ["a", "b"]),
        ("gpu[01-03,7]-ib", ["gpu01-ib", "gpu02-ib", "gpu03-ib", "gpu7-ib"]),
        ("r[1-2]n[8-9],x", ["r1n8", "r1n9", "r2n8", "r2n9", "x"]),
        ("odd[", ["odd["]),
        ("", []),
    ],
)
def test_node_lists_of_schedulers_are_spelled_out(text: str, names: list[str]) -> None:
    assert nodes_of(text) == names
