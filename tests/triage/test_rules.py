"""A site's own signatures: written, refused with reasons, tried on stored jobs, used by the next diagnosis."""

import re
from uuid import uuid4

import polars as pl
import pytest
from django.core.files.storage import storages
from django.urls import reverse

from diagnosis import ParseHints, parse
from diagnosis.files.parsed import save
from diagnosis.kinds.logs.meaning import signatures
from ingest.models import Artifact, Blob
from tests.factories import make_attempt, make_cluster, make_job, make_team, make_user
from tests.pages import page_text
from triage.domain.known_rules import MAX_ROWS, Wanted, find
from triage.models import Activity, CustomRule
from triage.services.rules import (
    TEMPLATE,
    RuleRefused,
    rule_check,
    rule_save,
    rule_texts_in_force,
    rule_try,
    rules_in_force,
)

pytestmark = pytest.mark.django_db
LINE = "node7: RDMA port 3 wedged, reset needed"


@pytest.fixture
def admin(client):
    user = make_user("root", "admin")
    client.force_login(user)
    return user


def store(tmp_path, text, job=None):
    """An artifact whose parsed tables lie where the product keeps them."""
    attempt = make_attempt(job)
    data = text.encode()
    source = tmp_path / "n.log"
    source.write_bytes(data)
    key = f"test/{uuid4().hex}"
    folder = tmp_path / "parsed"
    folder.mkdir(exist_ok=True)
    with source.open("rb") as stream:
        parsed = parse(stream, "n.log", ParseHints(), folder)
    save(parsed, folder)
    for file in folder.iterdir():
        with file.open("rb") as content:
            storages["parsed"].save(f"{key}/{file.name}", content)
    blob = Blob.objects.create(sha256=f"{attempt.pk:064x}", size_bytes=len(data))
    return Artifact.objects.create(
        attempt=attempt, path="n.log", blob=blob, kind="log", state="parsed", parsed_key=key, lines=text.count("\n")
    )


def test_the_template_offered_to_authors_is_itself_a_good_rule():
    assert rule_check(TEMPLATE).id == "site.my_rule"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("[[signature]]", "[[signature"), "cannot be read"),
        (("wedged'''", "wedged(?=x)'''"), "linear-time dialect"),
        (("(?i)rdma port [0-9]+ wedged", ".*"), "match anything"),
        (("RDMA port 3 wedged, reset", "all is well"), "example"),
        (("RDMA port 3 up", "RDMA port 3 wedged"), "counter"),
        (("hardware.network.adapter", "hardware.nonsense"), "no category"),
        (("site.my_rule", "storage.quota"), "built-in rule"),
        (('role = "root"', 'role = "king"'), "king"),
    ],
)
def test_a_bad_rule_is_refused_with_the_reason(change, said):
    with pytest.raises(RuleRefused) as refused:
        rule_check(TEMPLATE.replace(*change))
    assert said in str(refused.value)


def test_two_rules_at_once_and_none_at_all_are_refused():
    for body in ("", TEMPLATE * 2):
        with pytest.raises(RuleRefused, match="exactly one"):
            rule_check(body)


def test_a_kept_rule_is_in_force_and_comes_first(admin):
    assert rules_in_force().match_texts([LINE]) != ["site.my_rule"]
    rule = rule_save(body=TEMPLATE, by=admin)
    assert rules_in_force().match_texts([LINE]) == ["site.my_rule"]
    rule_save(body=TEMPLATE, by=admin, is_active=False, existing=rule)
    assert rules_in_force().match_texts([LINE]) != ["site.my_rule"]
    assert Activity.objects.filter(kind="rule_saved").count() == 2


def test_a_second_rule_of_the_same_id_is_refused(admin):
    rule_save(body=TEMPLATE, by=admin)
    with pytest.raises(RuleRefused, match="already"):
        rule_save(body=TEMPLATE, by=admin)


def test_rules_of_a_file_count_and_a_broken_file_stops_nothing(settings, tmp_path, caplog):
    file = tmp_path / "rules.toml"
    file.write_text(TEMPLATE)
    settings.RULES_FILE = str(file)
    assert rules_in_force().match_texts([LINE]) == ["site.my_rule"]
    file.write_text("[[signature")
    assert rules_in_force().match_texts([LINE]) != ["site.my_rule"]
    assert "is ignored" in caplog.text


def test_a_dry_run_tells_what_a_rule_would_match_in_stored_jobs(admin, tmp_path):
    store(tmp_path, f"{LINE}\n{LINE.replace('3', '4')}\nall is well\n")
    tried, artifacts = rule_try(rule=rule_check(TEMPLATE), user=admin)
    assert (artifacts, tried.lines) == (1, 2)
    assert LINE in tried.samples
    assert not CustomRule.objects.exists()


