"""A search finds evidence: lines, templates, names of jobs, ranks, rules; the same on both databases."""

import pytest
from django.core.cache import cache
from django.core.management import call_command
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from ingest.services import job_change
from tests.factories import make_attempt, make_cluster, make_incident, make_job, make_team, make_user
from tests.pages import page_text
from tests.triage.report import sample
from triage import search
from triage.models import Incident, SearchEntry
from triage.search import evidence_words, word_rules
from triage.services.diagnosing import diagnosis_store

pytestmark = pytest.mark.django_db


def found(text, **kwargs):
    return set(search.parse(text).apply(Incident.objects.all(), **kwargs).values_list("job__slug", flat=True))


@pytest.fixture
def stored():
    """Two jobs: one diagnosed from the report that all tests share, one with lines of its own."""
    report = sample()
    report["logs"]["events"][0]["lines"][0]["rank"] = 5
    ranks = [{"kind": "rank", "name": str(rank), "rank": rank, "p": 0.5, "from": ["stacks"]} for rank in (12, 13)]
    report["conclusion"]["fault"] += ranks
    diagnosis_store(attempt=make_attempt(make_job("llama", name="Llama 70B retraining")), revision=1, report=report)
    make_incident(
        make_job("other"),
        headline="The network was slow",
        said=("ncclInternalError: remote peer closed", "通信超时：第5轮", "retry 79 of 100"),
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('"fallen off the bus"', {"llama"}),
        ('"off the"', {"llama"}),
        ('"the off"', set()),
        ("watchdog", {"llama"}),
        ("collect", {"llama"}),
        ('"collect"', set()),
        ("retraining", {"llama"}),
        ("slow", {"other"}),
        ("internalerror", set()),
        ("*internalerror*", {"other"}),
        ("InternalError*", set()),
        ('"internal error"', {"other"}),
        ("nccl", {"other"}),
        ("nccl*closed", {"other"}),
        ("超时", {"other"}),
        ("时超", set()),
        ("79", {"llama", "other"}),
        ("7", set()),
        ("79 xid", {"llama"}),
        ("0000:9b:00", {"llama"}),
        ("slow OR watchdog", {"llama", "other"}),
        ("slow watchdog", set()),
        ("(slow OR watchdog) !nccl", {"llama"}),
        ("!(slow OR watchdog)", set()),
        ("NOT slow", {"llama"}),
        ("node:gpu-0412 OR (slow nccl)", {"llama", "other"}),
        ('said:"fallen off"', {"llama"}),
        ("said:slow", set()),
        ("said:[peer,watchdog]", {"llama", "other"}),
        ("!said:peer", {"llama"}),
        ("rank:5", {"llama"}),
        ("rank:12..20", {"llama"}),
        ("rank:6", set()),
        ("signature:nvidia.xid.79", {"llama"}),
        ("signature:nvidia.xid.*", {"llama"}),
        ("signature:nvidia.xid", set()),
        ("signature:nvidia.xi*", {"llama"}),
        ("signature:xid.79", set()),
    ],
)
def test_evidence_is_found(stored, text, expected):
    assert found(text) == expected


def test_a_phrase_never_reaches_from_one_line_into_the_next():
    make_incident(make_job("apart"), headline="x", said=("out of", "memory"))
    assert found('"out of memory"') == set()
    assert found("out of memory") == {"apart"}


def test_words_of_a_later_diagnosis_replace_those_of_the_former(stored):
    job = Incident.objects.get(job__slug="llama").job
    again = sample()
    again["logs"]["events"] = [{**again["logs"]["events"][1], "template": "Segmentation fault"}]
    diagnosis_store(attempt=job.attempts.get(), revision=2, report=again)
    assert (found('"fallen off the bus" said:xid'), found("segmentation")) == (set(), {"llama"})


def test_a_renamed_job_is_found_by_its_new_name_alone(stored):
    job_change(job=Incident.objects.get(job__slug="llama").job, name="Mixtral")
    assert (found("mixtral"), found("retraining")) == ({"llama"}, set())


def test_a_deleted_incident_leaves_nothing_in_the_index(stored):
    Incident.objects.all().delete()
    assert not SearchEntry.objects.exists()
    if connection.vendor == "sqlite":
        with connection.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM triage_search_words WHERE triage_search_words MATCH 'watchdog'")
            assert cursor.fetchone() == (0,)
            cursor.execute("INSERT INTO triage_search_words(triage_search_words) VALUES ('integrity-check')")


def test_the_command_writes_the_index_as_the_diagnosis_did(stored, capsys):
    before = {
        row.pk: (row.about, row.said, row.places) for row in SearchEntry.objects.filter(incident__job__slug="llama")
    }
    SearchEntry.objects.all().delete()
    call_command("rebuild_search")
    assert "holds 2 incidents" in capsys.readouterr().out
    entry = SearchEntry.objects.get(incident__job__slug="llama")
    assert before == {entry.pk: (entry.about, entry.said, entry.places)}


def test_the_index_is_written_in_the_transaction_that_stores_the_diagnosis():
    attempt = make_attempt(make_job("undone"))
    with pytest.raises(RuntimeError), transaction.atomic():
        diagnosis_store(attempt=attempt, revision=1, report=sample())
        raise RuntimeError
    assert (found("watchdog"), SearchEntry.objects.count()) == (set(), 0)


