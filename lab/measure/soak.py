"""Many uploads while processes are killed: `python -m lab.measure soak [--seconds 300] [--database postgres]`.

Starts its own site like `make run`, in a temporary directory. `--senders` programs send logs, archives and resumable
uploads at once, also with wrong digests, broken connections, bytes at a wrong offset and two requests for one upload.
Every few seconds it kills (-9) workers, the broker or processes of the web server; sometimes the whole worker and, with
`--database postgres`, a server process of the database, which then ends all its connections and recovers. It kills
rarely enough that the supervisor does not give up. Then it checks: each accepted file is stored once and was read to
its last line, no refused file is stored, each job was diagnosed with its last evidence, no run is stuck, and no
unfinished file is left. Prints what was sent and killed; fails if a check fails.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import hashlib
import http.client
import io
import json
import os
import random
import signal
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lab.measure.upload import Api
from scripts.services import postgres
from triage.serve.supervisor import DEATHS_WINDOW_S, MAX_DEATHS

ROOT = Path(__file__).resolve().parents[2]
_LINE = "2026-11-21 03:{:02d}:{:02d},000 INFO [rank{}] iteration {} loss 2.5 sender {} file {}\n"
_DAMAGED, _CUT = "damaged.log", "cut.log"
#: files that are sent wrongly
REFUSED = frozenset({_DAMAGED, _CUT})
#: how long the site may work after the last upload
_REST_S = 240
_TOKEN = (
    "from django.contrib.auth import get_user_model as m; from ingest.services import token_create as t; "
    "print('token', t(user=m().objects.create_superuser('soak'), name='soak', scopes=['upload', 'read'])[1])"
)


@dataclass
class Sent:
    """What senders know: the accepted files of each job (path → lines), and how requests ended."""

    files: dict[str, dict[str, int]] = field(default_factory=dict)
    #: those of them that are there from their answer on; members of archives follow
    whole: dict[str, dict[str, int]] = field(default_factory=dict)
    ends: Counter[str] = field(default_factory=Counter)


class Sender(threading.Thread):
    """Sends until ``ended``; repeats requests without an answer, as a client does."""

    def __init__(self, number: int, url: str, token: str, sent: Sent, ended: threading.Event) -> None:
        super().__init__(daemon=True)
        self.rng, self.number, self.sent, self.ended = random.Random(number), number, sent, ended
        self.api, self.host, self.token = Api(url, token), url.partition("//")[2], token
        self.problem = ""

    def run(self) -> None:
        try:
            turn = 0
            while not self.ended.is_set():
                self._job(f"soak-{self.number}-{turn}")
                turn += 1
        except Exception as error:  # reported at the end by the caller
            self.problem = f"sender {self.number}: {type(error).__name__}: {error}"

    def _job(self, slug: str) -> None:
        body = json.dumps({"name": slug, "slug": slug, "outcome": "failed"})
        self._until("POST", "/api/v1/jobs/", body, {201, 409, 422}, **{"Content-Type": "application/json"})
        files = self.sent.files.setdefault(slug, {})
        for number in range(self.rng.randrange(2, 7)):
            path, lines = f"node-{number}.log", self.rng.randrange(1, 4_000)
            way = self.rng.choice((self._put, self._put, self._tus, self._archive))
            way(slug, path, self._log(lines, number), lines, files)
            self.rng.choice((self._wrong_digest, self._cut, lambda _: None))(slug)
        self._until("POST", f"/api/v1/jobs/{slug}/diagnose/", None, {200, 202})

    def _log(self, lines: int, number: int) -> bytes:
        texts = (_LINE.format(n // 60 % 60, n % 60, n % 8, n, self.number, number) for n in range(lines))
        return "".join(texts).encode()

    def _put(self, slug: str, path: str, data: bytes, lines: int, files: dict[str, int]) -> None:
        self._until("PUT", _address(slug, path, data), data, {200, 201})
        files[path] = self.sent.whole.setdefault(slug, {})[path] = lines

    def _archive(self, slug: str, path: str, data: bytes, lines: int, files: dict[str, int]) -> None:
        packed = io.BytesIO()
        members = {f"in-{path}/{n}.log": self._log(n + 1, n) for n in range(self.rng.randrange(1, 40))} | {path: data}
        with tarfile.open(fileobj=packed, mode="w:gz", compresslevel=1) as archive:
            for name, content in members.items():
                info = tarfile.TarInfo(name)
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
        self._until("PUT", _address(slug, f"{path}.tar.gz", packed.getvalue()), packed.getvalue(), {200, 202})
        files.update({name: content.count(b"\n") for name, content in members.items()})

    def _tus(self, slug: str, path: str, data: bytes, lines: int, files: dict[str, int]) -> None:
        fields = {"job": slug, "path": path, "sha256": hashlib.sha256(data).hexdigest()}
        header = ",".join(f"{key} {base64.b64encode(value.encode()).decode()}" for key, value in fields.items())
        begin = {"Upload-Length": str(len(data)), "Upload-Metadata": header, "Content-Length": "0"}
        answer = self._until("POST", "/api/v1/uploads/", None, {201}, **begin)
        location = answer["location"]
        while True:
            head = self._until("HEAD", location, None, {200, 410})
            if "upload-offset" not in head:  # the bytes are gone: from the start, as a client does
                self._tus(slug, path, data, lines, files)
                return
            offset = int(head["upload-offset"])
            if offset >= len(data):
                break
            chunk = data[offset : offset + self.rng.randrange(1, 200_000)]
            kind = {"Content-Type": "application/offset+octet-stream"}
            if self.rng.random() < 0.2:  # two at once: one of them must wait or begin elsewhere
                twin = threading.Thread(target=self._try, args=("PATCH", location, chunk), kwargs=self._at(offset))
                twin.start()
                self._try("PATCH", location, chunk, **self._at(offset))
                twin.join()
            else:
                at = offset + self.rng.choice((0, 0, 0, 7))
                self._try("PATCH", location, chunk, **kind, **{"Upload-Offset": str(at)})
        files[path] = self.sent.whole.setdefault(slug, {})[path] = lines

    @staticmethod
    def _at(offset: int) -> dict[str, str]:
        return {"Content-Type": "application/offset+octet-stream", "Upload-Offset": str(offset)}

    def _wrong_digest(self, slug: str) -> None:
        address = _address(slug, _DAMAGED, b"what was announced\n")
        self._until("PUT", address, b"something else\n", {422})

    def _cut(self, slug: str) -> None:
        """Half a body, then silence: nothing of it may be stored."""
        connection = http.client.HTTPConnection(self.host, timeout=30)
        try:
            connection.putrequest("PUT", _address(slug, _CUT, b"never sent whole\n" * 999))
            connection.putheader("Authorization", f"Bearer {self.token}")
            connection.putheader("Content-Length", str(17 * 999))
            connection.endheaders(b"never sent whole\n" * 20)
        except OSError:
            self.sent.ends["no answer"] += 1
        finally:
            connection.close()

    def _until(self, method: str, path: str, body: Any, wanted: set[int], **headers: str) -> dict[str, str]:
        """Repeats it until the answer has a wanted status; waits while the site is busy or away."""
        for _ in range(300):
            answer = self._try(method, path, body, **headers)
            if answer and answer[0] in wanted:
                return answer[1]
            if answer and answer[0] not in (404, 408, 429, 500, 502, 503, 504, 507):
                raise AssertionError(f"{method} {path}: {answer[0]} {answer[2][:300]!r}")
            if answer and answer[0] == 500:
                raise AssertionError(f"{method} {path}: 500")
            time.sleep(0.2)
        raise AssertionError(f"{method} {path}: never answered")

    def _try(self, method: str, path: str, body: Any, **headers: str) -> tuple[int, dict[str, str], bytes] | None:
        try:
            answer = self.api.call(method, path, body, **headers)
        except (OSError, http.client.HTTPException):
            self.sent.ends["no answer"] += 1
            return None
        self.sent.ends[str(answer[0])] += 1
        return answer


def _address(slug: str, path: str, data: bytes) -> str:
    return f"/api/v1/jobs/{slug}/artifacts/{hashlib.sha256(data).hexdigest()}?path={path}"


def _children(root: int) -> dict[int, str]:
    """Processes below ``root`` and their command lines."""
    parents, command_lines = {}, {}
    for place in Path("/proc").iterdir():
        if place.name.isdigit():
            try:
                parents[int(place.name)] = int((place / "stat").read_text().rpartition(")")[2].split()[1])
                command_lines[int(place.name)] = (
                    (place / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
                )
            except OSError:
                continue
    below, more = {root}, {root}
    while more:
        more = {pid for pid, parent in parents.items() if parent in more} - below
        below |= more
    return {pid: command_lines[pid] for pid in below - {root}}


def _break(rng: random.Random, site: int, done: Counter[str], deaths: dict[str, list[float]]) -> None:
    """Kills a process, usually one that parses or diagnoses. ``deaths``: when which process was killed."""
    running = dict(sorted(_children(site).items()))  # a worker before its pool
    workers = [pid for pid, command in running.items() if " celery " in command]
    web = [pid for pid, command in running.items() if " granian " in command]
    brokers = [pid for pid, command in running.items() if "valkey" in command and "celery" not in command]
    usual = [("pool process", workers[1:])] * 4 + [("broker", brokers)] * 2
    database = [
        pid
        for pid, command in _children(os.getpid()).items()
        if command.startswith("postgres:") and "[local]" in command
    ]
    usual += [("database", database)] * 2 if database else []
    what, pids = rng.choice([*usual, ("worker", workers[:1]), ("web process", web[1:])])
    recent = [at for at in deaths.setdefault(what, []) if time.monotonic() - at < DEATHS_WINDOW_S]
    is_borne = what not in ("worker", "broker") or len(recent) < MAX_DEATHS - 2
    if pids and is_borne:
        deaths[what] = [*recent, time.monotonic()]
        try:
            os.kill(rng.choice(pids), signal.SIGKILL)
            done[what] += 1
        except ProcessLookupError:
            pass


def complaints(sent: Sent, data: Path, rest_s: float = _REST_S) -> list[str]:
    """Sentences about failed checks, after ``rest_s`` seconds at most for work that is not yet done; Django reads the
    site's own database.
    """
    import django  # the settings need the site's database

    django.setup()
    from django.db.models import Count, F

    from ingest import temp_files
    from ingest.models import Artifact, Job, Run, Upload
    from triage.models import Diagnosis

    deadline = time.monotonic() + rest_s
    unfinished = Run.objects.exclude(state__in=(Run.State.SUCCEEDED, Run.State.FAILED))
    while (unfinished.exists() or Job.objects.filter(revision__gt=F("diagnosed_revision")).exists()) and (
        time.monotonic() < deadline
    ):
        time.sleep(1)
    problems = _first_sentences([f"run {run.pk} ({run.kind}) is stuck: {run.state} {run.error}" for run in unfinished])
    problems += [f"run {run.pk} ({run.kind}) failed: {run.error}" for run in Run.objects.filter(state=Run.State.FAILED)]
    for slug, files in sent.files.items():
        rows = Artifact.objects.filter(attempt__job__slug=slug, is_superseded=False)
        have = dict(rows.values_list("path", "lines"))
        left = rows.exclude(state=Artifact.State.PARSED).values_list("path", "state", "problem")
        problems += _first_sentences(
            [f"{slug}: {path} is {state}: {problem or 'no sentence'}" for path, state, problem in left]
        )
        if len(have) != rows.count():
            problems.append(f"{slug}: a path is there twice")
        if have != files:
            differing = {path for path in have.keys() | files.keys() if have.get(path) != files.get(path)}
            shown = [(path, have.get(path), files.get(path)) for path in sorted(differing)][:5]
            problems.append(f"{slug}: {len(differing)} files differ (path, lines here, lines sent): {shown}")
    undiagnosed = Job.objects.filter(revision__gt=F("diagnosed_revision"))
    problems += _first_sentences(
        [f"{job.slug}: diagnosed {job.diagnosed_revision} of revision {job.revision}" for job in undiagnosed]
    )
    repeated = Diagnosis.objects.values("attempt", "revision").annotate(n=Count("pk")).filter(n__gt=1).count()
    problems += [f"{repeated} revisions were diagnosed twice"] if repeated else []
    temp_files.remove_abandoned()
    live_parts = {
        f"{pk}.part" for pk in Upload.objects.filter(state=Upload.State.RECEIVING).values_list("pk", flat=True)
    }
    leftovers = [
        p for place in (temp_files.PARTS, temp_files.WORK) for p in (data / place).iterdir() if p.name not in live_parts
    ]
    problems += [f"left over: {path}" for path in leftovers]
    hidden = [p for p in (data / "blobs").rglob("*") if p.is_file() and len(p.name) != 64]
    return problems + [f"no blob: {path}" for path in hidden]


def _first_sentences(sentences: list[str], most: int = 5) -> list[str]:
    more = len(sentences) - most
    return [*sentences[:most], *([f"and {more} more like the last"] if more > 0 else [])]


def main() -> None:
    """Kill, check and report."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seconds", type=float, default=300.0)
    options.add_argument("--senders", type=int, default=8)
    options.add_argument("--port", type=int, default=8971)
    options.add_argument("--every", type=float, default=4.0, help="seconds between breakages")
    options.add_argument("--database", choices=("sqlite", "postgres"), default="sqlite")
    chosen = options.parse_args()
    with contextlib.ExitStack() as stack:
        if chosen.database == "postgres":
            os.environ["DATABASE_URL"] = stack.enter_context(postgres())
            _commits_kept(os.environ["DATABASE_URL"])
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        data, url = Path(folder), f"http://127.0.0.1:{chosen.port}"
        env = {"FAULTLINE_DATA_DIR": folder, "FAULTLINE_PORT": str(chosen.port), "FAULTLINE_DEMO": "0"}
        os.environ.update(env, FAULTLINE_DIAGNOSE_AFTER_S="5", DJANGO_SETTINGS_MODULE="triage.settings")
        with (data / "site.out").open("wb") as out:
            site = subprocess.Popen([sys.executable, "-m", "triage.serve"], cwd=ROOT, stdout=out, stderr=out)
        try:
            while b"Ctrl-C" not in (data / "site.out").read_bytes():
                assert site.poll() is None, (data / "site.out").read_text()
                time.sleep(0.5)
            make = [sys.executable, "manage.py", "shell", "-c", _TOKEN]
            token = subprocess.run(make, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()[-1]
            sent, ended, broken, rng = Sent(), threading.Event(), Counter[str](), random.Random(1)
            deaths: dict[str, list[float]] = {}
            senders = [Sender(number, url, token, sent, ended) for number in range(chosen.senders)]
            for sender in senders:
                sender.start()
            until = time.monotonic() + chosen.seconds
            while time.monotonic() < until and site.poll() is None:
                time.sleep(chosen.every)
                _break(rng, site.pid, broken, deaths)
            ended.set()
            for sender in senders:
                sender.join(120)
            found = [sender.problem for sender in senders if sender.problem]
            found += [f"sender {s.number} hangs" for s in senders if s.is_alive()]
            found += complaints(sent, data) if site.poll() is None else ["the site ended: " + _log_text(data)]
        finally:
            site.send_signal(signal.SIGINT)
            site.wait(60)
        files = sum(len(of_job) for of_job in sent.files.values())
        print(f"{len(sent.files)} jobs, {files} files taken; answers {dict(sent.ends)}; killed {dict(broken)}")
        print("\n".join(found) or "nothing is doubled, nothing is lost, nothing is left over, nothing is stuck")
        sys.exit(bool(found))


def _commits_kept(url: str) -> None:
    """Committed rows survive a crash, as with every production database; the temporary one has this switched off."""
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("ALTER ROLE postgres SET synchronous_commit = on")


def _log_text(data: Path) -> str:
    return (data / "site.out").read_text()[-500:]
