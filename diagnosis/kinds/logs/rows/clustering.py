"""Groups distinct messages, as words: a position is a parameter if many different words occur there in otherwise
similar messages.

Rules that open positions, until nothing changes:

- *tight*: at least ``MIN_VALUES`` words, or a word and a wildcard, share the rest of the message;
- *loose*, where no more of these are left: messages of one length and punctuation are divided by the position with the
  fewest words until, in what is left together, every position that still differs has at least ``MIN_VALUES`` words, and
  enough words are the same in all;
- *lists*: neighbouring wildcards are one, so that lists of any length are equal;
- *tails*: text of many lengths after the same words and a colon is free text.

Messages are rows of word numbers. The rest of a message without one word is named by a sum of hashes less that word's,
so that a round costs O(words), however long messages are. Nothing depends on the order of messages.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from itertools import chain, pairwise
from typing import Final

import numpy as np
import numpy.typing as npt

from diagnosis import thresholds
from diagnosis.kinds.logs.text import hashing
from diagnosis.processing.jit import compiled

THRESHOLDS: Final = thresholds.of("clustering")
#: This number of different words in one context are values of a parameter.
MIN_VALUES: Final = THRESHOLDS.values
WILDCARD = "\u2217"
#: Number of messages in a group from which positions that vary together are opened.
_MIN_LOOSE_ROWS: Final = THRESHOLDS.loose_rows
#: Maximum number of divisions of a group, so that long messages cannot take unlimited time.
_MAX_DIVISIONS = 12
#: Number of messages with the same words before a colon, and of lengths of the rest, from which the rest is free text.
_TAILS, _TAIL_LENGTHS, _TAIL_WORDS = 8, 3, 2
_MAX_ROUNDS = 6
#: More than there are different words.
_MAX_WORDS = 1 << 40
_WORST_RANK = _MAX_WORDS << 2
_HASH_STEP = 1 << 32
_MAX_REPEATED_TOKENS = 5  # tokens of a repeating list entry at most
#: A quoted text, a name with an argument, a word, a sign.
_TOKENS = re.compile(r"\"[^\"\u2217]{0,200}\"|\w+[(\[]\u2217[)\]]|[\w.$@/#~%+\u2217-]+|[^\w\s]")
_WORD = re.compile(r"[\"(\[]?[\w\u2217]|\".")
_NAME_CHARS = frozenset('./@$_-("0123456789')
_LIST_SEPARATORS = frozenset(",.:;/|+<>\\=~-")  # wildcards of one list
_WILDCARD_NUMBER = 0  # its number
type Row = tuple[int, ...]
type Words = npt.NDArray[np.int32]  # one row a message
type Numbers = npt.NDArray[np.int64]
type Flags = npt.NDArray[np.bool_]


class _Vocabulary:
    """Words and their numbers; of each whether it is a word (not punctuation) and whether it looks more like the name
    of a thing (a host, a file) than like wording.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        numbers = {WILDCARD: _WILDCARD_NUMBER}
        self.rows: list[Row] = [
            tuple([numbers.setdefault(token, len(numbers)) for token in _tokens_of(text)]) for text in texts
        ]
        self.is_word = np.array([_WORD.match(token) is not None for token in numbers])
        self.is_name = np.array([token == WILDCARD or not _NAME_CHARS.isdisjoint(token) for token in numbers])
        self.between = frozenset(number for token, number in numbers.items() if token in _LIST_SEPARATORS)
        self.colon = numbers.get(":", -1)


def cluster(texts: list[str]) -> list[int]:
    """Group numbers of distinct generalised messages, independent of their order up to renumbering. O(words)."""
    vocabulary = _Vocabulary(texts)
    groups: dict[Row, list[int]] = defaultdict(list)
    for index, row in enumerate(vocabulary.rows):
        groups[row].append(index)
    groups, is_stable = _merge_until_stable(groups, vocabulary)
    count = len(groups)
    groups = _without_tails(groups, vocabulary)
    if not is_stable or len(groups) < count:
        groups, _ = _merge_until_stable(groups, vocabulary)
    labels = [0] * len(texts)
    for label, members in enumerate(groups.values()):
        for index in members:
            labels[index] = label
    return labels