def test_a_dry_run_reads_nothing_that_its_author_may_not_see(tmp_path):
    closed = make_cluster("closed")
    make_team("inside", clusters=[closed])
    store(tmp_path, f"{LINE}\n", make_job(cluster=closed))
    tried, artifacts = rule_try(rule=rule_check(TEMPLATE), user=make_user("outsider", "engineer"))
    assert (artifacts, tried.lines) == (0, 0)


def test_an_administrator_writes_tries_keeps_and_deletes_a_rule(client, admin, tmp_path):
    store(tmp_path, f"{LINE}\n")
    page = page_text(client.post(reverse("rule-new"), {"body": TEMPLATE, "act": "try"}))
    assert "<b>1</b> line" in page
    assert client.post(reverse("rule-new"), {"body": TEMPLATE, "act": "save", "active": "1"}).status_code == 302
    rule = CustomRule.objects.get()
    assert rule.is_active
    assert "site.my_rule" in page_text(client.get(reverse("rules")))
    client.post(reverse("rule", args=[rule.pk]), {"body": TEMPLATE, "act": "delete"})
    assert not CustomRule.objects.exists()


def test_a_refused_rule_keeps_what_was_typed(client, admin):
    response = client.post(reverse("rule-new"), {"body": TEMPLATE.replace("root", "king"), "act": "save"})
    assert response.status_code == 422
    assert "king" in page_text(response)


def test_others_look_rules_up_and_do_not_edit(client):
    client.force_login(make_user("eng", "engineer"))
    assert client.get(reverse("rules"), {"find": "storage.quota"}).status_code == 200
    assert client.get(reverse("rule-new")).status_code == 403


def test_stored_tables_have_the_columns_that_a_dry_run_reads(tmp_path):
    artifact = store(tmp_path, "a\n")
    with storages["parsed"].open(f"{artifact.parsed_key}/uniques.parquet") as file:
        assert {"masked", "text", "count", "example"} <= set(pl.read_parquet(file).columns)


def rows_of(page: str) -> list[str]:
    """The ids of the rules that a page lists, in order."""
    return re.findall(r'<a data-open class="small" href="[^"]*"><code>([^<]+)</code>', page)


def test_the_list_leads_to_every_rule_and_every_code(client, admin):
    page = page_text(client.get(reverse("rules")))
    counts = [int(count.replace(",", "")) for count in re.findall(r'<td class="num">([\d,]+)</td>', page)]
    assert sum(counts) == sum(1 + len(rule.codes) for rule in signatures.builtin())
    for rule in signatures.builtin()[::40]:
        assert rows_of(page_text(client.get(reverse("rules"), {"find": rule.id})))[0] == rule.id


def test_a_code_is_found_by_its_name_and_number_alone(client, admin):
    page = page_text(client.get(reverse("rules"), {"find": "Xid 79"}))
    assert rows_of(page)[0] == "nvidia.xid.79"
    assert "nvidia.xid.179" not in page, "a number must be whole"
    assert "code 79 in the lines of" in page


def test_rules_are_filtered_by_category_role_and_area(client, admin):
    found = find(Wanted(category="hardware.gpu", role="root", area="nvidia"))
    assert found and all(row.rule.area == "nvidia" and row.rule.role == "root" for row in found)
    assert all(any(name.startswith("hardware.gpu") for name in row.categories) for row in found)
    page = page_text(client.get(reverse("rules"), {"category": "hardware.gpu", "role": "root", "area": "nvidia"}))
    assert rows_of(page) == [row.rule.id for row in found[:MAX_ROWS]]
    assert "No built-in rule has all of this" in page_text(client.get(reverse("rules"), {"area": "no-such"}))


def test_a_rule_is_shown_with_example_and_counter_example(client, admin):
    rule = next(rule for rule in signatures.builtin() if rule.id == "amd.xgmi")
    page = page_text(client.get(reverse("rules"), {"find": "amd.xgmi"}))
    assert rule.examples[0] in page and f"not: <code>{rule.counters[0]}" in page
    assert rule.advice in page


def test_a_line_of_a_log_names_the_rule_that_decides_it(client, admin):
    line = "NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus."
    page = page_text(client.get(reverse("rules"), {"find": line}))
    assert "this is decided by" in page and "nvidia.xid.79" in page
    assert "this is decided by" not in page_text(client.get(reverse("rules"), {"find": "nvlink"}))


def test_the_sites_own_rules_alone_are_sent_to_a_reader_which_makes_a_set_of_them_once(admin):
    assert rule_texts_in_force() == ()
    rule_save(body=TEMPLATE, by=admin)
    (text,) = rule_texts_in_force()
    assert signatures.load_with([text]) is signatures.load_with([text])
