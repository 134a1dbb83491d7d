"""``faultline upload DIR --job NAME``: exit codes and words for people and for scripts."""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import stat
import sys
import threading
import time
from pathlib import Path
from typing import Any, NoReturn

from faultline import __version__, files, sending
from faultline.site import Denied, Problem, Site, Unreachable

DONE, SOME_REFUSED, WRONG_CALL, DENIED, UNREACHABLE, NOT_DIAGNOSED, WAITED_OUT = range(7)
CODES = """exit codes:
  0  everything is there (and with --wait: diagnosed)
  1  some files were refused or could not be read; the rest is there
  2  wrong call
  3  the site does not accept the token, or its owner may not do this
  4  the site could not be reached, or was busy for longer than --retry-for; run it again, it goes on where it stopped
  5  --wait: the diagnosis failed, or there was nothing to diagnose
  6  --wait: not done in time; it goes on by itself

environment: FAULTLINE_URL, FAULTLINE_TOKEN, FAULTLINE_TOKEN_FILE; proxies as usual (https_proxy, no_proxy)"""


class Usage(Exception):
    """A wrong call, told in one sentence."""


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="faultline", epilog=CODES, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--version", action="version", version=__version__)
    commands = made.add_subparsers(dest="command", required=True, metavar="COMMAND")
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--url", default=os.environ.get("FAULTLINE_URL", ""), help="the site; default: FAULTLINE_URL")
    common.add_argument(
        "--token-file",
        help="file that holds the token; default: FAULTLINE_TOKEN, FAULTLINE_TOKEN_FILE, ~/.config/faultline/token",
    )
    common.add_argument("--ca-file", help="certificates to trust instead of the system's")
    common.add_argument(
        "--retry-for",
        type=float,
        default=900,
        metavar="S",
        help="how long to be patient with a site that is away or busy; default: 900",
    )
    common.add_argument("--quiet", "-q", action="store_true", help="say only what went wrong")
    common.add_argument("--json", action="store_true", help="print one JSON object to standard output")

    def command(name: str, meaning: str) -> argparse.ArgumentParser:
        shape = argparse.RawDescriptionHelpFormatter
        return commands.add_parser(name, help=meaning, epilog=CODES, formatter_class=shape, parents=[common])

    upload = command("upload", "send the evidence of a job")
    upload.add_argument("paths", nargs="+", metavar="PATH", help="directories, files, archives")
    upload.add_argument(
        "--job", required=True, metavar="NAME", help="the job's name; run again, the same job gets what it lacks"
    )
    upload.add_argument("--slug", help="the job's id in addresses; default: made of the name")
    upload.add_argument("--attempt", type=int, default=0, metavar="N", help="global launch of the job, counted from 0")
    upload.add_argument(
        "--prefix", default="", metavar="P", help="put this before each file's name, for instance $(hostname)/"
    )
    upload.add_argument("--exclude", action="append", default=[], metavar="GLOB", help="leave out; may be given again")
    upload.add_argument("--follow", action="store_true", help="also send what links lead to outside the directory")
    upload.add_argument("--parallel", type=int, default=4, metavar="N", help="files at a time; default: 4")
    for name, meaning in (
        ("cluster", "slug of the cluster"),
        ("family", "pool of comparable jobs"),
        ("framework", "megatron, deepspeed, …"),
        ("model", "what is trained"),
        ("comment", "a remark"),
        ("time-zone", "zone of time stamps that name none, such as Europe/Berlin"),
        ("started", "when it started, ISO 8601 or seconds since 1970"),
        ("ended", "when it ended"),
        ("nodes", "names, comma separated; gpu[01-16] is spelled out"),
    ):
        upload.add_argument(f"--{name}", help=meaning)
    upload.add_argument("--outcome", choices=("unknown", "running", "succeeded", "failed", "cancelled"))
    upload.add_argument("--diagnose", action="store_true", help="diagnose as soon as the evidence is read")
    _waits(upload)

    status = command("status", "how a job does")
    status.add_argument("slug")
    _waits(status)

    command("check", "whether site and token work")
    return made


def _waits(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--wait",
        nargs="?",
        type=float,
        const=3600.0,
        metavar="S",
        help="wait for the diagnosis, at most so many seconds; default: 3600",
    )


