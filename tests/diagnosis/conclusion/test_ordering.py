"""The order of findings of which some know only the second."""

from __future__ import annotations

from diagnosis.conclusion.ordering import causal_order

T = 1_795_226_900.0


def order(*rows: tuple[float | None, str]) -> list[str]:
    return [what for _, what in causal_order(rows, lambda row: (*row, ""))]


def test_a_row_stamped_with_its_second_comes_after_its_cause_in_that_second() -> None:
    assert order((T, "consequence"), (T + 0.299, "root"), (T, "progress")) == ["progress", "root", "consequence"]


def test_rows_with_fractions_keep_their_order_though_others_of_that_second_have_none() -> None:
    rows = [(T, "progress"), (T + 0.098, "flows_ceased"), (T + 0.299, "root"), (T, "consequence"), (T, "teardown")]
    assert order(*rows) == ["progress", "flows_ceased", "root", "consequence", "teardown"]
    assert order(*reversed(rows)) == order(*rows)


def test_a_later_second_is_later_whatever_it_holds() -> None:
    assert order((T + 1, "progress"), (T + 0.9, "outcome"), (None, "root")) == ["outcome", "progress", "root"]
