"""Parts of pages that are cached by their content: the displayed data is the cache key.

A list of 50 rows is 50 times the same template, and most rows look as in the last request. The template gets only the
key, so a cached part cannot be outdated. Larger parts, which many people read at once during an outage, are cached by
the data version (``piece``).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache
from itertools import groupby
from typing import Any, NamedTuple

from django import template
from django.http.request import QueryDict
from django.template.base import FilterExpression, NodeList, Parser, Token
from django.template.context import Context
from django.template.loader import get_template
from django.utils import timezone
from django.utils.crypto import salted_hmac
from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

from diagnosis import taxonomy
from triage.domain.finding_facts import FindingFacts
from triage.domain.row_headline import beside_columns
from triage.models import Incident
from triage.selectors.incidents import FacetValue
from triage.selectors.memory import updated_result
from triage.templatetags.desk import utc
from triage.wording import amount, number, percent

register = template.Library()


class Row(NamedTuple):
    """All that a row of the queue or list shows of an incident."""

    pk: int
    headline: str
    #: of the headline what the cells for node and cause do not say
    told: str
    job_slug: str
    job_name: str
    #: all of them; the first, and how many more there are
    accused: str
    first_accused: str
    more_accused: int
    #: of how many nodes of the job
    of_nodes: str
    is_regressed: bool
    category: str
    symptom: str
    state: str
    #: whose category: the machine's with its confidence, a person's, or an imported record's
    by: str
    #: a ``<time>`` element with its words
    opened: str
    #: GPU-hours
    cost: str
    assignee: str


@register.simple_tag
def incident_row(incident: Incident, within: str = "") -> SafeString:
    """One row of a list of incidents; ``within`` is the list's query string, for the links of its page."""
    accused = incident.accused
    category = incident.standing_category
    is_named = category not in ("", taxonomy.UNKNOWN)
    cause = taxonomy.load().get(category).title if is_named else ""
    shown = Row(
        pk=incident.pk,
        headline=incident.headline,
        told=beside_columns(incident.headline, cause, accused),
        job_slug=incident.job.slug,
        job_name=incident.job.name,
        accused=", ".join(accused),
        first_accused=accused[0] if accused else "",
        more_accused=max(0, len(accused) - 1),
        of_nodes=f"{number(count)} node{'' if count == 1 else 's'}" if (count := incident.node_count) else "",
        is_regressed=incident.regressed_from_id is not None,
        category=category,
        symptom=incident.symptom,
        state=incident.state,
        by=_category_source(incident),
        opened=utc(incident.opened_at, "ago"),
        cost=amount(incident.gpu_hours) if incident.gpu_hours else "",
        assignee=incident.assignee.get_username() if incident.assignee else "",
    )
    return mark_safe(_row(shown).replace(_placeholder(), escape(within)))  # noqa: S308  # from a template


def _category_source(incident: Incident) -> str:
    """Whose word the category is: the machine's has its confidence; the state of the row says what people did."""
    if incident.is_imported:
        return "imported"
    if incident.state != Incident.State.AWAITING_REVIEW:
        return ""
    is_named = incident.standing_category != taxonomy.UNKNOWN
    return percent(incident.confidence) if is_named else "not named yet"


@lru_cache(maxsize=4096)
def _row(row: Row) -> SafeString:
    return _rendered("triage/_incident_row.html", {"row": row, "within": _placeholder()})


@register.simple_tag
def evidence_event(finding: FindingFacts, slug: str, attempt: int) -> SafeString:
    """One event of an incident's evidence, of this job's attempt."""
    return _event(_HashableFinding(finding, repr(finding)), slug, attempt)


class _HashableFinding(NamedTuple):
    """A finding, which is not hashable, with its whole text as the hash."""

    finding: FindingFacts
    text: str

    def __hash__(self) -> int:
        return hash(self.text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _HashableFinding) and other.text == self.text


@lru_cache(maxsize=2048)
def _event(key: _HashableFinding, slug: str, attempt: int) -> SafeString:
    shown = {"finding": key.finding, "slug": slug, "attempt": attempt}
    return _rendered("triage/incident/_event.html", shown)