def main(arguments: list[str] | None = None) -> int:
    """Run one command; returns its exit code."""
    asked = parser().parse_args(arguments)
    say = Words(is_quiet=asked.quiet, is_json=asked.json)
    try:
        if not asked.url:
            raise Usage("Which site? Give --url or set FAULTLINE_URL.")
        site = Site(
            asked.url, token_of(asked.token_file, say), ca_file=asked.ca_file, retry_for_s=asked.retry_for, say=say.note
        )
        act = {"upload": _upload, "status": _status, "check": _check}[asked.command]
        return act(asked, site, say)
    except (Usage, ValueError) as error:
        return say.end(WRONG_CALL, str(error))
    except Denied as error:
        return say.end(DENIED, str(error))
    except Problem as problem:
        return say.end(WRONG_CALL if problem.status in (400, 404, 409, 422) else SOME_REFUSED, problem.detail)
    except Unreachable as error:
        return say.end(UNREACHABLE, f"{error}. Run this again: it goes on where it stopped.")
    except KeyboardInterrupt:
        return say.end(UNREACHABLE, "Stopped. Run this again: it goes on where it stopped.")


def _upload(asked: argparse.Namespace, site: Site, say: Words) -> int:
    if asked.attempt < 0 or not 1 <= asked.parallel <= 32:
        raise Usage("--attempt counts from 0; --parallel is from 1 to 32.")
    missing = [path for path in asked.paths if not Path(path).exists()]
    if missing:
        raise Usage(f"There is no {missing[0]}.")
    sources = list(files.found(asked.paths, prefix=asked.prefix, exclude=asked.exclude, follow=asked.follow))
    if not sources:
        raise Usage(f"There is no file to send in {', '.join(asked.paths)}.")
    twice = len(sources) - len({source.name for source in sources})
    if twice:
        raise Usage(f"{twice} files would have the same name as another: send them with different --prefix.")
    job, is_made = sending.job_get(site, _fields(asked))
    slug = job["slug"]
    known = None if is_made else sending.known_of(site, slug, asked.attempt)
    chunk = int(site.get("/uploads/capabilities").data["chunk_bytes"])
    say.begin(len(sources))
    sender = sending.Sender(
        site, slug, attempt=asked.attempt, known=known, chunk_bytes=chunk, follow=asked.follow, tell=say.bytes
    )
    sender.send_all(sources, parallel=asked.parallel, done=say.file)
    say.result.update(job=slug, url=f"{site.url}/jobs/{slug}/", is_new=is_made)
    if asked.diagnose or asked.wait is not None:
        say.result["diagnosis"] = sending.diagnose(site, slug)["state"]
    say.summary()
    code = SOME_REFUSED if say.refused else DONE
    if asked.wait is not None:
        code = _wait(site, slug, asked.wait, say) or code
    return say.end(code)


def _status(asked: argparse.Namespace, site: Site, say: Words) -> int:
    say.result.update(job=asked.slug, url=f"{site.url}/jobs/{asked.slug}/")
    return say.end(_wait(site, asked.slug, asked.wait or 0.0, say, is_asked=asked.wait is not None))


def _check(_: argparse.Namespace, site: Site, say: Words) -> int:
    me = site.get("/me/").data
    say.result.update(me)
    roles, scopes = me["roles"], (me["token"] or {}).get("scopes", [])
    say.line(f"{site.url} knows {me['username']} ({', '.join(roles) or 'no role'}); the token may {', '.join(scopes)}.")
    if not {"upload", "read"} <= set(scopes):
        return say.end(DENIED, "The token needs the scopes upload and read: make another on the page API tokens.")
    return say.end(DONE)


def _wait(site: Site, slug: str, limit_s: float, say: Words, *, is_asked: bool = True) -> int:
    job = sending.wait(site, slug, limit_s=limit_s, tell=say.progress)
    if job is None:
        say.result["diagnosis"] = "running"
        say.line("It is still being worked on.")
        return WAITED_OUT if is_asked else DONE
    is_done = job["diagnosed_revision"] >= max(1, job["revision"])
    say.result.update(
        diagnosis="succeeded" if is_done else "failed",
        outcome=job["outcome"],
        problems=[{"path": row["path"], "problem": row["sentence"]} for row in job["progress"]["problems"]],
    )
    for row in job["progress"]["problems"]:
        told = row["sentence"] if row["sentence"].startswith(row["path"]) else f"{row['path']}: {row['sentence']}"
        say.line(f"  {told}")
    if not is_done:
        say.line(f"There is no diagnosis: see {site.url}/jobs/{slug}/")
        return NOT_DIAGNOSED if is_asked else DONE
    rows = sending.incidents_of(site, slug)
    say.result["incidents"] = [
        {
            **{key: row[key] for key in ("number", "headline", "category", "confidence", "accused", "state")},
            "url": site.url + row["url"],
        }
        for row in rows
    ]
    say.line("No failure was found." if not rows else "")
    for row in rows:
        say.line(
            f"#{row['number']} {row['headline']}\n  {row['category']}, {row['confidence']:.0%}  {site.url}{row['url']}"
        )
    return DONE


