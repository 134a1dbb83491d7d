"""Chats: one message says what to know, is updated instead of repeated, waits in quiet hours, and mentions nobody."""

from __future__ import annotations

import json
from datetime import datetime, time, timedelta

import pytest
from django.core import mail
from django.utils import timezone

from ingest.refusals import Refused
from ingest.signals import swept
from tests.factories import make_attempt, make_cluster, make_job, make_team, make_user
from tests.triage.chats import SECRET, chatting
from tests.triage.report import healthy, sample
from triage.destinations import ALL, Address
from triage.domain.route_message import message_of
from triage.models import Delivery, Route
from triage.services import delivering, outbox, previewing, reviewing, routes
from triage.services.diagnosing import diagnosis_store

pytestmark = pytest.mark.django_db(transaction=True)
WORDS = ("GPU 5 of gpu-0412 fell off the bus", "gpu-0412, job night-run on cluster default", "93\u00a0% sure", "Evict")


@pytest.fixture
def chats(settings):
    settings.ROUTES_ALLOW = ["127.0.0.0/8"]
    with chatting() as found:
        yield found


def make_route(chats, manager, kind, **more):
    fields = {"url": f"{chats.url}/{kind}"} | ({"secret": SECRET} if kind in ("feishu", "dingtalk") else {})
    if kind == "slack_bot":
        fields = {"url": f"{chats.url}/api", "secret": "xoxb-1", "options": {"channel": "#ops"}}
    return routes.route_save(by=manager, name=kind, kind=kind, **{**fields, **more})


def diagnosed(attempt=None, *, revision=1, **changes):
    report = sample()
    report.update(changes)
    diagnosis_store(attempt=attempt or make_attempt(make_job("night-run")), revision=revision, report=report)


def due_now():
    Route.objects.update(resume_at=None, claimed_until=None)
    swept.send(sender=None)


@pytest.mark.parametrize("kind", ["slack", "slack_bot", "teams", "mattermost", "feishu", "dingtalk"])
def test_each_chat_takes_an_opened_incident_that_says_what_where_how_sure_and_what_to_do(chats, manager, kind):
    route = make_route(chats, manager, kind)
    diagnosed()
    assert [row.state for row in route.deliveries.all()] == ["delivered"], route.deliveries.values_list("attempts")
    body = chats.got[0][1]
    said = json.dumps(body, ensure_ascii=False).replace("\\\\", "")
    assert all(word in said for word in WORDS), said
    assert f"/incidents/{Delivery.objects.get().incident_id}/" in said


@pytest.mark.parametrize("kind", ["slack_bot", "feishu", "dingtalk"])
def test_a_refusal_inside_of_an_answer_200_is_no_delivery(chats, manager, kind):
    route = make_route(chats, manager, kind, secret="wrong")
    outbox.ping(route=route)
    delivery = route.deliveries.get()
    assert delivery.state == "waiting"
    assert "answered" in delivery.attempts[0]["error"]
    assert "wrong" not in json.dumps(delivery.attempts)


def test_a_bot_keeps_one_message_an_incident_and_tells_the_rest_in_its_thread(chats, manager):
    make_route(chats, manager, "slack_bot")
    attempt = make_attempt(make_job("night-run"))
    diagnosed(attempt)
    diagnosed(attempt, revision=2)
    assert [path for path, _ in chats.got] == ["/api/chat.postMessage"], "it says the same: nothing is sent"
    diagnosed(attempt, revision=3, headline="The switch of gpu-0412 failed.")
    ada = make_user("ada", "engineer")
    reviewing.decision_make(incident=attempt.incidents.get(), claim="category", word="confirm", by=ada)
    paths = [path.removeprefix("/api/chat.") for path, _ in chats.got]
    assert paths == ["postMessage", "update", "postMessage", "update", "postMessage"]
    first, second, reply = (body for _, body in chats.got[:3])
    assert "thread_ts" not in first
    assert second["ts"] == reply["thread_ts"] == "17.0"
    assert "The switch of gpu-0412 failed." in second["blocks"][0]["text"]["text"]
    assert chats.got[-1][1]["text"].startswith("ada confirmed the category")


def test_a_webhook_of_a_chat_repeats_nothing_that_says_the_same(chats, manager):
    make_route(chats, manager, "slack")
    attempt = make_attempt()
    diagnosed(attempt)
    diagnosed(attempt, revision=2)
    assert len(chats.got) == 1
    diagnosed(attempt, revision=3, headline="The switch failed.")
    assert [body["text"].partition(":")[0] for body in chats.bodies("/slack")] == ["New incident", "New diagnosis"]


