"""Routes as managers meet them: the pages and the API."""

from io import StringIO

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from tests.factories import api_of, make_cluster, make_team, make_user
from tests.pages import page_text
from triage.models import Activity, Delivery, Route
from triage.services import outbox, routes

pytestmark = pytest.mark.django_db(transaction=True)


def test_pages_make_show_ping_rotate_and_delete(client, manager, receiver):
    client.force_login(manager)
    wanted = {"name": "chat <b>", "url": receiver.url, "events": ["incident.opened"]}
    page = client.post("/routes/new/webhook/", wanted)
    route = Route.objects.get()
    assert route.opened("secret") in page_text(page)
    listed = page_text(client.get("/routes/"))
    assert route.opened("secret") not in listed and "chat &lt;b&gt;" in listed
    refused = client.post("/routes/new/webhook/", {**wanted, "url": "http://10.0.0.1/"})
    assert refused.status_code == 422 and "not a public address" in page_text(refused)
    sent = client.post(f"/routes/{route.pk}/act/", {"act": "ping"}, follow=True)
    assert "204" in page_text(sent)
    delivery = Delivery.objects.get()
    client.post(f"/routes/{route.pk}/deliveries/{delivery.pk}/redeliver/")
    assert len(receiver.got) == 2
    client.post(f"/routes/{route.pk}/", {**wanted, "name": "chat"})
    route.refresh_from_db()
    assert (route.name, route.is_active) == ("chat", False), "the box was not ticked"
    rotated = client.post(f"/routes/{route.pk}/act/", {"act": "rotate"})
    route.refresh_from_db()
    assert route.opened("secret") in page_text(rotated)
    assert client.post(f"/routes/{route.pk}/act/", {"act": "delete"}).status_code == 302
    assert not Route.objects.exists()
    assert Activity.objects.filter(kind="route_deleted", actor=manager).exists()


def test_a_format_is_chosen_from_a_list_that_shows_what_was_chosen(client, manager, receiver):
    client.force_login(manager)
    page = page_text(client.get("/routes/new/webhook/"))
    assert '<option value="standard" selected>Standard Webhooks</option>' in page
    wanted = {"name": "x", "url": receiver.url, "events": ["incident.opened"]}
    assert "one of standard, cloudevents" in page_text(client.post("/routes/new/webhook/", {**wanted, "format": "xml"}))
    client.post("/routes/new/webhook/", {**wanted, "format": "cloudevents"})
    route = Route.objects.get()
    page = page_text(client.get(f"/routes/{route.pk}/"))
    assert '<option value="cloudevents" selected>CloudEvents 1.0</option>' in page


def test_a_preview_leaves_the_form_alone_and_says_what_is_wrong_with_a_search(client, manager):
    client.force_login(manager)
    asked = {"act": "preview", "name": "x", "events": ["incident.opened"], "query": ")"}
    part = client.post("/routes/new/slack/", asked, headers={"HX-Request": "true"})
    assert "<form" not in page_text(part) and 'class="problem"' in page_text(part)
    part = client.post("/routes/new/slack/", {**asked, "query": ""}, headers={"HX-Request": "true"})
    assert "Nothing would have been sent" in page_text(part)
    whole = page_text(client.post("/routes/new/slack/", {**asked, "query": ""}))
    assert "Nothing would have been sent" in whole and "Enter it again" in whole, "without scripts"


def test_the_page_of_a_test_says_whether_it_arrived_and_what_follows(client, manager, receiver, settings):
    client.force_login(manager)
    route = routes.route_save(by=manager, name="x", kind="slack", url=receiver.url, query="category:hardware")
    settings.SITE_URL = "http://localhost:8000"
    assert "FAULTLINE_SITE_URL" in page_text(client.get(f"/routes/{route.pk}/"))
    settings.SITE_URL = "https://faultline.example"
    page = page_text(client.get(f"/routes/{route.pk}/"))
    assert "FAULTLINE_SITE_URL" not in page and page.count("Send a test") > 1
    receiver.answers = [(404, {}, b"no_service")]
    page = page_text(client.post(f"/routes/{route.pk}/act/", {"act": "ping"}, follow=True))
    assert "It did not arrive." in page and "Slack answered 404: no_service" in page
    receiver.answers = [(200, {}, b"ok")]
    page = page_text(client.post(f"/routes/{route.pk}/act/", {"act": "ping"}, follow=True))
    assert "It arrived." in page and "category:hardware" in page
    waiting = outbox.ping(route=route)
    Delivery.objects.filter(pk=waiting.pk).update(state="waiting", attempts=[])
    assert 'hx-trigger="load delay:1s"' in page_text(client.get(f"/routes/{route.pk}/deliveries/{waiting.pk}/"))


