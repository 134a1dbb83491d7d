"""The search language: matches, the query in words, and the messages for errors."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.factories import make_cluster, make_incident, make_job, make_user
from triage import search
from triage.models import Incident

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)


def found(text, **kwargs):
    matching = search.parse(text).apply(Incident.objects.all(), now=NOW, **kwargs)
    return set(matching.values_list("headline", flat=True))


@pytest.fixture
def three(db):
    llama = make_job("llama-70b", framework="megatron", model="llama", cluster=make_cluster("north"))
    other = make_job("resnet", framework="torchrun", cluster=make_cluster("south"))
    make_incident(
        llama,
        headline="gpu",
        category="hardware.gpu.ecc",
        accused=("gpu-0412",),
        iteration=1500,
        stage="training",
        symptom="crash",
        condition="failed",
        confidence=0.9,
        opened_at=NOW - timedelta(hours=5),
        at=datetime(2026, 11, 1, 7, tzinfo=UTC),
        said=("CUDA error: uncorrectable ECC error",),
    )
    make_incident(
        other,
        headline="net",
        category="network.link_down",
        accused=("node-7", "node-8"),
        iteration=300,
        stage="training",
        symptom="hang",
        condition="hung",
        confidence=0.5,
        opened_at=NOW - timedelta(days=9),
        at=datetime(2026, 10, 31, 23, tzinfo=UTC),
        state=Incident.State.CONFIRMED,
    )
    make_incident(other, headline="cfg", category="user.bad_config", stage="launch", opened_at=NOW - timedelta(days=40))
    return llama, other


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {"gpu", "net", "cfg"}),
        ("category:hardware", {"gpu"}),
        ("category:hardware.gpu.ecc", {"gpu"}),
        ("category:hard", set()),
        ("category:hard*", {"gpu"}),
        ("!category:hardware", {"net", "cfg"}),
        ("node:gpu-0412", {"gpu"}),
        ("node:node-*", {"net"}),
        ("!node:node-7", {"gpu", "cfg"}),
        ("suspect:node-8", {"net"}),
        ("stage:training", {"gpu", "net"}),
        ("stage:training !symptom:hang", {"gpu"}),
        ("symptom:[crash,hang]", {"gpu", "net"}),
        ("condition:hung", {"net"}),
        ("iter:>1200", {"gpu"}),
        ("iter:>=300 iter:<1500", {"net"}),
        ("iteration:300", {"net"}),
        ("iter:100..1500", {"gpu", "net"}),
        ("iter:1,500", {"gpu"}),
        ("confidence:<0.6 confidence:>0.1", {"net"}),
        ("is:confirmed", {"net"}),
        ("is:unreviewed", {"gpu", "cfg"}),
        ("is:[confirmed,unreviewed]", {"gpu", "net", "cfg"}),
        ("opened:<24h", {"gpu"}),
        ("opened:>30d", {"cfg"}),
        ("happened:2026-11-01", {"gpu"}),
        ("happened:2026-10", {"net"}),
        ("happened:2026-10-31..2026-11-01", {"gpu", "net"}),
        ("happened:<2026-11-01", {"net"}),
        ("job:llama-*", {"gpu"}),
        ("job:*70b", {"gpu"}),
        ("framework:MEGATRON", {"gpu"}),
        ("cluster:south", {"net", "cfg"}),
        ('"CUDA error"', {"gpu"}),
        ("cuda ecc", {"gpu"}),
        ('!"CUDA error"', {"net", "cfg"}),
        ("assignee:none", {"gpu", "net", "cfg"}),
    ],
)
def test_a_query_finds_what_it_says(three, text, expected):
    assert found(text) == expected


def test_me_is_the_caller(three):
    me = make_user("me")
    Incident.objects.filter(headline="net").update(assignee=me)
    assert found("assignee:me", user=me) == {"net"}
    assert found("is:mine", user=me) == {"net"}
    assert found("assignee:me", user=make_user()) == set()


def test_withdrawn_incidents_show_only_when_asked_for(three):
    Incident.objects.filter(headline="cfg").update(is_withdrawn=True)
    assert found("") == {"gpu", "net"}
    assert found("is:withdrawn") == {"cfg"}


def test_right_and_wrong_verdicts_are_recognised_by_what_stands_after_review(three):
    Incident.objects.filter(headline="gpu").update(state="corrected", standing_category="hardware.gpu.nvlink")
    assert found("verdict:wrong") == {"gpu"}
    assert found("verdict:right") == {"net"}
    Incident.objects.filter(headline="gpu").update(category="hardware.gpu.nvlink")  # the machine came to see it so too
    assert (found("verdict:wrong"), found("verdict:right")) == (set(), {"gpu", "net"})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "All incidents."),
        ("category:hardware.gpu is:unreviewed", "Incidents in Hardware › GPU, awaiting review."),
        ("!stage:launch iter:>1200", "Incidents not in stage launch, with iteration above 1200."),
        ("symptom:[crash,hang] opened:<7d", "Incidents showing as crash or hang, opened in the last 7 days."),
        ("condition:degraded", "Incidents whose job was degraded."),
        ("opened:<1d", "Incidents opened in the last 1 day."),
        ('"CUDA error"', "Incidents containing “CUDA error”."),
        ("happened:2026-11-01..2026-11-07", "Incidents that happened from 2026-11-01 to 2026-11-07."),
    ],
)
def test_a_query_says_in_words_what_it_shows(text, words):
    assert search.parse(text).words() == words


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("colour:red", "Known keys: is, category, machine, node"),
        ("iter:many", "is not a number"),
        ("happened:yesterday", "write happened:2026-11-01"),
        ("is:nothing", "Use one of actioned, assigned"),
        ("verdict:maybe", "Use one of right, wrong"),
        ('"never closed', "is not closed"),
        ("symptom:[crash", "is not closed"),
        ("node:", "needs a value"),
        ("category:>3", "is a name, not a number"),
        ("x" * 2001, "longer than 2,000"),
        ("a " * 41, "41 terms"),
    ],
)
def test_a_mistake_is_answered_with_what_would_be_right(text, said):
    with pytest.raises(search.SearchError) as error:
        search.parse(text)
    assert said in str(error.value)


@given(st.text(max_size=80))
def test_any_text_is_either_understood_or_refused_in_words(text):
    try:
        query = search.parse(text)
    except search.SearchError as error:
        assert str(error)
    else:
        assert search.parse(str(query)).terms is not None


_SEARCHED = st.text(min_size=1, max_size=20).filter(lambda text: any(one.isalnum() for one in text) and "*" not in text)


@given(st.lists(st.tuples(st.sampled_from(["node", "job", ""]), _SEARCHED), max_size=4))
def test_a_query_written_out_is_read_back_as_the_same(pairs):
    query = search.Query()
    for key, value in pairs:
        if value.strip() == value:
            query = query.plus(key, value)
    again = search.parse(str(query))
    assert len(again.terms) == len(query.terms)
    assert all(one.says(other) for one, other in zip(again.terms, query.terms, strict=True))


def test_a_facet_is_toggled_by_its_link():
    query = search.parse("is:unreviewed")
    assert str(query.toggled("category", "hardware")) == "is:unreviewed category:hardware"
    assert str(query.toggled("is", "unreviewed")) == ""
    assert str(query.plus("job", "two words").without("is")) == 'job:"two words"'


def test_a_pattern_of_many_stars_is_refused_and_one_of_some_answered(three):
    assert found("job:" + "*a" * 10) == set()
    with pytest.raises(search.SearchError, match="leave some out"):
        found("job:" + "*a" * 200)


@pytest.mark.django_db
def test_suggestions_complete_keys_and_values(three):
    from ingest.models import Job

    assert [s.text for s in search.suggest("cat", 3)] == ["category:"]
    assert "is:unreviewed" in [s.text for s in search.suggest("stage:training !is:un", 21)]
    jobs = Job.objects.filter(cluster__slug="north")
    assert [s.text for s in search.suggest("job:", 4, jobs=jobs)] == ["job:llama-70b"]
    assert [s.text for s in search.suggest("node:", 5, jobs=jobs)] == ["node:gpu-0412"]
    assert search.suggest("nonsense:", 9) == []
    first = search.suggest("is:open iter", 12)[0]
    assert (first.start, first.end) == (8, 12)