def test_a_search_costs_one_query_however_many_words_it_has(stored):
    text = 'fallen bus "off the" OR (slow nccl rank:5)'
    found(text)  # SQLite has asked and noted how common each phrase is
    with CaptureQueriesContext(connection) as queries:
        found(text)
    assert len(queries) == 1


def test_common_and_rare_words_find_the_same_incidents(stored, monkeypatch):
    texts = ("nccl", '"off the"', "!watchdog", "fallen OR rank:5", "*atchdo*")
    rare = [found(text) for text in texts]
    monkeypatch.setattr(evidence_words, "_MIN_COMMON", 1)
    cache.clear()

    assert [found(text) for text in texts] == rare
    assert any(rare)


def test_an_entry_is_bounded_whatever_the_evidence_is():
    text = word_rules.entry([f"{n} {'x' * 5000} " + "ab " * 4000 for n in range(500)])
    assert len(text.split()) <= word_rules.MAX_WORDS + word_rules.MAX_NAMES * 10
    assert max(map(len, text.split())) == word_rules.MAX_WORD


def test_nobody_finds_what_they_may_not_see(client, stored):
    make_incident(make_job("secret", cluster=make_cluster("theirs")), headline="Zebra watchdog")
    make_team("them", clusters=[make_cluster("theirs")])
    client.force_login(make_user("ada", "engineer"))
    page = page_text(client.get("/incidents/?q=watchdog"))
    assert "Zebra" not in page
    assert "/incidents/" in page
    # nor is a name of theirs proposed
    assert "secret" not in page_text(client.get("/incidents/?q=job:secre"))


@pytest.mark.parametrize(
    ("text", "said", "meant"),
    [
        ("is:unreviewd", "did you mean is:unreviewed?", "is:unreviewed"),
        ("xid categry:hardware", "Did you mean category:?", "xid category:hardware"),
        ("verdict:rigt node:a", "did you mean verdict:right?", "verdict:right node:a"),
        ("rank:x", "is not a rank", ""),
        ("rank:0..900", "names more than 64 ranks", ""),
        ("signature:.", "is not the id of a rule", ""),
        ("!!!", "no letter or digit", ""),
        ("...", "no letter or digit", ""),
        ("*a*", "needs three letters", ""),
        ("(a OR", "both sides", ""),
        ("(a", "not closed", ""),
        (") a", "no opening bracket", ""),
        ("()", "brackets are empty", ""),
        ("OR a", "both sides", ""),
        ("NOT", "something after", ""),
        ("(" * 9 + "a" + ")" * 9, "more than 8 deep", ""),
    ],
)
def test_a_mistake_says_what_was_meant(text, said, meant):
    with pytest.raises(search.SearchError) as error:
        search.parse(text)
    assert said in str(error.value)
    assert error.value.meant == meant


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("category:hardwar", "category:hardware"),
        ("symptom:hng", "symptom:hang"),
        ("condition:degrded", "condition:degraded"),
        ("stage:trainning", "stage:training"),
        ("job:lama", "job:llama"),
        ("node:gpuu-0412", "node:gpu-0412"),
        ("is:unreviewed (node:gpuu-0412 OR node:gpu-0413)", None),
    ],
)
def test_an_unknown_value_is_reported_with_the_nearest_known(client, ada, stored, text, value):
    response = client.get("/incidents/", {"q": text})
    hints = response.context["hints"]
    if value is None:
        assert [hint.query for hint in hints] == ["is:unreviewed (node:gpu-0412 OR node:gpu-0413)"]
    else:
        assert [hint.value for hint in hints] == [value]
        assert "Did you mean <a" in page_text(response)


def test_a_refused_search_shows_nothing_to_act_upon(client, ada, stored):
    response = client.get("/incidents/", {"q": "is:unreviewd"})
    page = page_text(response)
    assert response.status_code == 422
    assert "network was slow" not in page
    assert 'name="act"' not in page
    assert "choose all that match" not in page
    assert "?q=is%3Aunreviewed" in page
    assert client.post("/incidents/bulk/", {"scope": "query", "q": "is:unreviewd", "act": "confirm"}).status_code == 400


@pytest.mark.parametrize(
    ("text", "words_of"),
    [
        ("is:unreviewed OR node:a", "Incidents either awaiting review, or accusing a."),
        ('!(rank:5 said:"x y")', "Incidents not (naming rank 5 and with a line that says “x y”)."),
    ],
)
def test_brackets_are_said_in_words(text, words_of):
    assert search.parse(text).words() == words_of


@pytest.mark.parametrize("text", ["a OR b c", "(a OR !b) c", "!(a b)", 'a "OR" b', '"bus" bus', "((a))", "NOT NOT a"])
def test_brackets_are_read_back_as_they_are_written(text):
    query = search.parse(text)
    assert search.parse(str(query)).words() == query.words()
    assert str(search.parse(str(query))) == str(query)


def test_run_time_is_measured_over_no_fewer_jobs_than_a_search_finds():
    jobs = [make_job("a", family="f"), make_job("b", family="g"), make_job("c")]
    from ingest.models import Job

    def of(text):
        return set(Job.objects.filter(search.parse(text).job_condition()).values_list("slug", flat=True))

    assert len(jobs) == 3
    assert of("family:f OR family:g") == {"a", "b"}
    assert of("family:f OR is:open") == {"a", "b", "c"}
    assert of("!(family:f OR family:g)") == {"c"}
    assert of("!(family:f is:open)") == {"a", "b", "c"}
    assert of("(job:a is:open) family:f") == {"a"}
