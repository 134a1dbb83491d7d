"""Tickets of GitHub, GitLab and Jira: made of an incident or a node by a person, commented on by what happens later.

Nobody's ticket is closed from here: its state is read and shown, and a comment says that the incident is resolved.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple
from urllib.parse import quote

from triage.destinations.base import (
    JSON,
    Address,
    Destination,
    Field,
    Reading,
    Request,
    as_json,
    cut,
    escape_markdown,
    parse_object,
)
from triage.domain.route_message import Message

_MAX_TITLE = 250


def _body(message: Message) -> str:
    """The first text of a ticket, in Markdown."""
    lines = [f"**{escape_markdown(label)}:** {escape_markdown(cut(text, 2000))}" for label, text in message.facts]
    if message.evidence:  # indented: no line of a log can end it or be read as Markdown
        lines += ["**Evidence:**", "\n".join(f"    {line}" for line in message.evidence)]
    return "\n\n".join([escape_markdown(message.title), *lines, _links(message)])


def _links(message: Message) -> str:
    """The pages here in Markdown, each a paragraph."""
    return "\n\n".join(f"[{escape_markdown(cut(title, _MAX_TITLE))}]({url})" for title, url in message.links)


def _news(message: Message) -> str:
    """The first words of a comment: what is new."""
    again = "It happened again" if message.event == "incident.opened" else message.news or "New diagnosis"
    state = next((text for label, text in message.facts if label == "State"), "")
    return f"{again}: {message.title} ({state})."


def _comment(message: Message) -> str:
    """A comment in Markdown."""
    return f"{escape_markdown(_news(message))}\n\n{_links(message)}"


class _Tracker(NamedTuple):
    """How one system makes tickets: its addresses, and the bodies of a new ticket and of a comment."""

    headers: Mapping[str, str]
    #: a test reads this: whether the token may read the project
    test: str
    tickets: str
    #: the known ticket and its comments
    ticket: str
    comments: str
    new_ticket: dict[str, Any]
    new_comment: dict[str, Any]


def _requests(tracker: _Tracker, message: Message, *, is_known: bool) -> list[Request]:
    """A test, a new ticket, or the known one's state and a comment on it."""
    if not message.links:
        return [Request(tracker.test, b"", tracker.headers, "GET")]
    if not is_known:
        return [Request(tracker.tickets, as_json(tracker.new_ticket), tracker.headers)]
    comment = Request(tracker.comments, as_json(tracker.new_comment), tracker.headers)
    return [Request(tracker.ticket, b"", tracker.headers, "GET"), comment]


def _github(message: Message, to: Address, reference: Mapping[str, Any]) -> _Tracker:
    issues = f"{to.url.rstrip('/')}/repos/{quote(to.options.get('project', ''))}/issues"
    issue, labels = f"{issues}/{reference.get('number')}", _labels(to)
    ticket = {"title": cut(message.title, _MAX_TITLE), "body": _body(message), **({"labels": labels} if labels else {})}
    bearer = {"Authorization": f"Bearer {_secret(to)}"}
    headers = {**JSON, **bearer, "Accept": "application/vnd.github+json", "X-GitHub-Api-Version": "2022-11-28"}
    comment = {"body": _comment(message)}
    return _Tracker(headers, f"{issues}?per_page=1", issues, issue, f"{issue}/comments", ticket, comment)


def _read_github(answers: Sequence[str]) -> Reading:
    answer = parse_object(answers[0])
    if "number" not in answer:
        return Reading()
    url = str(answer.get("html_url") or "")
    title = "/".join(url.split("/")[3:5]) + f"#{answer['number']}"
    return Reading(reference={"number": answer["number"]}, url=url, title=title, state=str(answer.get("state") or ""))


def _gitlab(message: Message, to: Address, reference: Mapping[str, Any]) -> _Tracker:
    issues = f"{to.url.rstrip('/')}/api/v4/projects/{quote(to.options.get('project', ''), safe='')}/issues"
    issue = f"{issues}/{reference.get('iid')}"
    ticket = {"title": cut(message.title, _MAX_TITLE), "description": _body(message), "labels": ",".join(_labels(to))}
    headers, comment = {**JSON, "PRIVATE-TOKEN": _secret(to)}, {"body": _comment(message)}
    return _Tracker(headers, f"{issues}?per_page=1", issues, issue, f"{issue}/notes", ticket, comment)


def _read_gitlab(answers: Sequence[str]) -> Reading:
    answer = parse_object(answers[0])
    if "iid" not in answer:
        return Reading()
    title = str((answer.get("references") or {}).get("full") or f"#{answer['iid']}")
    url, state = str(answer.get("web_url") or ""), str(answer.get("state") or "")
    return Reading(reference={"iid": answer["iid"]}, url=url, title=title, state=state)


