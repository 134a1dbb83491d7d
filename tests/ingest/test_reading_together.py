"""Small files of a unit are read with one call; one that fails there is read alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ingest.isolation import ReaderLost, inside
from ingest.models import Artifact, Run
from ingest.services import engine_calls
from ingest.services.artifact_parsing import artifacts_parse
from ingest.services.work import Work

pytestmark = pytest.mark.django_db(transaction=True)
FILES = {
    **{f"node-{n}/train.log": f"2026-03-01 08:00:0{n} step {n} loss 1.5\n".encode() * (40 + n) for n in range(6)},
    "flows.csv": b"start,end,src,dst,bytes\n1,2,10.0.0.1,10.0.0.2,100\n",
    "notes.bin": bytes(range(256)) * 10,
    "empty.log": b"",
}


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the calls of the engine."""
    made: list[str] = []
    real = engine_calls.engine_call

    def counted(work: Any, name: str, *args: Any, **arguments: Any) -> Any:
        made.append(name)
        return real(work, name, *args, **arguments)

    monkeypatch.setattr(engine_calls, "engine_call", counted)
    return made


def rows(job: Any) -> list[tuple[Any, ...]]:
    members = Artifact.objects.filter(attempt__job=job, upload__isnull=False).order_by("path")
    return list(members.values_list("path", "state", "kind", "lines", "problem"))


def send_archive(put: Callable[..., Any]) -> None:
    from tests.archives import tar_of

    assert put("all.tar", tar_of(FILES)).status_code in (201, 202)


def test_small_logs_are_read_with_one_call(put: Callable[..., Any], job: Any, calls: list[str]) -> None:
    send_archive(put)

    assert calls.count("read_files") == 1
    assert calls.count("read_file") == len(FILES) - 6
    states = {path: (state, lines) for path, state, _, lines, _ in rows(job)}
    assert all(
        states[path] == (Artifact.State.PARSED, FILES[path].count(b"\n"))
        for path in FILES
        if path.endswith("train.log")
    )


def test_a_file_that_ends_the_common_call_is_found_by_reading_each_alone(
    put: Callable[..., Any], job: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = engine_calls.engine_call

    def ends(work: Any, name: str, *args: Any, **arguments: Any) -> Any:
        if name == "read_files" or str(arguments.get("path", "")).startswith("node-3"):
            raise ReaderLost("A library aborted on this.")
        return real(work, name, *args, **arguments)

    monkeypatch.setattr(engine_calls, "engine_call", ends)
    send_archive(put)

    failed = [path for path, state, *_ in rows(job) if state == Artifact.State.FAILED]
    assert failed == ["node-3/train.log"]


def test_reading_together_and_alone_give_the_same_rows(
    put: Callable[..., Any], job: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    send_archive(put)
    together = rows(job)
    Artifact.objects.filter(attempt__job=job, upload__isnull=False).update(
        settled_at=None, state=Artifact.State.RECEIVED, lines=0
    )
    monkeypatch.setattr(inside, "read_together", lambda _: {})
    parse = Run.objects.filter(job=job, kind=Run.Kind.PARSE, artifacts__isnull=False).distinct().get()
    parse.state = Run.State.RUNNING
    parse.save(update_fields=["state"])
    artifacts_parse(Work(parse))

    assert rows(job) == together