def test_a_failure_that_came_back_is_one_message_not_two(chats, manager):
    make_route(chats, manager, "slack")
    attempt, ada = make_attempt(), make_user("ada", "engineer")
    diagnosed(attempt)
    reviewing.decision_make(incident=attempt.incidents.get(), claim="category", word="confirm", by=ada)
    reviewing.incident_act(incident=attempt.incidents.get(), act="resolved", by=ada)
    chats.got.clear()
    diagnosed(make_attempt(make_job("again")))
    (body,) = chats.bodies("/slack")
    assert body["text"].startswith(f"It came back: #{attempt.incidents.get().pk} was resolved before")


@pytest.mark.parametrize(
    ("query", "is_sent"),
    [
        ("category:hardware cluster:default", True),
        ("category:network", False),
        ('said:"fallen off the bus"', True),
        ("cluster:elsewhere OR node:gpu-0412", True),
        ("confidence:<0.5", False),
    ],
)
def test_only_incidents_that_match_the_search_are_sent(chats, manager, query, is_sent):
    make_route(chats, manager, "slack", query=query)
    diagnosed()
    assert bool(chats.got) is is_sent


def test_an_incident_that_matches_only_after_a_new_diagnosis_is_told_then_and_its_end_too(chats, manager):
    make_route(chats, manager, "slack", query="category:hardware.gpu.ecc")
    attempt = make_attempt()
    diagnosed(attempt)
    assert not chats.got
    diagnosed(attempt, revision=2, conclusion={**sample()["conclusion"], "id": "hardware.gpu.ecc"})
    assert len(chats.got) == 1
    diagnosed(attempt, revision=3, conclusion=healthy()["conclusion"], suspects=[])
    assert chats.bodies("/slack")[-1]["text"].startswith("A later diagnosis found no failure")


def test_in_quiet_hours_messages_wait_and_then_come_in_order(chats, manager):
    now = timezone.now()
    hours = {"quiet_from": (now - timedelta(hours=1)).time(), "quiet_until": (now + timedelta(hours=2)).time()}
    route = make_route(chats, manager, "slack", **hours)
    for name in ("one", "two"):
        diagnosed(make_attempt(make_job(name)))
    assert not chats.got
    route.refresh_from_db()
    assert timedelta(hours=1) < route.resume_at - now <= timedelta(hours=2)
    outbox.ping(route=route)
    assert len(chats.got) == 1, "a test does not wait"
    Route.objects.update(quiet_from=None, quiet_until=None)
    due_now()
    jobs = [json.dumps(body).partition("job ")[2].partition(" on")[0] for body in chats.bodies("/slack")[1:]]
    assert jobs == ["one", "two"]


@pytest.mark.parametrize(
    ("at", "quiet", "end"),
    [
        ("2026-11-22T21:30", ("22:00", "07:00"), None),
        ("2026-11-22T23:30", ("22:00", "07:00"), "2026-11-23T07:00"),
        ("2026-11-23T06:59", ("22:00", "07:00"), "2026-11-23T07:00"),
        ("2026-11-23T07:00", ("22:00", "07:00"), None),
        ("2026-11-23T13:00", ("12:00", "14:00"), "2026-11-23T14:00"),
    ],
)
def test_quiet_hours_are_those_of_the_routes_time_zone_also_over_midnight(at, quiet, end):
    from zoneinfo import ZoneInfo

    berlin = ZoneInfo("Europe/Berlin")
    route = Route(quiet_from=time.fromisoformat(quiet[0]), quiet_until=time.fromisoformat(quiet[1]), zone=berlin.key)
    found = delivering.quiet_end(route, datetime.fromisoformat(at).replace(tzinfo=berlin))
    assert found == (datetime.fromisoformat(end).replace(tzinfo=berlin) if end else None)


def test_what_waited_for_a_dead_bot_is_sent_as_it_stands_now(chats, manager):
    route = make_route(chats, manager, "slack_bot")
    attempt, ada = make_attempt(), make_user("ada", "engineer")
    chats.down.add("/api/chat.postMessage")
    diagnosed(attempt)
    reviewing.decision_make(incident=attempt.incidents.get(), claim="category", word="confirm", by=ada)
    Delivery.objects.update(created_at=timezone.now() - timedelta(minutes=5))
    Delivery.objects.filter(event="incident.decided").update(created_at=timezone.now())
    chats.down.clear()
    due_now()
    assert sorted(route.deliveries.values_list("state", flat=True)) == ["delivered", "replaced"]
    ((_, body),) = chats.got
    assert "confirmed by a person" in json.dumps(body)