@register.simple_tag
def category_options(incident: Incident, frequent: Sequence[str]) -> SafeString:
    """Every category for a correction, for a ``<select>``: likely ones first, then the tree.

    ``frequent``: the categories that people chose most often here. Without the machine's category: people confirm that
    instead.
    """
    return _options(incident.category, incident.runner_up, tuple(frequent))


@lru_cache(maxsize=256)
def _options(machine: str, runner_up: str, frequent: tuple[str, ...]) -> SafeString:
    leaves = [leaf for leaf in taxonomy.load().leaves() if leaf.id != machine]
    known = {leaf.id for leaf in leaves}
    near = [name for name in (runner_up,) if name in known]
    often = [name for name in frequent if name in known and name not in near]
    groups = [(title, ids) for title, ids in (("Runner-up", near), ("Most frequent here", often)) if ids]
    roots = groupby(leaves, key=lambda leaf: leaf.root)
    groups += [(taxonomy.load().get(root).title, [leaf.id for leaf in inside]) for root, inside in roots]
    return _rendered("triage/_category_options.html", {"groups": groups})


@register.simple_tag(takes_context=True)
def facet_rail(context: dict[str, Any], facets: dict[str, list[FacetValue]]) -> SafeString:
    """The facets of a list; their links keep the other parameters of the address."""
    kept = context["request"].GET.copy()
    for name in ("q", "page", "filter", "count"):
        kept.pop(name, None)
    return _rail(tuple((key, tuple(values)) for key, values in facets.items()), kept.urlencode())


@lru_cache(maxsize=256)
def _rail(facets: tuple[tuple[str, tuple[FacetValue, ...]], ...], kept: str) -> SafeString:
    return _rendered("triage/_facets.html", {"facets": facets, "kept": kept})


@register.simple_tag(takes_context=True)
def search_url(context: dict[str, Any], text: str) -> str:
    """The address of the list for a search, with the parameters in ``kept``."""
    params = QueryDict(context["kept"], mutable=True)
    params["q"] = text
    return f"?{params.urlencode()}"


#: a piece is cached as long as "3 minutes ago" in it is true
_PIECE_KEPT_S = 60


@register.tag
def piece(parser: Parser, token: Token) -> PieceNode:
    """``{% piece key %}…{% endpiece %}``: its content, rendered once a minute for each data version.

    ``key`` has what the data version and the reader's permissions do not cover. The content may use lazy values, which
    are computed only when it is rendered. Without a key nothing is cached.
    """
    _, key = token.split_contents()
    inside = parser.parse(("endpiece",))
    parser.delete_first_token()
    return PieceNode(parser.compile_filter(key), inside)


class PieceNode(template.Node):
    """See :func:`piece`."""

    def __init__(self, key: FilterExpression, inside: NodeList) -> None:
        self.key = key
        self.nodelist = inside

    def render(self, context: Context) -> SafeString:
        given, user = self.key.resolve(context), context.get("user")
        version = getattr(user, "data_version", None)
        if not given or version is None:
            return self.nodelist.render(context)
        now, rights = timezone.now(), tuple(name for name, has in context["may"].items() if has)
        stand_in = _placeholder()

        def fresh(kept: str | None) -> str:
            if kept is not None:
                return kept
            with context.push(csrf_token=stand_in):
                return str(self.nodelist.render(context))

        parts = (version, given, rights, f"{now:%M}")
        html = updated_result("piece", user=user, parts=parts, now=now, renew=fresh, cached_s=_PIECE_KEPT_S)
        return mark_safe(html.replace(stand_in, str(context.get("csrf_token") or "")))  # noqa: S308  # escaped inside


@cache
def _placeholder() -> str:
    """A placeholder for each reader's own value in a cached piece; nobody outside knows it."""
    return salted_hmac("triage.piece", "token", algorithm="sha256").hexdigest()


def _rendered(name: str, shown: dict[str, Any]) -> SafeString:
    return mark_safe(get_template(name).render(shown))  # noqa: S308  # from a template, which escaped it
