"""No address breaks a page: unusable parts are refused with a sentence, or ignored."""

from __future__ import annotations

import base64
from urllib.parse import quote

import pytest

from ingest.parameters import seconds, whole
from ingest.services import artifact_receive
from tests.factories import make_attempt, make_job, make_user
from tests.pages import page_text
from tests.triage.report import sample
from triage.services.diagnosing import diagnosis_store

pytestmark = pytest.mark.django_db

_JOB, _LOG = "/jobs/odd-job", "0/a.log"
_LIST, _API, _NUMBERS = "/incidents/?q=", "/api/v1/incidents/?q=", ("line", "from", "count", "level", "masked")
#: digits that are no numbers, too large for any database, too many for Python
_ODD_NUMBERS = ("²", "9" * 25, "9" * 5000)
_ODD_DAYS = ("0001-01-01", "9999-12-31", "9999-12")
_ODD_TIMES = ("0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59", "1600-01-01", "2500-01-01T00:00:00Z", "x", "")
_LISTS_OF_THE_API = (
    "incidents",
    "jobs",
    "jobs/odd-job/artifacts",
    "jobs/odd-job/runs",
    "jobs/odd-job/uploads",
    "routes",
)
_ODD_CURSORS = (
    *("rubbish", "%FF", "\U0001f642", "AAAA", base64.b64encode(b"\xff\xfe").decode()),
    *(
        base64.b64encode(said.encode()).decode()
        for said in (
            "p=",
            "p=foo",
            "p=1",
            "p=%00",
            "o=-5",
            f"o={'9' * 20}",
            "r=1&p=2026-13-45",
            *(f"p={t}" for t in _ODD_TIMES),
        )
    ),
)
#: places in addresses, and what is put there
PLACES = {
    "numbers of lists": (
        [
            "/incidents/?page=",
            "/incidents/suggest/?q=no&cursor=",
            "/api/v1/search/?q=no&cursor=",
            "/jobs/?page=",
            "/nodes/?page=",
            f"{_JOB}/?attempt=",
            f"{_JOB}/files/?page=",
            f"{_JOB}/timeline/0/?rows=",
            "/replay/?machines=a,b&pp=",
            "/api/v1/jobs/?page_size=",
            "/api/v1/jobs/?cursor=",
            "/incidents/",
        ],
        _ODD_NUMBERS,
    ),
    "numbers of logs": (
        [
            *(f"{_JOB}/logs/{_LOG}?{name}=" for name in _NUMBERS),
            f"{_JOB}/find/{_LOG}?words=x&offset=",
            f"{_JOB}/raw/{_LOG}?from=",
            f"{_JOB}/raw/{_LOG}?from=1&to=",
            f"{_JOB}/map/{_LOG}?first=",
            f"{_JOB}/instant/{_LOG}?at=2026-11-21T03:00:00Z&within=",
        ],
        _ODD_NUMBERS,
    ),
    "numbers searched for": ([f"{_LIST}{key}:" for key in ("iter", "number")], ("1e400", "nan", "-inf", "9" * 25)),
    "times searched for": ([f"{_LIST}happened:", f"{_API}opened:<", f"{_LIST}happened:2026.."], _ODD_DAYS),
    "seconds": ([f"{_JOB}/timeline/0/?t0=", f"{_JOB}/?t0=1&t1="], ("nan", "1e400", "x")),
    "days": (
        [f"{page}?{name}=" for page in ("/statistics/", "/api/v1/statistics/") for name in ("since", "until")]
        + ["/statistics/weeks.csv?until=", "/statistics/planning/?until="],
        _ODD_DAYS,
    ),
    "instants": ([f"{_JOB}/instant/{_LOG}?at="], _ODD_TIMES),
    "patterns": (
        [
            f"{page}{key}:"
            for page in (_LIST, _API, "/api/v1/statistics/?q=")
            for key in ("node", "job", "category", "team")
        ],
        (
            "*" * 500,
            "a*" * 500,
            "[" + ",".join(["a*b*c"] * 200) + "]",
            f"[{','.join('a' * 900)}]",
            "[" + ",".join(["a*b*c"] * 39) + "]",
        ),
    ),
    "cursors": ([f"/api/v1/{name}/?cursor=" for name in _LISTS_OF_THE_API], _ODD_CURSORS),
    "texts": (
        [
            _LIST,
            f"{_API}category:",
            f"{_LIST}node:",
            "/incidents/?filter=",
            "/incidents/suggest/?q=node:",
            "/jobs/?words=",
            "/jobs/?outcome=",
            "/nodes/?name=",
            "/api/v1/statistics/?q=",
            f"{_JOB}/files/?words=",
            f"{_JOB}/facts/?words=",
            f"{_JOB}/compare/?with=",
            f"{_JOB}/stacks/?frames=",
            f"{_JOB}/logs/{_LOG}?who=",
            "/upload/?job=",
            "/nodes/",
            f"{_JOB}/templates/{_LOG}?find=",
            f"{_JOB}/instant/{_LOG}?at=",
        ],
        ("\0", '"[%', "a" * 3000),
    ),
}


