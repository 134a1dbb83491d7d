"""``faultline follow`` and ``faultline run`` against a running site. Rotated files: ``test_rotation``."""

from __future__ import annotations

import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from faultline import files, following
from faultline import main as command
from faultline.following import Follower
from faultline.site import Site, Unreachable
from ingest.models import Job, Upload
from ingest.services import resuming
from tests.client.followed import append, evidence
from tests.ingest.conftest import LOG
from tests.patience import PATIENCE_S, wait_for

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("token")]
ROOT = Path(__file__).resolve().parent.parent.parent


def test_a_growing_file_arrives_as_it_grows_and_is_taken_in_at_the_end(
    follower: Callable[[], Follower], logs: Path
) -> None:
    following = follower()
    append(logs / "a.log", LOG[:1000])
    following.send_new()
    assert Upload.objects.get().offset_bytes == 1000
    append(logs / "a.log", LOG[1000:1500])
    append(logs / "late.log", b"hello\n")
    following.send_new()
    assert sorted(Upload.objects.values_list("path", "offset_bytes")) == [("a.log", 1500), ("late.log", 6)]
    append(logs / "a.log", LOG[1500:])
    following.send_new()
    following.finish()
    assert evidence() == {"a.log": LOG, "late.log": b"hello\n"}


def test_an_old_long_file_delays_no_new_lines_of_the_others(
    follower: Callable[[], Follower], logs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "CHUNK_BYTES", 500)
    monkeypatch.setattr(following, "TURN_BYTES", 1000)
    append(logs / "a.log", LOG)
    append(logs / "b.log", b"hello\n")
    first = follower()
    first.send_new()
    offsets = dict(Upload.objects.values_list("path", "offset_bytes"))
    assert (offsets["b.log"], 1000 <= offsets["a.log"] <= 1500 < len(LOG)) == (6, True)
    first.catch_up()
    assert Upload.objects.get(path="a.log").offset_bytes == len(LOG)


def test_more_files_than_a_follower_takes_are_told_once_and_come_when_others_end(
    live_server: Any, token: str, job: Job, logs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "MAX_FILES", 2)
    notes: list[str] = []
    one = Follower(Site(live_server.url, token), job.slug, lambda: files.find_files([str(logs)]), note=notes.append)
    for name in "abcd":
        append(logs / f"{name}.log", b"hello\n")
    for _ in range(3):
        one.send_new()
    assert [note.partition(",")[0] for note in notes] == ["2 files are not followed"]
    (logs / "a.log").unlink()
    for _ in range(2):
        one.send_new()
    assert Upload.objects.count() == 3


