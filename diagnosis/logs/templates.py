"""Templates: the unique masked messages of a whole job, clustered once, so that every node shares their ids.

Masking has already made one message out of millions of lines. What is left apart differs in words: user names, host
names, file names, states. A word is a
parameter where many different words stand in otherwise equal messages; a state ("up", "down") has few. So, after
words that hold a mask are made one
wildcard, positions are opened ("holes") where at least ``FAN`` words, or a wildcard and a word, share one context,
until nothing changes.

Every step looks at the *set* of messages, never at their order or number: the same messages give the same clusters,
in whatever order artifacts come. That is
the difference to Drain (He et al., ICWS 2017), whose tree depends on the order of arrival; the grouping by token
count is Drain's, the looking for positions that
vary is IPLoM's (Makanju et al., KDD 2009).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable

import polars as pl

from diagnosis.logs import mask

#: Schema of the table that :func:`mine` returns, one row a distinct masked message.
TEMPLATES: dict[str, pl.DataType] = {
    "masked": pl.UInt64(),
    "template": pl.UInt64(),
    "text": pl.String(),  # of the template: the masked text of its representative
}

#: So many different words in one context are values of a parameter.
FAN = 4
#: Share of different words at a position of a group of similar messages from which on it is a parameter.
_LOOSE_SHARE = 0.5
_LOOSE_ROWS = 8
_ROUNDS = 6
_REPEAT = 5  # tokens of a repeating list entry at most
#: More distinct messages than this are clustered by their generalised form only; the caller is told by
#: :func:`is_degraded`.
MAX_CLUSTERED = 200_000

_MASK = r"<(?:NUM|IP|PCI|MAC|PATH|URL|TIME|HOST)>"
_UNIT = r"(?:[kKMGT]?i?B|[kKMGT]?i?[Bb]ytes|bytes?|[mun\u00b5]?s|secs?|seconds|minutes|hours|days|%|[kKMG]?Hz|[mk]?W)"
_GENERAL = (
    (rf"[\w.$@/#~%+-]*{_MASK}(?:[\w.$@/#~%+-]|{_MASK})*", "\u2217"),
    (rf"\u2217 ?{_UNIT}\b", "\u2217"),
    (r" \( ?\)", " (\u2217)"),
    (r"\u2217 ?[(\[] ?\u2217 ?[)\]]", "\u2217"),
    (r"\u2217(?:(?: ?[,.:;/|+<>\\=~-] ?| )*\u2217)+", "\u2217"),
    (r"(^|[\s(])[<>~]=? ?\u2217", "${1}\u2217"),
)
_WILD = "\u2217"
_TOKENS = re.compile(r"[\w.$@/#~%+\u2217-]+|[^\w\s]")
_WORD = re.compile(r"[\w\u2217]")


def generalise(text: pl.Expr) -> pl.Expr:
    """Words that hold a mask become one wildcard, lists of wildcards one wildcard."""
    for pattern, name in _GENERAL:
        text = text.str.replace_all(pattern, name)
    return text


def mine(uniques: Iterable[pl.DataFrame]) -> pl.DataFrame:
    """Clusters the unique masked messages of a job's artifacts (tables of ``tables.UNIQUES``): a table of
    ``TEMPLATES``.

    O(distinct messages x their length). The template's id is that of its representative, the shortest and then first
    of its masked texts.
    """
    tables = [table.lazy().select("masked", "text") for table in uniques]
    if not tables:
        return pl.DataFrame(schema=TEMPLATES)
    together = pl.concat(tables).unique("masked").with_columns(general=generalise(pl.col("text"))).collect()
    general = together["general"].unique().sort()
    labels = cluster(general.to_list()) if len(general) <= MAX_CLUSTERED else list(range(len(general)))
    groups = pl.DataFrame({"general": general, "group": labels}, schema={"general": pl.String, "group": pl.UInt32})
    rows = together.join(groups, on="general").sort(pl.col("text").str.len_chars(), "text", "masked")
    first = rows.group_by("group", maintain_order=True).agg(
        template=pl.col("masked").first(), title=pl.col("text").first()
    )
    return (
        rows.select("masked", "group")
        .join(first, on="group")
        .select("masked", "template", pl.col("title").alias("text"))
        .sort("masked")
    )


def is_degraded(uniques: Iterable[pl.DataFrame]) -> bool:
    """Whether a job has so many distinct messages that only the first, coarse step of clustering is done."""
    tables = [table.select("masked", "text") for table in uniques]
    if sum(len(table) for table in tables) <= MAX_CLUSTERED:
        return False
    texts = pl.concat(tables).lazy().unique("masked").select(general=generalise(pl.col("text")))
    return int(texts.select(pl.col("general").n_unique()).collect().item()) > MAX_CLUSTERED


def cluster(texts: list[str]) -> list[int]:
    """Group numbers of distinct generalised messages, independent of their order up to renumbering."""
    rows: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for index, text in enumerate(texts):
        rows[_unrepeat(_TOKENS.findall(text))].append(index)
    for _ in range(_ROUNDS):
        opened = _open_tight(rows)
        if not opened:
            opened = _open_loose(rows)
        if not opened:
            break
        merged: dict[tuple[str, ...], list[int]] = defaultdict(list)
        for tokens, members in rows.items():
            merged[opened.get(tokens, tokens)].extend(members)
        rows = merged
    labels = [0] * len(texts)
    for number, members in enumerate(rows.values()):
        for index in members:
            labels[index] = number
    return labels


def _unrepeat(tokens: list[str]) -> tuple[str, ...]:
    """Lists of any length look alike: of a run of tokens that repeats and holds a wildcard, one is kept."""
    out: list[str] = []
    for token in tokens:
        out.append(token)
        for size in range(1, _REPEAT + 1):
            if len(out) >= 2 * size and out[-size:] == out[-2 * size : -size] and _WILD in out[-size:]:
                del out[-size:]
                break
    return tuple(out)


def _are_names(words: set[str]) -> bool:
    """Whether words look like names of things (hosts, files) more than like wording."""
    named = sum(1 for word in words if word == _WILD or any(char in word for char in "./@$0123456789"))
    return 2 * named > len(words)


def _open_tight(rows: Iterable[tuple[str, ...]]) -> dict[tuple[str, ...], tuple[str, ...]]:
    """Opens positions where many words share the rest of the message."""
    contexts: dict[tuple[int, tuple[str, ...]], set[str]] = defaultdict(set)
    for tokens in rows:
        for position, token in enumerate(tokens):
            if _WORD.match(token):
                contexts[position, (*tokens[:position], *tokens[position + 1 :])].add(token)
    opened = {}
    for tokens in rows:
        new = list(tokens)
        for position, token in enumerate(tokens):
            if token == _WILD or not _WORD.match(token):
                continue
            words = contexts[position, (*tokens[:position], *tokens[position + 1 :])]
            if len(words) > 1 and (len(words) >= FAN or _WILD in words) and (position > 0 or _are_names(words)):
                new[position] = _WILD
        if (changed := tuple(new)) != tokens:
            opened[tokens] = changed
    return opened


def _open_loose(rows: Iterable[tuple[str, ...]]) -> dict[tuple[str, ...], tuple[str, ...]]:
    """Opens positions that vary together: in messages of the same length, first word and punctuation, where most
    words differ.
    """
    groups: dict[tuple[str, ...], list[tuple[str, ...]]] = defaultdict(list)
    for tokens in rows:
        shape = tuple("w" if _WORD.match(token) else token for token in tokens)
        groups[(*shape, "\0", tokens[0] if tokens else "")].append(tokens)
    opened = {}
    for members in groups.values():
        if len(members) < _LOOSE_ROWS:
            continue
        loose = [
            position
            for position in range(1, len(members[0]))
            if len({tokens[position] for tokens in members}) >= max(FAN, _LOOSE_SHARE * len(members))
        ]
        fixed = sum(1 for token in members[0] if _WORD.match(token)) - len(loose)
        if not loose or fixed < len(loose):
            continue
        for tokens in members:
            new = tuple(_WILD if position in loose else token for position, token in enumerate(tokens))
            if new != tokens:
                opened[tokens] = new
    return opened


def template_id(text: str) -> int:
    """The id of the template whose representative is ``text``."""
    return mask.identity(text)
