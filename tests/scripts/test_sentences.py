"""What the product says to people is said in short sentences."""

from __future__ import annotations

from scripts.sentences import ROOT, sentences

MAX_WORDS = 20


def test_no_sentence_has_more_than_twenty_words() -> None:
    said = sentences()
    assert len(said) > 1000
    assert [f"{one.path.relative_to(ROOT)}: {one.text}" for one in said if one.words > MAX_WORDS] == []
