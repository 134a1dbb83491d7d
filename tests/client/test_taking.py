"""``--take stacks``: a job that hangs is asked for the stacks of its processes, once for each alarm."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from faultline import taking
from faultline.site import Denied, Reply, Site
from faultline.taking import Taker, processes
from ingest import selectors, services
from ingest.models import Upload, Watch
from ingest.services import resuming
from tests.factories import make_user

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def ranks() -> Iterator[subprocess.Popen[bytes]]:
    """A launcher with two ranks that wait."""
    program = (
        "import os, subprocess, sys\n"
        "wait = [sys.executable, '-c', 'import os; os.write(1, bytes([49, 10])); input()']\n"
        "all = [subprocess.Popen(wait, env={**os.environ, 'RANK': r}, stdin=subprocess.PIPE) for r in '53']\n"
        "[one.wait() for one in all]\n"
    )
    launcher = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, start_new_session=True)
    assert launcher.stdout is not None
    assert [launcher.stdout.readline(), launcher.stdout.readline()] == [b"1\n", b"1\n"]
    yield launcher
    os.killpg(launcher.pid, signal.SIGKILL)
    launcher.communicate()


@pytest.fixture
def py_spy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program that stands for py-spy, which needs a right that tests may lack."""
    program = tmp_path / "bin" / "py-spy"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\necho "Process $3: python train.py"; echo "Thread $3 (idle): MainThread"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    return program


@pytest.fixture
def job(db: None) -> Any:
    return services.job_create(name="Night run", user=None)


@pytest.fixture
def take(job: Any, live_server: Any, monkeypatch: pytest.MonkeyPatch, ranks: subprocess.Popen[bytes]) -> Any:
    """What the taker of the launcher's processes has after it asked the site again."""
    monkeypatch.setenv("no_proxy", "*")
    for name in ("_EVERY_S", "_IDLE_S", "_SOONEST_S", "_LATEST_S"):
        monkeypatch.setattr(taking, name, 0.0)
    engineer = make_user("engineer", "engineer")
    _, secret = services.token_create(user=engineer, name="side-car", scopes=["upload", "read"])
    notes: list[str] = []
    site = Site(live_server.url, secret, retry_for_s=5)
    taker = Taker(site, job.slug, attempt=0, prefix="n1/", root=ranks.pid, note=notes.append)
    return lambda: ([source.name.split("/")[-1] for source in taker.sources()], notes)


def hangs(job: Any, alarm: str = "hang") -> None:
    upload = resuming.upload_begin(job=job, path="train.log", size_bytes=None)
    Watch.objects.update_or_create(
        attempt=upload.attempt, defaults={"alarm": alarm, "alarm_text": "No progress.", "alarm_since": timezone.now()}
    )


def test_the_ranks_below_a_launcher_are_found_and_the_launcher_is_not_one(ranks: subprocess.Popen[bytes]) -> None:
    found = processes(ranks.pid)
    assert [rank for _, rank in found] == [3, 5]
    assert ranks.pid not in [pid for pid, _ in found]


def test_a_program_without_ranks_is_taken_itself(ranks: subprocess.Popen[bytes]) -> None:
    (only,) = processes(processes(ranks.pid)[0][0])
    assert only[1] == 3
    assert all(rank is not None for _, rank in processes(None))


def test_a_launcher_with_a_task_number_and_the_workers_of_a_rank_are_no_ranks() -> None:
    """A worker of a data loader inherits the rank of its process; a launcher below srun has a task's number."""
    rank = (
        "import os, sys\n"
        "if os.fork() == 0: os.read(0, 1)\n"
        "os.write(1, b'1\\n'); os.wait()\n"
    )  # fmt: skip
    program = (
        "import os, subprocess, sys\n"
        f"one = subprocess.Popen([sys.executable, '-c', {rank!r}], env={{**os.environ, 'RANK': '0'}})\n"
        "one.wait()\n"
    )
    command = [sys.executable, "-c", program]
    environment = {**os.environ, "SLURM_PROCID": "0"}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, env=environment, start_new_session=True) as launcher:
        assert launcher.stdout is not None
        assert launcher.stdout.readline() == b"1\n"
        found = processes(launcher.pid)
        os.killpg(launcher.pid, signal.SIGKILL)
    assert [rank for _, rank in found] == [0]
    assert found[0][0] != launcher.pid