@pytest.mark.parametrize(
    ("who", "status"), [("manager", 200), ("admin", 200), ("other", 404), ("engineer", 403), ("viewer", 403)]
)
def test_a_route_is_its_owners_and_the_administrators(client, route, who, status):
    client.force_login(route.owner if who == "manager" else make_user(who, "manager" if who == "other" else who))
    assert client.get(f"/routes/{route.pk}/").status_code == status
    assert client.get("/routes/").status_code == (403 if status == 403 else 200)
    assert (route.opened("url") in page_text(client.get("/routes/"))) == (status == 200)


def test_the_log_of_many_messages_takes_few_queries(client, route, manager, django_assert_max_num_queries):
    client.force_login(manager)
    for _ in range(5):
        outbox.ping(route=route)
    with django_assert_max_num_queries(8):
        page = client.get(f"/routes/{route.pk}/")
    assert page.content.count(b"<code>ping</code>") == 5


def test_the_api_makes_changes_pings_rotates_and_deletes(manager, receiver):
    client = api_of(manager, "read", "manage")
    said = {"name": "chat", "url": receiver.url, "events": ["incident.opened"]}
    made = client.post("/api/v1/routes/", said, headers={"Idempotency-Key": "one"})
    assert made.status_code == 201, made.json()
    assert client.post("/api/v1/routes/", said, headers={"Idempotency-Key": "one"}).json() == made.json()
    route = Route.objects.get()
    assert made.json()["secret"] == route.opened("secret")
    url = f"/api/v1/routes/{route.pk}/"
    assert "secret" not in client.get(url).json()
    assert client.patch(url, {"is_active": False}).json()["is_active"] is False
    assert client.patch(url, {"events": ["rain"]}).status_code == 422
    assert client.patch(url, {"url": "https://10.0.0.1/"}).json()["errors"][0]["field"] == "url"
    sent = client.post(f"{url}ping/").json()
    assert (sent["state"], sent["attempts"][0]["status"]) == ("delivered", 204)
    assert client.post(f"{url}deliveries/{sent['id']}/redeliver/").status_code == 202
    (row,) = client.get(f"{url}deliveries/").json()["results"]
    assert (row["event"], len(row["attempts"])) == ("ping", 2)
    assert client.post(f"{url}rotate/").json()["secret"] != route.opened("secret")
    assert client.delete(url).status_code == 204
    assert not Route.objects.exists()


def test_a_change_of_one_thing_leaves_the_rest_alone_and_null_takes_the_team_away(route, manager):
    route.team = make_team("ours", members=[manager])
    route.query, route.zone = "cluster:mine", "Europe/Berlin"
    route.save()
    client, url = api_of(manager, "read", "manage"), f"/api/v1/routes/{route.pk}/"
    changed = client.patch(url, {"name": "other"}, format="json").json()
    assert (changed["team"], changed["query"], changed["zone"]) == ("ours", "cluster:mine", "Europe/Berlin")
    assert client.patch(url, {"team": None}, format="json").json()["team"] is None
    route.refresh_from_db()
    assert route.opened("url") == client.get(url).json()["address"]


def test_the_api_of_routes_needs_scope_role_and_ownership(route, manager, receiver):
    url = f"/api/v1/routes/{route.pk}/"
    assert api_of(manager, "read").get(url).status_code == 200
    assert api_of(manager, "read").delete(url).status_code == 403
    assert api_of(make_user("ada", "engineer"), "read", "manage").get(url).status_code == 403
    assert api_of(make_user("max", "manager"), "read", "manage").get(url).status_code == 404
    assert api_of(make_user("root", "admin"), "read", "manage").get(url).status_code == 200
    said = {"name": "x", "url": receiver.url, "events": ["incident.opened"], "team": "others"}
    make_team("others", clusters=[make_cluster("closed")])
    assert api_of(manager, "manage").post("/api/v1/routes/", said).status_code == 422


def test_the_command_line_lists_tests_redelivers_and_deletes(route, receiver):
    def run(*arguments):
        out = StringIO()
        call_command("routes", *arguments, stdout=out)
        return out.getvalue()

    assert route.name in run("list") and route.opened("secret") not in run("list")
    run("test", str(route.pk))
    assert len(receiver.got) == 1
    Delivery.objects.update(state="given_up")
    assert "1 messages" in run("redeliver", str(route.pk))
    assert len(receiver.got) == 2
    run("delete", str(route.pk))
    assert not Route.objects.exists()
    with pytest.raises(CommandError, match="no route"):
        run("delete", str(route.pk))
