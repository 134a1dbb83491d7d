"""``faultline follow`` and ``faultline run``: the evidence of a running job."""

from __future__ import annotations

import argparse
import fnmatch
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Callable, NamedTuple

from faultline import files, sending
from faultline.following import Follower
from faultline.options import fields_of
from faultline.site import Denied, Problem, Site, Unreachable
from faultline.taking import Taker
from faultline.words import DONE, WRONG_CALL, UsageError, Words

#: maximum wait for the site at the end of a program, unless --retry-for is shorter
_END_S = 60.0


def split(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """The client's own arguments, and after ``--`` the program that ``run`` starts."""
    words = list(arguments)
    if words[:1] != ["run"] or "--" not in words:
        return words, []
    at = words.index("--")
    return words[:at], words[at + 1 :]


def follow(args: argparse.Namespace, site: Site, say: Words) -> int:
    """Follow files until SIGTERM or SIGINT, then close the job."""
    _check(args)
    slug = _begin(args, site, say)
    state = Path(args.state) if args.state else _state_of(slug, args.attempt, args.prefix)
    found = _file_finder(args, taker=_taker(args, site, slug, say, None))
    follower = Follower(site, slug, found, attempt=args.attempt, state=state, bytes_per_s=args.rate, note=say.note)
    if args.once:
        follower.catch_up()
        return say.end(DONE)
    stop = threading.Event()

    def end(_number: int) -> None:
        stop.set()
        site.hurry()

    _on_signals(end)
    follower.run(stop, every_s=args.every)
    follower.finish()
    _close(site, slug, args.outcome, say)
    return say.end(DONE)


def run(args: argparse.Namespace, connect: Callable[[], Site], say: Words) -> int:
    """Start the program, follow its output, return its exit code.

    The program does not depend on the site: if the site is unreachable, only following is lost, with a note.
    """
    _check(args)
    if not args.program:
        raise UsageError("Which program? Put it behind --: faultline run --job NAME -- torchrun train.py.")
    output = Path(args.output) if args.output else Path(tempfile.mkdtemp(prefix="faultline-")) / "output.log"
    output.parent.mkdir(parents=True, exist_ok=True)
    try:
        child = subprocess.Popen(args.program, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)  # noqa: S603
    except OSError as error:
        return say.end(WRONG_CALL, f"{args.program[0]} cannot be started: {error.strerror}.")
    stop, ended = threading.Event(), threading.Event()
    program = _Program(output, child.pid, [], [], [])

    def pass_on(number: int) -> None:
        program.signals.append(number)
        child.send_signal(number)
        for site in program.sites:
            site.hurry()

    _on_signals(pass_on)
    sender = threading.Thread(target=_send, args=(args, connect, say, program, stop), daemon=True)
    copier = threading.Thread(target=_copy, args=(child, output, ended), daemon=True)
    copier.start()
    sender.start()
    code = child.wait()
    ended.wait(5.0)  # a grandchild may keep the pipe open without end
    program.codes.append(code)
    stop.set()
    sender.join(min(_END_S, args.retry_for))
    if sender.is_alive():
        say.note(f"the site does not answer: the last lines were not sent, they are in {output}")
    return code if code >= 0 else 128 - code


class _Program(NamedTuple):
    """A program that was started; ``codes`` gets its exit code, ``signals`` those that it was sent, ``sites`` the site
    that it is told to.
    """

    output: Path
    pid: int
    codes: list[int]
    signals: list[int]
    sites: list[Site]

    def outcome(self) -> str:
        """How it ended. A program that ends with code 0 after a signal has done what it was asked."""
        if not any(self.codes):
            return "succeeded"
        return "cancelled" if self.signals else "failed"


def _send(
    args: argparse.Namespace,
    connect: Callable[[], Site],
    say: Words,
    program: _Program,
    stop: threading.Event,
) -> None:
    """The thread that follows; its errors never reach the program."""
    try:
        site = connect()
        program.sites.append(site)
        slug = _begin(args, site, say)
        taker = _taker(args, site, slug, say, program.pid)
        output = files.Source(program.output, program.output.resolve().parent, f"{args.prefix}output.log")
        found = _file_finder(args, output, taker=taker)
        follower = Follower(site, slug, found, attempt=args.attempt, bytes_per_s=args.rate, note=say.note)
        follower.run(stop, every_s=args.every)
        follower.finish()
        _close(site, slug, args.outcome or program.outcome(), say)
    except (UsageError, ValueError, Denied, Problem, Unreachable, OSError) as error:
        say.note(f"this job is not followed: {error}")


def _copy(child: subprocess.Popen[bytes], output: Path, ended: threading.Event) -> None:
    """Copy the program's output to its usual destination and into a file."""
    out = sys.stdout.buffer
    with output.open("ab", buffering=0) as file:
        while block := os.read(child.stdout.fileno(), 1 << 16):  # type: ignore[union-attr]
            for target in (file, out):
                with suppress(OSError):  # a full disk or a closed terminal must not stop the program
                    target.write(block)
                    target.flush()
    ended.set()


def _check(args: argparse.Namespace) -> None:
    if args.attempt < 0 or args.every <= 0 or args.rate < 0:
        raise UsageError("--attempt counts from 0; --every is more than 0; --rate is not negative.")
    missing = [path for path in args.paths if not Path(path).exists()]
    if missing:
        raise UsageError(f"There is no {missing[0]}.")


def _begin(args: argparse.Namespace, site: Site, say: Words) -> str:
    """The job, created if missing, with outcome running."""
    fields = fields_of(args)
    fields.setdefault("outcome", "running")
    slug, is_made = sending.job_get(site, fields)
    say.result.update(job=slug, url=f"{site.url}/jobs/{slug}/", is_new=is_made)
    say.note(f"following this job at {site.url}/jobs/{slug}/")
    return slug


def _close(site: Site, slug: str, outcome: str | None, say: Words) -> None:
    """State the outcome of the job, and request its diagnosis. Without one, what a watcher stated meanwhile stands."""
    if outcome is None and site.get(f"/jobs/{slug}/").data["declared_outcome"] == "running":
        outcome = "unknown"
    if outcome is not None:
        site.send("PATCH", f"/jobs/{slug}/", {"outcome": outcome})
    say.result["diagnosis"] = sending.diagnose(site, slug)["state"]


def _taker(args: argparse.Namespace, site: Site, slug: str, say: Words, root: int | None) -> Taker | None:
    """What takes stack dumps of this machine, if the caller allows it."""
    if not args.take:
        return None
    return Taker(site, slug, attempt=args.attempt, prefix=args.prefix, root=root, note=say.note)


def _file_finder(
    args: argparse.Namespace, *more: files.Source, taker: Taker | None = None
) -> Callable[[], Iterable[files.Source]]:
    """A function that looks for files each time it is called."""

    def find() -> Iterable[files.Source]:
        yield from more
        if taker is not None:
            yield from taker.sources()
        for source in files.find_files(args.paths, prefix=args.prefix, exclude=args.exclude):
            name = source.name[len(args.prefix) :]
            if not args.include or any(
                fnmatch.fnmatch(name, wanted) or fnmatch.fnmatch(source.path.name, wanted) for wanted in args.include
            ):
                yield source

    return find


def _state_of(slug: str, attempt: int, prefix: str) -> Path:
    """The state file of a follower; followers of several nodes may share a home directory."""
    base = Path(os.environ.get("XDG_STATE_HOME") or "~/.local/state").expanduser()
    name = "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in f"{slug}-{attempt}-{prefix}")
    return base / "faultline" / f"{name[:150]}-{os.uname().nodename}.json"


def _on_signals(act: Callable[[int], Any]) -> None:
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda caught, frame: act(caught))
