"""Distinct words are numbered as a dictionary would number them."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from diagnosis.kinds.logs.text import hashing

_WORDS = st.lists(st.integers(0, 40) | st.integers(0, 2**64 - 1), max_size=200)


def numbered(words: list[int]) -> tuple[list[int], list[int]]:
    places: dict[int, int] = {}
    first = []
    for row, word in enumerate(words):
        if word not in places:
            places[word] = len(places)
            first.append(row)
    return [places[word] for word in words], first


@settings(max_examples=100, deadline=None)
@given(_WORDS)
def test_words_are_numbered_in_order_of_appearance(words: list[int]) -> None:
    number, first = hashing.distinct(np.array(words, np.uint64))
    assert (number.tolist(), first.tolist()) == numbered(words)


def test_numbers_last_while_the_table_grows_from_batch_to_batch() -> None:
    words = np.random.default_rng(1).integers(0, 5_000, 20_000).astype(np.uint64)
    held = hashing.Numbering()
    number, fresh = [], []
    for start in range(0, len(words), 700):
        some, new = held.add(words[start : start + 700])
        number += some.tolist()
        fresh += (new + start).tolist()
    assert (number, fresh) == numbered(words.tolist())
    assert len(held) == len(fresh)


def test_rows_are_counted_and_the_worst_level_is_kept() -> None:
    count, worst = np.zeros(3, np.int64), np.zeros(3, np.uint8)
    hashing.tally(np.array([0, 2, 0, 2]), np.array([1, 5, 4, 2], np.uint8), count, worst)
    assert count.tolist() == [2, 0, 2]
    assert worst.tolist() == [4, 0, 5]
