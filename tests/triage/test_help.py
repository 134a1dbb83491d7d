"""The documents on the site: all of them, with links that lead somewhere, a search, and nothing from outside docs/."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import pytest

from tests.pages import budget, page_text
from triage.manual import documents as manual
from triage.manual.rendering import Target, render
from triage.manual.searching import search, words_of
from triage.places import ROOT
from triage.services.rules import TEMPLATE, RuleRefused, rule_check

pytestmark = pytest.mark.django_db
NAMES = sorted(path.stem for path in (ROOT / "docs").glob("*.md"))
#: ids of the pages around a document
_TAKEN = {"content", "q", "toasts", "undo-last", "keys-sheet", "keys-title", "queue-count", "outline-title"}


def test_the_help_lists_every_document(client: Any, ada: Any) -> None:
    page = budget(client, "/help/")
    assert [name for name in NAMES if name not in {"README", "glossary"} and f'"/help/{name}/"' not in page] == []
    assert '<a href="/api/docs/">' in page and '<a href="/glossary/">' in page


@pytest.mark.parametrize("name", NAMES)
def test_each_document_is_shown_and_its_links_lead_to_pages(client: Any, ada: Any, name: str) -> None:
    page = client.get(f"/help/{name}/", follow=True)
    assert page.status_code == 200
    text = page.content.decode()
    document = manual.document(name)
    assert document
    inside = set(re.findall(r'(?:href|src)="(/[^"#]*)', document.html))
    assert {address for address in inside if client.get(address, follow=True).status_code != 200} == set()
    assert not re.search(r'href="[^"]*\.md|<!--|<p>&lt;', document.html), "a link or mark that only a forge understands"
    anchors = re.findall(r' id="([^"]+)"', document.html)
    assert len(anchors) == len(set(anchors)) and not _TAKEN & set(anchors)
    assert not re.search(r">[\w-]+\.md</a>", document.html), "a file's name instead of a title"
    assert all(f'href="#{heading.anchor}"' in text for heading in document.outline)


@pytest.mark.parametrize(
    "address",
    [
        "/help/nothing/",
        "/help/pictures/../README.md",
        "/help/pictures/%2e%2e/README.md",
        "/help/pictures//etc/hostname",
        "/help/pictures/openapi.yaml",
        "/help/pictures/client.md",
        "/help/pictures/pictures",
    ],
)
def test_nothing_but_documents_and_their_pictures_is_read(client: Any, ada: Any, address: str) -> None:
    assert client.get(address).status_code == 404


def test_a_picture_is_sent_with_its_type(client: Any, ada: Any) -> None:
    for name, kind in (("linear.svg", "image/svg+xml"), ("pictures/advice.png", "image/png")):
        answer = client.get(f"/help/pictures/{name}")
        assert (answer.status_code, answer["Content-Type"]) == (200, kind)
        assert b"".join(answer.streaming_content) == (ROOT / "docs" / name).read_bytes()


def test_a_picture_has_its_room_before_it_has_come(client: Any, ada: Any) -> None:
    """The page of the integrations moved by .18 of the window while its pictures came."""
    page = client.get("/help/integrations/").content.decode()
    pictures = re.findall(r"<img[^>]*>", page)
    assert pictures
    assert all(re.search(r'width="\d{3,4}" height="\d{2,4}"', picture) for picture in pictures)


def test_strangers_are_asked_to_sign_in(client: Any) -> None:
    for address in ("/help/", "/help/client/", "/help/pictures/linear.svg"):
        assert client.get(address).url.startswith("/sign-in/")


def test_the_search_shows_the_sentence_around_the_words(client: Any, ada: Any) -> None:
    page = budget(client, "/help/?find=Idempotency-key")
    assert '/help/evidence/#with-curl-alone"' in page
    assert "<mark>Idempotency-Key</mark>" in page
    assert "No section with" in page_text(client.get("/help/?find=zzyzx"))
    assert client.get("/help/?find=%20").status_code == 200, "no words: the contents"


def test_a_search_takes_no_markup_and_no_more_than_eight_words(client: Any, ada: Any) -> None:
    page = client.get("/help/", {"find": '"><script>alert(1)</script>' + " (" * 40}).content.decode()
    assert "<script>alert" not in page
    assert words_of('Xid  "lost  bus" ' + "a " * 400) == ["xid", "lost  bus", *["a"] * 6]


def test_words_in_a_heading_come_first_and_all_must_be_there() -> None:
    source = (
        "# Retries\n\nAll wait.\n\n## Uploads\n\nA token is sent. It waits.\n\n## Tokens wait\n\nNo.\n\n## Else\n\nNo."
    )
    document = render("x", source, Target)
    assert [hit.heading.title for hit in search([document], "token wait")] == ["Tokens wait", "Uploads"]
    assert search([document], "token all else") == []


def test_a_document_cannot_run_anything() -> None:
    hostile = '# T\n\n<script>x</script>\n\n[a](javascript:x) ![b](x" onerror="y)\n\n<img src=x onerror=y>\n'
    html = render("x", hostile, Target).html
    assert "<script" not in html and "<img src=x" not in html and 'href="javascript' not in html


def test_a_link_to_what_the_site_does_not_show_becomes_its_words() -> None:
    html = render("x", "See [the recipe](../deploy/Containerfile) and ![p](../secret.png).", lambda _link: None).html
    assert "See the recipe and" in html and "secret" not in html


def test_a_changed_document_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manual, "_FOLDER", tmp_path)
    (tmp_path / "a.md").write_text("# Old\n")
    assert manual.document("a").title == "Old"  # type: ignore[union-attr]
    (tmp_path / "a.md").write_text("# New title\n")
    assert manual.document("a").title == "New title"  # type: ignore[union-attr]


def test_what_people_read_outside_of_documents_names_pages_of_the_help(client: Any, ada: Any) -> None:
    """A file `docs/…` is in a checkout alone; the page is wherever the site is."""
    named = [
        f"{path.relative_to(ROOT)}:{constant.lineno}: {constant.value}"
        for package in ("client", "diagnosis", "ingest", "triage")
        for path in (ROOT / package).rglob("*.py")
        for constant in _texts(path)
        if re.search(r"docs/[\w-]+\.md", constant.value)
    ]
    assert named == []
    assert "docs/" not in (ROOT / "docs" / "openapi.yaml").read_text()
    pages = set(re.findall(r"/help/([a-z-]+)/", (ROOT / "docs" / "openapi.yaml").read_text()))
    assert pages and pages <= set(NAMES)


def _texts(path: Path) -> list[ast.Constant]:
    """Strings of a module, without those that stand alone, which are its docstrings."""
    tree = ast.parse(path.read_text())
    alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    texts = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    return [node for node in texts if id(node) not in alone]


def test_a_wrong_category_of_a_rule_leads_to_the_list(settings: Any) -> None:
    settings.SITE_URL = "https://faultline.example/"
    with pytest.raises(RuleRefused) as refused:
        rule_check(TEMPLATE.replace("hardware.", "no-such."))
    assert "https://faultline.example/help/categories/" in " ".join(refused.value.problems)
