"""Tickets of incidents and nodes in other systems: made by hand once, and commented on by what happens later."""

from __future__ import annotations

import json

import pytest
from django.core.management import CommandError, call_command
from django.db import IntegrityError

from ingest.models import Node
from tests.factories import api_of, make_cluster, make_job, make_user
from tests.pages import page_text
from tests.triage.desks import diagnosed, over
from tests.triage.report import sample
from triage.domain.route_message import quoted_evidence
from triage.models import Activity, Delivery, Reference
from triage.services import outbox, routes, tickets

pytestmark = pytest.mark.django_db(transaction=True)

FIELDS = {
    "github": {"options": {"project": "o/r", "labels": "training, gpu"}},
    "gitlab": {"options": {"project": "g/p"}},
    "jira": {"options": {"user": "bot@example.org", "project": "OPS"}},
}
TICKETS = {
    "github": ("o/r#12", "https://github.example/o/r/issues/12", "open"),
    "gitlab": ("g/p#3", "https://gitlab.example/g/p/-/issues/3", "opened"),
    "jira": ("OPS-7", None, "created"),
}


@pytest.mark.parametrize("kind", FIELDS)
def test_a_ticket_is_made_by_hand_and_shown_with_its_state(client, desks, manager, kind):
    route = routes.route_save(by=manager, name="Tracker", kind=kind, url=desks.url, secret="t", **FIELDS[kind])
    incident = diagnosed()
    assert not desks.got, "nobody asked for a ticket"
    client.force_login(make_user("ada", "engineer"))
    page = client.get(f"/incidents/{incident.pk}/tickets/").content.decode()
    assert "No ticket yet" in page and "Make a ticket" in page
    client.post(f"/incidents/{incident.pk}/ticket/", {"route": route.pk})
    title, url, state = TICKETS[kind]
    made = Reference.objects.get()
    assert (made.title, made.url, made.state) == (title, url or f"{desks.url}/browse/OPS-7", state)
    page = client.get(f"/incidents/{incident.pk}/tickets/").content.decode()
    assert title in page and made.url in page and "Make a ticket" not in page
    again = client.post(f"/incidents/{incident.pk}/ticket/", {"route": route.pk}, follow=True)
    assert "made or requested before" in again.content.decode()
    assert len(desks.posts()) == 1


@pytest.mark.parametrize("kind", FIELDS)
def test_a_ticket_quotes_the_evidence_and_nothing_of_it_is_markdown(desks, manager, kind):
    routes.route_save(
        by=manager, name="x", kind=kind, url=desks.url, secret="t", events=["incident.opened"], **FIELDS[kind]
    )
    logs = sample()["logs"]
    logs["events"][0]["example"] = "Xid 79\n\n# @everyone [click](https://evil.example)"
    diagnosed(logs=logs)
    ((_, made),) = desks.posts()
    said = json.dumps(made)
    assert "logs/gpu-0412.log:812: Xid 79 # @everyone" in said
    if kind != "jira":
        (body,) = [made[name] for name in ("body", "description") if name in made]
        lines = [line for line in body.splitlines() if "@everyone" in line or "gpu-0412.log" in line]
        assert lines
        assert all(line.startswith("    ") for line in lines)


def test_programs_that_are_told_of_an_incident_get_no_evidence(receiver, manager):
    routes.route_save(by=manager, name="x", url=receiver.url, events=["incident.opened"])
    diagnosed()
    assert "evidence" not in json.loads(receiver.bodies()[0])["data"]


