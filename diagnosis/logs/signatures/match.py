"""Match ordered rules against many messages at once.

One multi-string search over all messages finds the rules that can match; only for those pairs the regular expression is
tried. Both searches take linear time for every pattern, so no user's rule can hang the engine. Cost: O(bytes of
messages) for the search plus O(bytes) for each candidate pair. The hits of lines of small jobs are kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any

import polars as pl

from diagnosis import taxonomy
from diagnosis.logs import remembered
from diagnosis.logs.remembered import RememberedAnswers
from diagnosis.logs.signatures.literals import Way, stored_ways, ways
from diagnosis.logs.signatures.model import USER_AREAS, Signature, Strength
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
#: Number of bytes of a message that rules read; later text rarely names a cause, and lines may have megabytes.
MATCHED_BYTES = 4096
#: The start of a general explanation in a message: a possible cause is no evidence that it happened. One guessed cause
#: ("this might be caused by ...") still counts; lists of causes and conditions do not.
HYPOTHESIS_WORDS = (
    r"(?i)(?:\b(?:this|which|it) (?:can|could|may|might|usually|typically|often)? ?(?:happens?|occurs?) when\b"
    r"|\b(?:there are )?(?:some |several |many |most )?(?:potential|possible|common|likely|typical|usual) (?:root )?"
    r"(?:causes?|reasons?)\b|\ba (?:common|possible|likely|frequent|typical) (?:cause|reason)\b"
    r"|\b(?:most )?(?:likely|probably) caused by\b.{0,80}\be\.g\."
    r"|\bif (?:the )?(?:exit ?code|return ?code|signal|status) is\b"
    r"|\b(?:this|which|it) (?:usually |typically |often )?(?:indicates|means|suggests) that\b|\bsolution: ?\d\.).*$"
)


class SignatureSet:
    """Ordered rules, ready to be matched. Immutable; the first rule that matches a message decides."""

    def __init__(self, signatures: Iterable[Signature]) -> None:
        self.signatures = tuple(signatures)
        #: by the ids that matches name: those of the signatures and of their codes
        self.rules: dict[str, Signature] = {}
        #: the hits of a line, as the columns of :data:`SCHEMA` after the first
        self._known = RememberedAnswers(self._listed)
        for sig in self.signatures:
            for rule in (sig, *sig.codes.values()):
                self.rules.setdefault(rule.id, rule)

    @cached_property
    def _ways(self) -> list[tuple[Way, ...]]:
        """The literals that each rule needs (one of each set), by the ways in which it can match."""
        return [stored_ways().get(sig.pattern) or ways(sig.pattern) for sig in self.signatures]

    @cached_property
    def _literals(self) -> pl.DataFrame:
        """Which literal may announce which rule: ``literal``, its set (``part``) of the ``parts`` of a ``way`` of the
        rule ``order``. Rules without literals are in ``_always``."""
        needed = [(order, way) for order, found in enumerate(self._ways) if all(found) for way in found]
        rows = [
            (text, part, len(way), number, order)
            for number, (order, way) in enumerate(needed)
            for part, texts in enumerate(sorted(way, key=sorted))
            for text in sorted(texts)
        ]
        names = ("part", "parts", "way", "order")
        return pl.DataFrame(rows, schema={"literal": pl.String, **dict.fromkeys(names, pl.UInt32)}, orient="row")

    @cached_property
    def _always(self) -> tuple[int, ...]:
        return tuple(order for order, found in enumerate(self._ways) if not all(found))

    def rule(self, rule_id: str) -> Signature | None:
        """The rule of this id, as the column ``signature`` of a match names it."""
        return self.rules.get(rule_id)

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
        columns = [pl.col(name).cast(pl.String) for name in ("example", "text") if name in uniques.columns]
        rows = uniques.select("masked", line=pl.coalesce(columns).str.head(MATCHED_BYTES))
        found = self._looked_up if rows.height <= remembered.MAX_SINGLE_LOOKUPS else self._hits
        hits = found(rows["masked"], rows["line"]).sort("masked", "order")
        return hits if every else hits.unique("masked", keep="first", maintain_order=True)

    def match_texts(self, texts: Iterable[str]) -> list[str | None]:
        """The id of the deciding rule of each text, or None."""
        rows = list(texts)
        frame = pl.DataFrame(
            {"masked": range(len(rows)), "example": rows}, schema={"masked": pl.UInt64, "example": pl.String}
        )
        ids: list[str | None] = [None] * len(rows)
        for key, rule_id in self.match(frame).select("masked", "signature").iter_rows():
            ids[key] = rule_id
        return ids

    def resolve(self, present: Iterable[str]) -> dict[str, Role]:
        """The role of each rule given which others are present in the same failure.

        A root that names another root present becomes a cascade (unless both name each other), and so does a weak root
        if there is a stronger one. A confirmation of what a remaining root says (same category and subcategory,
        ``also`` included) becomes a root: it is evidence of the same cause. Pass the rules of one failed episode only.
        O(rules present squared).
        """
        rules = [self.rules[rule_id] for rule_id in sorted(set(present)) if rule_id in self.rules]
        roots = [rule for rule in rules if rule.role is Role.ROOT]
        has_strong = any(rule.strength is not Strength.WEAK for rule in roots)
        roles = {rule.id: rule.role for rule in rules}
        for rule in roots:
            named = [
                other for other in roots if other is not rule and _yields(rule, other) and not _yields(other, rule)
            ]
            if named or (has_strong and rule.strength is Strength.WEAK):
                roles[rule.id] = Role.CASCADE
        causes = {_pair(rule.category) for rule in roots if roles[rule.id] is Role.ROOT}
        for rule in rules:
            pairs = {_pair(category) for category in (rule.category, *rule.also)}
            if rule.role is Role.CONFIRMATION and not rule.is_form and pairs & causes:
                roles[rule.id] = Role.ROOT
        return roles

    def _looked_up(self, masked: pl.Series, heads: pl.Series) -> pl.DataFrame:
        """As :meth:`_hits`; only lines whose hits are not known yet are searched."""
        found = zip(masked, self._known.of(heads), strict=True)
        return pl.DataFrame([(key, *hit) for key, hits in found for hit in hits], schema=SCHEMA, orient="row")

    def _listed(self, heads: pl.Series) -> list[list[tuple[Any, ...]]]:
        hits: list[list[tuple[Any, ...]]] = [[] for _ in heads]
        for number, *hit in self._hits(pl.Series(range(len(heads)), dtype=pl.UInt64), heads).iter_rows():
            hits[number].append(tuple(hit))
        return hits

    def _hits(self, masked: pl.Series, heads: pl.Series) -> pl.DataFrame:
        """All hits, unsorted; the series belong together row by row. The built-in rules match what is no general
        explanation, users' rules the whole text.
        """
        certain = heads.str.replace(HYPOTHESIS_WORDS, "")
        found = [pl.DataFrame(schema=SCHEMA)]
        for order, rows in self._candidates(heads):
            sig = self.signatures[order]
            seen = heads if sig.area in USER_AREAS else certain
            lines = seen.gather(rows) if rows is not None else seen
            keys = masked.gather(rows) if rows is not None else masked
            is_hit = lines.str.contains(sig.pattern).fill_null(False)
            if sig.unless and is_hit.any():  # compiling it takes longer than most matches
                is_hit &= ~lines.str.contains(sig.unless).fill_null(False)
            if is_hit.any():
                found.append(self._rows(order, keys.filter(is_hit), lines.filter(is_hit)))
        return pl.concat(found)

    def _candidates(self, texts: pl.Series) -> Iterable[tuple[int, pl.Series | None]]:
        """Rules that may match, each with its row numbers (None: all)."""
        yield from ((order, None) for order in self._always)
        if self._literals.is_empty():
            return
        frame = pl.DataFrame({"text": texts}).with_row_index("row")
        words = self._literals["literal"].unique(maintain_order=True)
        pairs = (
            frame.select(
                "row", literal=pl.col("text").str.to_lowercase().str.extract_many(words.implode(), overlapping=True)
            )
            .explode("literal")
            .drop_nulls("literal")
            .unique()
            .join(self._literals, on="literal")
            .group_by("row", "way")
            .agg(pl.col("order", "parts").first(), pl.col("part").n_unique())
            .filter(pl.col("part") == pl.col("parts"))
            .group_by("order")
            .agg(pl.col("row").unique().sort())
            .sort("order")
        )
        yield from zip(pairs["order"], pairs["row"], strict=True)

    def _rows(self, order: int, keys: pl.Series, lines: pl.Series) -> pl.DataFrame:
        sig = self.signatures[order]
        codes = lines.str.extract_groups(sig.pattern).struct.field("code") if sig.codes else [""] * len(keys)
        rules = [self.rules[sig.codes.get(code, sig).id] for code in codes]
        rows = [
            (key, rule.id, order, rule.role.value, rule.strength.value, rule.category)
            for key, rule in zip(keys, rules, strict=True)
        ]
        return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def _yields(rule: Signature, other: Signature) -> bool:
    return any(name == other.id or (name.endswith(".") and other.id.startswith(name)) for name in rule.yields_to)


def _pair(category: str) -> tuple[str, str]:
    leaf = taxonomy.load().get(category)
    return leaf.category, leaf.subcategory
