"""The commands of ``faultline`` and their exit codes."""

from __future__ import annotations

import argparse
import os
import re
import signal
import stat
import sys
from pathlib import Path
from typing import Any, NoReturn

from faultline import attribution_http, files, live, prometheus, scheduler, sending, server
from faultline.options import fields_of, parser
from faultline.site import Denied, Problem, Site, Unreachable
from faultline.words import (
    DENIED,
    DONE,
    NOT_DIAGNOSED,
    SOME_REFUSED,
    UNREACHABLE,
    WAITED_OUT,
    WRONG_CALL,
    UsageError,
    Words,
)


def main(arguments: list[str] | None = None) -> int:
    """Run one command; returns its exit code."""
    given, program = live.split(sys.argv[1:] if arguments is None else arguments)
    args = parser().parse_args(given)
    args.program = program
    say = Words(is_quiet=args.quiet, is_json=args.json)
    try:
        if args.command == "run":
            return live.run(args, lambda: _site_of(args, say), say)
        act = {
            "upload": _upload,
            "follow": live.follow,
            "watch": prometheus.watch if vars(args).get("scheduler") == "prometheus" else scheduler.watch,
            "attribution": attribution_http.serve,
            "status": _status,
            "check": _check,
        }[args.command]
        return act(args, _site_of(args, say), say)
    except (UsageError, ValueError) as error:
        return say.end(WRONG_CALL, str(error))
    except Denied as error:
        return say.end(DENIED, str(error))
    except Problem as problem:
        return say.end(WRONG_CALL if problem.status in (400, 404, 409, 422) else SOME_REFUSED, problem.detail)
    except Unreachable as error:
        return say.end(UNREACHABLE, f"{error}. Run this again: it continues where it stopped.")
    except KeyboardInterrupt:
        return say.end(UNREACHABLE, "Stopped. Run this again: it continues where it stopped.")


def _site_of(args: argparse.Namespace, say: Words) -> Site:
    if not args.url:
        raise UsageError("Which site? Give --url or set FAULTLINE_URL.")
    token = token_of(args.token_file, say)
    return Site(args.url, token, ca_file=args.ca_file, retry_for_s=args.retry_for, say=say.note)


def _upload(args: argparse.Namespace, site: Site, say: Words) -> int:
    if args.attempt < 0 or not 1 <= args.parallel <= 32:
        raise UsageError("--attempt counts from 0; --parallel is from 1 to 32.")
    missing = [path for path in args.paths if not Path(path).exists()]
    if missing:
        raise UsageError(f"There is no {missing[0]}.")
    sources = list(files.find_files(args.paths, prefix=args.prefix, exclude=args.exclude, follow=args.follow))
    if not sources:
        raise UsageError(f"There is no file to send in {', '.join(args.paths)}.")
    twice = len(sources) - len({source.name for source in sources})
    if twice:
        raise UsageError(f"{twice} files would have the same name as another: send them with different --prefix.")
    slug, is_made = sending.job_get(site, fields_of(args))
    known = None if is_made else sending.known_uploads(site, slug, args.attempt)
    chunk = int(site.get("/uploads/capabilities").data["chunk_bytes"])
    say.begin(len(sources))
    sender = sending.Sender(
        site, slug, attempt=args.attempt, known=known, chunk_bytes=chunk, follow=args.follow, tell=say.bytes
    )
    sender.send_all(sources, parallel=args.parallel, done=say.file)
    say.result.update(job=slug, url=f"{site.url}/jobs/{slug}/", is_new=is_made)
    if args.diagnose or args.wait is not None:
        say.result["diagnosis"] = sending.diagnose(site, slug)["state"]
    say.summary()
    code = SOME_REFUSED if say.refused else DONE
    if args.wait is not None:
        code = _wait(site, slug, args.wait, say) or code
    return say.end(code)


def _status(args: argparse.Namespace, site: Site, say: Words) -> int:
    say.result.update(job=args.slug, url=f"{site.url}/jobs/{args.slug}/")
    return say.end(_wait(site, args.slug, args.wait or 0.0, say, is_asked=args.wait is not None))


def _check(_: argparse.Namespace, site: Site, say: Words) -> int:
    me = site.get("/me/").data
    say.result.update(me)
    roles, scopes = me["roles"], (me["token"] or {}).get("scopes", [])
    say.line(f"{site.url} knows {me['username']} ({', '.join(roles) or 'no role'}); the token may {', '.join(scopes)}.")
    if not {"upload", "read"} <= set(scopes):
        return say.end(DENIED, "The token needs the scopes upload and read: create another on the page API tokens.")
    return say.end(DONE)


def _wait(site: Site, slug: str, limit_s: float, say: Words, *, is_asked: bool = True) -> int:
    job = sending.wait(site, slug, limit_s=limit_s, tell=say.progress)
    if job is None:
        say.result["diagnosis"] = "running"
        say.line("The work on it is not finished.")
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
        say.line(f"#{row['number']} {row['headline']}\n  {_verdict(row)}  {site.url}{row['url']}")
    return DONE


def _verdict(row: dict[str, Any]) -> str:
    """The category and how sure it is; nothing is sure of an unknown one."""
    return "no category was found" if row["category"] == "unknown" else f"{row['category']}, {row['confidence']:.0%}"


def token_of(path: str | None, say: Words) -> str:
    """The token, from a file or the environment. Not an argument: every user of the machine could read it."""
    if not path and os.environ.get("FAULTLINE_TOKEN"):
        return os.environ["FAULTLINE_TOKEN"].strip()
    usual = Path(os.environ.get("XDG_CONFIG_HOME") or "~/.config").expanduser() / "faultline" / "token"
    chosen = Path(path or os.environ.get("FAULTLINE_TOKEN_FILE") or usual)
    try:
        text = chosen.read_text().strip()
        if os.name == "posix" and chosen.stat().st_mode & (stat.S_IRGRP | stat.S_IROTH):
            say.note(f"others can read {chosen}: chmod 600 it")
    except OSError as error:
        raise UsageError(
            f"There is no token: set FAULTLINE_TOKEN, or put it into {chosen} ({error.strerror})."
        ) from None
    if not re.fullmatch(r"[\x21-\x7e]+", text):
        raise UsageError(f"{chosen} has no token: write the line from the page API tokens into it.")
    return text


def _stop(_signal: int, _frame: Any) -> NoReturn:
    raise KeyboardInterrupt  # schedulers end long programs with SIGTERM


def run() -> NoReturn:
    command = server.command_of(sys.argv[1:])
    if command is not None:
        sys.exit(command())
    signal.signal(signal.SIGTERM, _stop)
    try:
        code = main()
        sys.stdout.flush()
    except BrokenPipeError:  # whoever reads the output has enough of it, as `head` has
        code = 128 + signal.SIGPIPE
    os._exit(code)  # threads that still wait for the site must not delay an epilog