def test_the_api_and_the_command_line_make_tickets_and_show_them(desks, manager, capsys):
    made = [
        routes.route_save(by=manager, name=kind, kind=kind, url=desks.url, secret="t", **FIELDS[kind])
        for kind in ("github", "gitlab")
    ]
    incident, ada = diagnosed(), make_user("ada", "engineer")
    api, address = api_of(ada, "read", "review"), f"/api/v1/incidents/{incident.pk}/tickets/"
    assert [row["name"] for row in api.get(address).json()["routes"]] == ["gitlab", "github"]
    answer = api.post(address, {"route": made[0].pk})
    assert answer.status_code == 202
    assert [row["url"] for row in answer.json()["made"]] == [TICKETS["github"][1]]
    assert api.post(address, {"route": made[0].pk}).status_code == 422
    assert api.post(address, {"route": 99}).status_code == 422
    assert api_of(make_user("vic", "viewer"), "read", "review").post(address, {}).status_code == 403
    call_command("routes", "ticket", str(made[1].pk), str(incident.pk), "--by", "ada")
    assert "A ticket is made by gitlab" in capsys.readouterr().out
    assert {row["name"] for row in api.get(address).json()["made"]} == {"github", "gitlab"}
    with pytest.raises(CommandError, match="may not review"):
        call_command("routes", "ticket", str(made[1].pk), str(incident.pk), "--by", "vic")


@pytest.mark.parametrize("kind", FIELDS)
def test_what_happens_later_is_a_comment_also_if_the_failure_returns_in_another_job(desks, manager, kind):
    ada = make_user("ada", "engineer")
    route = routes.route_save(by=manager, name="Tracker", kind=kind, url=desks.url, secret="t", **FIELDS[kind])
    incident = diagnosed()
    tickets.ticket_ask(route_id=route.pk, about=incident, by=ada)
    over(incident, ada)
    desks.state = "closed"
    again = diagnosed("another")
    comments = [
        json.dumps(body) for path, body in desks.posts() if path.rpartition("/")[2] in ("comments", "notes", "comment")
    ]
    assert len(comments) == len(desks.posts()) - 1 == 3, "one ticket, three comments"
    assert f"/incidents/{again.pk}/" in comments[-1] and "It happened again" in comments[-1]
    assert Reference.objects.get(incident=again).data == Reference.objects.get(incident=incident).data
    if kind == "github":
        assert Reference.objects.get(incident=again).state == "closed"


def test_a_test_of_a_tracker_makes_no_ticket(desks, manager):
    route = routes.route_save(by=manager, name="x", kind="github", url=desks.url, secret="t", **FIELDS["github"])
    outbox.ping(route=route)
    assert [method for method, _, _ in desks.got] == ["GET"]
    assert route.deliveries.get().state == "delivered"


def test_the_evidence_about_a_node_names_it_and_is_no_teardown():
    def event(role, *nodes):
        lines = [{"node": node, "file": f"{node}.log", "line": 1} for node in nodes]
        return {"role": role, "template": f"{role} {nodes[0]}", "lines": lines, "node_names": nodes}

    report = {"logs": {"events": [event("root", "a"), event("cascade", "b"), event("teardown", "a", "b")]}}
    assert quoted_evidence(report, node="a") == ["a.log:1: root a"]
    assert len(quoted_evidence(report)) == 3


def tracker(manager, desks, kind="github"):
    return routes.route_save(by=manager, name="Tracker", kind=kind, url=desks.url, secret="t", **FIELDS[kind])


@pytest.mark.parametrize("kind", ["github", "jira"])  # Markdown, and a document
def test_a_ticket_of_a_node_says_what_accuses_it_and_is_made_once(client, desks, manager, kind):
    route, incident = tracker(manager, desks, kind), diagnosed()
    Node.objects.filter(name="gpu-0412").update(note="RMA 4711")
    client.force_login(make_user("ada", "engineer"))
    address = "/nodes/gpu-0412/tickets/?cluster=default"
    assert address in page_text(client.get("/nodes/gpu-0412/"))
    assert "No ticket yet" in page_text(client.get(address))
    client.post("/nodes/gpu-0412/ticket/?cluster=default", {"route": route.pk})
    ((_, made),) = desks.posts()
    said = json.dumps(made).replace("\\\\", "")
    for words in (
        "gpu-0412: accused in 1 incident",
        f"Why (#{incident.pk})",
        "Evict: gpu-0412",
        "RMA 4711",
        f"#{incident.pk} logs/gpu-0412.log",
    ):
        assert words in said
    assert f"/incidents/{incident.pk}/" in said and "/nodes/gpu-0412/?cluster=default" in said
    title, url, state = TICKETS[kind]
    known = Reference.objects.get()
    assert (known.node, known.incident, known.title, known.state) == (
        Node.objects.get(name="gpu-0412", cluster__slug="default"),
        None,
        title,
        state,
    )
    for page in (address, f"/incidents/{incident.pk}/"):
        shown = page_text(client.get(page))
        assert title in shown and (url or known.url) in shown and state in shown
    again = client.post("/nodes/gpu-0412/ticket/?cluster=default", {"route": route.pk}, follow=True)
    assert "made or requested before" in page_text(again)
    assert Activity.objects.get(kind="node_ticketed").data == {"subject": "gpu-0412", "route": "Tracker"}


