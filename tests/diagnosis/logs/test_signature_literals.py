"""The prefilter never loses a match."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diagnosis.logs import signatures
from diagnosis.logs.signatures.literals import MIN_LENGTH, required


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
    ],
)
def test_the_strings_that_every_match_contains(pattern: str, strings: set[str]) -> None:
    assert required(pattern) == strings


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
def test_every_match_contains_one_of_its_strings(pattern: str, text: str) -> None:
    strings = required(pattern)
    if strings and re.search(pattern, text):
        assert any(word in text for word in strings)
    assert all(len(word) >= MIN_LENGTH for word in strings)


def test_every_built_in_rule_can_be_prefiltered() -> None:
    assert [rule.id for rule in signatures.builtin() if not required(rule.pattern)] == []
