"""The report for a terminal: what failed, where, since when, the reasons, what to do. Log text is printed without
control characters.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from diagnosis.conclusion.model import Answer, symptom_of
from diagnosis.evidence import Suspect, decode
from diagnosis.evidence.decoding import ReportPart
from diagnosis.values.plain import percent

_MAX_EVENTS, _MAX_SUSPECTS, _MAX_LINES = 8, 6, 3
_MAX_NOTES, _MAX_LEFT_OUT = 12, 5
_MAX_TARGETS, _MAX_EVENT_CHARS = 5, 300


class ShownShare(msgspec.Struct, frozen=True):
    """A category with its probability."""

    id: str = ""
    p: float = 0.0


class ShownConclusion(Answer, frozen=True):
    """What is printed of a report's ``conclusion``."""

    alternatives: tuple[ShownShare, ...] = ()


class ShownAdvice(msgspec.Struct, frozen=True):
    """What is printed of an advice."""

    action: str = ""
    action_title: str = ""
    targets: tuple[str, ...] = ()
    because: tuple[str, ...] = ()
    command: str = ""


class ShownLine(msgspec.Struct, frozen=True):
    """The place of a line."""

    file: str = ""
    line: int = 0


class ShownEvent(msgspec.Struct, frozen=True):
    """What is printed of an event of the logs."""

    role: str = ""
    template: str = ""
    example: str = ""
    nodes: int = 0
    of_nodes: int = 0
    first_at: float | None = None
    lines: tuple[ShownLine, ...] = ()


class ShownLogs(msgspec.Struct, frozen=True):
    """What is printed of a report's ``logs``."""

    symptom: str = "none"
    stage: str = ""
    iteration: int | None = None
    events: tuple[ShownEvent, ...] = ()


class ShownStacks(msgspec.Struct, frozen=True):
    """What is printed of a report's ``stacks``."""

    notes: tuple[str, ...] = ()


class ShownInput(msgspec.Struct, frozen=True):
    """A file, and why it could not be used."""

    path: str = ""
    skipped: str = ""


class ShownReport(msgspec.Struct, frozen=True):
    """What is printed of a report."""

    headline: str = "No diagnosis."
    conclusion: ShownConclusion | None = None
    suspects: tuple[Suspect, ...] = ()
    logs: ShownLogs = ShownLogs()
    advice: ShownAdvice = ShownAdvice()
    stacks: ShownStacks = ShownStacks()
    missing: tuple[str, ...] = ()
    observed: tuple[str, ...] = ()
    inferred: tuple[str, ...] = ()
    inputs: tuple[ShownInput, ...] = ()


def _time(seconds: float | None) -> str:
    if seconds is None:
        return ""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")


def _safe(text: str) -> Text:
    """Text from logs: no markup, no control characters."""
    return Text(
        "".join(char if char.isprintable() or char == "\u00a0" else "\N{REPLACEMENT CHARACTER}" for char in text)
    )


def summarise(report: ReportPart, console: Console | None = None) -> None:
    """Prints the report for people."""
    out = console or Console()
    shown = decode(report, ShownReport)
    out.print(_safe(shown.headline), style="bold")
    if shown.conclusion is not None:
        _verdict(out, shown.conclusion, shown.logs)
    _suspects(out, shown.suspects)
    _events(out, shown.logs.events)
    _advice(out, shown.advice)
    _sentences(out, "Missing", shown.missing)
    _sentences(out, "Observed", shown.observed)
    _sentences(out, "Inferred", shown.inferred)
    _sentences(out, "Of the stacks", shown.stacks.notes[:_MAX_NOTES])
    _left_out(out, shown.inputs)


def _advice(out: Console, advice: ShownAdvice) -> None:
    """What to do, why, and the command for it."""
    if not advice.action:
        return
    targets = ", ".join(advice.targets[:_MAX_TARGETS])
    title = _safe(f"{advice.action_title or advice.action} {targets}".rstrip())
    out.print(Text("What to do  ", style="bold").append_text(title))
    for sentence in advice.because:
        out.print(Text("            ").append_text(_safe(sentence)), style="dim")
    if advice.command:
        out.print(Text("            ").append_text(_safe(advice.command)))


def _sentences(out: Console, title: str, sentences: Iterable[str]) -> None:
    for sentence in sentences:
        out.print(Text(f"{title}  ", style="dim").append_text(_safe(sentence)))


def _left_out(out: Console, inputs: Iterable[ShownInput]) -> None:
    """The files that could not be used."""
    skipped = [one for one in inputs if one.skipped]
    for one in skipped[:_MAX_LEFT_OUT]:
        reason = _safe(f"{one.path}: {one.skipped}")
        out.print(Text("Left out  ", style="yellow").append_text(reason))
    rest = len(skipped) - _MAX_LEFT_OUT
    if rest > 0:
        out.print(Text(f"Left out  {rest} more files", style="yellow"))


def _verdict(out: Console, conclusion: ShownConclusion, logs: ShownLogs) -> None:
    """Condition, category with its alternative, and the moment: of all evidence, as everywhere else."""
    shares = [f"{share.id} ({percent(share.p)})" for share in conclusion.alternatives[:2]]
    moment = conclusion.moment
    words = (symptom_of(conclusion, logs.symptom), moment.stage or logs.stage)
    parts = [conclusion.condition or "unknown", " · or ".join(shares)]
    parts += [word for word in words if word != "none"]
    iteration = logs.iteration if moment.iteration is None else moment.iteration
    if iteration is not None:
        parts.append(f"iteration {iteration:,}")
    out.print(_safe(" · ".join(filter(None, parts))))


def _suspects(out: Console, suspects: Sequence[Suspect]) -> None:
    if not suspects:
        return
    table = Table(title="Where", title_justify="left", box=None, padding=(0, 2, 0, 0))
    for name in ("", "suspect", "score", "why"):
        table.add_column(name, justify="right" if name == "score" else "left", overflow="fold")
    for one in suspects[:_MAX_SUSPECTS]:
        mark = "●" if one.is_suspect else "○"
        table.add_row(mark, _safe(one.entity), f"{one.score:.2f}", _safe("; ".join(one.reasons)))
    out.print(table)


def _events(out: Console, events: Sequence[ShownEvent]) -> None:
    if not events:
        return
    table = Table(title="Why", title_justify="left", box=None, padding=(0, 2, 0, 0))
    for name in ("role", "since (UTC)", "nodes", "event"):
        table.add_column(name, overflow="fold")
    for event in events[:_MAX_EVENTS]:
        text = _safe(event.example or event.template)
        text.truncate(_MAX_EVENT_CHARS, overflow="ellipsis")
        for line in event.lines[:_MAX_LINES]:
            text.append(f"\n{line.file}:{line.line}", style="dim")
        nodes = f"{event.nodes}/{event.of_nodes}" if event.of_nodes else str(event.nodes)
        table.add_row(event.role, _time(event.first_at), nodes, text)
    out.print(table)
