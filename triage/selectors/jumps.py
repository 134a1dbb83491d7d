"""Where a short text typed into the search box may lead: an incident, jobs, nodes, people,
categories.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from django.contrib.auth import get_user_model
from django.db.models import Q
from django.urls import reverse
from django.utils.http import urlencode

from diagnosis import taxonomy
from triage.models import Incident
from triage.search import Query
from triage.selectors.access import visible_cluster_ids
from triage.selectors.incidents import incidents_visible_to
from triage.selectors.jobs import jobs_visible_to
from triage.selectors.nodes import nodes_visible_to

#: of each kind
MAX_JUMPS: Final = 3
#: shorter texts are in nearly every name, longer ones are no names
_MIN_CHARS: Final = 3
_MAX_CHARS: Final = 120
_NUMBER: Final = re.compile(r"#?(\d{1,9})")


@dataclass(frozen=True, slots=True)
class Jump:
    """A place that the text names: what ``kind`` of thing it is, its name, and its address."""

    kind: str
    name: str
    url: str


def numbered_incident(user: Any, text: str) -> Incident | None:
    """The incident whose number is the whole text, if the person may see it. One query, none for
    other texts.
    """
    found = _NUMBER.fullmatch(text.strip())
    if found is None:
        return None
    return incidents_visible_to(user).filter(pk=int(found[1])).only("headline").first()


def jumps(user: Any, query: Query) -> list[Jump]:
    """What the words of the query name. Four small queries; none for a query with keys, which says
    what it means.
    """
    if not query.terms or any(term.key or term.is_negated for term in query.leaves):
        return []
    text = " ".join(term.values[0] for term in query.leaves)
    found: list[Jump] = []
    if incident := numbered_incident(user, text):
        found.append(Jump("Incident", str(incident), reverse("incident", args=[incident.pk])))
    if not _MIN_CHARS <= len(text) <= _MAX_CHARS:
        return found
    return [
        *found,
        *_jobs(user, text),
        *_nodes(user, text),
        *_people(user, text),
        *_categories(text),
    ]


def _jobs(user: Any, text: str) -> list[Jump]:
    is_named = Q(slug__icontains=text) | Q(name__icontains=text)
    jobs = jobs_visible_to(user).filter(is_named).order_by("-pk").only("slug", "name")[:MAX_JUMPS]
    return [Jump("Job", job.name, reverse("job", args=[job.slug])) for job in jobs]


def _nodes(user: Any, text: str) -> list[Jump]:
    named = nodes_visible_to(user).filter(name__icontains=text).order_by("name")
    names = named.values_list("name", flat=True).distinct()[:MAX_JUMPS]
    return [Jump("Node", name, reverse("node", args=[name])) for name in names]


def _people(user: Any, text: str) -> list[Jump]:
    """People who look after an incident that the person may see."""
    seen = Incident.objects.filter(cluster__in=visible_cluster_ids(user), assignee__isnull=False)
    people = get_user_model().objects.filter(username__icontains=text)
    assigned = people.filter(pk__in=seen.values("assignee")).order_by("username")
    names = assigned.values_list("username", flat=True)[:MAX_JUMPS]
    return [Jump("Assigned to", name, _list_url(Query().plus("assignee", name))) for name in names]


def _categories(text: str) -> list[Jump]:
    """Categories whose title has the text."""
    tree, wanted = taxonomy.load(), text.casefold()
    named = [node for node in tree if wanted in node.title.casefold()]
    titles = {node.id: " › ".join(tree.path(node.id)) for node in named[:MAX_JUMPS]}
    return [Jump("Category", title, _list_url(Query().plus("category", name))) for name, title in titles.items()]


def _list_url(query: Query) -> str:
    return f"{reverse('incidents')}?{urlencode({'q': str(query)})}"
