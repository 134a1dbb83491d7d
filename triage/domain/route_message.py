"""What a message says to a person: what failed, where, how sure, what to do, what it costs, and the link.

Every destination shows the same :class:`Message`; it is made of the stored event alone, so that a message that is sent
again says the same. Names and sentences in it come from evidence: each destination escapes them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from diagnosis import taxonomy
from triage.domain.finding_facts import findings_of
from triage.wording import amount, duration, percent

type Fact = tuple[str, str]

#: states in which nobody has to act any more
FINAL_STATES = ("resolved", "rejected", "withdrawn")
_STATE_WORDS = {"awaiting_review": "awaiting review"}
_DECISION_WORDS = {
    "confirm": "confirmed",
    "correct": "corrected",
    "reject": "rejected",
    "inconclusive": "called inconclusive",
}
_ACT_WORDS = {
    "acknowledged": "acknowledged it",
    "actioned": "recorded an action",
    "resolved": "resolved it",
    "resolved_elsewhere": "resolved its alert; what it was is still to be said",
    "reopened": "reopened it",
    "snoozed": "snoozed it",
    "woken": "ended the snooze",
}
#: events whose lines a ticket quotes, and characters of one
MAX_EVIDENCE, _MAX_LINE = 5, 300
#: accused that a message names; the page has all
_MAX_NAMES = 5
#: incidents of which a ticket about a node has the reasons
_MAX_REASONS = 3


@dataclass(frozen=True, slots=True)
class Message:
    """One event in words. ``facts`` are pairs of a label and a sentence, in the order in which they are read.

    ``number`` is the incident's; None for messages about a job or a route. ``raw`` is the event's JSON.
    """

    id: str
    event: str
    title: str
    news: str
    facts: tuple[tuple[str, str], ...]
    url: str
    raw: str
    at: str
    number: int | None = None
    state: str = ""
    category: str = ""
    job: str = ""
    cluster: str = ""
    accused: tuple[str, ...] = ()
    happened_at: str = ""
    condition: str = ""
    #: lines of the evidence with their places, only in messages to trackers
    evidence: tuple[str, ...] = ()
    #: pages here that a ticket links, each with its name: what it is about is the first
    links: tuple[tuple[str, str], ...] = ()
    #: what happened gave it back: nobody looks after it, or it was reopened or woken
    is_released: bool = False

    @property
    def is_over(self) -> bool:
        """Nobody has to act any more: it was resolved, rejected or withdrawn."""
        return self.state in FINAL_STATES

    @property
    def is_bad(self) -> bool:
        return not self.is_over and (self.number is not None or self.event.startswith("job.failed"))

    @property
    def text(self) -> str:
        """The message as lines of plain text."""
        facts = "\n".join(f"{label}: {value}" for label, value in self.facts)
        head = "\n".join(line for line in (self.news, self.title) if line)
        return "\n\n".join(part for part in (head, facts, self.url) if part)


def message_of(raw: str, *, key: str) -> Message:
    """The message of an event's JSON (docs/webhooks.md); ``key`` identifies it for receivers."""
    message_body = json.loads(raw)
    event, data = str(message_body["type"]), message_body.get("data") or {}
    job = data.get("job") or {}
    incident = data.get("incident")
    if incident:
        return _incident_message(key, message_body, raw)
    if data.get("node"):
        return _node_message(key, message_body, raw)
    title, facts = _job_title_and_facts(event, job, data)
    return Message(
        key,
        event,
        title,
        "",
        tuple(facts),
        str(job.get("url") or data.get("url") or ""),
        raw,
        str(message_body["timestamp"]),
        job=str(job.get("name") or ""),
        cluster=str(job.get("cluster") or ""),
    )


