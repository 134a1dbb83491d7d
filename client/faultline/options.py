"""The command line: commands, options, and the description of a job."""

from __future__ import annotations

import argparse
import os
import re
import time
from typing import Any

from faultline import __version__, files, taking
from faultline.server import COMMANDS
from faultline.words import CODES, UsageError


def parser() -> argparse.ArgumentParser:
    ends = f"{CODES}\n\nwhere the site is installed: faultline {{{','.join(COMMANDS)}}} (faultline serve --help)"
    made = argparse.ArgumentParser(prog="faultline", epilog=ends, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--version", action="version", version=__version__)
    commands = made.add_subparsers(dest="command", required=True, metavar="COMMAND")
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--url", default=os.environ.get("FAULTLINE_URL", ""), help="the site; default: FAULTLINE_URL")
    common.add_argument(
        "--token-file",
        help="file with the token; default: FAULTLINE_TOKEN, FAULTLINE_TOKEN_FILE, ~/.config/faultline/token",
    )
    common.add_argument("--ca-file", help="certificates to trust instead of the system's")
    common.add_argument(
        "--retry-for",
        type=float,
        default=900,
        metavar="S",
        help="how long to retry if the site is unreachable or busy; default: 900",
    )
    common.add_argument("--quiet", "-q", action="store_true", help="print only errors")
    common.add_argument("--json", action="store_true", help="print one JSON object to standard output")

    def command(name: str, meaning: str) -> argparse.ArgumentParser:
        shape = argparse.RawDescriptionHelpFormatter
        return commands.add_parser(name, help=meaning, epilog=CODES, formatter_class=shape, parents=[common])

    upload = command("upload", "send the evidence of a job")
    upload.add_argument("paths", nargs="+", metavar="PATH", help="directories, files, archives")
    upload.add_argument(
        "--job", required=True, metavar="NAME", help="the job's name; a repeated upload sends only missing files"
    )
    upload.add_argument("--slug", help="the job's id in addresses; default: made from the name")
    upload.add_argument("--attempt", type=int, default=0, metavar="N", help="launch of the job, counted from 0")
    upload.add_argument(
        "--prefix", default="", metavar="P", help="put this before each file's name, for instance $(hostname)/"
    )
    upload.add_argument("--exclude", action="append", default=[], metavar="GLOB", help="files to skip; repeatable")
    upload.add_argument("--follow", action="store_true", help="also send targets of links outside the directory")
    upload.add_argument("--parallel", type=int, default=4, metavar="N", help="files at a time; default: 4")
    _description_options(upload)
    upload.add_argument("--diagnose", action="store_true", help="diagnose as soon as the evidence is read")
    _wait_options(upload)

    follow = command("follow", "send files of a running job as they grow")
    follow.add_argument("paths", nargs="+", metavar="PATH", help="directories and files")
    _growing_file_options(follow)
    follow.add_argument("--once", action="store_true", help="send the current content and leave the uploads open")
    follow.add_argument("--state", metavar="FILE", help="records what was sent; default: in ~/.local/state/faultline")

    launch = command("run", "start a program and follow what it prints: faultline run --job NAME -- torchrun …")
    launch.add_argument("paths", nargs="*", metavar="PATH", help="directories of further logs to follow")
    _growing_file_options(launch)
    launch.add_argument("--output", metavar="FILE", help="store the program's output here; default: a temporary file")

    _watch_options(command("watch", "send the state of a scheduler's jobs, or what exporters count about nodes"))

    _answer_options(
        command("attribution", "tell a restart controller (NVRx) whether to restart, and without which machines")
    )

    status = command("status", "show the state of a job")
    status.add_argument("slug")
    _wait_options(status)

    command("check", "check that site and token work")
    return made


def _wait_options(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--wait",
        nargs="?",
        type=float,
        const=3600.0,
        metavar="S",
        help="wait for the diagnosis, at most S seconds; default: 3600",
    )


def _growing_file_options(command: argparse.ArgumentParser) -> None:
    """Options for growing files."""
    command.add_argument("--job", required=True, metavar="NAME", help="the job's name")
    command.add_argument("--slug", help="the job's id in addresses; default: made from the name")
    command.add_argument("--attempt", type=int, default=0, metavar="N", help="launch of the job, counted from 0")
    command.add_argument("--prefix", default="", metavar="P", help="put this before each file's name: $(hostname)/")
    command.add_argument("--include", action="append", default=[], metavar="GLOB", help="follow these files only")
    command.add_argument("--exclude", action="append", default=[], metavar="GLOB", help="files to skip; repeatable")
    command.add_argument("--every", type=float, default=2.0, metavar="S", help="seconds between looks; default: 2")
    command.add_argument(
        "--rate", type=float, default=0.0, metavar="B", help="maximum bytes per second; default: no limit"
    )
    command.add_argument(
        "--take",
        choices=taking.KINDS,
        help="stacks: when the job hangs and the site asks for it, send py-spy dumps of this machine's processes",
    )
    _description_options(command)


def _watch_options(command: argparse.ArgumentParser) -> None:
    """Options for watching jobs and nodes."""
    command.add_argument("scheduler", choices=("slurm", "kubernetes", "prometheus"))
    command.add_argument("--every", type=float, default=30.0, metavar="S", help="seconds between looks; default: 30")
    command.add_argument("--once", action="store_true", help="look once, for a timer")
    command.add_argument("--all", action="store_true", help="also make jobs that the site does not have")
    command.add_argument("--name", default="*", metavar="GLOB", help="only jobs of these names")
    command.add_argument("--prefix", default="", metavar="P", help="put this before the scheduler's id")
    command.add_argument("--cluster", help="slug of the cluster")
    command.add_argument("--namespace", default="", metavar="N", help="Kubernetes: only this namespace")
    command.add_argument("--server", metavar="URL", help="Prometheus: its address, http://prometheus:9090")
    command.add_argument("--objects", metavar="FILE", help="Kubernetes: objects that kubectl wrote as JSON; - is stdin")
    command.add_argument("--state", metavar="FILE", help="stores what was sent; default: only in memory")


def _answer_options(command: argparse.ArgumentParser) -> None:
    """Options for answering restart controllers."""
    command.add_argument("paths", nargs="+", metavar="DIRECTORY", help="logs in these directories may be read")
    command.add_argument(
        "--listen", default="127.0.0.1:8000", metavar="A", help="loopback address or unix:///path; default: %(default)s"
    )
    command.add_argument(
        "--deadline", type=float, default=120.0, metavar="S", help="answer TIMEOUT after this; default: 120"
    )
    command.add_argument(
        "--settle", type=float, default=5.0, metavar="S", help="a log is complete when quiet for this; default: 5"
    )
    command.add_argument("--prefix", default="", metavar="P", help="put this before the controller's job id")
    command.add_argument("--cluster", help="slug of the cluster")


def _description_options(command: argparse.ArgumentParser) -> None:
    """Options that describe the job."""
    for name, meaning in (
        ("cluster", "slug of the cluster"),
        ("family", "pool of comparable jobs"),
        ("framework", "megatron, deepspeed, …"),
        ("model", "what is trained"),
        ("comment", "a remark"),
        ("time-zone", "zone of time stamps without one, such as Europe/Berlin"),
        ("started", "when it started, ISO 8601 or seconds since 1970"),
        ("ended", "when it ended"),
        ("nodes", "names, comma separated; gpu[01-16] is expanded"),
    ):
        command.add_argument(f"--{name}", help=meaning)
    command.add_argument("--outcome", choices=("unknown", "running", "succeeded", "failed", "cancelled"))


def fields_of(args: argparse.Namespace) -> dict[str, Any]:
    name = " ".join(args.job.split())
    slug = args.slug or re.sub(r"[^a-z0-9_]+", "-", name.lower()).strip("-")[:100]
    if not name or not slug or not re.fullmatch(r"[A-Za-z0-9_-]{1,120}", slug):
        raise UsageError("Give the job a --slug of letters, digits, - and _, at most 120.")
    fields: dict[str, Any] = {"name": name[:200], "slug": slug}
    for key in ("cluster", "family", "framework", "model", "comment", "time_zone", "outcome"):
        if getattr(args, key):
            fields[key] = getattr(args, key)
    for key, said in (("started_at", args.started), ("ended_at", args.ended)):
        if said:
            fields[key] = _moment(said)
    if args.nodes:
        fields["nodes"] = files.nodes_of(args.nodes)
    return fields


def _moment(text: str) -> str:
    if re.fullmatch(r"\d{9,11}(\.\d+)?", text):
        return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(float(text)))
    return text
