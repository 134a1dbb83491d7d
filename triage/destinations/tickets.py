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
    loaded,
    markdown_escaped,
)
from triage.domain.route_message import Message

_TITLE = 250


def _body(message: Message) -> str:
    """The first text of a ticket, in Markdown."""
    lines = [f"**{markdown_escaped(label)}:** {markdown_escaped(cut(said, 2000))}" for label, said in message.facts]
    if message.evidence:  # indented: no line of a log can end it or be read as Markdown
        lines += ["**Evidence:**", "\n".join(f"    {line}" for line in message.evidence)]
    return "\n\n".join([markdown_escaped(message.title), *lines, _links(message)])


def _links(message: Message) -> str:
    """The pages here in Markdown, each a paragraph."""
    return "\n\n".join(f"[{markdown_escaped(cut(title, _TITLE))}]({url})" for title, url in message.links)


def _news(message: Message) -> str:
    """The first words of a comment: what is new."""
    again = "It happened again" if message.event == "incident.opened" else message.news or "New diagnosis"
    state = next((said for label, said in message.facts if label == "State"), "")
    return f"{again}: {message.title} ({state})."


def _comment(message: Message) -> str:
    """A comment in Markdown."""
    return f"{markdown_escaped(_news(message))}\n\n{_links(message)}"


class _Desk(NamedTuple):
    """How one system makes tickets: its addresses, and the bodies of a new ticket and of a comment."""

    headers: Mapping[str, str]
    #: a test reads this: whether the token may read the project
    test: str
    tickets: str
    #: the known ticket and its comments
    ticket: str
    comments: str
    made: dict[str, Any]
    said: dict[str, Any]


def _requests(desk: _Desk, message: Message, *, is_known: bool) -> list[Request]:
    """A test, a new ticket, or the known one's state and a comment on it."""
    if not message.links:
        return [Request(desk.test, b"", desk.headers, "GET")]
    if not is_known:
        return [Request(desk.tickets, as_json(desk.made), desk.headers)]
    comment = Request(desk.comments, as_json(desk.said), desk.headers)
    return [Request(desk.ticket, b"", desk.headers, "GET"), comment]


def _github(message: Message, to: Address, reference: Mapping[str, Any]) -> _Desk:
    issues = f"{to.url.rstrip('/')}/repos/{quote(to.options.get('project', ''))}/issues"
    one, labels = f"{issues}/{reference.get('number')}", _labels(to)
    made = {"title": cut(message.title, _TITLE), "body": _body(message), **({"labels": labels} if labels else {})}
    bearer = {"Authorization": f"Bearer {_secret(to)}"}
    headers = {**JSON, **bearer, "Accept": "application/vnd.github+json", "X-GitHub-Api-Version": "2022-11-28"}
    said = {"body": _comment(message)}
    return _Desk(headers, f"{issues}?per_page=1", issues, one, f"{one}/comments", made, said)


def _read_github(answers: Sequence[str]) -> Reading:
    said = loaded(answers[0])
    if "number" not in said:
        return Reading()
    url = str(said.get("html_url") or "")
    title = "/".join(url.split("/")[3:5]) + f"#{said['number']}"
    return Reading(reference={"number": said["number"]}, url=url, title=title, state=str(said.get("state") or ""))


def _gitlab(message: Message, to: Address, reference: Mapping[str, Any]) -> _Desk:
    issues = f"{to.url.rstrip('/')}/api/v4/projects/{quote(to.options.get('project', ''), safe='')}/issues"
    one = f"{issues}/{reference.get('iid')}"
    made = {"title": cut(message.title, _TITLE), "description": _body(message), "labels": ",".join(_labels(to))}
    headers, said = {**JSON, "PRIVATE-TOKEN": _secret(to)}, {"body": _comment(message)}
    return _Desk(headers, f"{issues}?per_page=1", issues, one, f"{one}/notes", made, said)


def _read_gitlab(answers: Sequence[str]) -> Reading:
    said = loaded(answers[0])
    if "iid" not in said:
        return Reading()
    title = str((said.get("references") or {}).get("full") or f"#{said['iid']}")
    url, state = str(said.get("web_url") or ""), str(said.get("state") or "")
    return Reading(reference={"iid": said["iid"]}, url=url, title=title, state=state)


def _jira(message: Message, to: Address, reference: Mapping[str, Any]) -> _Desk:
    basic = base64.b64encode(f"{to.options.get('user', '')}:{_secret(to)}".encode()).decode()
    base, key = f"{to.url.rstrip('/')}/rest/api/3", to.options.get("project", "")
    one = f"{base}/issue/{reference.get('key')}"
    fields = {
        "project": {"key": key},
        "issuetype": {"name": to.options.get("type") or "Task"},
        "summary": cut(" ".join(message.title.split()), _TITLE),
        "description": _document(
            [message.title, *(f"{label}: {cut(said, 2000)}" for label, said in message.facts)],
            message,
            message.evidence,
        ),
    }
    headers = {**JSON, "Accept": "application/json", "Authorization": f"Basic {basic}"}
    said = {"body": _document([_news(message)], message)}
    test, tickets = f"{base}/project/{quote(key)}", f"{base}/issue"
    return _Desk(headers, test, tickets, f"{one}?fields=status", f"{one}/comment", {"fields": fields}, said)


def _document(lines: Sequence[str], message: Message, evidence: Sequence[str] = ()) -> dict[str, Any]:
    """Jira's document format: plain paragraphs, lines of evidence as code, and the links."""
    content: list[dict[str, Any]] = [_paragraph(line) for line in lines if line]
    if evidence:
        content.append({"type": "codeBlock", "content": [{"type": "text", "text": "\n".join(evidence)}]})
    content += [
        _paragraph(cut(title, _TITLE), {"type": "link", "attrs": {"href": url}}) for title, url in message.links
    ]
    return {"type": "doc", "version": 1, "content": content}


def _to(url: str) -> dict[str, Any]:
    return {"type": "link", "attrs": {"href": url}}


def _paragraph(text: str, *marks: dict[str, Any]) -> dict[str, Any]:
    words = {"type": "text", "text": text} | ({"marks": list(marks)} if marks else {})
    return {"type": "paragraph", "content": [words]}


def _read_jira(answers: Sequence[str]) -> Reading:
    said = loaded(answers[0])
    key = said.get("key")
    if not key or "self" not in said or "projectTypeKey" in said:
        return Reading()
    site = str(said["self"]).partition("/rest/")[0]
    status = ((said.get("fields") or {}).get("status") or {}).get("name") or "created"
    return Reading(reference={"key": key}, url=f"{site}/browse/{key}", title=str(key), state=str(status))


def _secret(to: Address) -> str:
    return to.secrets[0] if to.secrets else ""


def _labels(to: Address) -> list[str]:
    return [one.strip() for one in to.options.get("labels", "").split(",") if one.strip()]


type _DeskOf = Callable[[Message, Address, Mapping[str, Any]], _Desk]
type _Read = Callable[[Sequence[str]], Reading]


def _kind(name: str, title: str, step: str, fields: tuple[Field, ...], desk_of: _DeskOf, read: _Read) -> Destination:
    def render(message: Message, to: Address, reference: Mapping[str, Any], now: datetime) -> list[Request]:
        return _requests(desk_of(message, to, reference), message, is_known=bool(reference))

    token = Field("secret", "Token", "Never shown again", is_secret=True)
    return Destination(
        id=name,
        title=title,
        group="Tickets",
        tells="a ticket that a person creates for an incident or a node",
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