def _merge_until_stable(groups: dict[Row, list[int]], vocabulary: _Vocabulary) -> tuple[dict[Row, list[int]], bool]:
    """Groups by the opened form of their messages, until nothing changes. False: it still changes."""
    for _ in range(_MAX_ROUNDS):
        of_length: dict[int, list[Row]] = defaultdict(list)
        for row in groups:
            of_length[len(row)].append(row)
        found: dict[Row, list[int]] = defaultdict(list)
        has_changed = False
        for length, rows in of_length.items():
            words = np.array(rows, np.int32).reshape(len(rows), length)
            opened = _open_parameters(words, vocabulary)
            is_opened = (opened != words).any(axis=1).tolist()
            for number, row in enumerate(rows):
                short = row
                if is_opened[number]:
                    short = _join_wildcards(tuple(opened[number].tolist()), vocabulary.between)
                    has_changed = has_changed or len(short) != length
                found[short] += groups[row]
        groups = found
        if not has_changed:
            return groups, True
    return groups, False


def _without_tails(groups: dict[Row, list[int]], vocabulary: _Vocabulary) -> dict[Row, list[int]]:
    """Groups whose free text after the last colon is one wildcard."""
    heads: dict[Row, list[Row]] = defaultdict(list)
    for row in groups:
        if vocabulary.colon in row:
            at = len(row) - row[::-1].index(vocabulary.colon)
            if sum(
                word != _WILDCARD_NUMBER for word in row[:at] if vocabulary.is_word[word]
            ) >= _TAIL_WORDS and at < len(row):
                heads[row[:at]].append(row)
    for head, rows in heads.items():
        if len(rows) >= _TAILS and len({len(row) for row in rows}) >= _TAIL_LENGTHS:
            members = list(chain.from_iterable(map(groups.pop, rows)))
            groups[*head, _WILDCARD_NUMBER] = members
    return groups


def _tokens_of(text: str) -> list[str]:
    """The words and signs of a message. Only one with several wildcards may hold a list."""
    tokens: list[str] = _TOKENS.findall(text)
    return _without_repeats(tokens) if text.count(WILDCARD) > 1 else tokens