def _incident_message(key: str, message_body: dict[str, Any], raw: str) -> Message:
    event, at, data = str(message_body["type"]), str(message_body["timestamp"]), message_body["data"]
    incident, job = data["incident"], data.get("job") or {}
    state = "withdrawn" if event == "incident.withdrawn" else str(incident.get("state") or "")
    accused = tuple(str(name) for name in incident.get("accused") or [])
    return Message(
        id=key,
        event=event,
        title=str(incident.get("headline") or "An incident"),
        news=_news(event, data),
        facts=tuple(_facts(incident, job, state, accused)),
        url=str(incident.get("url") or ""),
        raw=raw,
        at=at,
        number=int(incident["number"]),
        state=state,
        category=str(incident.get("standing_category") or ""),
        job=str(job.get("name") or ""),
        cluster=str(job.get("cluster") or ""),
        accused=accused,
        happened_at=str(incident.get("happened_at") or at),
        condition=str(incident.get("condition") or ""),
        is_released=_is_released(event, data.get("act") or {}),
        evidence=_evidence(data),
        links=((f"Incident #{incident['number']}", str(incident.get("url") or "")), *_node_links(data.get("node"))),
    )


def _node_message(key: str, message_body: dict[str, Any], raw: str) -> Message:
    """A ticket about a node: its record, what is advised, and the incidents that accuse it."""
    data = message_body["data"]
    node, incidents = data["node"], data["node"].get("incidents") or []
    name, cluster, count = str(node.get("name")), str(node.get("cluster") or ""), int(node.get("accusations") or 0)
    often = f"accused in {count:,} {'incident' if count == 1 else 'incidents'}" if count else "accused in no incident"
    facts = [("Where", f"node {name} of cluster {cluster}")]
    if count:
        recent, confirmed = int(node.get("recent") or 0), int(node.get("confirmed") or 0)
        facts.append(("Accused", f"{count:,} times, {recent:,} of them in 28 days, {confirmed:,} confirmed by people"))
    reasons_by_number = [
        (incident["number"], "; ".join(map(str, incident.get("reasons") or [])))
        for incident in incidents[:_MAX_REASONS]
    ]
    facts += [(f"Why (#{number})", reasons) for number, reasons in reasons_by_number if reasons]
    facts += _advice_facts(node.get("advice") or {})
    if node.get("gpu_hours") is not None:
        facts.append(("Cost", f"{amount(node['gpu_hours'])} GPU-hours in these incidents"))
    if node.get("drained_at"):
        facts.append(("Drained", f"since {str(node['drained_at'])[:10]}"))
    if node.get("note"):
        facts.append(("Note", str(node["note"])))
    rows = (
        (f"Incident #{incident['number']}, {str(incident['happened_at'])[:10]}: {incident['headline']}", incident)
        for incident in incidents
    )
    return Message(
        id=key,
        event=str(message_body["type"]),
        title=f"{name}: {often}",
        news=_news(str(message_body["type"]), data),
        facts=tuple(facts),
        url=str(node.get("url") or ""),
        raw=raw,
        at=str(message_body["timestamp"]),
        cluster=cluster,
        accused=(name,),
        evidence=_evidence(data),
        links=(*_node_links(node), *((title, str(incident["url"])) for title, incident in rows)),
    )


def _node_links(node: dict[str, Any] | None) -> list[tuple[str, str]]:
    return [(f"Node {node.get('name')}", str(node.get("url") or ""))] if node else []


def _evidence(data: dict[str, Any]) -> tuple[str, ...]:
    return tuple(str(line) for line in data.get("evidence") or [])[:MAX_EVIDENCE]


def quoted_evidence(report: dict[str, Any], *, node: str = "") -> list[str]:
    """The lines that a ticket quotes: an example of each of the first events, each with its file and line.

    With ``node`` only events that name it, except of the teardown, which says nothing about the node.
    """
    rows = [row for row in findings_of(report) if not node or (node in row.node_names and row.role != "teardown")]
    lines = []
    for row in rows[:MAX_EVIDENCE]:
        place = next((f"{line['file']}:{line.get('line')}: " for line in row.lines if line.get("file")), "")
        lines.append(" ".join(f"{place}{(row.example or row.template)[:_MAX_LINE]}".split()))
    return lines


