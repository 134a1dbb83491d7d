"""Tags of the causal strip: the link of a mark, and its text for screen readers."""

from __future__ import annotations

from typing import Any

from django import template
from django.urls import reverse

from triage.selectors.incident import log_url
from triage.selectors.strip_entries import Entry
from triage.wording import percent

register = template.Library()
_TABS = {"flows": "job-flows", "stacks": "job-stacks"}


@register.simple_tag
def entry_url(entry: Entry, slug: str, attempt: int) -> str:
    """The address of its evidence: the line of a log, the job's Flows or Stacks tab; without a line, the job's
    timeline.
    """
    if entry.source in _TABS:
        return f"{reverse(_TABS[entry.source], args=[slug])}?attempt={attempt}"
    if entry.evidence:
        return log_url(slug, attempt, str(entry.evidence["file"]), _line(entry.evidence))
    return f"{reverse('job', args=[slug])}?attempt={attempt}#timeline"


@register.filter
def opens(entry: Entry) -> str:
    """The text of the link to its evidence."""
    if entry.source in _TABS:
        return f"open {entry.source}"
    if not entry.evidence:
        return "open timeline"
    line = _line(entry.evidence)
    return f"open line {line:,}" if line else "open file"


@register.filter
def mark_title(entry: Entry) -> str:
    """Number, kind, place and text of a mark in one line."""
    where = f" on {', '.join(entry.where)}" if entry.where else ""
    more = f" (and {len(entry.more)} more)" if entry.more else ""
    more += "" if entry.is_stamped else " (its lines state no time)"
    return f"{entry.number}: {entry.name}{where}: {entry.text[:160]}{more}"


@register.filter
def blame(p: float | None) -> str:
    """The probability that it began in a lane's place; empty for one that is not accused."""
    return "" if p is None else f"began here {percent(p)}"


def _line(evidence: dict[str, Any]) -> int | None:
    line = evidence.get("line")
    return line if isinstance(line, int) and 0 < line < 10**12 else None