@pytest.fixture
def pages(client, django_capture_on_commit_callbacks):
    job = make_job("odd-job")
    lines = b"2026-11-21 03:00:00 step 1\n2026-11-21 03:00:01 ERROR x\n"
    with django_capture_on_commit_callbacks(execute=True):  # the log is read: its pages ask its columns
        artifact_receive(job=job, path="a.log", chunks=[lines])
    diagnosis_store(attempt=make_attempt(job), revision=1, report=sample())
    client.force_login(make_user("root", "admin"))
    client.raise_request_exception = False
    return client


@pytest.mark.parametrize("kind", PLACES)
def test_what_cannot_be_used_is_refused_or_passed_over(pages, kind):
    places, values = PLACES[kind]
    for place in places:
        for value in values:
            response = pages.get(place + quote(value) + ("" if "?" in place else "/"))
            assert response.status_code < 500, f"{place}{value[:40]}: {response.status_code}"


@pytest.mark.parametrize("address", ["/incidents/?q=%00", "/nodes/a%00b/", "/api/v1/jobs/a%00b/"])
def test_a_nul_character_is_refused_with_what_to_do(pages, address):
    response = pages.get(address)
    assert response.status_code in (400, 404)
    if response.status_code == 400:
        assert "take control characters out" in page_text(response)


def test_a_file_whose_name_holds_a_nul_is_refused_before_its_bytes_are_read(pages):
    answer = pages.put("/api/v1/jobs/odd-job/artifacts/" + "0" * 64 + "?path=a%00b", b"x", "application/octet-stream")
    assert (answer.status_code, answer["Content-Type"]) == (400, "application/problem+json")


def test_a_value_that_the_database_refuses_is_reported_as_the_senders(rf):
    from django.db import DataError

    from triage.middleware import UsableText

    request = rf.get("/api/v1/incidents/")
    guard = UsableText(lambda _: None)
    assert guard.process_exception(request, DataError("bigint out of range")).status_code == 400
    assert guard.process_exception(request, ValueError("ours")) is None


def test_a_search_goes_along_whole_when_an_act_on_many_is_refused(pages):
    response = pages.post("/incidents/bulk/", {"act": "confirm", "q": '"a & b #1"'})
    assert response["Location"] == "/incidents/?q=%22a+%26+b+%231%22"


@pytest.mark.parametrize("text", [None, "", "-1", "²", "1.5", "1" * 16, " 1"])
def test_only_plain_digits_are_whole_numbers(text):
    assert whole(text, 7) == 7


def test_numbers_that_can_be_used_are():
    assert (whole("0042"), seconds("1.5"), seconds("nan"), seconds("x"), seconds(None)) == (42, 1.5, None, None, None)


def test_json_that_is_nested_without_end_is_refused(pages):
    deep = '{"name":"x","layout":' + '{"a":' * 100 + "1" + "}" * 101
    for body in ("[" * 10_000 + "]" * 10_000, deep.replace('{"a":' * 100, '{"a":' * 10_000) + "}" * 9_900, deep):
        answer = pages.post("/api/v1/jobs/", body, content_type="application/json")
        assert (answer.status_code, answer["Content-Type"]) == (400, "application/problem+json")
        assert "nested too deep" in answer.json()["detail"]


@pytest.mark.parametrize("size", ["0", "201", "-1", "x", "", "9" * 20])
def test_a_page_of_another_size_than_there_is_is_refused(pages, size):
    answer = pages.get(f"/api/v1/jobs/?page_size={size}")
    assert (answer.status_code, "from 1 to 200" in answer.json()["detail"]) == (422, True)


@pytest.mark.parametrize("body", [{"name": 5}, {"name": "x", "nodes": [1]}, {"name": "x", "outcome": True}])
def test_what_is_of_another_type_than_the_schema_says_is_refused(pages, body):
    answer = pages.post("/api/v1/jobs/", body, content_type="application/json")
    assert answer.status_code == 422 and "This must be a" in answer.json()["errors"][0]["detail"]
    forced = pages.post("/api/v1/jobs/odd-job/diagnose/", {"force": "yes"}, content_type="application/json")
    assert forced.status_code == 422 and "true or false" in forced.json()["errors"][0]["detail"]


def test_any_method_at_any_address_of_the_api_is_answered(pages):
    places = ["jobs/", "jobs/odd-job/", f"jobs/odd-job/artifacts/{'0' * 64}", "jobs/odd-job/diagnose/", "uploads/"]
    places += ["incidents/", "routes/", "me/", "me/token/", "statistics/", "search/"]
    for place in places:
        answer = pages.options(f"/api/v1/{place}")
        assert answer.status_code == 204, place
        for method in ("TRACE", "HEAD", "PUT", "POST", "PATCH"):
            assert pages.generic(method, f"/api/v1/{place}").status_code < 500, f"{method} {place}"
    assert "PUT" in pages.options(f"/api/v1/jobs/odd-job/artifacts/{'0' * 64}")["Allow"]
