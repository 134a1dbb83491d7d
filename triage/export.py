"""Incidents as CSV and as Markdown; any table as CSV."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

from diagnosis import taxonomy
from diagnosis.values.plain import csv_cell, percent
from triage.models import Incident
from triage.selectors.advice import advice_now, tried_acts, tried_words
from triage.selectors.incident import IncidentView, SuspectView, log_url

CSV_COLUMNS = (
    *("incident", "headline", "job", "attempt", "cluster", "team", "state", "category", "machine_category"),
    *("confidence", "condition", "symptom", "stage", "iteration", "nodes", "accused", "happened_at", "opened_at"),
    *("reviewed_at", "resolved_at", "gpu_hours_lost", "assignee", "fingerprint", "is_imported"),
)


class _Echo:
    """The target of csv.writer: returns each line, so that rows are streamed."""

    def write(self, line: str) -> str:
        return line


def csv_lines(columns: Iterable[str], rows: Iterable[Iterable[Any]]) -> Iterator[str]:
    """Lines of a CSV file without active content.

    Cells that a spreadsheet would read as a formula get an apostrophe first; control characters become visible signs.
    """
    writer = csv.writer(_Echo())
    yield writer.writerow(columns)
    for row in rows:
        yield writer.writerow([_cell(value) for value in row])


def _cell(value: Any) -> Any:
    if isinstance(value, float) and math.isnan(value):
        return ""  # unknown
    return csv_cell(value)


def csv_row(incident: Incident) -> list[Any]:
    """One incident in the order of CSV_COLUMNS. Needs job, attempt, cluster, team and assignee selected."""
    return [
        incident.pk,
        incident.headline,
        incident.job.slug,
        incident.attempt.number,
        incident.cluster.slug,
        incident.team.slug if incident.team else "",
        incident.state,
        incident.standing_category,
        "" if incident.is_imported else incident.category,
        "" if incident.is_imported else f"{incident.confidence:.3f}",
        incident.condition,
        incident.symptom,
        incident.stage,
        incident.iteration,
        incident.node_count,
        " ".join(incident.accused),
        incident.happened_at.isoformat(),
        incident.opened_at.isoformat(),
        incident.reviewed_at.isoformat() if incident.reviewed_at else "",
        incident.resolved_at.isoformat() if incident.resolved_at else "",
        f"{incident.gpu_hours:.2f}" if incident.gpu_hours is not None else "",
        incident.assignee.get_username() if incident.assignee else "",
        incident.fingerprint,
        "yes" if incident.is_imported else "",
    ]


def markdown(view: IncidentView, base_url: str) -> str:
    """The incident for a chat or ticket: verdict, suspects, evidence with permalinks, advice, decisions of people."""
    incident, tree = view.incident, taxonomy.load()
    job = incident.job
    lines = [
        f"## #{incident.pk} {_escape_markup(incident.headline)}",
        "",
        f"{base_url}/incidents/{incident.pk}/",
        "",
        f"- Job: {_escape_markup(job.name)} ({job.slug}), attempt {incident.attempt.number}, "
        f"{incident.node_count or '?'} nodes",
        f"- State: {incident.get_state_display()}",
        *_machine(incident),
    ]
    if incident.condition:
        lines.append(f"- Condition: {incident.condition}")
    lines += [f"- {_escape_markup(sentence)}" for sentence in view.disagreements]
    if job.outcome_note:
        lines.append(f"- {job.outcome_note}")
    if incident.runner_up:
        lines.append(
            f"- Runner-up: {' › '.join(tree.path(incident.runner_up))} ({percent(incident.runner_up_confidence or 0)})"
        )
    if view.category.word:
        word = view.category.word
        lines.append(
            f"- Human: {word.get_word_display()} by {word.made_by.get_username()}: {_escape_markup(word.value or '')}"
        )
    lines += [f"- Happened: {incident.happened_at:%Y-%m-%d %H:%M:%S} UTC", ""]
    if view.suspects:
        lines += ["### Suspects", ""]
        for suspect in view.suspects[:10]:
            reasons = "; ".join(_escape_markup(reason) for reason in suspect.row.reasons)
            name = f"**{_escape_markup(suspect.row.entity)}**"
            lines.append(f"1. {name} ({suspect.row.score:.2f}{_word_of(suspect)}) {reasons}")
        lines.append("")
    if view.findings:
        lines += ["### Evidence", ""]
        for finding in view.findings[:10]:
            lines.append(
                f"- {finding.role}, {finding.count:,}×, on {finding.nodes} of {finding.of_nodes or '?'} nodes: "
            )
            lines.append(f"  `{(finding.example or finding.template)[:300].replace('`', chr(39)).strip()}`")
            for ref in finding.lines[:2]:
                url = log_url(job.slug, incident.attempt.number, ref.get("file", ""), ref.get("line"))
                lines.append(f"  {base_url}{url}")
        lines.append("")
    lines += [*_advice(view), *_list("Missing evidence", view.report.get("missing") or []), *_activity_lines(view)]
    return "\n".join(lines)


def _word_of(suspect: SuspectView) -> str:
    """What a person said of a suspect, after its score."""
    word = suspect.word
    if word is None:
        return ""
    instead = f" to {_escape_markup(word.value)}" if word.value else ""
    return f", {word.get_word_display().lower()}{instead} by {word.made_by.get_username()}"


def _machine(incident: Incident) -> list[str]:
    """The machine's category and confidence. An imported record is not the machine's."""
    path = " › ".join(taxonomy.load().path(incident.category)) or incident.category
    if incident.is_imported:
        return [f"- Imported record: {path}"]
    is_current = incident.standing_category == incident.category
    who = "Machine" if is_current else "Machine's former opinion"
    is_named = incident.category != taxonomy.UNKNOWN
    if not is_named:
        return [f"- {who}: no category was found"]
    return [f"- {who}: {path} ({percent(incident.confidence)})"]


def _advice(view: IncidentView) -> list[str]:
    """What to do now, how, and what was tried: the advice as on the page, after failed actions."""
    tried = tried_acts(view.incident, view.activities)
    advice = advice_now(view.report, tried, view.decisions)
    if not advice.get("action") or advice["action"] == "none":
        return []
    title = str(advice.get("action_title") or advice["action"]).replace("_", " ")
    targets = ", ".join(_escape_markup(str(name)) for name in advice.get("targets") or [])
    lines = ["### Advice", "", f"**{_escape_markup(title)}** {targets}".rstrip()]
    lines += [f"- {_escape_markup(str(sentence))}" for sentence in advice.get("because") or []]
    for command in (advice.get("commands") or {}).values():
        lines += ["", "```", str(command).replace("```", "` ` `"), "```"]
    if tried:
        lines += ["", "Tried before:", ""]
        lines += [
            f"- {act.row.at:%Y-%m-%d %H:%M} {_escape_markup(tried_words(act.row.kind, act.row.data))}" for act in tried
        ]
    return [*lines, ""]


def _activity_lines(view: IncidentView) -> list[str]:
    """What people did and wrote, oldest first, with reasons."""
    sentences = []
    for entry in view.entries:
        row = entry["row"]
        if row.actor:
            why = str(row.data.get("reason") or row.data.get("body") or "")
            words = f"{row.actor.get_username()} {entry['words']}" + (f": {why[:300]}" if why else "")
            sentences.append(f"{row.at:%Y-%m-%d %H:%M} {words}")
    return _list("Said and done", sentences)


def _list(title: str, sentences: list[str]) -> list[str]:
    return [f"### {title}", "", *(f"- {_escape_markup(sentence)}" for sentence in sentences), ""] if sentences else []


#: characters that Markdown or a chat reads as markup, mentions or entities; an underscore inside a word is none
_MARKUP = re.compile(r"[\\`*\[\]<>#|~&@]|(?<!\w)_|_(?!\w)")


def _escape_markup(text: str) -> str:
    """Text that Markdown and chats show unchanged: words with markup become code; no backslashes."""
    runs = groupby(text.split(), key=lambda word: bool(_MARKUP.search(word)))
    return " ".join(
        f"`{' '.join(words).replace('`', chr(39))}`" if is_code else " ".join(words) for is_code, words in runs
    )
