"""Distinct messages, as words, put into groups: a word is a parameter where many stand in otherwise equal messages.

Two rules open positions until nothing changes: *tight*, where at least ``FAN`` words, or a word and a wildcard,
share the rest of the message; and, where no more of these are left, *loose*, where most words differ in a group of
messages of one length, first word and punctuation. Only messages of equal length are ever compared.

Messages are rows of word numbers. The rest of a message without one word is named by a sum of hashes less that word's,
so that a round costs O(words), however long messages are. Nothing depends on the order of messages.
"""

from __future__ import annotations

import re
from collections import defaultdict

import numpy as np
import numpy.typing as npt

from diagnosis.logs import hashing

#: So many different words in one context are values of a parameter.
FAN = 4
WILD = "\u2217"
#: Share of different words at a position of a group of similar messages from which on it is a parameter.
_LOOSE_SHARE = 0.5
_LOOSE_ROWS = 8
_ROUNDS = 6
_REPEAT = 5  # tokens of a repeating list entry at most
_TOKENS = re.compile(r"[\w.$@/#~%+\u2217-]+|[^\w\s]")
_WORD = re.compile(r"[\w\u2217]")
_NAMED = frozenset("./@$0123456789")
_WILD = 0  # its number
type Words = npt.NDArray[np.int32]  # one row a message
type Numbers = npt.NDArray[np.int64]
type Flags = npt.NDArray[np.bool_]


class _Vocabulary:
    """Words and their numbers; of each whether it is a word at all (not punctuation) and whether it looks like the
    name of a thing (a host, a file) more than like wording.
    """

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {WILD: _WILD}

    def row(self, text: str) -> tuple[int, ...]:
        tokens = _unrepeated(_TOKENS.findall(text))
        numbers = self.numbers
        return tuple([numbers.setdefault(token, len(numbers)) for token in tokens])

    def flags(self) -> tuple[Flags, Flags]:
        is_word = np.array([_WORD.match(token) is not None for token in self.numbers])
        is_name = np.array([token == WILD or not _NAMED.isdisjoint(token) for token in self.numbers])
        return is_word, is_name


def cluster(texts: list[str]) -> list[int]:
    """Group numbers of distinct generalised messages, independent of their order up to renumbering. O(words)."""
    vocabulary = _Vocabulary()
    rows: dict[int, dict[tuple[int, ...], list[int]]] = defaultdict(lambda: defaultdict(list))
    for index, text in enumerate(texts):
        row = vocabulary.row(text)
        rows[len(row)][row].append(index)
    is_word, is_name = vocabulary.flags()
    labels = np.empty(len(texts), np.int64)
    before = 0
    for length, of_length in rows.items():
        words = np.array(list(of_length), np.int32).reshape(len(of_length), length)
        group = _opened(words, is_word, is_name)
        at = np.repeat(group, [len(members) for members in of_length.values()])
        labels[np.fromiter((index for members in of_length.values() for index in members), np.int64)] = before + at
        before += int(group.max(initial=-1)) + 1
    return labels.tolist()


def _unrepeated(tokens: list[str]) -> list[str]:
    """Lists of any length look alike: of a run of tokens that repeats and holds a wildcard, one is kept."""
    if tokens.count(WILD) < 2:
        return tokens
    out: list[str] = []
    for token in tokens:
        out.append(token)
        for size in range(1, _REPEAT + 1):
            if len(out) >= 2 * size and out[-size:] == out[-2 * size : -size] and WILD in out[-size:]:
                del out[-size:]
                break
    return out


def _opened(words: Words, is_word: Flags, is_name: Flags) -> Numbers:
    """The group of each of these distinct messages of one length."""
    group = np.arange(len(words))
    for _ in range(_ROUNDS):
        opened = _tight(words, is_word, is_name)
        if opened is None:
            opened = _loose(words, is_word)
        if opened is None:
            break
        number, first = hashing.distinct(_sums(opened))
        words, group = opened[first], number[group]
    return group


def _hashes(words: npt.NDArray[np.integer], position: int) -> npt.NDArray[np.uint64]:
    """A hash of each word at its position."""
    value = words.astype(np.uint64) + np.uint64(1 + (position + 1) * 0x100000000)
    for factor in (0xBF58476D1CE4E5B9, 0x94D049BB133111EB):
        value = (value ^ (value >> np.uint64(30))) * np.uint64(factor)
    return value ^ (value >> np.uint64(31))


def _sums(words: npt.NDArray[np.integer]) -> npt.NDArray[np.uint64]:
    """A hash of each row: the sum of its words'."""
    out = np.zeros(len(words), np.uint64)
    for position in range(words.shape[1]):
        out += _hashes(words[:, position], position)
    return out


def _tight(words: Words, is_word: Flags, is_name: Flags) -> Words | None:
    """Opens positions where many words share the rest of the message; None where there is none.

    Messages are distinct, so those that share the rest of the message hold as many different words.
    """
    sums, opened = _sums(words), None
    for position in range(words.shape[1]):
        here = np.flatnonzero(is_word[words[:, position]])
        if len(here) < 2:
            continue
        word = words[here, position]
        context, _ = hashing.distinct(sums[here] - _hashes(word, position))
        count = np.bincount(context)
        has_wild = np.bincount(context, word == _WILD) > 0
        is_open = (count > 1) & ((count >= FAN) | has_wild)
        if position == 0:  # first words are wording, unless most look like names
            is_open &= 2 * np.bincount(context, is_name[word]) > count
        chosen = here[is_open[context] & (word != _WILD)]
        if len(chosen):
            opened = words.copy() if opened is None else opened
            opened[chosen, position] = _WILD
    return opened


def _loose(words: Words, is_word: Flags) -> Words | None:
    """Opens positions that vary together: in messages of the same length, first word and punctuation, where most
    words differ; None where there is none.
    """
    if words.shape[1] < 2 or len(words) < _LOOSE_ROWS:
        return None
    held = is_word[words]
    shape = np.where(held, -1, words)
    group, first = hashing.distinct(_sums(shape) + _hashes(words[:, 0], words.shape[1]))
    size = np.bincount(group)
    is_loose = np.zeros((len(first), words.shape[1]), np.bool_)
    for position in range(1, words.shape[1]):
        pair = group * len(is_word) + words[:, position]
        _, one = hashing.distinct(pair.view(np.uint64))
        differing = np.bincount(group[one], minlength=len(first))
        is_loose[:, position] = differing >= np.maximum(FAN, _LOOSE_SHARE * size)
    loose = is_loose.sum(axis=1)
    fixed = held[first].sum(axis=1) - loose
    is_loose &= ((size >= _LOOSE_ROWS) & (fixed >= loose))[:, None]
    opened = np.where(is_loose[group], np.int32(_WILD), words)
    return None if np.array_equal(opened, words) else opened