def _without_repeats(tokens: list[str]) -> list[str]:
    """Makes lists of any length equal: one copy is kept of a repeating run of tokens with a wildcard."""
    places = [place for place, token in enumerate(tokens) if token == WILDCARD]
    if not _may_repeat(tokens, places):
        return tokens
    out: list[str] = []
    for token in tokens:
        is_again = token in out[-_MAX_REPEATED_TOKENS:]
        out.append(token)
        for size in range(1, min(_MAX_REPEATED_TOKENS, len(out) // 2) + 1) if is_again else ():
            if out[-size:] == out[-2 * size : -size] and WILDCARD in out[-size:]:
                del out[-size:]
                break
    return out


def _may_repeat(tokens: list[str], places: list[int]) -> bool:
    """Whether a run of tokens can repeat: two wildcards, as far apart as the run is long, are adjacent or have an equal
    token beside them. Most messages hold no list, and need no more than this check.
    """
    return any(
        later == place + 1
        or tokens[place - 1] == tokens[later - 1]
        or tokens[place + 1 : place + 2] == tokens[later + 1 : later + 2]
        for number, place in enumerate(places)
        for later in places[number + 1 : number + 1 + _MAX_REPEATED_TOKENS]
        if later - place <= _MAX_REPEATED_TOKENS
    )


def _join_wildcards(row: Row, between: frozenset[int]) -> Row:
    """Joins wildcards that are neighbours, or have only separators of a list between them."""
    places = [place for place, word in enumerate(row) if word == _WILDCARD_NUMBER]
    out: list[int] = []
    begin = 0
    for place, later in pairwise(places):
        if between.issuperset(row[place + 1 : later]):
            out += row[begin : place + 1]
            begin = later + 1
    return (*out, *row[begin:]) if begin else row


def _open_parameters(words: Words, vocabulary: _Vocabulary) -> Words:
    """These distinct messages of one length with their parameters opened."""
    rows, group = words, np.arange(len(words))
    for _ in range(_MAX_ROUNDS):
        if len(rows) < 2:
            break
        opened = _open_loose(rows, vocabulary.is_word, vocabulary.is_name)
        if opened is None:
            opened = _open_tight(rows, vocabulary.is_word, vocabulary.is_name)
        if opened is None:
            break
        number, first = hashing.distinct(_sums(opened))
        rows, group = opened[first], number[group]
    return rows[group]


def _hashes(words: npt.NDArray[np.integer], position: int) -> npt.NDArray[np.uint64]:
    """A hash of each word at its position."""
    value = words.astype(np.uint64) + np.uint64(1 + (position + 1) * _HASH_STEP)
    for factor in (0xBF58476D1CE4E5B9, 0x94D049BB133111EB):
        value = (value ^ (value >> np.uint64(30))) * np.uint64(factor)
    return value ^ (value >> np.uint64(31))


def _sums(words: npt.NDArray[np.integer]) -> npt.NDArray[np.uint64]:
    """A hash of each row: the sum of its words'."""
    out = np.zeros(len(words), np.uint64)
    for position in range(words.shape[1]):
        out += _hashes(words[:, position], position)
    return out


def _open_tight(words: Words, is_word: Flags, is_name: Flags) -> Words | None:
    """Opens positions where many words share the rest of the message; None if there is none.

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
        has_wild = np.bincount(context, word == _WILDCARD_NUMBER) > 0
        is_open = (count > 1) & ((count >= MIN_VALUES) | has_wild)
        if position == 0:  # first words are wording, unless most look like names
            is_open &= 2 * np.bincount(context, is_name[word]) > count
        chosen = here[is_open[context] & (word != _WILDCARD_NUMBER)]
        if len(chosen):
            opened = words.copy() if opened is None else opened
            opened[chosen, position] = _WILDCARD_NUMBER
    return opened


def _open_loose(words: Words, is_word: Flags, is_name: Flags) -> Words | None:
    """Opens positions that vary together, see the module; None if there is none."""
    if words.shape[1] < 2 or len(words) < _MIN_LOOSE_ROWS:
        return None
    group, _ = hashing.distinct(_sums(np.where(is_word[words], -1, words)))
    opened, order = words.copy(), np.argsort(group, kind="stable")
    parts, of_word = np.empty((3, len(words) + 1), np.int64), np.zeros((2, len(is_word)), np.int64)
    room = parts, of_word, np.empty(words.shape[1], np.bool_), np.empty(len(words), np.int64)
    return opened if _divide(words, order, np.sort(group), is_word, is_name, opened, *room) else None


@compiled
def _divide(  # noqa: PLR0912, PLR0915, PLR0917
    words: Words,
    order: Numbers,
    group: Numbers,
    is_word: Flags,
    is_name: Flags,
    opened: Words,
    parts: Numbers,
    of_word: Numbers,
    is_varied: Flags,
    part: Numbers,
) -> bool:
    """Divides each group of ``order`` by its words and opens the positions that vary within the parts; whether any was.
    The last four arguments are room for the work. O(words x depth); sorting would take the compiler four seconds.
    """
    size, length = words.shape
    low, high, level = parts[0], parts[1], parts[2]
    waiting = 0
    begin = 0
    for at in range(1, size + 1):
        if at == size or group[at] != group[begin]:
            low[waiting], high[waiting], level[waiting] = begin, at, 0
            waiting += 1
            begin = at
    # of each word, in which turn it was met last, and where its rows begin
    met, place = of_word[0], of_word[1]
    turn = 0
    has_opened = False
    while waiting:
        waiting -= 1
        begin, end, depth = low[waiting], high[waiting], level[waiting]
        rows = end - begin
        if rows < _MIN_LOOSE_ROWS or depth > _MAX_DIVISIONS:
            continue
        fixed, varied, best, best_rank = 0, 0, -1, _WORST_RANK
        for position in range(length):
            is_varied[position] = False
            head = words[order[begin], position]
            if not is_word[head]:
                continue
            turn += 1
            values, names = 0, 0
            for at in range(begin, end):
                word = words[order[at], position]
                if met[word] != turn:
                    met[word] = turn
                    values += 1
                    names += 1 if is_name[word] else 0
            has_wild = met[_WILDCARD_NUMBER] == turn
            if values == 1:
                fixed += 0 if has_wild else 1
                continue
            is_varied[position] = True
            varied += 1
            is_parameter = (has_wild or values >= MIN_VALUES) and (position > 0 or 2 * names > values)
            # positions that are surely wording divide first, then those with the fewest words
            rank = (2 if is_parameter else 0) + (1 if has_wild else 0)
            rank = rank * _MAX_WORDS + values
            if rank < best_rank:
                best, best_rank = position, rank
        if varied == 0:
            continue
        if best_rank >= 2 * _MAX_WORDS and 2 * fixed >= varied:
            for position in range(length):
                if is_varied[position]:
                    for at in range(begin, end):
                        opened[order[at], position] = _WILDCARD_NUMBER
            has_opened = True
            continue
        for at in range(rows):
            part[at] = order[begin + at]
        turn += 1
        for at in range(rows):
            word = words[part[at], best]
            if met[word] != turn:
                met[word], place[word] = turn, 0
            place[word] += 1
        turn += 1
        first = begin
        for at in range(rows):
            word = words[part[at], best]
            if met[word] != turn:
                count = place[word]
                met[word], place[word] = turn, first
                if count >= _MIN_LOOSE_ROWS:
                    low[waiting], high[waiting], level[waiting] = first, first + count, depth + 1
                    waiting += 1
                first += count
            order[place[word]] = part[at]
            place[word] += 1
    return has_opened
