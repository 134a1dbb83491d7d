"""Texts that hold the words of all rules are tried with the first ones of these, within a budget of bytes."""

from __future__ import annotations

import polars as pl
import pytest

from diagnosis.kinds.logs.meaning import remembered, signatures
from diagnosis.kinds.logs.meaning.signatures import candidate_pairs

RULES = 40


@pytest.fixture(autouse=True)
def budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(candidate_pairs.LIMITS, "bytes", 1000)
    monkeypatch.setattr(candidate_pairs.LIMITS, "tries", 4)


def pairs(texts: pl.Series, rules_of: dict[int, int]) -> candidate_pairs.CandidatePairs:
    rows = [(order, row) for row, rules in rules_of.items() for order in range(rules)]
    frame = pl.DataFrame(rows, schema={"order": pl.UInt32, "row": pl.UInt32}, orient="row")
    return candidate_pairs.within_budget(frame, texts)


def tried_bytes(texts: pl.Series, found: candidate_pairs.CandidatePairs) -> int:
    return int(texts.str.len_bytes().gather(found.pairs["row"]).sum())


def test_the_bytes_of_all_pairs_grow_with_those_of_the_texts_alone() -> None:
    tried = []
    for count in (20, 40):
        texts = pl.Series(["x" * 600] * count)
        found = pairs(texts, dict.fromkeys(range(count), RULES))
        tried.append(tried_bytes(texts, found))
        assert found.in_part == frozenset(range(count))
    assert tried[0] <= 1000 + 4 * 600 * 20
    assert tried[1] <= 2 * tried[0]


def test_the_first_rules_are_kept_and_texts_with_few_are_tried_with_all() -> None:
    texts = pl.Series(["x" * 600] * 4)
    found = pairs(texts, {0: 3, 1: 2, 2: RULES, 3: RULES})
    orders = found.pairs.group_by("row").agg(pl.col("order").sort()).sort("row")["order"].to_list()
    assert orders[:2] == [[0, 1, 2], [0, 1]]
    assert orders[2] == list(range(len(orders[2])))
    assert 0 < len(orders[2]) < RULES
    assert found.in_part == {2, 3}


def test_usual_texts_and_texts_whose_answer_is_remembered_are_tried_with_all_rules() -> None:
    few = pl.Series(["x" * 600])
    assert pairs(few, {0: 5}).in_part == frozenset()
    short = pl.Series(["x" * remembered.MAX_TEXT_CHARS] * 20)
    assert pairs(short, dict.fromkeys(range(20), RULES)).in_part == frozenset()


def test_messages_that_are_tried_in_part_are_counted() -> None:
    words = " ".join(example[:60] for rule in signatures.load().signatures for example in rule.examples[:1])
    frame = pl.DataFrame({"masked": [1, 2], "example": [words[:4000], "CUDA out of memory"]})
    matches = signatures.load().match_counted(frame.cast({"masked": pl.UInt64}))
    assert matches.in_part == 1
    assert "cuda.oom" in matches.rows.filter(pl.col("masked") == 2)["signature"].to_list()