def _jira(message: Message, to: Address, reference: Mapping[str, Any]) -> _Tracker:
    basic = base64.b64encode(f"{to.options.get('user', '')}:{_secret(to)}".encode()).decode()
    base, key = f"{to.url.rstrip('/')}/rest/api/3", to.options.get("project", "")
    issue = f"{base}/issue/{reference.get('key')}"
    fields = {
        "project": {"key": key},
        "issuetype": {"name": to.options.get("type") or "Task"},
        "summary": cut(" ".join(message.title.split()), _MAX_TITLE),
        "description": _document(
            [message.title, *(f"{label}: {cut(text, 2000)}" for label, text in message.facts)],
            message,
            message.evidence,
        ),
    }
    headers = {**JSON, "Accept": "application/json", "Authorization": f"Basic {basic}"}
    comment = {"body": _document([_news(message)], message)}
    test, tickets = f"{base}/project/{quote(key)}", f"{base}/issue"
    return _Tracker(headers, test, tickets, f"{issue}?fields=status", f"{issue}/comment", {"fields": fields}, comment)


def _document(lines: Sequence[str], message: Message, evidence: Sequence[str] = ()) -> dict[str, Any]:
    """Jira's document format: plain paragraphs, lines of evidence as code, and the links."""
    content: list[dict[str, Any]] = [_paragraph(line) for line in lines if line]
    if evidence:
        content.append({"type": "codeBlock", "content": [{"type": "text", "text": "\n".join(evidence)}]})
    content += [_paragraph(cut(title, _MAX_TITLE), _link_mark(url)) for title, url in message.links]
    return {"type": "doc", "version": 1, "content": content}


def _link_mark(url: str) -> dict[str, Any]:
    return {"type": "link", "attrs": {"href": url}}


def _paragraph(text: str, *marks: dict[str, Any]) -> dict[str, Any]:
    words = {"type": "text", "text": text} | ({"marks": list(marks)} if marks else {})
    return {"type": "paragraph", "content": [words]}


def _read_jira(answers: Sequence[str]) -> Reading:
    answer = parse_object(answers[0])
    key = answer.get("key")
    if not key or "self" not in answer or "projectTypeKey" in answer:
        return Reading()
    site = str(answer["self"]).partition("/rest/")[0]
    status = ((answer.get("fields") or {}).get("status") or {}).get("name") or "created"
    return Reading(reference={"key": key}, url=f"{site}/browse/{key}", title=str(key), state=str(status))


def _secret(to: Address) -> str:
    return to.secrets[0] if to.secrets else ""


def _labels(to: Address) -> list[str]:
    return [label.strip() for label in to.options.get("labels", "").split(",") if label.strip()]


type _TrackerOf = Callable[[Message, Address, Mapping[str, Any]], _Tracker]
type _AnswerReader = Callable[[Sequence[str]], Reading]


def _kind(
    name: str, title: str, step: str, fields: tuple[Field, ...], tracker_of: _TrackerOf, read: _AnswerReader
) -> Destination:
    def render(message: Message, to: Address, reference: Mapping[str, Any], now: datetime) -> list[Request]:
        return _requests(tracker_of(message, to, reference), message, is_known=bool(reference))

    token = Field("secret", "Token", "Never shown again", is_secret=True)
    return Destination(
        id=name,
        title=title,
        group="Tickets",
        summary="a ticket that a person creates for an incident or a node",
        product=title.removesuffix(" issues"),
        steps=(step, "Managers and engineers then make tickets from the pages of incidents and nodes."),
        fields=(*fields, token),
        render=render,
        read=read,
        events=(),
        is_following=True,
        is_by_hand=True,
    )


_LABELS = Field("labels", "Labels", "Separated by commas", "training", is_required=False)
GITHUB = _kind(
    "github",
    "GitHub issues",
    "In GitHub create a fine-grained token for the repository with “Issues: read and write”.",
    (
        Field("project", "Repository", "", "owner/name"),
        _LABELS,
        Field("url", "API", "Of GitHub Enterprise: https://host/api/v3", default="https://api.github.com"),
    ),
    _github,
    _read_github,
)
GITLAB = _kind(
    "gitlab",
    "GitLab issues",
    "In GitLab open the project's Settings, Access tokens, and add one of role Reporter with the scope api.",
    (
        Field("project", "Project", "Its path or number", "group/name"),
        _LABELS,
        Field("url", "Address", "", default="https://gitlab.com"),
    ),
    _gitlab,
    _read_gitlab,
)
JIRA = _kind(
    "jira",
    "Jira issues",
    "Open https://id.atlassian.com, Security, API tokens, and create one for an account that may create issues.",
    (
        Field("url", "Address", "", "https://yours.atlassian.net"),
        Field("user", "Account", "The e-mail address of the token's account", "bot@example.org"),
        Field("project", "Project key", "", "OPS"),
        Field("type", "Type of issue", default="Task", is_required=False),
    ),
    _jira,
    _read_jira,
)
