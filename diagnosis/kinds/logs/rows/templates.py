"""Templates: the unique masked messages of a whole job, clustered once, so that every node shares them.

Masking has already made one message out of millions of lines. The remaining messages differ in words: user names, host
names, file names, states. A position is a parameter if many different words occur there in otherwise equal messages; a
state ("up", "down") has few. First, words with a mask become wildcards. Then positions are opened ("holes") where at
least ``FAN`` words, or a wildcard and a word, share one context, until nothing changes.

Every step uses the *set* of messages, never their order or number: the same messages give the same clusters for every
order of artifacts. Drain (He et al., ICWS 2017) differs: its tree depends on the order of arrival. The grouping by
token count comes from Drain, the search for varying positions from IPLoM (Makanju et al., KDD 2009).
"""

from __future__ import annotations

from collections.abc import Collection

import polars as pl

from diagnosis.kinds.logs.rows import clustering
from diagnosis.kinds.logs.text.patterns import ANY, Haystack

_MASK = r"<(?:NUM|IP|PCI|MAC|PATH|URL|TIME|HOST)>"
_UNIT = r"(?:[kKMGT]?i?B|[kKMGT]?i?[Bb]ytes|bytes?|[mun\u00b5]?s|secs?|seconds|minutes|hours|days|%|[kKMG]?Hz|[mk]?W)"
_REQUEST = r"\b(?:GET|POST|PUT|DELETE|HEAD|PATCH|OPTIONS) .*\bstatus(?: code)?[:= ]+"
_GENERAL = (
    # the server's status is a measurement unless the server failed, and a failure must stay visible
    (rf"({_REQUEST})[1-4][0-9]{{2}}\b", "${1}\u2217"),
    (rf"({_REQUEST})5[0-9]{{2}}\b", "${1}\u203c"),
    (rf"[\w.$@/#~%+-]*{_MASK}(?:[\w.$@/#~%+-]|{_MASK})*", "\u2217"),
    (r"\b(?i:true|false)\b", "\u2217"),
    (r"[\w.+\u2217-]+@[\w.\u2217-]+", "\u2217"),  # user@host
    (r"(^|[\s'\"=(\[{,:<>|])/[\w.+@%=:~-]+/?", "${1}\u2217"),  # /file
    (r"(?:\b[A-Za-z]:|\\)(?:\\[^\s\\/:,;\"'()\[\]<>|]+)+\\?", "\u2217"),  # C:\file, \\host\share
    (r"\u2217\?[^\s\"')\]]+", "\u2217"),  # /address?query
    # lists in brackets, lists of three and more
    (r"([\[({])\s*[\w.\u2217$:/-]+(?:\s*[,|;]\s*[\w.\u2217$:/-]+)+\s*([\])}])", "${1}\u2217${2}"),
    (r"[\w.\u2217$/-]+(?:, ?[\w.\u2217$/-]+){2,}", "\u2217"),
    (rf"\u2217 ?{_UNIT}([^\w=]|$)", "\u2217${1}"),
    (r" \( ?\)", " (\u2217)"),
    (r"\u2217 ?[(\[] ?\u2217 ?[)\]]", "\u2217"),
    (r"\u2217(?:(?: ?[,.:;/|+<>\\=~-] ?| )*\u2217)+", "\u2217"),
    (r"(^|[\s(])[<>~]=? ?\u2217([^>]|$)", "${1}\u2217${2}"),
)


def generalise(text: pl.Expr, hay: Haystack = ANY) -> pl.Expr:
    """Words that hold a mask become one wildcard, lists of wildcards one wildcard."""
    for pattern, name in _GENERAL:
        text = hay.replace_all(text, pattern, name)
    return text


def of_texts(texts: Collection[str]) -> dict[str, str]:
    """The template of each masked text: of the texts of one event the shortest, and of these the first in order.

    O(distinct texts x their length).
    """
    rows = pl.DataFrame({"text": sorted(set(texts))}, schema={"text": pl.String})
    rows = rows.with_columns(general=generalise(pl.col("text"), Haystack.of(rows["text"])))
    general = rows["general"].unique().sort()
    groups = pl.DataFrame(
        {"general": general, "group": clustering.cluster(general.to_list())},
        schema={"general": pl.String, "group": pl.UInt32},
    )
    rows = rows.join(groups, on="general").sort(pl.col("text").str.len_chars(), "text")
    return dict(rows.select("text", template=pl.col("text").first().over("group")).iter_rows())
