"""Match ordered rules against many messages at once.

One multi-string search over all messages finds the rules that can match; only for those pairs the regular expression is
tried. Both searches take linear time for every pattern, so no user's rule can hang the engine. Cost: O(bytes of
messages) for the search plus O(bytes) for each candidate pair, whose bytes are bounded (:mod:`candidate_pairs`). The
hits of lines of small jobs are kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from functools import cached_property
from itertools import chain, count
from typing import Any, NamedTuple

import polars as pl

from diagnosis.kinds.logs.meaning.remembered import RememberedAnswers
from diagnosis.kinds.logs.meaning.signatures import precedence
from diagnosis.kinds.logs.meaning.signatures.candidate_pairs import CandidatePairs, within_budget
from diagnosis.kinds.logs.meaning.signatures.model import USER_AREAS, Signature
from diagnosis.kinds.logs.meaning.signatures.quotations import RuleTexts
from diagnosis.kinds.logs.text.literals import Way
from diagnosis.kinds.logs.text.patterns import ANY, Haystack
from diagnosis.kinds.logs.text.stored_literals import ways_of
from diagnosis.model import Role

#: What :meth:`SignatureSet.match` returns, one row a matched message.
SCHEMA: Mapping[str, pl.DataType] = {
    "masked": pl.UInt64(),
    "signature": pl.String(),
    "order": pl.UInt32(),
    "role": pl.String(),
    "strength": pl.String(),
    "category": pl.String(),
}
#: One hit of a message: the columns of :data:`SCHEMA` after the first.
type _Hit = tuple[str, int, str, str, str]
#: Number of bytes of a message that rules read; later text rarely names a cause, and lines may have megabytes.
MATCHED_BYTES = 4096
#: Of messages that have more bytes than this together, rules read less of the longest, but never
#: less than this of one: a message that holds the words of all rules is tried with each of them.
_MATCHED_BYTES_IN_ALL = 2 << 20
_LEAST_MATCHED_BYTES = 1024
#: Number of texts in which literals are looked for one by one.
_MAX_FEW_TEXTS = 64
#: Messages whose literals are looked for at a time: those of all would take some hundred megabytes.
_TEXTS_AT_A_TIME = 1 << 13


def _literal_rows(way: Way, number: int, order: int) -> list[tuple[str, int, int, int, int]]:
    """The literals of the way with this number, each with its set, of how many sets, and the rule ``order``."""
    rows: list[tuple[str, int, int, int, int]] = []
    for part, texts in enumerate(sorted(way, key=sorted)):
        rows += [(text, part, len(way), number, order) for text in sorted(texts)]
    return rows


class Matches(NamedTuple):
    """``rows`` as :data:`SCHEMA`; ``in_part``: messages tried with some of their rules only."""

    rows: pl.DataFrame
    in_part: int


class _Answer(NamedTuple):
    """The hits of a text, in the order of the rules; ``is_whole``: all rules that may match were tried."""

    hits: list[_Hit]
    is_whole: bool


class SignatureSet:
    """Ordered rules, ready to be matched. Immutable; the first rule that matches a message decides."""

    def __init__(self, signatures: Iterable[Signature]) -> None:
        self.signatures = tuple(signatures)
        #: by the ids that matches name: those of the signatures and of their codes
        self.rules: dict[str, Signature] = {}
        self._known = RememberedAnswers(self._hits)
        for sig in self.signatures:
            for rule in (sig, *sig.codes.values()):
                self.rules.setdefault(rule.id, rule)

    @cached_property
    def _ways(self) -> list[tuple[Way, ...]]:
        """The literals that each rule needs (one of each set), by the ways in which it can match."""
        return [ways_of(sig.pattern) for sig in self.signatures]

    @cached_property
    def _always(self) -> frozenset[int]:
        """Places of the rules without literals."""
        return frozenset(order for order, found in enumerate(self._ways) if not all(found))

    @cached_property
    def _words(self) -> frozenset[str]:
        """All literals."""
        return frozenset().union(*chain.from_iterable(chain.from_iterable(self._ways)))

    @cached_property
    def _literals(self) -> pl.DataFrame:
        """Which ``literal`` may announce which rule: its set (``part``) of how many sets (``parts``)
        of which ``way``, and the place of the rule (``order``).
        """
        rows: list[tuple[str, int, int, int, int]] = []
        number = count()
        for order, found in enumerate(self._ways):
            for way in found if all(found) else ():
                rows += _literal_rows(way, next(number), order)
        names = ("part", "parts", "way", "order")
        schema = {"literal": pl.String, **dict.fromkeys(names, pl.UInt32)}
        return pl.DataFrame(rows, schema=schema, orient="row")

    def rule(self, rule_id: str) -> Signature | None:
        """The rule of this id, as the column ``signature`` of a match names it."""
        return self.rules.get(rule_id)

    def title_of(self, rule_id: str, line: str) -> str:
        """The title of a rule, with what a line of it is about: ``A port is taken (29501)``."""
        rule = self.rules[rule_id]
        found = pl.Series([line]).str.extract(rule.subject, 1)[0] if rule.subject else None
        return f"{rule.title} ({found})" if found else rule.title

    def match(self, uniques: pl.DataFrame, *, every: bool = False) -> pl.DataFrame:
        """The deciding rule of each message; unmatched messages have no row.

        Args:
            uniques: ``masked`` (u64 key), ``example`` (one raw line of each message) and ``text`` (masked message).
                Rules match the example. The text is used only without an example, because its masks hide numbers and
                add words (``<PCI>``).
            every: all rules that match, ordered, instead of the first.

        Returns:
            A frame as :data:`SCHEMA` says, sorted by ``masked`` and ``order``.
        """
        return self.match_counted(uniques, every=every).rows

    def match_counted(self, uniques: pl.DataFrame, *, every: bool = False) -> Matches:
        """The same, with the number of messages that were not tried with all rules."""
        columns = [pl.col(name).cast(pl.String) for name in ("example", "text") if name in uniques.columns]
        heads = heads_of(uniques.select(pl.coalesce(columns)).to_series())
        answers = self._known.of(heads)
        most = None if every else 1
        rows: list[tuple[Any, ...]] = []
        for key, answer in zip(uniques["masked"], answers, strict=True):
            rows += [(key, *hit) for hit in answer.hits[:most]]
        found = pl.DataFrame(rows, schema=SCHEMA, orient="row").sort("masked", "order")
        return Matches(found, sum(not answer.is_whole for answer in answers))

    def match_texts(self, texts: Iterable[str]) -> list[str | None]:
        """The id of the deciding rule of each text, or None."""
        heads = heads_of(pl.Series(list(texts), dtype=pl.String))
        return [answer.hits[0][0] if answer.hits else None for answer in self._known.of(heads)]

    def resolve(self, present: Iterable[str]) -> dict[str, Role]:
        """The role of each rule given which others are present in the same failure.

        A root that names another root present becomes a cascade (unless both name each other), and so does a weak root
        if there is a stronger one. A confirmation of what a remaining root says (same category and subcategory,
        ``also`` included) becomes a root: it is evidence of the same cause. Pass the rules of one failed episode only.
        O(rules present squared).
        """
        return precedence.roles_of(self.known(present))

    def known(self, ids: Iterable[str]) -> list[Signature]:
        """The rules of these ids, in order; ids of no rule are left out."""
        return [self.rules[rule_id] for rule_id in sorted(set(ids)) if rule_id in self.rules]

    def _hits(self, heads: pl.Series) -> list[_Answer]:
        """All hits of each text, in the order of the rules. The built-in rules hear what a text says itself
        (:mod:`quotations`), users' rules the whole text.
        """
        texts_of = RuleTexts.of(heads)
        hits: list[list[_Hit]] = [[] for _ in heads]
        tried, in_part = self._candidates(heads)
        for order, rows in tried:
            sig = self.signatures[order]
            lines = texts_of.by(sig)[rows]
            hay = ANY if sig.area in USER_AREAS else Haystack.of(lines)
            is_hit = hay.contains(lines, sig.pattern)
            if not is_hit.any():  # compiling another pattern takes longer than most matches
                continue
            is_hit = is_hit.fill_null(False)
            if sig.unless:
                is_hit &= ~hay.contains(lines, sig.unless).fill_null(False)
            for row, rule in zip(rows.filter(is_hit), self._rules_of(sig, lines.filter(is_hit)), strict=True):
                hits[row].append((rule.id, order, rule.role.value, rule.strength.value, rule.category))
        return [_Answer(found, row not in in_part) for row, found in enumerate(hits)]

    def _candidates(self, texts: pl.Series) -> tuple[list[tuple[int, pl.Series]], frozenset[int]]:
        """Rules that may match, each with the numbers of the rows, in order; and the rows that are tried with some of
        theirs.
        """
        every = pl.int_range(len(texts), dtype=pl.UInt32, eager=True)
        pairs, in_part = self._announced(texts)
        by_rule = pairs.group_by("order").agg(pl.col("row").sort())
        found = [*((order, every) for order in self._always), *zip(by_rule["order"], by_rule["row"], strict=True)]
        return sorted(found, key=lambda pair: pair[0]), in_part

    def _announced(self, texts: pl.Series) -> CandidatePairs:
        """The rules (``order``) whose literals are in a text (``row``)."""
        nothing = pl.DataFrame(schema={"order": pl.UInt32, "row": pl.UInt32})
        hay = Haystack.of(texts)
        held = frozenset(filter(hay.holds, self._words))
        if not held:
            return CandidatePairs(nothing)
        if hay.is_ascii and len(texts) <= _MAX_FEW_TEXTS:
            pairs = self._in_few(texts.to_list(), held)
            return within_budget(pl.DataFrame(pairs, nothing.schema, orient="row"), texts)
        words = pl.Series(sorted(held))
        literals = self._literals.filter(pl.col("literal").is_in(words.implode()))
        frame = pl.DataFrame({"text": texts}).with_row_index("row")
        literal = pl.col("text").str.to_lowercase().str.extract_many(words.implode(), overlapping=True)
        found = [nothing]
        for rows in frame.iter_slices(_TEXTS_AT_A_TIME):
            hits = rows.select("row", literal=literal).explode("literal").drop_nulls("literal").unique()
            found.append(_ways_found(hits, literals))
        return within_budget(pl.concat(found).unique(), texts)

    def _in_few(self, texts: Sequence[str | None], words: Set[str]) -> list[tuple[int, int]]:
        """The same without tables, whose operations cost more than the search in a few ASCII
        texts. ``words``: the literals that any of them holds.
        """
        pairs: list[tuple[int, int]] = []
        possible = self._fulfilled(words, range(len(self.signatures)))
        for row, text in enumerate(texts):
            held = frozenset(filter((text or "").lower().__contains__, words))
            pairs += [(order, row) for order in self._fulfilled(held, possible)]
        return pairs

    def _fulfilled(self, words: Set[str], orders: Iterable[int]) -> list[int]:
        """Those of the rules with literals that need no other words in one of their ways."""
        orders = (order for order in orders if order not in self._always)
        return [order for order in orders if any(all(map(words.__and__, way)) for way in self._ways[order])]

    def _rules_of(self, sig: Signature, lines: pl.Series) -> list[Signature]:
        """The rule of each line that a signature matches: for a code that it knows, the code's."""
        codes = (
            lines.str.extract_groups(sig.pattern).struct.field("code")
            if sig.codes and len(lines)
            else [""] * len(lines)
        )
        return [self.rules[sig.codes.get(code, sig).id] for code in codes]


