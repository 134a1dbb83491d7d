"""The search box as people use it: a number, a job, a node, a person, what somebody wrote, a rule, a message."""

from __future__ import annotations

import pytest
from django.urls import reverse

from tests.factories import make_attempt, make_cluster, make_incident, make_job, make_team, make_user
from tests.pages import page_text
from triage.models import Finding, Incident
from triage.services.indexing import search_entries_build
from triage.services.reviewing import comment_add, decision_make

pytestmark = pytest.mark.django_db
XID = "NVRM: Xid (PCI:0000:3b:00): 79, pid=4242, GPU has fallen off the bus"


@pytest.fixture
def desk(client):
    """Two incidents: what is sought is on #308; #212 has the number 308 in its lines."""
    mara = make_user("mara", "engineer")
    sought = make_job("llama-70b-pretrain", name="Llama 70B, night run")
    incident = make_incident(
        attempt=make_attempt(sought),
        pk=308,
        headline="gpu-0412 lost a GPU at iteration 18,204",
        accused=("gpu-0412",),
        category="hardware.gpu.off_bus",
        assignee=mara,
    )
    Finding.objects.create(
        incident=incident, position=0, role="root", template=XID, example=XID, signature="nvidia.xid.79"
    )
    other = make_incident(make_job("resnet"), pk=212, headline="Step 308 took 9 s", category="performance.straggler")
    Finding.objects.create(incident=other, position=0, role="root", template="x", example="step 308 of rank 308")
    for _ in search_entries_build():
        pass
    reason = "wrong firmware on the retimer"
    comment_add(incident=incident, body="The **riser cable** was loose again.", by=mara)
    decision_make(incident=incident, claim="category", word="confirm", by=mara, reason=reason)
    client.force_login(mara)
    return client


#: what a person types → what must be on the page: a row of #308, or a link to what was named
QUERIES = {
    "#308": "gpu-0412 lost a GPU",
    "308": 'href="/incidents/308/"',
    "llama-70b-pretrain": 'href="/jobs/llama-70b-pretrain/"',
    "night run": 'href="/jobs/llama-70b-pretrain/"',
    "gpu-0412": 'href="/nodes/gpu-0412/"',
    "0412": 'href="/nodes/gpu-0412/"',
    "mara": "?q=assignee%3Amara",
    "riser cable": "gpu-0412 lost a GPU",
    "wrong firmware": "gpu-0412 lost a GPU",
    "nvidia.xid.79": "gpu-0412 lost a GPU",
    "Xid 79": "gpu-0412 lost a GPU",
    '"Xid 79"': "gpu-0412 lost a GPU",
    "fallen off the bus": "gpu-0412 lost a GPU",
    "GPU memory error": "?q=category%3Ahardware.gpu.ecc",
    "node:gpu-0412 is:open": "gpu-0412 lost a GPU",
    "number:308": "gpu-0412 lost a GPU",
}


def page_of(client, text):
    return page_text(client.get(reverse("incidents"), {"q": text}, follow=True))


@pytest.mark.parametrize(("text", "shown"), QUERIES.items())
def test_what_people_type_leads_to_what_they_mean(desk, text, shown):
    assert shown in page_of(desk, text)


def test_a_number_with_a_hash_is_that_incident_and_no_other(desk):
    assert desk.get(reverse("incidents"), {"q": "#308"}).headers["Location"] == "/incidents/308/"
    page = page_of(desk, "#4711")
    assert "No incident matches" in page and "Step 308" not in page
    assert "Step 308" not in page_of(desk, "#308 is:open")


def test_nobody_is_led_to_what_they_may_not_see(desk):
    """A foreign number, job and node are not even hinted at."""
    secret = make_cluster("secret")
    make_team("owners", clusters=[secret])
    make_incident(make_job("hidden-run", cluster=secret), pk=999, accused=("hidden-node",))
    assert desk.get(reverse("incidents"), {"q": "#999"}).status_code == 200
    for text in ("999", "hidden-run", "hidden-node"):
        assert "jump" not in page_of(desk, text).partition('id="content"')[2].partition("</main>")[0]


def test_jumps_cost_few_queries(desk, django_assert_max_num_queries):
    with django_assert_max_num_queries(14):
        desk.get(reverse("incidents"), {"q": "gpu-0412"})


def test_the_example_of_the_box_finds_something(desk):
    page = page_of(desk, "")
    example = page.partition('placeholder="')[2].partition('"')[0]
    assert example == "#308, a node, a job, Xid 79"
    assert Incident.objects.count() == 2
