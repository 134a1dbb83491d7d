"""Filters and tags of the pages: icons, states, times, numbers, categories."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

import nh3
from django import template
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe
from markdown_it import MarkdownIt

from diagnosis import taxonomy
from ingest.models import Job, Run
from ingest.roles import role_names
from triage.models import Incident
from triage.selectors.incident import log_url
from triage.templatetags.icons import PATHS
from triage.wording import ago, amount, duration, elapsed, gigabytes, number, percent, ratio, score, size
from triage.wording import surety as surety_words

register = template.Library()
for _filter in (amount, duration, gigabytes, number, percent, ratio, score, size):
    register.filter(_filter.__name__, _filter)

#: the meaning of a state's colour (`static/css/tokens.css`), and its shape
_STATE = {
    Incident.State.AWAITING_REVIEW: ("attention", "ring"),
    Incident.State.CONFIRMED: ("person", "check"),
    Incident.State.CORRECTED: ("person", "pen"),
    Incident.State.REJECTED: ("", "cross"),
    Incident.State.INCONCLUSIVE: ("person", "question"),
    Incident.State.ACTIONED: ("person", "flag"),
    Incident.State.RESOLVED: ("", "lock"),
    "succeeded": ("good", "check"),
    "failed": ("bad", "cross"),
    "running": ("active", "dot"),
    "cancelled": ("", "cross"),
    "unknown": ("", "question"),
    "queued": ("", "ring"),
    "received": ("", "ring"),
    "parsing": ("active", "dot"),
    "parsed": ("", "check"),
    "skipped": ("attention", "none"),
    "not_recognised": ("attention", "question"),
}
_ROLE = {"root": "bad", "cascade": "attention", "confirmation": "active"}
#: a crash and a hang end a job, a slow job goes on; the shape says which
_SYMPTOM = {"crash": ("bad", "crash"), "hang": ("bad", "hang"), "slow": ("attention", "slow")}
_COMMENT_TAGS = {
    *("p", "br", "strong", "em", "del", "code", "pre", "blockquote", "ul", "ol", "li", "a", "hr"),
    *("h1", "h2", "h3", "h4", "table", "thead", "tbody", "tr", "th", "td"),
}


@register.simple_tag
def icon(name: str, size: int = 16) -> SafeString:
    """An inline icon; decoration only, the text is next to it."""
    body = mark_safe(PATHS[name])  # noqa: S308  # a constant of this package
    return format_html('<svg width="{0}" height="{0}" viewBox="0 0 16 16" aria-hidden="true">{1}</svg>', size, body)


#: what an act on an incident may change outside of ``#judged``
_CHANGED = ("#toasts", "#activity-said", "#queue-count", "#queue-left", "#evictions")


@register.simple_tag
def act(url: str, *also: str) -> SafeString:
    """The attributes of a form that acts on the incident of the page; ``also`` names more elements that it changes.

    Acts wait for each other and replace the content of ``#judged``, which itself stays: the answer is shown even if an
    earlier answer replaced the form.
    """
    return format_html(
        'method="post" action="{0}" hx-post="{0}" hx-sync="#incident:queue all" hx-target="#judged"'
        ' hx-select="#judged > *" hx-select-oob="{1}" hx-swap="innerHTML" hx-push-url="false"',
        url,
        ",".join((*_CHANGED, *also)),
    )


@register.simple_tag
def state_chip(state: str) -> SafeString:
    """State by colour, shape and word."""
    meaning, shape = _STATE.get(state, ("", "ring"))
    words = state.replace("_", " ")
    return format_html('<span class="chip {}">{} {}</span>', meaning, icon(shape, 12), words)


@register.simple_tag
def outcome_chips(job: Job) -> SafeString:
    """The outcome that stands, and beside it the other one, where statement and evidence differ."""
    standing = state_chip(job.outcome)
    if not job.outcome_note:
        return standing
    said, found = job.declared_outcome, job.found_outcome
    is_said = job.outcome == said
    shape, words = ("mark", f"found {found}") if is_said else ("person", f"said {said}")
    meaning = "attention"
    if not job.is_contradicted:
        meaning, shape, words = "", "person", "as said" if is_said else "no news"
    chip = '{} <span class="chip {}" title="{}">{} {}</span>'
    return format_html(chip, standing, meaning, job.outcome_note, icon(shape, 12), words)


@register.simple_tag
def role_chip(role: str) -> SafeString:
    """The role of an event."""
    return format_html('<span class="chip {}">{}</span>', _ROLE.get(role, ""), role)


@register.simple_tag
def surety(probability: float) -> SafeString:
    """A probability in words and as a figure."""
    words, figure = surety_words(probability), percent(probability)
    return format_html('<span class="surety">{} <b>{}</b></span>', words, figure)


@register.simple_tag
def symptom_shape(symptom: str) -> SafeString:
    """The symptom as a shape; the word is its name for screen readers."""
    colour, shape = _SYMPTOM.get(symptom, ("", "launch_failure" if symptom == "launch_failure" else "none"))
    word = symptom.replace("_", " ") or "symptom unknown"
    return format_html(
        '<span class="shape {0}" title="{1}">{2}<span class="visually-hidden">{1}</span></span>',
        colour,
        word,
        icon(shape, 14),
    )


@register.simple_tag
def utc(moment: datetime | float | str | None, style: str = "minute") -> SafeString | str:
    """A time in UTC as ``<time>``; desk.js adds the reader's time zone on hover, times.js shows it if switched on.

    ``moment``: a datetime, seconds since the epoch, or a text of ISO 8601. ``style``: minute, second, clock, milli,
    date, ago, elapsed.
    """
    if moment is None:
        return "–"
    if isinstance(moment, (int, float)):
        moment = datetime.fromtimestamp(moment, UTC)
    elif isinstance(moment, str):
        moment = datetime.fromisoformat(moment)
    moment = moment.astimezone(UTC)
    shown = {
        "minute": lambda: f"{moment:%Y-%m-%d %H:%M}",
        "second": lambda: f"{moment:%Y-%m-%d %H:%M:%S}",
        "clock": lambda: f"{moment:%H:%M:%S}",
        "milli": lambda: f"{moment:%H:%M:%S}.{moment.microsecond // 1000:03d}",
        "date": lambda: f"{moment:%Y-%m-%d}",
        "ago": lambda: ago(moment),
        "elapsed": lambda: elapsed(moment),
    }[style]()
    whole = f"{moment:%Y-%m-%d %H:%M:%S} UTC"
    stamp = moment.isoformat()
    return format_html('<time datetime="{}" title="{}" data-style="{}">{}</time>', stamp, whole, style, shown)


@register.simple_tag
def took(run: Run) -> str:
    """The duration of a run, until now if it is not finished."""
    if run.started_at is None:
        return "–"
    return duration(((run.ended_at or timezone.now()) - run.started_at).total_seconds())


@register.filter
def category_title(category_id: str) -> str:
    """The leaf's own title."""
    return taxonomy.load().get(category_id).title if category_id else "–"