def test_a_refused_question_ends_nothing(job: Any, py_spy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str) -> Any:
        raise Denied("This token may not read.")

    site = Site("http://localhost:1", "fl_x", retry_for_s=0)
    monkeypatch.setattr(site, "get", refuse)
    taker = Taker(site, job.slug, attempt=0, prefix="", root=os.getpid(), note=lambda words: None)
    assert list(taker.sources()) == []


def test_stacks_are_taken_twice_for_an_alarm_and_again_for_the_next(job: Any, take: Any, py_spy: Path) -> None:
    assert take() == ([], [])
    hangs(job)
    assert take()[0] == ["rank3.txt", "rank5.txt"]
    for _ in range(3):
        _, notes = take()
    assert notes == ["the job hangs: stacks of 2 processes were taken"] * 2
    hangs(job)
    assert len(take()[1]) == 3


@pytest.mark.parametrize("policy", [[], ["stacks"]])
def test_nothing_is_taken_for_another_alarm_or_against_the_sites_policy(
    job: Any, take: Any, py_spy: Path, settings: Any, policy: list[str]
) -> None:
    settings.FOLLOWERS_TAKE = policy
    hangs(job, "hang" if not policy else "slow")
    assert take() == ([], [])


def test_without_py_spy_a_note_says_so(job: Any, take: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(taking.shutil, "which", lambda name: None)
    hangs(job)
    names, notes = take()
    assert names == []
    assert "py-spy is not installed" in notes[0]


def test_a_process_that_cannot_be_traced_is_named_with_the_reason(job: Any, take: Any, py_spy: Path) -> None:
    py_spy.write_text("#!/bin/sh\necho 'Permission denied: try sudo' >&2; exit 1\n")
    hangs(job)
    assert take()[1] == ["the job hangs: stacks of 0 processes were taken; of others not: Permission denied: try sudo"]


@pytest.mark.parametrize(("nodes", "seconds"), [(1, 5), (512, 12), (4096, 60)])
def test_the_more_nodes_follow_a_job_the_less_often_each_asks(job: Any, nodes: int, seconds: int) -> None:
    attempt = services.attempt_get(job=job)
    paths = [f"node-{node}/rank{rank}.log" for node in range(nodes) for rank in range(2)]
    Upload.objects.bulk_create(Upload(job=job, attempt=attempt, path=path, size_bytes=None) for path in paths)
    assert selectors.ask_again_s(job) == seconds


@pytest.mark.parametrize(
    ("answer", "earliest", "latest"),
    [
        ({"wanted": [], "ask_again_s": 25}, 20, 30),
        ({"wanted": [], "ask_again_s": 0}, 4, 6),
        ({"wanted": [], "ask_again_s": 1e9}, 240, 360),
        ({"wanted": [], "ask_again_s": math.nan}, 4, 6),
        ({"wanted": [], "ask_again_s": "soon"}, 60, 60),
        ({"wanted": []}, 48, 72),
    ],
)
def test_a_follower_asks_again_when_the_site_says_within_limits(
    job: Any, monkeypatch: pytest.MonkeyPatch, answer: dict[str, Any], earliest: float, latest: float
) -> None:
    site = Site("http://localhost", "fl_x")
    monkeypatch.setattr(Site, "get", lambda *_: Reply(200, {}, answer))
    taker = Taker(site, job.slug, attempt=0, prefix="n1/", root=None, note=print)
    _, again_s = taker._requests()
    assert earliest <= again_s <= latest