@pytest.mark.parametrize(("took_s", "pause_s"), [(0.1, 1.9), (1.0, 4.0), (30.0, 10.0)])
def test_a_busy_site_is_asked_less_often(
    follower: Callable[[], Follower], monkeypatch: pytest.MonkeyPatch, took_s: float, pause_s: float
) -> None:
    now, waits, one = [0.0], [], follower()

    class Stop(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            waits.append(timeout)
            self.set()
            return True

    def send_new() -> int:
        now[0] += took_s
        return 0

    monkeypatch.setattr(following.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(one, "send_new", send_new)
    one.run(Stop(), every_s=2.0)
    assert waits == [pytest.approx(pause_s)]


def test_once_sends_what_is_new_of_the_chosen_files_and_leaves_them_open(job: Job, logs: Path, tmp_path: Path) -> None:
    append(logs / "core", bytes(10))
    for size in (1000, 2000):
        (logs / "a.log").write_bytes(LOG[:size])
        said = ["--job", "Night run", "--slug", job.slug, "--include", "*.log", "--state", str(tmp_path / "state.json")]
        assert command.main(["follow", str(logs), *said, "--once"]) == 0
        upload = Upload.objects.get()
        assert (upload.path, upload.offset_bytes, upload.size_bytes) == ("a.log", size, None)


def test_a_rate_is_kept(live_server: Any, token: str, job: Job, logs: Path) -> None:
    waits: list[float | None] = []

    class Stop(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            waits.append(timeout)
            self.set()
            return True

    append(logs / "a.log", LOG[:5000])
    site = Site(live_server.url, token, retry_for_s=20)
    Follower(site, job.slug, lambda: files.find_files([str(logs)]), bytes_per_s=100).run(Stop(), every_s=0.0)
    assert waits == [50.0]


def test_dumps_of_stacks_and_flows_that_appear_late_arrive_beside_the_log(
    follower: Callable[[], Follower], logs: Path
) -> None:
    one = follower()
    append(logs / "a.log", LOG[:1000])
    one.send_new()
    late = {
        "dumps/nccl_trace_rank_0": pickle.dumps({"version": "2.9", "entries": []}),
        "stacks/rank3.txt": b'Process 7: python train.py\nThread 7 (idle): "MainThread"\n    all_reduce (torch.py:1)\n',
        "error.json": b'{"message": {"message": "boom", "extraInfo": {"timestamp": "1763690400"}}}',
        "flows/node-1.csv": b"ts,src,dst,bytes\n1763690400,10.0.0.1,10.0.0.2,100\n",
    }
    for name, data in late.items():
        (logs / name).parent.mkdir(exist_ok=True)
        append(logs / name, data)
    one.send_new()
    one.finish()
    assert evidence() == {"a.log": LOG[:1000], **late}


def test_a_follower_that_was_killed_continues_where_it_stopped(follower: Callable[[], Follower], logs: Path) -> None:
    append(logs / "a.log", LOG[:1000])
    follower().send_new()  # and is gone
    append(logs / "a.log", LOG[1000:])
    second = follower()
    second.send_new()
    second.finish()
    assert evidence() == {"a.log": LOG}


def test_a_follower_without_its_state_meets_the_upload_that_is_open(
    follower: Callable[[], Follower], logs: Path, tmp_path: Path
) -> None:
    append(logs / "a.log", LOG[:1000])
    follower().send_new()
    (tmp_path / "state.json").unlink()
    append(logs / "a.log", LOG[1000:])
    second = follower()
    second.send_new()
    second.finish()
    assert evidence() == {"a.log": LOG}


def test_a_follower_outlasts_a_site_that_is_away(
    follower: Callable[[], Follower], logs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop, tries = threading.Event(), []
    ask = Site.ask

    def away(site: Site, method: str, path: str, *more: Any, **named: Any) -> Any:
        tries.append(path)
        if len(tries) <= 3:
            append(logs / "a.log", LOG[:500])
            raise Unreachable("The site does not answer.")
        stop.set()
        return ask(site, method, path, *more, **named)

    monkeypatch.setattr(Site, "ask", away)
    append(logs / "a.log", LOG[:500])
    one = follower()
    one.run(stop, every_s=0.01)
    one.finish()
    assert evidence() == {"a.log": 4 * LOG[:500]}


@pytest.mark.parametrize("full", ["begin", "append"])
def test_a_follower_outlasts_a_site_whose_disk_is_full(
    follower: Callable[[], Follower], logs: Path, monkeypatch: pytest.MonkeyPatch, full: str
) -> None:
    stop, refusals, notes = threading.Event(), [], []

    def disk(do: Callable[..., Any]) -> Callable[..., Any]:
        def write(*given: Any, **named: Any) -> Any:
            if len(refusals) < 3:
                refusals.append(1)
                raise OSError(28, "No space left on device")
            stop.set()
            return do(*given, **named)

        return write

    if full == "begin":
        monkeypatch.setattr(Path, "touch", disk(Path.touch))
    else:
        monkeypatch.setattr(resuming.Piece, "write", disk(resuming.Piece.write))
    append(logs / "a.log", LOG)
    one = follower()
    one._note, one._site._retry_for_s = notes.append, 0.0
    one.run(stop, every_s=0.01)
    one.finish()
    assert evidence() == {"a.log": LOG}
    assert ["disk is full" in note for note in notes] == [True], "once, however long"


def test_what_comes_after_the_site_ended_a_silent_file_is_not_lost(
    follower: Callable[[], Follower], logs: Path
) -> None:
    following = follower()
    append(logs / "a.log", LOG[:1000])
    following.send_new()
    resuming.upload_close(upload=Upload.objects.select_related("job", "attempt").get())
    append(logs / "a.log", LOG[1000:])
    following.send_new()
    following.send_new()
    following.finish()
    assert evidence() == {"a.log": LOG[:1000], "a.log.2": LOG[1000:]}


@pytest.fixture
def start(logs: Path, token: str, live_server: Any, tmp_path: Path) -> Iterator[Callable[[], subprocess.Popen[bytes]]]:
    """Starts ``faultline follow`` as a process."""
    words = ["follow", str(logs), "--job", "Night", "--every", "0.1", "--outcome", "running"]
    env = {
        "PATH": "/usr/bin:/bin",
        "PYTHONPATH": str(ROOT / "client"),
        "FAULTLINE_URL": live_server.url,
        "FAULTLINE_TOKEN": token,
        "XDG_STATE_HOME": str(tmp_path),
        "no_proxy": "*",
    }
    started: list[subprocess.Popen[bytes]] = []

    def follow() -> subprocess.Popen[bytes]:
        started.append(subprocess.Popen([sys.executable, "-m", "faultline", *words], env=env))
        return started[-1]

    yield follow
    for child in started:
        child.kill()
        child.wait()


def has_come(size: int) -> Callable[[], bool]:
    return lambda: Upload.objects.filter(offset_bytes__gte=size).exists()


def test_a_follower_that_is_killed_again_and_again_loses_and_doubles_nothing(
    start: Callable[[], subprocess.Popen[bytes]], logs: Path
) -> None:
    sent = 0
    for _ in range(4):
        child = start()
        for _ in range(5):
            append(logs / "a.log", LOG[sent : sent + 500])
            sent += 500
        wait_for(has_come(sent - 2400))
        child.kill()  # while the rest is sent, or before it
        child.wait()
    append(logs / "a.log", LOG[sent:])
    child = start()
    wait_for(has_come(len(LOG)))
    child.send_signal(signal.SIGTERM)
    assert child.wait(PATIENCE_S) == 0
    assert evidence() == {"a.log": LOG}


def test_a_followed_job_is_running_until_it_ends(start: Callable[[], subprocess.Popen[bytes]], logs: Path) -> None:
    append(logs / "a.log", LOG)
    child = start()
    wait_for(has_come(len(LOG)))
    assert Job.objects.get(slug="night").declared_outcome == "running"
    child.send_signal(signal.SIGTERM)
    assert child.wait(PATIENCE_S) == 0
    assert evidence() == {"a.log": LOG}


def run(*words: str) -> int:
    return command.main(["run", "--every", "0.1", "--retry-for", "20", *words])


def test_a_program_runs_with_its_output_followed_and_its_exit_code_kept(capfd: Any) -> None:
    script = "import sys; print('iteration 1'); print('boom', file=sys.stderr); sys.exit(3)"
    assert run("--job", "Tiny", "--", sys.executable, "-u", "-c", script) == 3
    assert "iteration 1\nboom\n" in capfd.readouterr().out
    job = Job.objects.get(slug="tiny")
    assert job.declared_outcome == "failed"
    assert job.is_diagnosis_wanted or job.diagnosing_revision
    assert evidence() == {"output.log": b"iteration 1\nboom\n"}


def test_a_program_runs_though_the_site_cannot_be_reached(monkeypatch: pytest.MonkeyPatch, capfd: Any) -> None:
    monkeypatch.setenv("FAULTLINE_URL", "http://127.0.0.1:9")
    assert command.main(["run", "--retry-for", "0.5", "--job", "x", "--", sys.executable, "-c", "print(7)"]) == 0
    said = capfd.readouterr()
    assert said.out == "7\n"
    assert "this job is not followed" in said.err


def test_without_a_program_the_call_is_wrong(capfd: Any) -> None:
    assert run("--job", "x") == 2
    assert "Which program?" in capfd.readouterr().err
