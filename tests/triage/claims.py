"""What pages, files and messages claim of one incident, and where two of their claims contradict each other."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from django.test import Client
from django.urls import reverse

from diagnosis import taxonomy
from diagnosis.records.tried import EVICTING_ACTIONS
from tests.pages import words_of
from triage.models import Incident
from triage.selectors.payloads import incident_payload

_ROOT_MARK = re.compile(r'aria-label="\d+: root cause[^":]*: ([^":]+)[":]')
_ROOT_ROW = re.compile(r"<b>root cause</b>(?:(?!</tr>)[\s\S])*?<td class=\"text[^>]*>\s*([^:<]+):")
_OF_NODES = re.compile(r"\b([\d,]+) of ([\d,]+) nodes?\b")
_HEADLINE_NODES = re.compile(r" on ([\d,]+) of ([\d,]+) nodes")
_ADVISED_ROW = re.compile(r"<tr>(?:(?!</tr>)[\s\S])*?>advised<[\s\S]*?</tr>")
#: the symptoms that an end ordered by a person does not have
_NO_ORDERED_END = ("crash", "launch_failure")


def contradictions(client: Client, incident: Incident) -> list[str]:
    """A sentence for each claim that differs from another one. Seven requests."""
    page = client.get(reverse("incident", args=[incident.pk])).content.decode()
    return [
        *_of_category(client, incident, page),
        *_of_advice(client, incident, page),
        *_of_nodes(incident, page),
        *_of_condition(client, incident),
    ]


def _part(page: str, begin: str, end: str) -> str:
    return words_of(page.partition(begin)[2].partition(end)[0])


def _of_category(client: Client, incident: Incident, page: str) -> Iterator[str]:
    tree = taxonomy.load()
    category = incident.standing_category
    title = tree.get(category).title
    if title not in _part(page, 'data-testid="verdict"', "</p>"):
        yield f"the verdict is not “{title}”"
    for mark in {*_ROOT_MARK.findall(page), *_ROOT_ROW.findall(page)}:
        if words_of(mark) != title and words_of(mark) in _titles():
            yield f"the strip's root cause is “{words_of(mark)}”, the verdict “{title}”"
    named = _named_category(incident.headline)
    if named and named != title:
        yield f"the headline begins with “{named}”, the verdict is “{title}”"
    for name in ("incidents", "queue"):
        row = _part(client.get(reverse(name)).content.decode(), f'id="incident-{incident.pk}"', "</li>")
        if title not in row:
            yield f"the row of {name} does not say “{title}”"
    api, message = client.get(f"/api/v1/incidents/{incident.pk}/").json(), incident_payload(incident)
    for what, said in (("API", api["category"]), ("message", message["category"])):
        if said != category:
            yield f"the {what} says {said}, the verdict {category}"
    if category != taxonomy.UNKNOWN and title not in _markdown(client, incident):
        yield f"the Markdown does not say “{title}”"


def _titles() -> set[str]:
    return {row.title for row in taxonomy.load().categories.values()}


def _named_category(headline: str) -> str:
    """The title of a category with which a headline begins."""
    after = r"(?: (?:on|in|while|at) |[:;.])"
    fitting = [title for title in _titles() if re.match(re.escape(title) + after, headline, re.IGNORECASE)]
    return max(fitting, key=len, default="")


def _markdown(client: Client, incident: Incident) -> str:
    return client.get(reverse("incident-markdown", args=[incident.pk])).content.decode()


def _of_advice(client: Client, incident: Incident, page: str) -> Iterator[str]:
    advice: dict[str, Any] = client.get(f"/api/v1/incidents/{incident.pk}/").json()["advice"] or {}
    action, targets = advice.get("action") or "none", advice.get("targets") or []
    shown, exported = _part(page, 'data-testid="advice"', "</p>"), _markdown(client, incident)
    title = str(advice.get("action_title") or "")
    if action != "none" and not (title in shown and f"**{title}**" in exported):
        yield f"page or Markdown do not advise “{title}”: {shown}"
    if incident_payload(incident)["advice"]["action"] != advice.get("action"):
        yield "the message advises something else"
    rows = [words_of(row) for row in _ADVISED_ROW.findall(page)]
    if action in EVICTING_ACTIONS:
        if len(rows) != 1:
            yield f"{len(rows)} evictions are marked as advised, the advice is “{title}”"
        missing = [name for name in targets if not any(name in row for row in rows)]
        if missing:
            yield f"the advised eviction leaves {missing} out"
        if action == "over_evict" and any("alone" in row for row in rows):
            yield f"“{title}” beside “{rows[0][:60]}”"
    elif rows:
        yield f"“{rows[0][:60]}” is advised beside “{title}”"


def _of_nodes(incident: Incident, page: str) -> Iterator[str]:
    answer = page.partition('data-testid="answer"')[2].partition("</section>")[0]
    key = _OF_NODES.search(words_of(answer.partition('class="event-n"')[2].partition("</span></span>")[0]))
    headline = _HEADLINE_NODES.search(incident.headline)
    if key and headline and key.groups() != headline.groups():
        yield f"the headline says {headline[0].strip()}, its line {key[0]}"
    totals = {row[2] for row in _OF_NODES.finditer(words_of(page)) if row[1] != "0"}
    if len(totals) > 1:
        yield f"the page counts nodes of {sorted(totals)}"
    for row in _OF_NODES.finditer(words_of(page)):
        if int(row[1].replace(",", "")) > int(row[2].replace(",", "")):
            yield f"more nodes than there are: {row[0]}"


def _of_condition(client: Client, incident: Incident) -> Iterator[str]:
    if incident.condition == "cancelled" and incident.symptom in _NO_ORDERED_END:
        yield f"a cancelled job with the symptom {incident.symptom}"
    job = words_of(client.get(reverse("job", args=[incident.job.slug])).content.decode())
    if incident.headline.split() != [] and " ".join(incident.headline.split()) not in job:
        yield "the job's page has another headline"
    if "Nothing to diagnose" in job and "is unusual" in job:
        yield "nothing to diagnose, and nothing unusual"
