"""A bound on the work of rules. A text is tried with each rule whose words it holds, which costs its length each time;
usual texts hold those of a few. Texts that hold the words of all rules, such as word lists, are tried with the first
ones of these: of several rules that match, the first decides anyway.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import polars as pl

from diagnosis import thresholds
from diagnosis.kinds.logs.meaning import remembered
from diagnosis.values.extremes import greatest

LIMITS: Final = thresholds.limits("candidate_pairs")


class CandidatePairs(NamedTuple):
    """``pairs``: ``order`` (of a rule) and ``row`` (of a text); ``in_part``: the rows of which some were left out."""

    pairs: pl.DataFrame
    in_part: frozenset[int] = frozenset()


def within_budget(pairs: pl.DataFrame, texts: pl.Series) -> CandidatePairs:
    """The pairs whose texts have at most ``LIMITS.bytes`` bytes together, and ``LIMITS.tries`` times those of all
    texts. Beyond it each text is tried with the same number of rules at most. Texts whose answers are remembered are
    tried with all, or their answer would depend on the others. O(pairs).
    """
    sizes = texts.str.len_bytes().fill_null(0)
    budget = LIMITS.bytes + LIMITS.tries * int(sizes.sum())
    of_text = pairs.group_by("row").agg(rules=pl.len().cast(pl.Int64)).sort("row")
    of_text = of_text.with_columns(sizes.gather(of_text["row"]).cast(pl.Int64).alias("size"))
    if int((of_text["rules"] * of_text["size"]).sum()) <= budget:
        return CandidatePairs(pairs)
    is_long = texts.str.len_chars() > remembered.MAX_TEXT_CHARS
    is_bounded = is_long if len(texts) <= remembered.MAX_SINGLE_LOOKUPS else is_long | True
    bounded = of_text.filter(is_bounded.gather(of_text["row"]))
    most = _most_rules(bounded, budget)
    cut = bounded.filter(pl.col("rules") > most)["row"]
    place = pl.int_range(pl.len()).over("row")
    kept = pairs.sort("row", "order").filter((place < most) | ~pl.col("row").is_in(cut.implode()))
    return CandidatePairs(kept, frozenset(cut.to_list()))


def _most_rules(of_text: pl.DataFrame, budget: int) -> int:
    """The largest number of rules of each text (``rules``, ``size``) with which all of them are within the budget; at
    least one.
    """
    low, high = 1, greatest(of_text["rules"]) or 1
    while low < high:
        middle = (low + high + 1) // 2
        cost = int((of_text["rules"].clip(upper_bound=middle) * of_text["size"]).sum())
        low, high = (middle, high) if cost <= budget else (low, middle - 1)
    return low
