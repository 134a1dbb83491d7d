"""The prefilter never loses a match."""

import re
from itertools import chain

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from diagnosis.kinds.logs.meaning import signatures
from diagnosis.kinds.logs.meaning.signatures import describe
from diagnosis.kinds.logs.text.literals import LIMITS, ways
from diagnosis.kinds.logs.text.stored_literals import stored_ways


@pytest.mark.parametrize(
    ("pattern", "strings"),
    [
        ("foo|bar(?:baz)?", {"foo", "bar"}),
        (r"(?i)ab+c\d{2,3}XYZ", {"xyz"}),
        ("abcd*", {"abc"}),
        ("abc+d", {"abc"}),
        (r"[a-z]+ failed", {" failed"}),
        (r"no\.such", {"no.such"}),
        ("(?:x|yyyy)?zzz", {"zzz"}),
        ("(?P<code>abc)def", {"abcdef"}),
        (r"[^\]]]?wxyz", {"wxyz"}),
        (r"\x41bcd", {"bcd"}),
        (r"\p{Lu}nited", {"nited"}),
        (r"\pLnited", {"nited"}),
        (r"\u0041bcd", {"bcd"}),
        (r"\b{start}word\>", {"word"}),
        (r"[[a-z]&&[^b]]xyz", {"xyz"}),
        (r"[[:alpha:]\]]xyz", {"xyz"}),
        ("a|bcd", set()),
        (r"\d+", set()),
        ("(?:abc)?", set()),
        ("(?:abc){0,2}d", set()),
        (r"[a[b[c[d]]]]wxyz", set()),
    ],
)
def test_the_strings_that_every_match_contains(pattern: str, strings: set[str]) -> None:
    assert set(ways(pattern)) == {frozenset({frozenset(strings)}) if strings else frozenset()}


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("disk.{0,40}full", [[{"disk"}, {"full"}]]),
        ("foo|bar", [[{"bar", "foo"}]]),
        ("foo|disk .*(?:full|lost)", [[{"foo"}], [{"disk "}, {"full", "lost"}]]),
        ("(?i)(?:foo.bar|baz)(?: again)?", [[{"foo"}, {"bar"}], [{"baz"}]]),
        ("foo.bar|.", [[]]),
    ],
)
def test_each_way_in_which_a_pattern_matches_tells_all_that_it_needs(
    pattern: str, expected: list[list[set[str]]]
) -> None:
    assert set(ways(pattern)) == {frozenset(map(frozenset, way)) for way in expected}


def pieces() -> st.SearchStrategy[str]:
    words = st.text("abc", min_size=1, max_size=5)
    atoms = words | st.sampled_from([r"\d", "[ab]", ".", "a?", "b*", "c+", "(?:ab){2}", "(?:a|b)"])
    return st.recursive(
        st.lists(atoms, min_size=1, max_size=4).map("".join),
        lambda inner: (
            st.lists(inner, min_size=2, max_size=3).map(lambda found: f"(?:{'|'.join(found)})")
            | st.tuples(inner, inner).map("".join)
        ),
        max_leaves=6,
    )


@given(pieces(), st.text("abc1", max_size=30))
def test_every_match_contains_what_one_of_its_ways_needs(pattern: str, text: str) -> None:
    assert all(len(word) >= LIMITS.chars for way in ways(pattern) for words in way for word in words)
    if re.search(pattern, text):
        assert any(all(any(word in text for word in words) for words in way) for way in ways(pattern))


def test_every_built_in_rule_can_be_prefiltered() -> None:
    assert [rule.id for rule in signatures.builtin() if not all(ways(rule.pattern))] == []


def test_the_literals_of_every_pattern_that_ships_are_stored() -> None:
    """``python -m diagnosis.kinds.logs.meaning.signatures.describe docs`` stores them again."""
    assert {p: set(found) for p, found in stored_ways().items()} == {
        p: set(ways(p)) for p in describe.shipped_patterns()
    }


def test_a_rule_of_two_words_is_not_tried_where_only_one_of_them_stands() -> None:
    """A pattern costs milliseconds to compile, more than a small job's whole reading."""
    line = "rank 3 of the gpu group: loss 2.5, next checkpoint in 17 s"
    assert signatures.load()._candidates(pl.Series([line])) == ([], frozenset())


def test_a_few_texts_are_matched_as_many_are() -> None:
    texts = [text for rule in signatures.load().signatures[::4] for text in rule.examples[:1]]
    few, many = (signatures.SignatureSet(signatures.load().signatures) for _ in range(2))
    ones = [text for text in texts if text.isascii()][:300]

    found = [few.match_texts(ones[low : low + 50]) for low in range(0, len(ones), 50)]

    assert list(chain.from_iterable(found)) == many.match_texts(ones)