def test_a_dead_chat_delays_no_other_and_loses_no_order(chats, manager):
    dead, fine = make_route(chats, manager, "teams"), make_route(chats, manager, "slack")
    chats.down.add("/teams")
    for n in range(3):
        diagnosed(make_attempt(make_job(f"job-{n}")))
    assert fine.deliveries.filter(state="delivered").count() == 3
    assert [row.tries for row in dead.deliveries.order_by("created_at")] == [1, 0, 0], "the first holds up the others"
    chats.down.clear()
    due_now()
    assert [f"job-{n}" in json.dumps(body) for n, body in enumerate(chats.bodies("/teams"))] == [True] * 3


def test_a_message_that_is_refused_holds_up_the_others_for_three_tries(chats, manager):
    route = make_route(chats, manager, "slack")
    for name in ("one", "two"):
        diagnosed(make_attempt(make_job(name)))
    Delivery.objects.update(state="waiting", tries=0, attempts=[])
    first = route.deliveries.order_by("created_at").first()
    Delivery.objects.filter(pk=first.pk).update(body=first.body.replace("night", ""), attempts=[])
    route.url = f"{chats.url}/nowhere"
    route.save()
    for _ in range(3):
        due_now()
    first.refresh_from_db()
    assert (first.tries, first.is_in_order, first.state) == (3, False, "waiting")
    route.url = f"{chats.url}/slack"
    route.save()
    due_now()
    assert route.deliveries.filter(state="delivered").count() == 1


def test_an_email_says_the_same_in_one_thread(manager, settings):
    routes.route_save(by=manager, name="mail", kind="email", options={"to": "a@example.org, b@example.org"})
    attempt = make_attempt(make_job("night-run"))
    diagnosed(attempt)
    diagnosed(attempt, revision=2, headline="The switch\r\nBcc: x@example.org failed.")
    first, second = mail.outbox
    assert first.to == ["a@example.org", "b@example.org"]
    assert all(word in first.body for word in WORDS)
    assert "\n" not in second.subject and second.subject.startswith(f"#{attempt.incidents.get().pk} The switch Bcc:")
    assert first.extra_headers["References"] == second.extra_headers["References"]


HOSTILE = "<!channel> @all [click](https://evil.example) <at id=all></at> *x* `y` & " + "z" * 900


@pytest.mark.parametrize("kind", ["slack", "mattermost", "teams", "feishu", "dingtalk"])
def test_text_of_evidence_mentions_nobody_and_makes_no_link(kind):
    data = {
        "number": 1,
        "headline": HOSTILE,
        "accused": [HOSTILE],
        "url": "https://f.example/incidents/1/",
        "state": "x",
    }
    raw = json.dumps({"type": "incident.opened", "timestamp": "2026-11-22T00:00:00Z", "data": {"incident": data}})
    message = message_of(raw, key="k")
    (request,) = ALL[kind].render(message, Address("https://chat.example/x"), {}, timezone.now())
    body = json.loads(request.body)
    # the header of Slack is plain text, which mentions nobody
    texts = [text for text in _texts(body) if not (kind == "slack" and text == body["blocks"][0]["text"]["text"])]
    if kind in ("slack", "mattermost"):
        assert not any("<!channel>" in text or (kind == "mattermost" and "@all" in text) for text in texts)
    if kind == "dingtalk":
        assert "](https://evil" not in body["actionCard"]["text"]
        assert "at" not in body
    if kind == "feishu":
        assert '"lark_md"' not in json.dumps(body)
    if kind == "teams":
        assert '"TextBlock"' not in json.dumps(body)
    assert len(request.body) < 20_000


def _texts(value):
    if isinstance(value, dict):
        return [text for one in value.values() for text in _texts(one)]
    if isinstance(value, list):
        return [text for one in value for text in _texts(one)]
    return [value] if isinstance(value, str) else []


def test_the_preview_shows_what_the_last_week_would_have_sent_and_sends_nothing(client, chats, manager):
    for name, days in (("old", 8), ("new", 1)):
        attempt = make_attempt(make_job(name))
        diagnosed(attempt)
        attempt.incidents.get().activities.update(at=timezone.now() - timedelta(days=days))
    client.force_login(manager)
    asked = {"name": "x", "act": "preview", "events": ["incident.opened"], "query": "category:hardware"}
    page = client.post("/routes/new/slack/", asked).content.decode()
    assert "<b>1 message</b>" in page and "GPU 5 of gpu-0412" in page
    assert not chats.got and not Route.objects.exists()
    none = client.post("/routes/new/slack/", {**asked, "query": "category:network"}).content.decode()
    assert "Nothing would have been sent" in none
    wrong = client.post("/routes/new/slack/", {**asked, "query": "category:"})
    assert wrong.status_code == 422 and "needs a value" in wrong.content.decode()


