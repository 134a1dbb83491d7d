"""Somebody else kills readers and workers, at each step, again and again: no harmless file is left out for that. A file
that really ends those who read it is left out alone, with a sentence.
"""

from __future__ import annotations

import itertools
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import connection

from ingest import processes, services
from ingest.isolation import client
from ingest.models import Artifact, Run
from ingest.services import artifact_parsing, ends, sweeping
from ingest.services.artifact_parsing import artifacts_parse
from ingest.services.unpacking import upload_unpack
from tests.archives import tar_of
from tests.ingest.conftest import LOG
from tests.processes import is_alive

pytestmark = pytest.mark.django_db(transaction=True)

FILES = {f"rank{n}.log": LOG + b"rank %d\n" % n for n in range(3)}
#: oftener than an end that counts may happen
AGAIN = ends.MAX_OWN + 2
GONE = f"{processes.machine()}#999999999:1"


class Killed(KeyboardInterrupt):
    """The worker ends here: nothing of it goes on, and no transaction is committed."""


@pytest.fixture
def unit(job: Any, paused: Any, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A unit of three files that nobody has begun."""
    services.artifact_receive(job=job, path="all.tar", chunks=[tar_of(FILES)])
    services.run_do(Run.objects.get(kind="unpack").pk, upload_unpack)
    return Run.objects.get(kind="parse")


@contextmanager
def killed_at(step: int) -> Iterator[list[int]]:
    """Ends the worker before its ``step``-th statement to the database; yields the number of statements."""
    count = [0]

    def dies(execute: Callable[..., Any], *given: Any) -> Any:
        count[0] += 1
        if count[0] == step:
            raise Killed
        return execute(*given)

    with connection.execute_wrapper(dies):
        yield count


def end_the_worker() -> None:
    """What is left of a killed worker: a run that a process holds that is not there."""
    Run.objects.filter(state="running").update(worker=GONE)


def work(run: Run) -> None:
    services.run_do(run.pk, artifacts_parse)


def states() -> dict[str, tuple[str, int, str]]:
    rows = Artifact.objects.values_list("path", "state", "lines", "problem")
    return {path: (state, lines, problem) for path, state, lines, problem in rows}


WHOLE = {path: ("parsed", data.count(b"\n"), "") for path, data in FILES.items()}


def test_a_worker_that_is_killed_at_each_step_again_and_again_costs_no_file(unit: Run) -> None:
    before = Run.objects.filter(pk=unit.pk).values("state", "tries", "worker", "parameters", "error").get()
    for step in itertools.count(1):
        Run.objects.filter(pk=unit.pk).update(**before)
        Artifact.objects.update(state="received", settled_at=None, lines=0)
        kills = 0
        for _ in range(AGAIN):
            with killed_at(step):
                try:
                    work(unit)
                except Killed:
                    kills += 1
            end_the_worker()
            sweeping.sweep()
        work(unit)
        unit.refresh_from_db()
        assert (unit.state, states()) == ("succeeded", WHOLE), step
        if not kills:
            break
    assert step > 10, "the run has so many statements on either database"


@pytest.mark.parametrize(("step", "times"), [("artifacts_read", 1), ("artifact_read", AGAIN), ("_record", AGAIN)])
@pytest.mark.parametrize("is_swept", [True, False], ids=["the sweep gives it back", "the next worker takes it"])
def test_a_worker_that_is_killed_while_it_reads_or_stores_costs_no_file(
    unit: Run, monkeypatch: pytest.MonkeyPatch, step: str, times: int, is_swept: bool
) -> None:
    def dies(*_: Any, **__: Any) -> None:
        raise Killed

    for _ in range(times):
        with monkeypatch.context() as there, pytest.raises(Killed):
            there.setattr(artifact_parsing, step, dies)
            if step == "artifact_read":
                there.setattr(artifact_parsing, "_MAX_SMALL_BYTES", 0)
            work(unit)
        end_the_worker()
        if is_swept:
            sweeping.sweep()
    work(unit)
    unit.refresh_from_db()
    assert (unit.state, unit.own_tries, states()) == ("succeeded", 1, WHOLE)


@pytest.mark.parametrize("is_short_of_memory", [True, False])
def test_a_file_that_ends_each_worker_is_left_out_alone_with_its_sentence(
    unit: Run, monkeypatch: pytest.MonkeyPatch, is_short_of_memory: bool
) -> None:
    kills, real, read = [0], artifact_parsing.artifact_read, []

    def deadly(artifact: Artifact, *given: Any, **named: Any) -> Any:
        if artifact.path == "rank1.log":
            read.append(artifact.path)
            kills[0] += is_short_of_memory
            raise Killed
        return real(artifact, *given, **named)

    monkeypatch.setattr(artifact_parsing, "artifact_read", deadly)
    monkeypatch.setattr(artifact_parsing, "artifacts_read", lambda *_: {})
    monkeypatch.setattr(processes, "oom_kills", lambda: kills[0])
    for _ in range(ends.MAX_OUTSIDE + 5):
        try:
            work(unit)
        except Killed:
            end_the_worker()
    unit.refresh_from_db()
    left = states()
    state, _, sentence = left.pop("rank1.log")
    assert (unit.state, state) == ("succeeded", "failed")
    assert left == {path: said for path, said in WHOLE.items() if path != "rank1.log"}
    if is_short_of_memory:
        assert "ran out of memory" in sentence
        assert len(read) <= ends.MAX_OWN + 1
    else:
        assert f"ended {ends.MAX_OUTSIDE} times in a row" in sentence
    Run.objects.update(state="failed")
    assert services.run_retry(run=unit)
    unit.refresh_from_db()
    assert unit.parameters.get(Run.ENDS) is None


def test_a_run_whose_workers_always_end_fails_with_a_sentence(unit: Run) -> None:
    Run.objects.filter(pk=unit.pk).update(kind="diagnose")

    def dies(_: Any) -> None:
        raise Killed

    for _ in range(ends.MAX_OUTSIDE):
        with pytest.raises(Killed):
            services.run_do(unit.pk, dies)
        end_the_worker()
    services.run_do(unit.pk, dies)
    unit.refresh_from_db()
    assert (unit.state, f"ended {ends.MAX_OUTSIDE} times in a row" in unit.error) == ("failed", True)


class Reaper:
    """Kills the readers of this process, or their fork server, when told."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.left, self.steps, self.reader, self.server = 0, 0, 0, 0
        fork, send, receive = client.Keeper._fork, client.framing.send_pickle, client.framing.receive_json
        status = client.Keeper._status

        def forked(keeper: Any) -> None:
            keeper.start()
            self.server = keeper._server.pid
            self.kill("fork server before it forks")
            fork(keeper)
            self.kill("before the call")

        def told(keeper: Any) -> int:
            self.reader = status(keeper)
            return self.reader

        def sent(to: Any, message: Any) -> None:
            send(to, message)
            self.kill("after the call")
            self.kill("fork server after the call")

        def received(source: Any) -> Any:
            message = receive(source)
            if "tell" in message:
                self.kill("after a message")
            return message

        self.at = ""
        monkeypatch.setattr(client.Keeper, "_fork", forked)
        monkeypatch.setattr(client.Keeper, "_status", told)
        monkeypatch.setattr(client.framing, "send_pickle", sent)
        monkeypatch.setattr(client.framing, "receive_json", received)

    def kill(self, step: str) -> None:
        if step == self.at and self.left:
            self.left -= 1
            pid = self.server if step.startswith("fork server") else self.reader
            if is_alive(pid):
                os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize(
    ("at", "times"),
    [
        ("before the call", AGAIN),
        ("after the call", AGAIN),
        ("after a message", AGAIN),
        ("fork server before it forks", 1),
        ("fork server after the call", 2),
    ],
)
def test_a_reader_that_is_killed_again_and_again_costs_no_file(
    unit: Run, settings: Any, monkeypatch: pytest.MonkeyPatch, at: str, times: int
) -> None:
    settings.READING_IS_APART = True
    monkeypatch.setattr(processes, "oom_kills", lambda: 0)
    monkeypatch.setattr(client, "_kept", (os.getpid(), keeper := client.Keeper()))
    monkeypatch.setattr("ingest.isolation.forkserver._REPORT_EVERY_S", 0.0)
    reaper = Reaper(monkeypatch)
    reaper.at, reaper.left = at, times
    try:
        work(unit)
    finally:
        keeper.stop()
    unit.refresh_from_db()
    assert reaper.left == 0 or "after" in at  # of a small file, the answer may come before the end
    assert reaper.left < times or at == "after a message"
    assert (unit.state, states()) == ("succeeded", WHOLE)
