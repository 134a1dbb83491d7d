"""The report for a terminal: what failed, where, since when, the reasons, what to do. Log text is printed without
control characters.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
from rich.progress import Progress as Bar
from rich.table import Table
from rich.text import Text

from diagnosis.conclusion.model import Answer, symptom_of
from diagnosis.evidence import decode
from diagnosis.plain import percent

_MAX_EVENTS, _MAX_SUSPECTS, _MAX_LINES = 8, 6, 3
_MAX_NOTES, _MAX_LEFT_OUT = 12, 5


class Progress:
    """An ``OnStage`` that draws on standard error, only in a terminal."""

    def __init__(self) -> None:
        console = Console(stderr=True)
        self._bar = Bar(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._tasks: dict[str, Any] = {}

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def __call__(self, stage: str, done: int, total: int) -> None:
        if stage not in self._tasks:
            self._tasks[stage] = self._bar.add_task(stage, total=max(total, 1))
        self._bar.update(self._tasks[stage], completed=done, total=max(total, 1))


def _time(seconds: Any) -> str:
    if not isinstance(seconds, (int, float)):
        return ""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")


def _safe(value: Any) -> Text:
    """Text from logs: no markup, no control characters."""
    text = str(value)
    return Text(
        "".join(char if char.isprintable() or char == "\u00a0" else "\N{REPLACEMENT CHARACTER}" for char in text)
    )


def summarise(report: dict[str, Any], console: Console | None = None) -> None:
    """Prints the report for people."""
    out = console or Console()
    out.print(_safe(report.get("headline") or "No diagnosis."), style="bold")
    logs = report.get("logs") or {}
    if report.get("conclusion"):
        _verdict(out, report["conclusion"], logs)
    _suspects(out, report.get("suspects") or [])
    _events(out, logs.get("events") or [])
    _advice(out, report.get("advice") or logs.get("advice") or {})
    for title, key in (("Missing", "missing"), ("Observed", "observed"), ("Inferred", "inferred")):
        _sentences(out, title, report.get(key) or [])
    stacks = report.get("stacks") or {}
    _sentences(out, "Of the stacks", (stacks.get("notes") or [])[:_MAX_NOTES])
    _left_out(out, report.get("inputs") or [])


def _advice(out: Console, advice: dict[str, Any]) -> None:
    """What to do, why, and the command for it."""
    if not advice.get("action"):
        return
    title = _safe(advice.get("action_title") or advice["action"])
    head = Text("What to do  ", style="bold").append_text(title)
    out.print(head.append_text(_safe(_targets(advice))))
    for sentence in advice.get("because") or []:
        out.print(Text("            ").append_text(_safe(sentence)), style="dim")
    if advice.get("command"):
        out.print(Text("            ").append_text(_safe(advice["command"])))


def _sentences(out: Console, title: str, sentences: Iterable[str]) -> None:
    for sentence in sentences:
        out.print(Text(f"{title}  ", style="dim").append_text(_safe(sentence)))


def _left_out(out: Console, inputs: Iterable[dict[str, Any]]) -> None:
    """The files that could not be used."""
    skipped = [one for one in inputs if one.get("skipped")]
    for one in skipped[:_MAX_LEFT_OUT]:
        reason = _safe(f"{one['path']}: {one['skipped']}")
        out.print(Text("Left out  ", style="yellow").append_text(reason))
    rest = len(skipped) - _MAX_LEFT_OUT
    if rest > 0:
        out.print(Text(f"Left out  {rest} more files", style="yellow"))


def _targets(advice: dict[str, Any]) -> str:
    targets = advice.get("targets") or []
    return f" {', '.join(map(str, targets[:5]))}" if targets else ""


def _verdict(out: Console, conclusion: dict[str, Any], logs: dict[str, Any]) -> None:
    """Condition, category with its alternative, and the moment: of all evidence, as everywhere else."""
    parts = [str(conclusion.get("condition") or "unknown")]
    shares = conclusion.get("alternatives") or []
    parts += [f"{'or ' if k else ''}{one['id']} ({percent(float(one['p']))})" for k, one in enumerate(shares[:2])]
    symptom = symptom_of(decode(conclusion, Answer), str(logs.get("symptom") or "none"))
    moment = conclusion.get("moment") or {}
    parts += [str(word) for word in (symptom, moment.get("stage") or logs.get("stage")) if word and word != "none"]
    iteration = moment.get("iteration") if moment.get("iteration") is not None else logs.get("iteration")
    if iteration is not None:
        parts.append(f"iteration {iteration:,}")
    out.print(_safe(" · ".join(parts)))


def _suspects(out: Console, suspects: list[dict[str, Any]]) -> None:
    if not suspects:
        return
    table = Table(title="Where", title_justify="left", box=None, padding=(0, 2, 0, 0))
    for name in ("", "suspect", "score", "why"):
        table.add_column(name, justify="right" if name == "score" else "left", overflow="fold")
    for one in suspects[:_MAX_SUSPECTS]:
        mark = "●" if one.get("suspect", True) else "○"
        reasons = "; ".join(map(str, one.get("reasons") or []))
        table.add_row(mark, _safe(one.get("entity")), f"{float(one.get('score') or 0):.2f}", _safe(reasons))
    out.print(table)


def _events(out: Console, events: list[dict[str, Any]]) -> None:
    if not events:
        return
    table = Table(title="Why", title_justify="left", box=None, padding=(0, 2, 0, 0))
    for name in ("role", "since (UTC)", "nodes", "event"):
        table.add_column(name, overflow="fold")
    for event in events[:_MAX_EVENTS]:
        text = _safe(event.get("example") or event.get("template"))
        text.truncate(300, overflow="ellipsis")
        for line in (event.get("lines") or [])[:_MAX_LINES]:
            text.append(f"\n{line.get('file')}:{line.get('line') or line.get('start')}", style="dim")
        nodes = (
            f"{event.get('nodes', '')}/{event['of_nodes']}" if event.get("of_nodes") else str(event.get("nodes", ""))
        )
        table.add_row(str(event.get("role")), _time(event.get("first_at")), nodes, text)
    out.print(table)