@register.filter
def category_path(category_id: str) -> str:
    """Titles from the top to the leaf: ``Hardware › GPU › GPU memory error``."""
    return " › ".join(taxonomy.load().path(category_id)) or category_id or "–"


@register.filter
def category_about(category_id: str) -> str:
    return taxonomy.load().get(category_id).explanation if category_id else ""


@register.filter
def category_advice(category_id: str) -> str:
    return taxonomy.load().get(category_id).advice if category_id else ""


@register.filter
def words(value: str) -> str:
    return str(value).replace("_", " ")


@register.filter
def roles(user: Any) -> str:
    return " and ".join(sorted(role_names(user)))


@register.filter
def get(mapping: dict[Any, Any], key: Any) -> Any:
    """``mapping[key]`` for templates."""
    return mapping.get(key) if mapping else None


@register.filter
def pairs(text: str) -> list[list[str]]:
    """``a:b,c:d`` as pairs, for short lists of buttons."""
    return [part.split(":", 1) for part in text.split(",")]


@register.filter
def highlight(text: str, indicators: list[dict[str, Any]]) -> SafeString:
    """The text with the words that show the fault, and their parameters, marked. Log text is data: all is escaped."""
    marked_texts = {str(row.get("text") or "") for row in indicators or []} - {""}
    values = {str(value) for row in indicators or [] for value in (row.get("parameters") or {}).values()}
    values = {value for value in values if len(value) > 2} - marked_texts
    found = sorted(marked_texts | values, key=len, reverse=True)
    if not found:
        return format_html("{}", text)
    parts = re.split(f"({'|'.join(map(re.escape, found))})", text)
    return format_html_join("", "{}", ((_marked(part, marked_texts, values),) for part in parts if part))


_PARAMETER = re.compile(r"(<[A-Z]{2,8}>)")


@register.filter
def masked(text: str) -> SafeString:
    """A template with the names of its parameters marked; they are ignored when messages are compared."""
    parts = _PARAMETER.split(text)
    return format_html_join(
        "",
        "{}",
        ((format_html('<span class="masked">{}</span>', part) if n % 2 else part,) for n, part in enumerate(parts)),
    )


def _marked(part: str, marked_texts: set[str], values: set[str]) -> str | SafeString:
    if part in marked_texts:
        return format_html("<mark>{}</mark>", part)
    return format_html('<mark class="parameter">{}</mark>', part) if part in values else part


@register.simple_tag
def line_url(slug: str, attempt: int, line: dict[str, Any]) -> str:
    """The address of one line of evidence."""
    return log_url(slug, attempt, str(line.get("file") or "-"), line.get("line"), line.get("end"))


@register.filter
def markdown(text: str) -> SafeString:
    """A comment's Markdown as HTML: no raw HTML, no images, links with ``nofollow``."""
    html = MarkdownIt("commonmark", {"html": False, "linkify": False}).enable("table").render(text)
    clean = nh3.clean(html, tags=_COMMENT_TAGS, attributes={"a": {"href"}}, url_schemes={"http", "https", "mailto"})
    return mark_safe(clean)  # noqa: S308  # cleaned in the line above


@register.simple_tag
def bar(value: float | None) -> SafeString:
    """A thin bar for a share in [0, 1]: an SVG, because the page's policy forbids inline styles."""
    width = round(100 * min(max(value or 0, 0), 1), 1)
    return format_html(
        '<svg class="bar" viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true">'
        '<rect width="100" height="6" rx="3"/><rect width="{}" height="6" rx="3"/></svg>',
        width,
    )
