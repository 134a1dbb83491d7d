"""Groups of messages: the same for every order, and equal to a direct application of the two rules."""

from __future__ import annotations

import random
from collections import defaultdict

from hypothesis import given, settings
from hypothesis import strategies as st

from diagnosis.kinds.logs.rows.clustering import MIN_VALUES, WILDCARD, cluster

WORDS = ("alpha", "beta", "gamma", "delta", "lost", "n1", "x/y", "=", ",", "(", WILDCARD)
MESSAGES = st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(" ".join), min_size=1, max_size=60)


def groups(texts: list[str]) -> set[frozenset[str]]:
    found = defaultdict(set)
    for text, label in zip(texts, cluster(texts), strict=True):
        found[label].add(text)
    return {frozenset(group) for group in found.values()}


@settings(max_examples=60, deadline=None)
@given(MESSAGES, st.integers(0, 99))
def test_order_changes_no_group(messages: list[str], seed: int) -> None:
    texts = sorted(set(messages))
    other = random.Random(seed).sample(texts, len(texts))
    assert groups(texts) == groups(other)


@settings(max_examples=60, deadline=None)
@given(MESSAGES)
def test_messages_in_the_same_place_of_many_are_together(messages: list[str]) -> None:
    """The tight rule, read plainly: of messages that differ in one word after the first, FAN are one event."""
    texts = sorted(set(messages))
    label = dict(zip(texts, cluster(texts), strict=True))
    rest = defaultdict(set)
    for text in texts:
        words = text.split(" ")
        for at in range(1, len(words)):
            if words[at] not in "=,(" and len(set(words)) == len(words):
                rest[at, (*words[:at], *words[at + 1 :])].add(text)
    for together in rest.values():
        if len(together) >= MIN_VALUES:
            assert len({label[text] for text in together}) == 1


def test_messages_of_other_lengths_or_punctuation_stay_apart() -> None:
    assert len(groups(["a b", "a b c", "a = b", "a , b", "a ( b"])) == 5


def test_words_that_vary_together_are_parameters_where_enough_is_fixed() -> None:
    pairs = [f"user w{'abcdefgh'[n]}x at seat s{'hgfedcba'[n]}y left the hall" for n in range(8)]
    assert len(groups(pairs)) == 1
    assert len(groups([text.replace("left the hall", "") for text in pairs])) == 1
    assert len(groups([f"w{c}x s{d}y t{c}z" for c, d in zip("abcdefgh", "hgfedcba", strict=True)])) == 8


@given(st.integers(0, 4), st.integers(0, 4), st.sampled_from(("", "done")))
def test_lists_of_any_length_are_one_message(before: int, after: int, last: str) -> None:
    """Entries of up to five tokens, of which one is a wildcard, at any place."""
    entry = [*"abcd"[:before], WILDCARD, *"pqrs"[: min(after, 4 - before)]]
    texts = [" ".join(["sizes", *entry * times, last]).strip() for times in (1, 2, 3, 7)]
    assert len(set(cluster(texts))) == 1