def test_the_preview_counts_what_the_route_then_sends(chats, manager):
    route = make_route(chats, manager, "slack_bot")
    attempt, ada = make_attempt(), make_user("ada", "engineer")
    diagnosed(attempt)
    diagnosed(attempt, revision=2, headline="The switch failed.")
    reviewing.decision_make(incident=attempt.incidents.get(), claim="category", word="confirm", by=ada)
    shown = previewing.preview_of(user=manager, kind=ALL["slack_bot"], query="", events=route.events)
    assert shown.count == route.deliveries.count() == 3
    assert [message.news for _, message in shown.newest][::-1] == [
        message_of(row.body, key="").news for row in route.deliveries.order_by("created_at")
    ]


def test_secrets_are_written_and_never_shown_again(client, chats, manager):
    client.force_login(manager)
    url = f"{chats.url}/slack?token=topsecret1234"
    client.post("/routes/new/slack/", {"name": "chat", "url": url, "events": ["incident.opened"]})
    route = Route.objects.get()
    assert route.opened("url") == url
    for page in ("/routes/", f"/routes/{route.pk}/"):
        assert "topsecret" not in client.get(page).content.decode()
    kept = client.post(
        f"/routes/{route.pk}/", {"name": "renamed", "url": "", "events": ["incident.opened"], "active": 1}
    )
    assert kept.status_code == 302
    route.refresh_from_db()
    assert (route.name, route.opened("url")) == ("renamed", url)
    again = client.post(f"/routes/{route.pk}/", {"name": "", "url": url, "events": ["incident.opened"]})
    assert again.status_code == 422 and "topsecret" not in again.content.decode()


@pytest.mark.parametrize(
    ("kind", "change", "field"),
    [
        ("slack", {"url": ""}, "url"),
        ("slack_bot", {"secret": ""}, "secret"),
        ("slack", {"query": "category:hardwear"}, None),
        ("slack", {"query": "is:rainy"}, "query"),
        ("slack", {"quiet_from": time(22)}, "quiet_from"),
        ("slack", {"zone": "Mars/Olympus"}, "zone"),
        ("slack", {"options": {"rain": "x"}}, "rain"),
        ("carrier_pigeon", {}, "kind"),
        ("email", {"options": {"to": "nobody"}}, "to"),
        ("webhook", {"options": {"format": "xml"}}, "format"),
    ],
)
def test_a_route_that_makes_no_sense_is_refused_by_its_field(chats, manager, kind, change, field):
    if kind == "email":
        wanted = {"by": manager, "name": "x", "kind": kind, **change}
        with pytest.raises(Refused) as refusal:
            routes.route_save(**wanted)
        assert list(refusal.value.fields) == [field]
        return
    if field is None:
        assert make_route(chats, manager, kind, **change)
        return
    with pytest.raises(Refused) as refusal:
        make_route(chats, manager, kind, **change)
    assert list(refusal.value.fields) == [field]
    assert not Route.objects.exists()


def test_a_teams_route_goes_on_when_its_owner_leaves_and_carries_what_the_team_may_see(chats, manager):
    closed = make_cluster("closed")
    team = make_team("ours", members=[manager], clusters=[closed])
    route = make_route(chats, manager, "slack", team=team)
    make_team("others", clusters=[make_cluster("theirs")])
    manager.is_active = False
    manager.save()
    diagnosed(make_attempt(make_job(cluster=closed)))
    diagnosed(make_attempt(make_job(cluster=make_cluster("theirs"))))
    assert [row.cluster.slug for row in route.deliveries.all()] == ["closed"]
    assert len(chats.got) == 1


def test_a_cloud_event_carries_the_event_and_its_page(chats, manager, receiver):
    routes.route_save(by=manager, name="x", url=receiver.url, options={"format": "cloudevents"})
    diagnosed()
    _, headers, raw = receiver.got[0]
    body = json.loads(raw)
    assert headers["content-type"].startswith("application/cloudevents+json")
    assert (body["specversion"], body["type"]) == ("1.0", "dev.faultline.incident.opened")
    assert body["id"] == headers["webhook-id"] and body["subject"].startswith("/incidents/")
    assert body["data"]["incident"]["category"] == "hardware.gpu.off_bus"