def _fields(asked: argparse.Namespace) -> dict[str, Any]:
    name = " ".join(asked.job.split())
    slug = asked.slug or re.sub(r"[^a-z0-9_]+", "-", name.lower()).strip("-")[:100]
    if not name or not slug or not re.fullmatch(r"[A-Za-z0-9_-]{1,120}", slug):
        raise Usage("Give the job a --slug of letters, digits, - and _, at most 120.")
    fields: dict[str, Any] = {"name": name[:200], "slug": slug}
    for key in ("cluster", "family", "framework", "model", "comment", "time_zone", "outcome"):
        if getattr(asked, key):
            fields[key] = getattr(asked, key)
    for key, said in (("started_at", asked.started), ("ended_at", asked.ended)):
        if said:
            fields[key] = _moment(said)
    if asked.nodes:
        fields["nodes"] = files.nodes_of(asked.nodes)
    return fields


def _moment(text: str) -> str:
    if re.fullmatch(r"\d{9,11}(\.\d+)?", text):
        return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(float(text)))
    return text


def token_of(path: str | None, say: Words) -> str:
    """The token, from a file or the environment: never an argument, which every user of the machine can see."""
    if not path and os.environ.get("FAULTLINE_TOKEN"):
        return os.environ["FAULTLINE_TOKEN"].strip()
    usual = Path(os.environ.get("XDG_CONFIG_HOME") or "~/.config").expanduser() / "faultline" / "token"
    chosen = Path(path or os.environ.get("FAULTLINE_TOKEN_FILE") or usual)
    try:
        text = chosen.read_text().strip()
        if os.name == "posix" and chosen.stat().st_mode & (stat.S_IRGRP | stat.S_IROTH):
            say.note(f"others can read {chosen}: chmod 600 it")
    except OSError as error:
        raise Usage(f"There is no token: set FAULTLINE_TOKEN, or put it into {chosen} ({error.strerror}).") from None
    if not re.fullmatch(r"[\x21-\x7e]+", text):
        raise Usage(f"{chosen} holds no token: put the one line that the page API tokens showed into it.")
    return text


class Words:
    """What is said: notes and progress on standard error, the result on standard output."""

    def __init__(self, *, is_quiet: bool, is_json: bool) -> None:
        self.result: dict[str, Any] = {}
        self.refused: list[sending.Outcome] = []
        self._is_quiet = is_quiet
        self._is_json = is_json
        self._is_live = sys.stderr.isatty() and not is_quiet
        self._counts = {"sent": 0, "known": 0, "refused": 0}
        self._files = 0
        self._bytes = 0
        self._shown_at = 0.0
        self._shown = ""
        self._lock = threading.Lock()

    def note(self, words: str) -> None:
        self._clear()
        print(f"faultline: {words}", file=sys.stderr, flush=True)

    def line(self, words: str) -> None:
        if words and not self._is_quiet and not self._is_json:
            self._clear()
            print(words, flush=True)

    def begin(self, count: int) -> None:
        self._files = count

    def bytes(self, count: int) -> None:
        with self._lock:
            self._bytes += count
            done = sum(self._counts.values())
        self.progress(f"{done:,} of {self._files:,} files, {_size(self._bytes)}")

    def file(self, outcome: sending.Outcome) -> None:
        self._counts[outcome.state] += 1
        if outcome.problem:
            self.refused.append(outcome)
            self.note(outcome.problem)

    def progress(self, words: str) -> None:
        if self._is_live and time.monotonic() - self._shown_at > 0.2:
            self._shown_at, self._shown = time.monotonic(), words
            print(f"\r\x1b[K{words}", end="", file=sys.stderr, flush=True)

    def summary(self) -> None:
        counts = self._counts
        self.result.update(
            sent=counts["sent"],
            known=counts["known"],
            refused=[{"path": row.name, "problem": row.problem} for row in self.refused],
            bytes=self._bytes,
        )
        there = f", {counts['known']:,} were there already" if counts["known"] else ""
        refused = f", {counts['refused']:,} refused" if counts["refused"] else ""
        self.line(f"{counts['sent']:,} sent{there}{refused}: {self.result['url']}")

    def end(self, code: int, problem: str = "") -> int:
        if problem:
            self.note(problem)
            self.result["error"] = problem
        if self._is_json:
            print(json.dumps({"code": code, **self.result}), flush=True)
        return code

    def _clear(self) -> None:
        if self._shown:
            self._shown = ""
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def _size(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def _stop(_signal: int, _frame: Any) -> NoReturn:
    raise KeyboardInterrupt  # schedulers end what takes too long by SIGTERM


def run() -> NoReturn:
    signal.signal(signal.SIGTERM, _stop)
    code = main()
    sys.stdout.flush()
    os._exit(code)  # threads that still wait for the site must not hold an epilog up