def test_an_incident_that_newly_accuses_the_node_is_a_comment_on_its_ticket(desks, manager):
    ada, job = make_user("ada", "engineer"), make_job("night-run")
    route, first = tracker(manager, desks), diagnosed(job)
    tickets.ticket_ask(route_id=route.pk, about=Node.objects.get(name="gpu-0412", cluster__slug="default"), by=ada)
    diagnosed(job, revision=2, headline="Said in other words.")
    assert len(desks.posts()) == 1, "this incident was in the ticket"
    desks.state = "closed"
    again = diagnosed("another")
    diagnosed(again.job, revision=2, headline="Said in other words.")
    ((_, _), (path, comment)) = desks.posts()
    assert path.endswith("/issues/12/comments")
    assert "was accused again" in comment["body"] and f"/incidents/{again.pk}/" in comment["body"]
    assert "/nodes/gpu-0412/" in comment["body"] and f"/incidents/{first.pk}/" not in comment["body"]
    assert Reference.objects.get().state == "closed"
    elsewhere = make_job("elsewhere", cluster=make_cluster("b"))
    diagnosed(elsewhere)
    assert len(desks.posts()) == 2, "another machine of that name"


def test_a_node_and_an_incident_have_tickets_of_their_own_on_one_route(desks, manager):
    ada, route, incident = make_user("ada", "engineer"), tracker(manager, desks), diagnosed()
    tickets.ticket_ask(route_id=route.pk, about=incident, by=ada)
    tickets.ticket_ask(route_id=route.pk, about=Node.objects.get(name="gpu-0412", cluster__slug="default"), by=ada)
    over(incident, ada)
    assert Reference.objects.count() == 2
    assert [row.about for row in Delivery.objects.order_by("created_at")] == [
        ("incident", incident.pk),
        ("node", Node.objects.get(name="gpu-0412", cluster__slug="default").pk),
        *[("incident", incident.pk)] * 2,
    ]
    with pytest.raises(IntegrityError):
        Reference.objects.create(route=route)


def test_the_api_and_the_command_line_make_tickets_of_nodes_as_of_incidents(desks, manager, capsys):
    route, ada = tracker(manager, desks), make_user("ada", "engineer")
    other = routes.route_save(by=manager, name="gitlab", kind="gitlab", url=desks.url, secret="t", **FIELDS["gitlab"])
    diagnosed()
    api, address = api_of(ada, "read", "review"), "/api/v1/nodes/gpu-0412/tickets/"
    assert [row["name"] for row in api.get(address).json()["routes"]] == ["gitlab", "Tracker"]
    answer = api.post(f"{address}?cluster=default", {"route": route.pk})
    assert (answer.status_code, [row["title"] for row in answer.json()["made"]]) == (202, ["o/r#12"])
    assert api.post(address, {"route": route.pk}).status_code == 422
    assert api.get("/api/v1/nodes/gpu-9/tickets/").status_code == 404
    assert api_of(make_user("vic", "viewer"), "read", "review").post(address, {"route": 1}).status_code == 403
    call_command("routes", "ticket", str(other.pk), "--node", "gpu-0412", "--by", "ada")
    assert "A ticket is made by gitlab" in capsys.readouterr().out
    with pytest.raises(CommandError, match="sees a node gpu-9"):
        call_command("routes", "ticket", str(other.pk), "--node", "gpu-9", "--by", "ada")
