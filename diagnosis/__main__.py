"""The engine without a server: ``python -m diagnosis PATH…``, ``python -m diagnosis learn …``, ``python -m
diagnosis templates …``.
"""

# Each command imports what it needs: --help and errors should not wait for the engine.
# ruff: noqa: PLC0415
from __future__ import annotations

import argparse
import csv
import gc
import json
import os
import shutil
import sys
import tempfile
import traceback
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from diagnosis.command.batch import Line
    from diagnosis.history import History
    from diagnosis.kinds.logs.meaning.signatures import SignatureSet
    from diagnosis.model import OnStage
    from diagnosis.values.json_values import JsonObject

    type _Given = tuple[History | None, SignatureSet | None]

EXIT_DIAGNOSED, EXIT_FAILED, EXIT_UNUSABLE, EXIT_SUSPECT = 0, 1, 2, 3
#: Of a process that analyses flows: a piece of records needs more, and no machine has as much.
MIN_MEMORY_MB, MAX_MEMORY_MB = 64, 1 << 24
_COMMANDS = ("learn", "templates", "formats", "diagnose")


class UsageError(Exception):
    """Unusable arguments or evidence; the message says what to do."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}. `python -m diagnosis --help` lists what it takes.")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="python -m diagnosis", description="Diagnose a training job from its evidence.")
    commands = parser.add_subparsers(dest="command", required=True)
    diagnose = commands.add_parser("diagnose", help="what failed, where, since when (the default command)")
    diagnose.add_argument(
        "paths", nargs="+", type=Path, metavar="PATH", help="a directory, an archive, a log, a flow file, a stack dump"
    )
    diagnose.add_argument("--history", type=Path, help="event table of healthy jobs, made by `learn`")
    diagnose.add_argument("--inventory", type=Path, help="nodes of the job: JSON or CSV (ip,node,gpu,leaf)")
    diagnose.add_argument("--layout", type=Path, help="parallel layout: JSON with tp, pp, dp, order, node of each rank")
    diagnose.add_argument("--rules", type=Path, help="your own signatures (TOML), asked before the built-in ones")
    diagnose.add_argument(
        "--as-of", type=_time, metavar="TIME", help="when the evidence was taken: ISO 8601 or seconds"
    )
    diagnose.add_argument("--time-zone", default="UTC", help="of time stamps that name none (default UTC)")
    diagnose.add_argument(
        "--memory-mb",
        type=_megabytes,
        default=0,
        metavar="MB",
        help="of each process that analyses flows; beyond it they are left out (default: any)",
    )
    diagnose.add_argument("--json", action="store_true", help="print the report as one JSON object")
    diagnose.add_argument(
        "--batch", action="store_true", help="each file or directory in PATH is a job of its own; prints a line each"
    )
    diagnose.add_argument("--fail-on-suspect", action="store_true", help=f"exit {EXIT_SUSPECT} when a suspect is named")
    learn = commands.add_parser("learn", help="add healthy jobs to a history file")
    learn.add_argument("paths", nargs="+", type=Path, metavar="PATH", help="one healthy job each")
    learn.add_argument("--out", type=Path, required=True, metavar="FILE", help="updated if it exists")
    learn.add_argument("--family", default="", help="the pool of comparable jobs")
    templates = commands.add_parser("templates", help="the template of every line of one file, as CSV")
    templates.add_argument("path", type=Path, metavar="PATH")
    templates.add_argument("--out", type=Path, required=True, metavar="FILE.csv")
    commands.add_parser("formats", help="the table of all formats that are read, as Markdown")
    return parser


def _megabytes(text: str) -> int:
    """The number of ``--memory-mb``."""
    if not text.isdecimal() or not MIN_MEMORY_MB <= int(text) <= MAX_MEMORY_MB:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from {MIN_MEMORY_MB} on")
    return int(text)


def _time(text: str) -> float:
    """Seconds since the epoch of ``--as-of``."""
    try:
        return float(text)
    except ValueError:
        pass
    try:
        at = datetime.fromisoformat(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no time; give one such as 2026-03-01T12:00:00Z") from error
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; returns its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given and given[0] not in (*_COMMANDS, "-h", "--help"):
        given.insert(0, "diagnose")
    work = Path(tempfile.mkdtemp(prefix="faultline-"))
    try:
        options = _parser().parse_args(given)
        commands = {"diagnose": _diagnose, "learn": _learn, "templates": _templates, "formats": _formats}
        return commands[options.command](options, work)
    except (UsageError, FileNotFoundError) as error:
        from diagnosis.values.plain import visible

        print(visible(f"diagnosis: {error}"), file=sys.stderr)
        return EXIT_UNUSABLE
    except BrokenPipeError:
        return EXIT_DIAGNOSED
    except BaseException as error:
        from diagnosis.processing import faults

        if not faults.is_fault(error):
            raise
        traceback.print_exc()
        print(f"diagnosis: the analysis failed ({faults.error_text(error)}); please report it.", file=sys.stderr)
        return EXIT_FAILED
    finally:
        shutil.rmtree(work, ignore_errors=True)


def leave(code: int) -> NoReturn:
    """Ends the process without taking its libraries apart, which takes as long as reading a small log. One that has
    processes of its own waits for them.
    """
    import multiprocessing

    if multiprocessing.active_children():
        sys.exit(code)
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except BrokenPipeError:
        code = EXIT_DIAGNOSED
    os._exit(code)


def _diagnose(options: argparse.Namespace, work: Path) -> int:
    given = _given(options)
    if options.batch:
        return _diagnose_batch(options, given, work)
    with _progress() as progress:
        data, is_accused = _report(options.paths, options, given, work, progress)
    if options.json:
        print(json.dumps(data, ensure_ascii=False, allow_nan=False))  # in one go: dump() writes each word by itself
    else:
        from diagnosis.command.terminal import summarise

        summarise(data)
    return EXIT_SUSPECT if options.fail_on_suspect and is_accused else EXIT_DIAGNOSED


def _diagnose_batch(options: argparse.Namespace, given: _Given, work: Path) -> int:
    """A line for each job: its name and its sentence, or its report. A job that cannot be read has a line that says
    why, and the exit code tells that there is one.
    """
    from diagnosis.command import batch

    _load_engine()
    gc.freeze()  # what is loaded stays: no search for cycles looks at it again
    is_unusable, is_any_accused = False, False
    jobs = _jobs_in(options.paths)
    for line in batch.lines(jobs, partial(_batch_line, options=options, given=given, work=work)):
        is_unusable |= line.is_unusable
        is_any_accused |= line.is_accused
        print(line.text, flush=True)
    if is_unusable:
        return EXIT_UNUSABLE
    return EXIT_SUSPECT if options.fail_on_suspect and is_any_accused else EXIT_DIAGNOSED


def _batch_line(job: Path, options: argparse.Namespace, given: _Given, work: Path) -> Line:
    from diagnosis.command.batch import Line
    from diagnosis.model import ignore_progress
    from diagnosis.values.plain import visible

    data: JsonObject
    is_unusable, is_accused = False, False
    place = Path(tempfile.mkdtemp(prefix="job-", dir=work))
    try:
        data, is_accused = _report([job], options, given, place, ignore_progress)
    except BaseException as error:  # one job must not stop the others
        data = {"headline": _reason(error)}
        is_unusable = True
    shutil.rmtree(place, ignore_errors=True)
    report = json.dumps({"name": job.name, **data}, ensure_ascii=False, allow_nan=False)
    text = report if options.json else visible(f"{job.name}: {data['headline']}")
    return Line(text, is_unusable, is_accused)


def _reason(error: BaseException) -> str:
    """Why a job of a batch has no diagnosis. Raises what no job caused."""
    from diagnosis.processing import faults

    if isinstance(error, (UsageError, FileNotFoundError)):
        return str(error)
    if faults.is_of_machine(error) or not faults.is_fault(error):
        raise error
    return f"The analysis failed ({faults.error_text(error)}); please report it."


def _jobs_in(folders: Sequence[Path]) -> list[Path]:
    """What is in the folders, by name. Hidden files are no jobs."""
    for folder in folders:
        if not folder.is_dir():
            raise UsageError(f"{folder} is no directory: with --batch, give a directory that holds the jobs")
    jobs = [path for folder in folders for path in sorted(folder.iterdir()) if not path.name.startswith(".")]
    if not jobs:
        raise UsageError("there is no job in the directory: put a file or a directory for each into it")
    return jobs


def _report(
    paths: Sequence[Path], options: argparse.Namespace, given: _Given, work: Path, on_stage: OnStage
) -> tuple[JsonObject, bool]:
    """The report of one job, and whether it accuses anybody. Raises ``UsageError`` if nothing of it can be read."""
    from diagnosis.files import gathering, parse_pool
    from diagnosis.model import ParseHints

    history, rules = given
    extra = [path for path in (options.inventory, options.layout) if path is not None]
    hints = ParseHints(time_zone=options.time_zone)
    found = gathering.gather([*paths, *extra], work, hints=hints, on_stage=on_stage, meanwhile=_load_engine)
    if not any(gathering.is_readable(parsed) for parsed in found.parsed):
        raise UsageError(_nothing_found(found))
    from diagnosis import pipeline, report, runners
    from diagnosis.processing import budgets

    with runners.Processes(parse_pool.processes(), options.memory_mb << 20) as runner:
        diagnosis = pipeline.diagnose(
            found.parsed,
            history=history,
            as_of=options.as_of,
            read=found.read,
            rules=rules,
            on_stage=on_stage,
            scratch=work / "columns",
            runner=runner,
            aside=parse_pool.aside,
            alarm=budgets.CpuAlarm(),
        )
    found.close()
    parse_pool.end_aside()
    data = report.to_json(diagnosis)
    data["inputs"] += [
        {"path": path, "kind": "other", "sha256": "", "lines": 0, "skipped": why} for path, why in found.problems
    ]
    return data, any(suspect["suspect"] for suspect in data["suspects"])


def _given(options: argparse.Namespace) -> _Given:
    """The history and the rules that the arguments name."""
    history, rules = None, None
    try:
        if options.history:
            from diagnosis.history import History

            history = History.load(options.history)
        if options.rules:
            from diagnosis.kinds.logs.meaning import signatures

            rules = signatures.load_with([options.rules.read_text(encoding="utf-8")])
    except ValueError as error:  # also what the two raise
        raise UsageError(str(error)) from error
    return history, rules


def _load_engine() -> None:
    """Loads what the diagnosis needs."""
    from diagnosis import pipeline, report  # noqa: F401  # imported only so that they are loaded
    from diagnosis.kinds.logs.classifying import classify_model
    from diagnosis.kinds.logs.meaning import signatures

    signatures.load()
    classify_model.starter()


def _progress() -> AbstractContextManager[OnStage]:
    """Draws the progress in a terminal; otherwise the drawing library is not loaded."""
    if not sys.stderr.isatty():
        from diagnosis.model import ignore_progress

        return nullcontext(ignore_progress)
    from diagnosis.command.terminal_progress import Progress

    return Progress()


def _learn(options: argparse.Namespace, work: Path) -> int:
    from diagnosis import history, learning
    from diagnosis.files import gathering

    try:
        pool = history.History.load(options.out) if options.out.exists() else history.History()
    except history.HistoryError as error:
        raise UsageError(str(error)) from error
    for number, path in enumerate(options.paths):
        place = work / f"job-{number}"
        place.mkdir()
        found = gathering.gather([path], place)
        if not any(gathering.is_readable(parsed) for parsed in found.parsed):
            raise UsageError(f"{path}: {_nothing_found(found)}")
        name = path.resolve().name.split(".")[0]
        pool = pool.add(learning.learn(found.parsed, job_id=name, family=options.family))
        shutil.rmtree(place, ignore_errors=True)
    pool.save(options.out)
    print(f"{options.out}: {len(pool.jobs)} healthy jobs", file=sys.stderr)
    return EXIT_DIAGNOSED


def _formats(options: argparse.Namespace, work: Path) -> int:
    from diagnosis.kinds import format_table

    print(format_table.as_markdown(), end="")
    return EXIT_DIAGNOSED


def _templates(options: argparse.Namespace, work: Path) -> int:
    import polars as pl

    from diagnosis.files.parsing import parse
    from diagnosis.kinds.logs.rows import templates
    from diagnosis.model import Kind, ParseHints

    if not options.path.is_file():
        raise UsageError(f"{options.path} is not a file: templates are listed for one log")
    with options.path.open("rb") as stream:
        parsed = parse(stream, options.path.name, ParseHints(kind=Kind.LOG), work)
    if parsed.columns is None or parsed.uniques is None:
        raise UsageError(f"{options.path}: {parsed.skipped}")
    texts = dict(pl.read_parquet(parsed.uniques, columns=["masked", "text"]).iter_rows())
    template_of = templates.of_texts(texts.values())
    id_of = {text: masked for masked, text in texts.items()}
    lines = pl.read_parquet(parsed.columns, columns=["line", "masked"])
    with options.out.open("w", encoding="utf-8", newline="") as out:
        table = csv.writer(out)
        table.writerow(("line", "template_id", "template"))
        for line, masked in lines.iter_rows():
            template = template_of[texts[masked]]
            table.writerow((line, f"{id_of[template]:016x}", template))
    return EXIT_DIAGNOSED


def _nothing_found(found: object) -> str:
    """Why there is nothing to diagnose, with the first reasons."""
    from diagnosis.files.gathering import Evidence

    assert isinstance(found, Evidence)
    reasons = [f"{parsed.path}: {parsed.skipped}" for parsed in found.parsed if parsed.skipped]
    reasons += [f"{path}: {why}" for path, why in found.problems]
    shown = "; ".join(reasons[:3]) or "there is no file in it"
    return f"nothing to diagnose: {shown} Give text logs, flow records or stack dumps."


if __name__ == "__main__":
    # Many files are read by several processes, and most tables are small: threads of the column library and of linear
    # algebra would take more processor time, and wait for each other. The libraries read this when they are loaded.
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # The search for cycles finds none in loaded modules, and would look at all of them again and again.
    gc.set_threshold(200_000, 50, 50)
    leave(main())