def _ways_found(hits: pl.DataFrame, literals: pl.DataFrame) -> pl.DataFrame:
    """The ``order`` of each way whose parts are all in a ``row``; ``hits``: row and literal; ``literals``: those of the
    rules. Begins with the part of each way that is in the fewest rows: "error" is in all rows and a part of hundreds of
    ways.
    """
    counts = hits.group_by("literal").len()
    parts = literals.join(counts, on="literal", how="left").group_by("way", "part").agg(pl.col("len").sum())
    rarest = parts.sort("len", "part").unique("way", keep="first", maintain_order=True).select("way", "part")
    first = literals.join(rarest, on=["way", "part"], how="semi").select("literal", "way", "order", "parts")
    begun = hits.join(first, on="literal").select("row", "way", "order", "parts").unique()
    is_whole = pl.col("parts") == 1
    more = (
        begun.filter(~is_whole)
        .join(literals.select("way", "literal", "part"), on="way")
        .join(hits, on=["row", "literal"], how="semi")
        .group_by("row", "way")
        .agg(pl.col("order", "parts").first(), pl.col("part").n_unique())
        .filter(pl.col("part") == pl.col("parts"))
    )
    return pl.concat([begun.filter(is_whole).select("order", "row"), more.select("order", "row")])


def heads_of(texts: pl.Series) -> pl.Series:
    """What rules read of each text: its beginning, shorter the more long texts there are. O(characters)."""
    size, heads = MATCHED_BYTES, texts.str.head(MATCHED_BYTES)
    while size > _LEAST_MATCHED_BYTES and int(heads.str.len_bytes().sum() or 0) > _MATCHED_BYTES_IN_ALL:
        size //= 2
        heads = heads.str.head(size)
    return heads