def _facts(incident: dict[str, Any], job: dict[str, Any], state: str, accused: tuple[str, ...]) -> list[Fact]:
    where = f"job {job.get('name') or ''} on cluster {job.get('cluster') or ''}"
    facts = [("Where", f"{list_names(accused)}, {where}" if accused else where), ("Cause", _cause(incident))]
    facts += _advice_facts(incident.get("advice") or {})
    if incident.get("gpu_hours") is not None:
        lost = f" ({duration(incident['lost_s'])} lost)" if incident.get("lost_s") else ""
        facts.append(("Cost", f"{amount(incident['gpu_hours'])} GPU-hours{lost}"))
    facts.append(("State", _STATE_WORDS.get(state, state)))
    return facts


def _advice_facts(advice: dict[str, Any]) -> list[Fact]:
    if not advice.get("title"):
        return []
    targets = list_names([str(target) for target in advice.get("targets") or []])
    return [("What to do", f"{advice['title']}: {targets}" if targets else str(advice["title"]))]


def _cause(incident: dict[str, Any]) -> str:
    """The category that stands, with who says so: the machine with its confidence, or people."""
    standing, machine = str(incident.get("standing_category") or ""), str(incident.get("category") or "")
    state = incident.get("state")
    if state == "rejected":
        return f"{_path(machine)} was the machine's former opinion, rejected by a person"
    words = _path(standing)
    if standing != machine or state in ("confirmed", "corrected"):
        return f"{words}, confirmed by a person" if standing == machine else f"{words}, corrected by a person"
    return f"{words}, {percent(float(incident.get('confidence') or 0))} sure"


def _path(category: str) -> str:
    tree = taxonomy.load()
    return " › ".join(tree.path(category)) if category in tree else category


def _is_released(event: str, act: dict[str, Any]) -> bool:
    return (event == "incident.assigned" and not act.get("after")) or act.get("kind") in ("reopened", "woken")


def list_names(names: Any) -> str:
    """The first names, and how many more."""
    names = list(names)
    more = len(names) - _MAX_NAMES
    return ", ".join(names[:_MAX_NAMES]) + (f" and {more} more" if more > 0 else "")


def _news(event: str, data: dict[str, Any]) -> str:
    """What is new, as a sentence without its subject's details."""
    act = data.get("act") or {}
    by = act.get("by") or "Faultline"
    if event == "incident.regressed":
        return f"It came back: #{data.get('regressed_from')} was resolved before"
    if event == "incident.decided":
        sentence = f"{by} {_DECISION_WORDS.get(str(act.get('word')), 'judged')} the {act.get('claim') or 'claim'}"
        sentence += f" {act['subject']}" if act.get("subject") else ""
        return sentence + (f": {act['after']}" if act.get("word") == "correct" and act.get("after") else "")
    if event == "incident.undone":
        return f"{by} undid a decision"
    if event == "incident.moved":
        return f"{by} {_ACT_WORDS.get(str(act.get('kind')), 'moved it')}"
    if event == "incident.assigned":
        return f"{by} assigned it to {act['after']}" if act.get("after") else f"{by} assigned it to nobody"
    return {
        "incident.opened": "New incident",
        "incident.updated": "New diagnosis",
        "incident.withdrawn": "A later diagnosis found no failure",
        "incident.ticket": "Ticket requested",
        "node.ticket": "Ticket requested",
        "node.accused": f"{(data.get('node') or {}).get('name')} was accused again",
    }.get(event, "")


def _job_title_and_facts(event: str, job: dict[str, Any], data: dict[str, Any]) -> tuple[str, list[Fact]]:
    name, where = job.get("name") or "", [("Where", f"job {job.get('name')} on cluster {job.get('cluster')}")]
    if event == "job.failed_to_parse":
        problems = [
            (str(row.get("path")), str(row.get("problem"))) for row in (data.get("problems") or [])[:_MAX_NAMES]
        ]
        count = int(data.get("problem_count") or len(problems))
        return f"{count:,} {'file' if count == 1 else 'files'} of {name} could not be read", [*where, *problems]
    if event == "job.failed_to_diagnose":
        return f"The diagnosis of {name} failed", [*where, ("Problem", str(data.get("problem") or ""))]
    if event == "job.diagnosed":
        return f"{name} was diagnosed: no failure found", where
    return f"This is a test of the route “{data.get('name')}”. Nothing failed.", []
