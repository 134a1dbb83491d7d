"""Answers about texts that come again are kept, in bounded memory."""

from __future__ import annotations

import polars as pl
import pytest

from diagnosis.kinds.logs.meaning import remembered
from diagnosis.kinds.logs.meaning.remembered import RememberedAnswers


@pytest.fixture
def asked() -> list[list[str | None]]:
    return []


@pytest.fixture
def lengths(asked: list[list[str | None]]) -> RememberedAnswers[int]:
    def answer(texts: pl.Series) -> list[int]:
        asked.append(texts.to_list())
        return [len(text or "") for text in texts]

    return RememberedAnswers(answer)


def test_only_texts_that_are_new_are_asked_about(
    lengths: RememberedAnswers[int], asked: list[list[str | None]]
) -> None:
    assert lengths.of(pl.Series(["a", "bb", "a", None])) == [1, 2, 1, 0]
    assert lengths.of(pl.Series(["ccc", None, "bb"])) == [3, 0, 2]
    assert lengths.of(pl.Series([], dtype=pl.String)) == []
    assert asked == [["a", "bb", None], ["ccc"]]


def test_memory_is_bounded(lengths: RememberedAnswers[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remembered, "MAX_KEPT", 3)
    for number in range(9):
        assert lengths.of(pl.Series([f"{number}", "xy", "z" * 600])) == [1, 2, 600]
        assert len(lengths._known) <= 3
        assert "z" * 600 not in lengths._known


def test_many_texts_are_asked_about_at_once_and_not_kept(
    lengths: RememberedAnswers[int], asked: list[list[str | None]]
) -> None:
    many = [str(number) for number in range(remembered.MAX_SINGLE_LOOKUPS + 1)]
    assert lengths.of(pl.Series(many)) == [len(text) for text in many]
    assert asked == [many]
    assert not lengths._known
