"""Pieces of lists that are rendered once for each different content: what they show is the key of what was rendered.

A list of 50 rows is 50 times the same template, and most rows look as they did when the page was asked for last. The
template is given the key and nothing else, so that a remembered piece cannot say anything that is not true now.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

from django import template
from django.http.request import QueryDict
from django.template.loader import get_template
from django.utils.safestring import SafeString, mark_safe

from diagnosis import taxonomy
from triage.models import Incident
from triage.selectors.incidents import FacetValue
from triage.services.reading import FindingFacts
from triage.templatetags.desk import utc
from triage.wording import amount, number, percent

register = template.Library()


class Row(NamedTuple):
    """All that a row of the queue or the list shows of an incident."""

    pk: int
    headline: str
    job_slug: str
    job_name: str
    #: the first three, and how many more there are
    accused: str
    more_accused: int
    #: of how many nodes the job ran on
    of_nodes: str
    stage: str
    iteration: int | None
    is_regressed: bool
    category: str
    symptom: str
    state: str
    confidence: str
    #: a ``<time>`` element with its words
    opened: str
    #: GPU-hours
    cost: str
    assignee: str


@register.simple_tag
def incident_row(incident: Incident) -> SafeString:
    """One row of a list of incidents."""
    accused = incident.accused
    shown = Row(
        pk=incident.pk,
        headline=incident.headline,
        job_slug=incident.job.slug,
        job_name=incident.job.name,
        accused=", ".join(accused[:3]),
        more_accused=max(0, len(accused) - 3),
        of_nodes=f"{number(count)} node{'' if count == 1 else 's'}" if (count := incident.node_count) else "",
        stage=incident.stage,
        iteration=incident.iteration,
        is_regressed=incident.regressed_from_id is not None,
        category=incident.standing_category,
        symptom=incident.symptom,
        state=incident.state,
        confidence=percent(incident.confidence),
        opened=utc(incident.opened_at, "ago"),
        cost=amount(incident.gpu_hours) if incident.gpu_hours else "",
        assignee=incident.assignee.get_username() if incident.assignee else "",
    )
    return _row(shown)


@lru_cache(maxsize=4096)
def _row(row: Row) -> SafeString:
    return _rendered("triage/_incident_row.html", {"row": row})


@register.simple_tag
def evidence_event(finding: FindingFacts, slug: str, attempt: int) -> SafeString:
    """One event of an incident's evidence, of this job's attempt."""
    return _event(_Told(finding, repr(finding)), slug, attempt)


class _Told(NamedTuple):
    """A finding, which cannot be hashed, beside the text of all that it holds, which is what tells it from others."""

    finding: FindingFacts
    text: str

    def __hash__(self) -> int:
        return hash(self.text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Told) and other.text == self.text


@lru_cache(maxsize=2048)
def _event(told: _Told, slug: str, attempt: int) -> SafeString:
    shown = {"finding": told.finding, "slug": slug, "attempt": attempt}
    return _rendered("triage/incident/_event.html", shown)


@register.simple_tag
def category_options(chosen: str = "") -> SafeString:
    """Every category that a verdict may have, for a ``<select>``, with ``chosen`` selected."""
    return _options(chosen)


@lru_cache(maxsize=256)
def _options(chosen: str) -> SafeString:
    return _rendered("triage/_category_options.html", {"categories": taxonomy.load().leaves(), "chosen": chosen})


@register.simple_tag(takes_context=True)
def facet_rail(context: dict[str, Any], facets: dict[str, list[FacetValue]]) -> SafeString:
    """The facets of a list; their links keep what else the address says."""
    kept = context["request"].GET.copy()
    for name in ("q", "page", "filter"):
        kept.pop(name, None)
    return _rail(tuple((key, tuple(values)) for key, values in facets.items()), kept.urlencode())


@lru_cache(maxsize=256)
def _rail(facets: tuple[tuple[str, tuple[FacetValue, ...]], ...], kept: str) -> SafeString:
    return _rendered("triage/_facets.html", {"facets": facets, "kept": kept})


@register.simple_tag(takes_context=True)
def search_url(context: dict[str, Any], text: str) -> str:
    """The address of the list for a search, with what ``kept`` says besides."""
    params = QueryDict(context["kept"], mutable=True)
    params["q"] = text
    return f"?{params.urlencode()}"


def _rendered(name: str, shown: dict[str, Any]) -> SafeString:
    return mark_safe(get_template(name).render(shown))  # noqa: S308  # what a template gave, escaped there
